"""Predictions in the caller's kind of frame, by a server and without one, to the same bits."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pursuit import Client, InvalidError, LocalModel, Model, PredictionWarning, PursuitError, TooLargeError, load
from pursuit.frames import table_file

from tests.app.library.conftest import table, url
from tests.app.routes.service import QUICK, Service


@pytest.fixture(autouse=True, scope="module")
def models(service: Service) -> None:
    """The models `mixed` (x, kind, day -> y) and `plain` (a, b -> y)."""
    with Client(url(service)) as client:
        mixed = client.train(table(120), "y", model="mixed", **QUICK)
        frame = pd.DataFrame({"a": range(60), "b": [row % 5 for row in range(60)]}).astype(float)
        client.train(frame.assign(y=frame["a"] + frame["b"] ** 2), "y", model="plain", **QUICK).wait()
        mixed.wait()


@pytest.fixture(params=["server", "local"])
def mixed(request: pytest.FixtureRequest, client: Client) -> Model | LocalModel:
    """The model `mixed`, on the server and without it."""
    return client.model("mixed") if request.param == "server" else load(client.artefact("mixed"))


@pytest.fixture(params=["server", "local"])
def plain(request: pytest.FixtureRequest, client: Client) -> Model | LocalModel:
    """The model `plain`, the same."""
    return client.model("plain") if request.param == "server" else load(client.artefact("plain"))


@pytest.fixture
def answer(service: Service) -> dict[str, Any]:
    """Answer of the server about the rows of `table(9)`, as anyone may ask for it."""
    frame = table(9)
    rows = frame.assign(day=frame["day"].dt.strftime("%Y-%m-%d")).drop(columns="y").to_dict("records")
    return service.ask("mixed", rows)


def check(predicted: Any, answer: dict[str, Any]) -> None:
    for name in ("mean", "std", "lower", "upper"):
        np.testing.assert_array_equal(np.asarray(predicted[name], np.float64), answer[name])


def test_a_pandas_frame_has_its_index_back(mixed: Model | LocalModel, answer: dict[str, Any]) -> None:
    frame = table(9)
    predicted = mixed.predict(frame[["day", "y", "kind", "x"]])  # by name
    assert isinstance(predicted, pd.DataFrame)
    assert list(predicted.columns) == ["mean", "std", "lower", "upper"]
    pd.testing.assert_index_equal(predicted.index, frame.index)
    check(predicted, answer)
    assert frame.join(predicted).shape == (9, 8)


def test_frames_of_polars_and_pyarrow(mixed: Model | LocalModel, answer: dict[str, Any]) -> None:
    frame = table(9).reset_index()
    for given, kind in ((pl.from_pandas(frame), pl.DataFrame), (pa.Table.from_pandas(frame), pa.Table)):
        predicted = mixed.predict(given)
        assert isinstance(predicted, kind)
        check(predicted, answer)


def test_lists_of_dicts_and_of_lists(mixed: Model | LocalModel, answer: dict[str, Any]) -> None:
    rows = table(9).drop(columns="y").to_dict("records")  # with timestamps as pandas has them
    lists = [[row["x"], row["kind"], row["day"].date()] for row in rows]
    for given in (rows, lists):
        predicted = mixed.predict(given)
        assert [*predicted[0]] == ["mean", "std", "lower", "upper"]
        check({name: [row[name] for row in predicted] for name in predicted[0]}, answer)


def test_a_dict_of_columns(mixed: Model | LocalModel, answer: dict[str, Any]) -> None:
    frame = table(9)
    lists = {"x": frame["x"].tolist(), "kind": [*frame["kind"]], "day": [*frame["day"].dt.date], "id": [*range(9)]}
    arrays = {name: frame[name].to_numpy() for name in ("x", "kind")} | {"day": frame["day"], "id": np.arange(9)}
    for columns in (lists, arrays):
        found = mixed.predict(columns, keep="others")
        assert [*found] == ["id", "mean", "std", "lower", "upper"]
        assert found["id"].tolist() == [*range(9)]
        check(found, answer)
    assert len(mixed.explain(lists).parts["x"]) == 9
    assert mixed.evaluate(lists | {"y": frame["y"].tolist()})["rows"] == 9


def test_a_dict_of_columns_is_trained_on(client: Client) -> None:
    columns = {name: table()[name].tolist() for name in ("x", "kind", "y")}
    job = client.train(columns, "y", model="columns", **QUICK).wait()
    assert job.report["rows"] == 60
    assert [column["kind"] for column in job.report["columns"]] == ["number", "category"]
    added = client.update("columns", columns | {"y": [cell + 0.25 for cell in columns["y"]]}).wait()
    assert added.report["update"]["rows_added"] == 60
    assert [column["name"] for column in client.upload(columns).columns] == ["x", "kind", "y"]


def test_wrong_dicts_of_columns_are_told(mixed: Model | LocalModel) -> None:
    day = ["2024-01-02"]
    for columns, said in (
        ({"x": [1.0, 2.0], "kind": ["low"]}, "column 'kind' has 1 cells, and column 'x' has 2"),
        ({"x": np.ones((2, 2)), "kind": ["low"] * 2}, r"column 'x': expected one cell .* shape \(2, 2\)"),
        ({"x": [1.0, "a", [2]]}, "column 'x' cannot be sent"),
        ({"x": [1.0], 7: [1], "7": [2]}, "the column '7' is there twice"),
        ({}, "no columns"),
        ({"x": [1.0], "day": day}, "kind"),
    ):
        with pytest.raises(InvalidError, match=said):
            mixed.predict(columns)


def test_matrices(plain: Model | LocalModel) -> None:
    numbers = np.array([[1.0, 2.0], [30.5, 4.0]])
    expected = plain.predict(pd.DataFrame(numbers, columns=["a", "b"]))
    for given in (numbers, numbers.astype(object), np.asfortranarray(numbers), numbers.astype(np.float32)):
        predicted = plain.predict(given)
        assert predicted.dtype.names == ("mean", "std", "lower", "upper")
        check(predicted, {name: expected[name].to_numpy() for name in expected})
    with pytest.raises(InvalidError, match=r"expected a matrix \(rows, columns\), got an array of shape \(2,\)"):
        plain.predict(numbers[0])


def test_no_rows(mixed: Model | LocalModel, plain: Model | LocalModel) -> None:
    nothing: list[Any] = [table(0), pl.from_pandas(table(0)), []]
    for given in nothing:
        predicted = mixed.predict(given)
        assert (type(predicted), len(predicted)) == (type(given), 0)
    assert list(mixed.predict(table(0)).columns) == ["mean", "std", "lower", "upper"]
    assert plain.predict(np.empty((0, 2))).dtype.names == ("mean", "std", "lower", "upper")


def test_cells_of_other_kinds(mixed: Model | LocalModel) -> None:
    day = datetime(2024, 1, 9, tzinfo=UTC)
    expected = mixed.predict([{"x": 1.5, "kind": "low", "day": "2024-01-09"}])
    assert mixed.predict([{"x": Decimal("1.5"), "kind": np.str_("low"), "day": day}]) == expected
    frame = pd.DataFrame(
        {"x": pd.array([1.5], dtype="Float64"), "kind": pd.array(["low"], dtype="string"), "day": [day]}
    )
    assert mixed.predict(frame).to_dict("records") == expected
    with pytest.raises(InvalidError, match="cannot be written as JSON: Type is not JSON serializable: object"):
        mixed.predict([{"x": object(), "kind": "low", "day": day}])
    for missing in (None, float("nan"), pd.NA):
        with pytest.raises(InvalidError, match=r"row 0.*'x'.*missing|missing.*row 0"):
            mixed.predict([{"x": missing, "kind": "low", "day": day}])


def test_intervals_quantiles_and_more(mixed: Model | LocalModel) -> None:
    frame = table(3)
    both = mixed.predict(frame, interval=[0.5, 0.95], quantiles=[0.1], include=["latent_std", "median"])
    assert list(both.columns) == [
        *("mean", "std", "lower_0.5", "upper_0.5", "lower_0.95", "upper_0.95", "quantile_0.1", "latent_std", "median")
    ]
    pd.testing.assert_series_equal(both["upper_0.95"], mixed.predict(frame)["upper"], check_names=False)
    pd.testing.assert_series_equal(both["lower_0.5"], mixed.predict(frame, interval=0.5)["lower"], check_names=False)
    pd.testing.assert_series_equal(both["lower_0.5"], mixed.predict(frame, interval=[0.5])["lower"], check_names=False)
    assert list(mixed.predict(frame, interval=False).columns) == ["mean"]
    assert [*mixed.predict([{"x": 1, "kind": "low", "day": "2024-01-05"}], interval=[0.5, 0.9])[0]][2:4] == [
        "lower_0.5",
        "upper_0.5",
    ]
    for wrong, message in (
        ({"interval": 95}, "interval"),
        ({"quantiles": [0]}, "quantiles"),
        ({"include": "x"}, "include"),
    ):
        with pytest.raises(InvalidError, match=f"{message}: expected"):
            mixed.predict(frame, **wrong)
    with pytest.raises(TypeError, match="interval: expected a level"):
        mixed.predict(frame, interval=True)


def test_wrong_cells_are_printed(mixed: Model | LocalModel) -> None:
    frame = table(9).astype({"kind": str})
    frame.iloc[2, 1] = "middle"
    frame.iloc[7, 1] = "none at all"
    with pytest.raises(InvalidError) as caught:
        mixed.predict(frame)
    first, *lines = str(caught.value).splitlines()
    assert first.startswith("2 ")
    assert [line.partition(":")[0] for line in lines] == [
        "  row 2, column 'kind', value 'middle'",
        "  row 7, column 'kind', value 'none at all'",
    ]
    assert [fault["row"] for fault in caught.value.faults] == [2, 7]
    assert isinstance(caught.value, ValueError)


def test_what_is_no_table(mixed: Model | LocalModel) -> None:
    for wrong, message in (
        ({"x": 1}, "put it in a list"),
        ({"x": [1.0], "kind": "low"}, "column 'kind': expected a list or an array of cells, got str"),
        (3, "expected a data frame .* got builtins.int"),
        (pl.LazyFrame({"x": [1]}), "collect it first"),
    ):
        with pytest.raises(TypeError, match=message):
            mixed.predict(wrong)
    with pytest.raises(InvalidError, match="'x' is there 2 times"):
        mixed.predict(pd.DataFrame([[1, 2]], columns=["x", "x"]))
    with pytest.raises(InvalidError, match="the column '1' is there twice"):
        mixed.predict(pd.DataFrame([[1, 2]], columns=["1", 1]))
    with pytest.raises(InvalidError, match="column 'x' cannot be sent"):
        mixed.predict(table(2).assign(x=pd.Series([1, "a"], dtype=object, index=table(2).index)))
    with pytest.raises(InvalidError, match="2 columns missing: 'kind', 'day'"):
        mixed.predict(table(2)[["x"]])


def test_rows_far_from_the_training_rows_are_warned_of(plain: Model | LocalModel) -> None:
    with pytest.warns(PredictionWarning, match="row 1 is far from all training rows") as caught:
        plain.predict(np.array([[1.0, 2.0], [1e6, 2.0]]))
    assert caught[0].filename == __file__


def test_many_rows_are_sent_in_parts_that_the_server_takes(client: Client) -> None:
    rows = np.column_stack([np.linspace(0, 59, 3_000), np.arange(3_000) % 5.0])
    model = client.model("plain")
    expected = load(client.artefact("plain")).predict(rows)
    np.testing.assert_array_equal(model.predict(rows)["mean"], expected["mean"])
    frame = pd.DataFrame(rows, columns=["a", "b"])
    np.testing.assert_array_equal(model.predict(frame)["upper"], expected["upper"])
    frame.iloc[2_500, 1] = np.nan
    with pytest.raises(InvalidError, match=r"  row 2500, column 'b'"):
        model.predict(frame)
    with pytest.raises(TooLargeError, match="PURSUIT_MAX_BODY_BYTES"):
        model.predict([{"a": 1, "b": 2, "text": "x" * 20_000}])


def test_a_file_that_is_no_model(tmp_path: Path, client: Client) -> None:
    path = client.model("plain").save(tmp_path / "plain.safetensors")
    assert load(str(path)).columns == ("a", "b")
    assert [item.name for item in tmp_path.iterdir()] == ["plain.safetensors"]
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(InvalidError, match="the artefact is truncated"):
        load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.safetensors")
    for kind in (TypeError, PursuitError):
        with pytest.raises(kind, match="expected the path of a file or its bytes, got int"):
            load(3)  # type: ignore[arg-type]


def test_columns_with_whole_numbers_for_names_are_sent_by_their_text() -> None:
    """They were taken for places of rows."""
    name, file = table_file(pd.DataFrame({0: [1.0, 2.0, 3.0], 1: [4.0, 5.0, 6.0]}))
    assert name == "model.arrow"
    table = pa.ipc.open_stream(file).read_all()
    assert table.to_pydict() == {"0": [1.0, 2.0, 3.0], "1": [4.0, 5.0, 6.0]}


def test_rows_together(client: Client) -> None:
    """Draws over all rows and totals, of frames, matrices and lists alike."""
    model, frame = client.model("plain"), pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [0.0, 1.0, 2.0]})
    draws = model.sample(frame, 40, seed=2)
    assert draws.shape == (40, 3)
    for same in (frame.to_numpy(), frame.to_dict("records")):
        np.testing.assert_allclose(model.sample(same, 40, seed=2), draws, rtol=1e-9)
    total = model.total(frame, interval=0.5, quantiles=[0.1])
    rows = model.predict(frame, include=["latent_std"])
    assert total["mean"] == pytest.approx(rows["mean"].sum())
    assert total["latent_std"] <= rows["latent_std"].sum() * (1 + 1e-9)
    assert total["quantile_values"][0] < total["lower"] < total["mean"]
    assert client.total("plain", frame.to_numpy(), "mean")["mean"] == pytest.approx(total["mean"] / 3)
    with pytest.raises(InvalidError, match="samples"):
        model.sample(frame, 0)


def test_scores_on_rows_with_the_truth(mixed: Model | LocalModel) -> None:
    """The same of a frame and of a list, by a server and without one."""
    new = table(30)
    found = mixed.evaluate(new, by=["kind"], worst=3)
    predicted = mixed.predict(new)
    errors = new["y"].to_numpy() - predicted["mean"].to_numpy()
    assert found["scores"]["rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)))
    assert [row["row"] for row in found["worst"]] == np.argsort(-np.abs(errors), kind="stable")[:3].tolist()
    assert sum(group["rows"] for group in found["groups"]) == 30
    rows = new.assign(day=new["day"].dt.strftime("%Y-%m-%d")).to_dict("records")
    assert mixed.evaluate(rows)["scores"]["rmse"] == pytest.approx(found["scores"]["rmse"])
    with pytest.raises(InvalidError, match="no column 'y', the truth"):
        mixed.evaluate(new.drop(columns="y"))


def test_rows_to_measure_next(client: Client) -> None:
    """Of frames and lists by number, of ranges as drawn."""
    model, frame = client.model("plain"), pd.DataFrame({"a": [1.0, 70.0, 3.0, 50.0], "b": [0.0, 1.0, 2.0, 3.0]})
    found = model.suggest(frame, count=2)
    assert sorted(one["number"] for one in found["suggestions"]) != [0, 2]
    assert found["suggestions"] == model.suggest(frame.to_dict("records"), count=2, region=frame)["suggestions"]
    best = client.suggest("plain", {"a": [0, 10], "b": 2}, count=1, criterion="improvement", goal="min", best=9.0)
    assert 0.0 <= best["suggestions"][0]["row"]["a"] <= 10.0
    assert best["suggestions"][0]["row"]["b"] == 2


def test_names_of_several_levels_and_names_that_are_there_twice_are_told(plain: Model | LocalModel) -> None:
    levels = pd.DataFrame([[1.0, 2.0]], columns=pd.MultiIndex.from_tuples([("a", "x"), ("b", "y")]))
    with pytest.raises(InvalidError, match=r"several levels \(a MultiIndex\), such as \('a', 'x'\)"):
        plain.predict(levels)
    with pytest.raises(InvalidError, match="the column 'a' is there 2 times"):
        plain.predict(pd.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "b", "a"]))


def test_a_model_file_that_is_cut_short_is_told(client: Client) -> None:
    data = client.artefact("plain")
    for length in (100, len(data) // 2, len(data) - 1):
        with pytest.raises(InvalidError, match=r"truncated|cut short"):
            load(data[:length])
