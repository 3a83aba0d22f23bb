"""Predictions that are kept for their truth, from Python."""

import asyncio

import numpy as np
import pandas as pd
import pytest
from pursuit import AsyncClient, Client, ConflictError, InvalidError, KeptPrediction, NotFoundError

from tests.app.library.conftest import table, url
from tests.app.routes.service import QUICK, Service


@pytest.fixture(scope="module")
def model(service: Service) -> str:
    with Client(url(service)) as client:
        return client.train(table(), "y", model="told", **QUICK).wait().reference


def test_the_truth_of_rows_that_take_several_requests(client: Client, model: str) -> None:
    rows = pd.concat([table()] * 8)
    records = rows.drop(columns="y").astype({"day": str}).to_dict("records")
    kept = client.predict_for_feedback(model, records, interval=0.5)
    assert kept.values == client.predict(model, records, interval=0.5)
    assert len(kept.ids) == len(set(kept.ids)) > 1  # bodies must be small
    with pytest.raises(InvalidError, match=f"by {len(kept.ids)} requests, .* see `ids`"):
        _ = kept.prediction_id
    assert sum(kept.rows) == len(rows)
    usual = client.predict(model, rows)
    inside = ((rows["y"] >= usual["lower"]) & (rows["y"] <= usual["upper"])).to_numpy()
    later = rows["y"].to_numpy().copy()
    later[:100] = np.nan
    assert client.feedback(kept, later) == {
        "rows": len(rows) - 100,
        "covered": int(inside[100:].sum()),
        "waiting": 100,
    }
    first = rows["y"].where(np.arange(len(rows)) < 100)
    assert client.feedback(kept, first) == {"rows": 100, "covered": int(inside[:100].sum()), "waiting": 0}
    with pytest.raises(ConflictError, match="came back before"):
        client.feedback(kept, rows["y"])


def test_the_truth_by_an_id_alone(client: Client, model: str) -> None:
    kept = client.predict_for_feedback(model, table().drop(columns="y").to_dict("records")[:2])
    assert [*kept.values[0]] == ["mean", "std", "lower", "upper"]
    prediction = kept.prediction_id
    assert kept.ids == (prediction,)
    assert client.feedback(prediction, [None, 1.0])["waiting"] == 1
    with pytest.raises(NotFoundError, match="no kept prediction"):
        client.feedback("pred_" + "0" * 32, [1.0])
    with pytest.raises(InvalidError, match="expected 2 numbers"):
        client.feedback(kept, [1.0])


def test_the_truth_of_several_targets(client: Client) -> None:
    several = pd.concat([table().assign(z=lambda frame: frame["y"] ** 2)] * 8, ignore_index=True)
    model = client.train(several, ["y", "z"], model="both", duplicates="drop", **QUICK).wait().reference
    records = several.drop(columns=["y", "z"]).astype({"day": str}).to_dict("records")
    kept = client.predict_for_feedback(model, records)
    assert len(kept.ids) > 1
    usual = client.predict(model, several)
    truth = several[["y", "z"]].copy()
    truth.loc[:99] = np.nan

    def inside(name: str) -> int:
        return int(((truth[name] >= usual[f"{name}_lower"]) & (truth[name] <= usual[f"{name}_upper"])).sum())

    rows = len(several)
    told = client.feedback(kept, truth[["z"]])
    assert told["rows"] == {"y": 0, "z": rows - 100}
    assert told["covered"] == {"y": 0, "z": inside("z")}
    assert told["waiting"] == {"y": rows, "z": 100}
    told = client.feedback(kept, {"y": truth["y"].to_numpy(), "z": [None] * rows})
    assert (told["covered"], told["waiting"]) == ({"y": inside("y"), "z": 0}, {"y": 100, "z": 100})
    with pytest.raises(ConflictError, match="of 'z' of row"):
        client.feedback(kept, several[["z"]])
    with pytest.raises(InvalidError, match="an object of lists by target"):
        client.feedback(kept, several["y"])
    with pytest.raises(InvalidError, match=f"truth of 'z': expected {rows} numbers"):
        client.feedback(kept, {"z": [1.0]})
    with pytest.raises(InvalidError, match="of several targets a data frame or a dict"):
        client.feedback(kept, several[["y", "z"]].to_numpy())
    with pytest.raises(InvalidError, match="truth of 'y': expected numbers"):
        client.feedback(kept, {"y": ["much"] * rows})


def test_the_truth_awaited(service: Service, model: str) -> None:
    async def both() -> tuple[KeptPrediction, dict[str, int | None]]:
        async with AsyncClient(url(service)) as client:
            kept = await client.predict_for_feedback(model, table())
            return kept, await client.feedback(kept, table()["y"])

    kept, told = asyncio.run(both())
    assert (told["rows"], told["waiting"]) == (60, 0)
    assert len(kept.values) == 60
