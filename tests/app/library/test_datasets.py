"""Tables kept on a server, rows that cannot be predicted, columns that are kept, files, and errors of every kind."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pursuit import (
    ArgumentError,
    AsyncClient,
    Client,
    FileError,
    InvalidError,
    LocalModel,
    Model,
    NotFoundError,
    PredictionWarning,
    PursuitError,
    SparseGPRegressor,
    load,
)

from tests.app.library.conftest import table, url
from tests.app.routes.service import QUICK, Service


@pytest.fixture(autouse=True, scope="module")
def model(service: Service) -> None:
    """The model `mixed` (x, kind, day -> y)."""
    with Client(url(service)) as client:
        client.train(table(120), "y", model="mixed", **QUICK).wait()


@pytest.fixture(params=["server", "local"])
def mixed(request: pytest.FixtureRequest, client: Client) -> Model | LocalModel:
    """The model, on the server and without it."""
    return client.model("mixed") if request.param == "server" else load(client.artefact("mixed"))


def with_a_bad_row() -> pd.DataFrame:
    """Five rows with a note, of which the third cannot be predicted."""
    frame = table(5)[["x", "kind", "day"]].assign(note=list("abcde"), mean=0.5)
    frame["kind"] = frame["kind"].astype(str)
    frame.iloc[2, 1] = "neither"
    return frame


def test_rows_that_cannot_be_predicted_are_nan_where_it_is_asked_for(mixed: Model | LocalModel) -> None:
    frame = with_a_bad_row()
    with pytest.raises(InvalidError, match="row 2, column 'kind', value 'neither'"):
        mixed.predict(frame)
    for rows in (frame, frame.to_dict("records")):
        with pytest.warns(PredictionWarning, match="row 2"):
            predicted = pd.DataFrame(mixed.predict(rows, on_error="null"))
        assert predicted["mean"].isna().tolist() == [False, False, True, False, False]
        good = mixed.predict(frame.iloc[[0, 1, 3, 4]])
        np.testing.assert_array_equal(predicted["upper"].dropna(), good["upper"])
    with pytest.raises(InvalidError, match="on_error: expected one of refuse, null; got 'skip'"):
        mixed.predict(frame, on_error="skip")


def test_columns_are_kept(mixed: Model | LocalModel) -> None:
    frame = table(4)
    kept = mixed.predict(frame.assign(note=list("abcd"), mean=7.0), keep="others")
    assert list(kept.columns) == ["note", "mean_input", "mean", "std", "lower", "upper"]
    pd.testing.assert_index_equal(kept.index, frame.index)
    assert kept["note"].tolist() == list("abcd")
    np.testing.assert_array_equal(kept["mean"], mixed.predict(frame)["mean"])
    whole = mixed.predict(pl.from_pandas(frame), keep="all")
    assert whole.columns == ["x", "kind", "day", "y", "mean", "std", "lower", "upper"]
    rows = mixed.predict([{"x": 1.0, "kind": "low", "day": "2024-01-05", "id": 9}], keep="others")
    assert [*rows[0]] == ["id", "mean", "std", "lower", "upper"]
    assert rows[0]["id"] == 9
    with pytest.raises(InvalidError, match="keep: expected one of none, others, all; got 'some'"):
        mixed.predict(frame, keep="some")
    with pytest.raises(InvalidError, match="keep: the rows have no names"):
        mixed.predict([[1.0, "low", "2024-01-05"]], keep="all")


def test_a_file_is_predicted_as_it_is(mixed: Model | LocalModel, tmp_path: Path) -> None:
    frame = table(6).assign(note=list("abcdef"))
    path = tmp_path / "new.csv"
    frame.to_csv(path, index=False, sep=";", decimal=",")
    predicted = mixed.predict(path, interval=0.9)
    assert isinstance(predicted, pa.Table)
    assert predicted.column_names == ["note", "mean", "std", "lower", "upper"]
    np.testing.assert_array_equal(predicted["lower"].to_numpy(), mixed.predict(frame, interval=0.9)["lower"])
    assert mixed.predict(str(path), keep="none").column_names == ["mean", "std", "lower", "upper"]
    with pytest.raises(FileError, match="cannot read"):
        mixed.predict(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        mixed.predict(tmp_path / "nowhere.csv")


def test_a_folder_that_the_operator_does_not_allow_is_refused(client: Client, tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="PURSUIT_DATASET_LOCATIONS"):
        client.register(str(tmp_path), target="y")


def test_a_table_is_kept_trained_on_predicted_and_deleted(client: Client, tmp_path: Path) -> None:
    frame = table(80)
    dataset = client.upload(frame, target="y", name="boats")
    assert repr(dataset) == f"Dataset({dataset.id!r}, 80 rows)"
    assert [column["name"] for column in dataset.columns] == ["x", "kind", "day", "y"]
    assert dataset.warnings == client.dataset(dataset.id).warnings
    assert {"id": dataset.id, "name": "boats.arrow"}.items() <= client.datasets()[0].items()
    job = client.train(dataset, "y", model="boats", idempotency_key="one", **QUICK)
    assert client.train(dataset.id, "y", model="boats", idempotency_key="one", **QUICK).id == job.id
    model = job.wait()
    predictions = client.predict_dataset(model.reference, dataset, interval=0.5, keep="all", keep_for_feedback=True)
    if predictions.state == "queued":
        with pytest.raises(InvalidError, match="its predictions are there once it has succeeded"):
            predictions.table()
    found = predictions.wait().table()
    assert found.column_names == ["x", "kind", "day", "y", "mean", "std", "lower", "upper"]
    np.testing.assert_array_equal(found["upper"].to_numpy(), model.predict(frame, interval=0.5)["upper"])
    told = client.feedback(predictions.prediction_id, frame["y"])
    usual = model.predict(frame)
    inside = int(((frame["y"] >= usual["lower"]) & (frame["y"] <= usual["upper"])).sum())
    assert told == {"rows": 80, "covered": inside, "waiting": 0}
    with pytest.raises(InvalidError, match="kept no predictions"):
        _ = client.predict_dataset(model.reference, dataset).wait().prediction_id
    for shift in (0.25, 0.5):
        more = client.upload(frame.assign(y=frame["y"] + shift), target="y")
        updated = client.update("boats", more if shift == 0.25 else more.id).wait()
        assert updated.report["update"]["rows_added"] == 80
    frame.to_csv(tmp_path / "boats.csv", index=False)
    for path in (tmp_path / "boats.csv", str(tmp_path / "boats.csv")):
        assert client.evaluate("boats@1", path)["scores"] == client.evaluate("boats@1", frame)["scores"]
    saved = predictions.save(tmp_path / "predicted.parquet")
    assert pd.read_parquet(saved).shape == (80, 8)
    dataset.delete()
    with pytest.raises(NotFoundError):
        client.dataset(dataset.id)
    with pytest.raises(NotFoundError):
        client.predict_dataset("boats", dataset)


def test_the_same_awaited(service: Service) -> None:
    async def use() -> None:
        async with AsyncClient(url(service)) as client:
            dataset = await client.upload(table(30), name="ships")
            assert dataset.id in [found["id"] for found in await client.datasets()]
            job = await client.predict_dataset("mixed", dataset, interval=False, keep_for_feedback=True)
            assert job.table().num_rows == 30
            told = await client.feedback(job.prediction_id, table(30)["y"])
            assert told["rows"] == 30
            with pytest.warns(PredictionWarning, match="row 2"):
                predicted = await client.predict("mixed", with_a_bad_row(), on_error="null", keep="others")
            assert list(predicted.columns)[:2] == ["note", "mean_input"]
            assert predicted["mean"].isna().sum() == 1

    asyncio.run(use())


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda client: client.train(np.ones((3, 2))), TypeError, "an array has no names of columns"),
        (lambda client: client.train([[1, 2]]), TypeError, "expected a list of dicts"),
        (lambda client: client.train("nowhere.csv"), FileNotFoundError, "cannot read nowhere.csv"),
        (lambda client: client.predict("mixed", {"x": 1}), TypeError, "got one dict"),
        (lambda client: client.predict("mixed", 7), TypeError, "expected a data frame"),
        (lambda client: client.predict("mixed", [], interval=True), TypeError, "interval: expected a level"),
        (lambda client: client.push(7, "cars"), TypeError, "expected a fitted SparseGPRegressor"),
        (lambda client: client.push("nowhere.safetensors", "cars"), FileNotFoundError, "cannot read nowhere"),
        (lambda client: client.push(SparseGPRegressor(), "cars"), ValueError, "SparseGPRegressor is not fitted yet"),
        (lambda client: client.train(f"ds_{'0' * 32}"), LookupError, f"ds_{'0' * 32}"),
        (lambda client: client.train("ds_train"), FileNotFoundError, "cannot read ds_train"),
        (lambda client: client.train(table(), "y", huber=np.nan), ValueError, "expected finite numbers"),
        (lambda client: client.update("mixed", "nowhere.csv"), FileNotFoundError, "cannot read nowhere.csv"),
        (lambda client: client.update("mixed", f"ds_{'0' * 32}"), LookupError, f"ds_{'0' * 32}"),
        (lambda client: client.evaluate("mixed", "nowhere.csv"), FileNotFoundError, "cannot read nowhere.csv"),
        (lambda client: client.suggest("mixed", {"x": [0.0, np.inf]}), ValueError, "expected finite numbers"),
        (lambda client: client.feedback("pred_", [np.inf]), ValueError, "expected finite numbers"),
        (lambda client: client.feedback("pred_", ["a"]), ValueError, "truth: expected numbers"),
        (lambda client: client.feedback("pred_", [[1.0]]), ValueError, "truth: expected a number for each row"),
        (lambda _: load("nowhere.safetensors"), FileNotFoundError, "cannot read nowhere"),
        (lambda _: load(b"no model"), ValueError, r"\S"),
    ],
)
def test_every_error_is_one_of_the_package_and_one_of_pythons(
    client: Client, call: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(PursuitError, match=message) as caught:
        call(client)
    assert isinstance(caught.value, kind)
    assert isinstance(caught.value, ArgumentError) == (kind is TypeError)
