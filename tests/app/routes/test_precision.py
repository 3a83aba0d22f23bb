"""float32 over HTTP: asked for in a specification, told of in the report, and seen in the error bars alone."""

import json

import pytest

from tests.app.routes.problems import assert_problem
from tests.app.routes.service import QUICK, Service, curve, even, numbers


@pytest.fixture(scope="module")
def table() -> str:
    return curve(150, even)


def test_it_changes_the_last_digits_of_error_bars(service: Service, table: str) -> None:
    for precision in ("float64", "float32"):
        job = service.train(table, model=precision, precision=precision, **QUICK)
        assert job["result"]["report"]["artefact"]["precision"] == precision
        assert service.client.get(f"/models/{precision}/versions/1").json()["artefact"]["precision"] == precision
    rows = [[0.01 * place] for place in range(600)]
    exact, single = (service.ask(model, rows) for model in ("float64", "float32"))
    assert single["mean"] == exact["mean"]
    assert single["std"] != exact["std"]
    assert single["std"] == pytest.approx(exact["std"], rel=1e-3)
    assert service.ask("float32", rows[:1], interval=False)["mean"] == exact["mean"][:1]


def test_it_is_not_kept_where_it_would_be_seen(service: Service) -> None:
    exact = "x,y\n" + "".join(f"{place / 40},{(place / 40) ** 2}\n" for place in range(120))
    start = {"signal_variance": 1.0, "bias_variance": 1.0, "noise_variance": 1e-10, "lengthscales": {"x": 1.0}}
    job = service.train(
        exact, model="exact", precision="float32", hyperparameters=start, **QUICK | {"calibrate": False}
    )
    report = job["result"]["report"]
    assert report["artefact"]["precision"] == "float64"
    assert any("the model predicts in float64" in warning for warning in report["warnings"])


def test_another_precision_is_refused(service: Service) -> None:
    answer = service.post_file(numbers(), {"precision": "float16"})
    assert_problem(answer, 422, "spec.precision: expected one of float64, float32; got 'float16'")


def test_it_is_described(service: Service) -> None:
    document = service.client.get("/openapi.json").json()
    assert "single precision" in json.dumps(document["components"]["schemas"]["SpecBody"]["properties"]["precision"])
