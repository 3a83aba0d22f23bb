"""Explanations in the caller's kind of frame, by a server and without one."""

import asyncio

import numpy as np
import pandas as pd
import polars as pl
import pytest
from pursuit import (
    AsyncClient,
    Client,
    Explanation,
    InvalidError,
    LocalModel,
    Model,
    PursuitError,
    SparseGPRegressor,
    load,
)
from pursuit import explanation as library
from sklearn.exceptions import NotFittedError

from app.services.explain import explainer
from tests.app.library.conftest import table, url
from tests.app.routes.service import QUICK, Service


@pytest.fixture(autouse=True, scope="module")
def models(service: Service) -> None:
    """The model `mixed` (x, kind, day -> y)."""
    with Client(url(service)) as client:
        client.train(table(120), "y", model="mixed", **QUICK).wait()


@pytest.fixture(params=["server", "local"])
def mixed(request: pytest.FixtureRequest, client: Client) -> Model | LocalModel:
    """The model, on the server and without it."""
    return client.model("mixed") if request.param == "server" else load(client.artefact("mixed"))


def test_parts_are_a_frame_with_the_callers_index(mixed: Model | LocalModel) -> None:
    frame = table(9)
    found = mixed.explain(frame, nearest=3)
    assert isinstance(found, Explanation)
    assert list(found.parts.columns) == ["x", "kind", "day"]
    pd.testing.assert_index_equal(found.parts.index, frame.index)
    predicted = mixed.predict(frame)
    np.testing.assert_allclose(found.baseline + found.parts.sum(axis=1), found.summary["centre"], rtol=1e-12)
    np.testing.assert_allclose(found.summary["centre_target"], predicted["mean"], rtol=1e-9)  # never below 0
    np.testing.assert_allclose(found.summary["mean"], predicted["mean"], rtol=1e-12)
    assert (found.summary["distance"] >= 0.0).all()
    assert [len(near) for near in found.nearest] == [3] * 9
    assert set(found.nearest[0][0]["values"]) == {"x", "kind", "day"}
    assert (found.target, found.scale, found.baseline) == ("y", "target", found.baseline_target)


def test_a_server_and_no_server_say_the_same(client: Client) -> None:
    rows = table(4)
    by_server, alone = client.explain("mixed", rows), load(client.artefact("mixed")).explain(rows)
    pd.testing.assert_frame_equal(by_server.parts, alone.parts, rtol=1e-12)
    pd.testing.assert_frame_equal(by_server.summary, alone.summary, rtol=1e-12)
    assert [near[0]["row"] for near in by_server.nearest] == [near[0]["row"] for near in alone.nearest]


def test_other_kinds_of_rows(client: Client) -> None:
    frame = table(3)
    expected = client.explain("mixed", frame).parts.to_numpy()
    polars = client.explain("mixed", pl.from_pandas(frame)).parts
    assert isinstance(polars, pl.DataFrame)
    np.testing.assert_array_equal(polars.to_numpy(), expected)
    listed = client.explain("mixed", frame.drop(columns="y").to_dict("records")).parts
    np.testing.assert_array_equal([[*row.values()] for row in listed], expected)


def test_many_rows_are_sent_some_at_a_time(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = table(120)
    whole = client.explain("mixed", frame)  # more than a request takes, and than its body may have bytes
    assert len(whole.parts) == 120
    monkeypatch.setattr(explainer, "MOST_WORK", 1)
    pd.testing.assert_frame_equal(client.explain("mixed", frame.head(3)).parts, whole.parts.head(3), rtol=1e-10)
    assert (library.TOO_MANY, library.AT_ONCE) == (explainer.TOO_MANY, explainer.MOST_ROWS)


def test_a_bad_cell_is_named_by_its_row_in_the_frame(mixed: Model | LocalModel) -> None:
    frame = table(120).astype({"kind": str})
    frame.iloc[110, 1] = "red"
    with pytest.raises(InvalidError, match="row 110"):
        mixed.explain(frame)


def test_an_estimator_explains_its_predictions() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 2))
    estimator = SparseGPRegressor(effort="quick", adapt=False, basis_size=20).fit(X, 2.0 * X[:, 0])
    found = estimator.explain(X[:5], nearest=1)
    np.testing.assert_allclose(found.baseline + found.parts["x0"] + found.parts["x1"], estimator.predict(X[:5]))
    assert (np.abs(found.parts["x1"]) < 0.1).all()
    with pytest.raises(NotFittedError):
        SparseGPRegressor().explain(X)


def test_explanations_are_awaited(service: Service, client: Client) -> None:
    async def ask() -> Explanation:
        async with AsyncClient(url(service)) as asking:
            return await asking.explain("mixed", table(2))

    pd.testing.assert_frame_equal(asyncio.run(ask()).parts, client.explain("mixed", table(2)).parts)


def test_what_if_curves_are_predictions_of_the_row(client: Client) -> None:
    model = client.model("mixed")
    row = {"x": 2.0, "kind": "low", "day": "2024-01-10"}
    curve = model.what_if(row, "x", interval=0.8)
    assert len(curve) == 41
    assert (curve[0]["x"], curve[-1]["x"]) == (0.0, pytest.approx(5.95))
    assert [*curve[0]] == ["x", "mean", "std", "lower", "upper"]
    (expected,) = client.predict("mixed", [{**row, "x": curve[7]["x"]}], interval=0.8)
    assert {"x": curve[7]["x"], **expected} == curve[7]
    assert [point["kind"] for point in model.what_if(row, "kind")] == ["high", "low"]
    days = [point["day"] for point in model.what_if(row, "day")]
    assert (days[0], days[-1]) == ("2024-01-01T00:00:00", "2024-02-19T00:00:00")
    assert [point["x"] for point in model.what_if(row, "x", [1.0, 9.0])] == [1.0, 9.0]
    for kind in (KeyError, PursuitError):
        with pytest.raises(kind, match=r"^the model has no column 'z': it has x, kind, day$"):
            model.what_if(row, "z")


def test_importance_and_effects_of_a_model(client: Client, service: Service) -> None:
    model = client.model("mixed@1")
    assert model.importance() == service.client.get("/models/mixed/versions/1/importance").json()
    effects = model.effects()
    assert [column["name"] for column in effects["columns"]] == ["x", "kind", "day"]
    assert effects["average"] == pytest.approx(model.explain(table(1)).baseline)
