"""Means on more rows than the basis over HTTP: trained, told about, asked, downloaded, imported."""

import math
from typing import Any

import pytest

from app.services.predict.loaded_model import load_model
from app.services.predict.run import answer_arrays
from app.storage import artefact
from tests.app.routes.service import Service

WAVES = [(place - 60) / 30 for place in range(121)]
TABLE = "x,y\n" + "".join(f"{x},{math.sin(6 * x) + 1e-2 * math.sin(1e3 * x)}\n" for x in WAVES)
"""A wave of which five basis vectors see little."""
SPEC: dict[str, Any] = {
    "basis_size": 5,
    "adapt": False,
    "hyperparameters": {
        "signal_variance": 1.0,
        "bias_variance": 0.1,
        "noise_variance": 0.01,
        "lengthscales": {"x": 0.2},
    },
}
ROWS = [[-1.0125], [0.5125], [1.3]]


@pytest.fixture(scope="module")
def trained(service: Service) -> Service:
    """The same table, with means on the basis, on all rows, on some, on what left-out rows say, and alone."""
    asked: dict[str, Any] = {"basis": "basis", "all": "all", "some": 40, "auto": "auto", "alone": "all"}
    for name, rows in asked.items():
        kind = "mean" if name == "alone" else "full"
        job = service.train(TABLE, model=name, mean_rows=rows, artefact=kind, **SPEC)
        assert job["state"] == "succeeded", job
    return service


def test_predictions_follow_the_target(trained: Service) -> None:
    truth = [math.sin(6 * x) for (x,) in ROWS]
    for name in ("all", "some", "auto", "alone"):
        assert trained.ask(name, ROWS)["mean"] == pytest.approx(truth, abs=0.1), name
    assert trained.ask("basis", ROWS)["mean"] != pytest.approx(truth, abs=0.1)
    assert trained.ask("auto", ROWS) == trained.ask("all", ROWS) | {"model": "auto"}
    assert "std" not in trained.ask("alone", ROWS)


def test_the_page_of_a_version_tells_of_the_rows_and_of_what_was_compared(trained: Service) -> None:
    told = {name: trained.client.get(f"/models/{name}/versions/1").json() for name in ("basis", "all", "some", "auto")}
    assert {name: page["mean_rows"] for name, page in told.items()} == {"basis": 5, "all": 121, "some": 40, "auto": 121}
    for name, page in told.items():
        assert page["artefact"]["mean_rows"] == page["mean_rows"]
        assert page["artefact"]["bytes"] < page["size_bytes"]
        compared = page["report"]["candidates"]
        assert [each["mean"] for each in compared if each["taken"]] == {
            "basis": [],
            "all": ["all"],
            "some": ["chosen"],
            "auto": ["all"],
        }[name]
    assert told["all"]["artefact"]["bytes"] == told["basis"]["artefact"]["bytes"] + 2 * 8 * 121
    assert told["some"]["spec"]["mean_rows"] == 40


def test_the_download_predicts_the_same_and_can_be_imported(trained: Service) -> None:
    data = trained.client.get("/models/all/versions/1/artefact").content
    assert artefact.save(artefact.load(data)) == data
    inputs = artefact.load(data).posterior.basis[:3]
    found, expected = trained.ask("all", inputs.tolist()), answer_arrays(load_model(data), inputs)
    assert found["mean"] == expected["mean"].tolist()
    assert found["std"] == expected["std"].tolist()


def test_version_2_of_the_protocol_gives_the_same(trained: Service) -> None:
    inputs = [{"name": "x", "shape": [3], "datatype": "FP64", "data": [x for (x,) in ROWS]}]
    answer = trained.client.post("/v2/models/all/infer", json={"inputs": inputs})
    assert answer.status_code == 200, answer.text
    (mean,) = [output["data"] for output in answer.json()["outputs"] if output["name"] == "mean"]
    assert mean == trained.ask("all", ROWS)["mean"]


def test_progress_keeps_to_the_phases_of_the_contract(trained: Service) -> None:
    phases = {news["phase"] for recorder in trained.recorders for news in recorder.progressed}
    assert phases <= {"reading", "starting", "selecting", "adapting", "fitting", "evaluating", "publishing"}
