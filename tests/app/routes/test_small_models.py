"""Compact models and means alone over HTTP: trained, told about, downloaded, asked."""

from typing import Any

import numpy as np
import pytest

from app.services.predict.loaded_model import load_model
from app.services.predict.run import answer_arrays
from app.storage import artefact
from core.spec import Artefact
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import CSV_BODY, QUICK, Service, cells, curve, louder, numbers

KINDS = tuple(Artefact)
INPUTS = np.random.default_rng(0).uniform(-1, 1, (30, 2))


@pytest.fixture(scope="module")
def trained(service: Service) -> Service:
    """The same table three times, as models `full`, `compact` and `mean`."""
    for kind in KINDS:
        spec: dict[str, Any] = QUICK | {"basis_size": 40, "artefact": kind.value, "tolerance": 0.02}
        job = service.train(numbers(150), model=kind.value, **spec)
        assert job["state"] == "succeeded", job
    return service


def ask(service: Service, model: str, **more: Any) -> dict[str, Any]:
    answer = service.client.post("/predict", json={"model": model, "rows": INPUTS.tolist(), **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_compact_model_answers_as_the_full_one(trained: Service) -> None:
    full, compact = ask(trained, "full", include=["latent_std"]), ask(trained, "compact", include=["latent_std"])
    assert list(compact) == list(full)
    assert compact["mean"] == full["mean"]
    assert compact["std"] != full["std"]
    np.testing.assert_allclose(compact["std"], full["std"], rtol=0.03)


def test_a_mean_alone_answers_with_its_mean(trained: Service) -> None:
    full, mean = ask(trained, "full"), ask(trained, "mean")
    assert mean == {"model": "mean", "version": 1, "mean": full["mean"]}
    csv = "a,b\n0.5,0.5\n"
    headers = {"content-type": "text/csv", "accept": "text/csv"}
    answer = trained.client.post("/predict?model=mean", content=csv, headers=headers)
    header, value = answer.text.splitlines()
    assert header == "mean"
    assert float(value) == ask_one(trained, "full")
    assert ask(trained, "mean", include=[])["mean"] == full["mean"]


def ask_one(service: Service, model: str) -> float:
    answer = service.client.post("/predict", json={"model": model, "rows": [[0.5, 0.5]]}).json()
    return float(answer["mean"][0])


@pytest.mark.parametrize("more", [{"interval": 0.95}, {"include": ["latent_std"]}, {"quantiles": [0.5]}])
def test_a_mean_alone_refuses_error_bars(trained: Service, more: dict[str, Any]) -> None:
    answer = trained.client.post("/predict", json={"model": "mean", "rows": [[0, 0]], **more})
    assert_problem(answer, 422, '"artefact": "mean"', "no error bars", "train it again as compact or full")


def test_a_mean_alone_refuses_what_no_model_takes(trained: Service) -> None:
    answer = trained.client.post("/predict", json={"model": "mean", "rows": [[0, 0]], "interval": 7})
    assert_problem(answer, 422, "interval: expected a probability above 0 and below 1, got 7")


@pytest.mark.parametrize("query", ["interval=0.9", "include=latent_std", "quantiles=0.5"])
def test_a_mean_alone_refuses_error_bars_of_a_table(trained: Service, query: str) -> None:
    answer = trained.client.post(f"/predict?model=mean&{query}", content="a,b\n0,0\n", headers=CSV_BODY)
    assert_problem(answer, 422, "no error bars")


def test_the_page_of_a_version_says_what_is_kept(trained: Service) -> None:
    told = {}
    for kind in KINDS:
        detail = trained.client.get(f"/models/{kind.value}/versions/1").json()
        assert detail["artefact"] == detail["report"]["artefact"]
        assert detail["artefact"]["kind"] == detail["spec"]["artefact"] == kind.value
        assert detail["artefact"]["bytes"] < detail["size_bytes"]
        assert len(detail["basis"]) == 40
        told[kind.value] = detail["artefact"]
    assert told["mean"]["bytes"] < told["compact"]["bytes"] < told["full"]["bytes"]
    assert 0 <= told["compact"]["largest_std_error"] <= told["compact"]["tolerance"] == 0.02
    assert told["compact"]["largest_std_error"] <= told["compact"]["bound"]
    assert told["full"]["bound"] is None


@pytest.mark.parametrize("kind", KINDS)
def test_the_download_predicts_what_the_service_does(trained: Service, kind: Artefact) -> None:
    data = trained.client.get(f"/models/{kind.value}/versions/1/artefact").content
    assert artefact.load(data).kind is kind
    assert artefact.save(artefact.load(data)) == data
    found, expected = ask(trained, kind.value), answer_arrays(load_model(data), INPUTS)
    assert found["mean"] == expected["mean"].tolist()
    if kind is not Artefact.MEAN:
        assert found["std"] == expected["std"].tolist()


def test_a_compact_model_keeps_error_bars_where_there_is_little_noise(service: Service) -> None:
    table = curve(400, louder)
    start = {"signal_variance": 1.0, "bias_variance": 1.0, "noise_variance": 0.4, "lengthscales": {"x": 1.0}}
    for kind in ("full", "compact"):
        spec = QUICK | {"basis_size": 40, "method": "batch", "artefact": kind, "tolerance": 0.05}
        job = service.train(table, model=f"varied-{kind}", **spec, hyperparameters=start)
        assert job["result"]["report"]["calibration"]["noise_gain"] is not None
        assert job["result"]["report"]["artefact"]["kind"] == kind
    rows = [[x] for x in cells(table)[0]]
    full, compact = (service.ask(f"varied-{kind}", rows)["std"] for kind in ("full", "compact"))
    np.testing.assert_allclose(compact, full, rtol=0.05)


def test_what_cannot_be_kept_is_refused(trained: Service) -> None:
    assert_problem(trained.post_file(numbers(40), {"artefact": "tiny"}), 422, "spec.artefact", "full, compact, mean")
    assert_problem(trained.post_file(numbers(40), {"tolerance": 1.0}), 422, "spec.tolerance", "less than 1")
