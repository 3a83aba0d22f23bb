"""A request that comes again under its idempotency key gets its job, also when names mean newer versions by then."""

from typing import Any

import httpx
import pytest

from tests.app.routes.problems import assert_problem
from tests.app.routes.service import QUICK, Service, curve, even

TABLE = curve(60, even)
KEY = {"idempotency-key": "once"}


@pytest.fixture
def trained(empty: Service) -> Service:
    assert empty.train(TABLE, model="plain", **QUICK)["state"] == "succeeded"
    return empty


def assert_repeatable(service: Service, path: str, body: dict[str, Any], other: dict[str, Any]) -> None:
    """The same request gets its job before and after its end and another version, another one is refused."""

    def post(request: dict[str, Any]) -> httpx.Response:
        return service.client.post(path, json=request, headers=KEY)

    first = post(body)
    assert first.status_code == 202, first.text
    service.work()
    assert service.train(TABLE, model="plain", **QUICK)["state"] == "succeeded"
    again = post(body)
    assert again.status_code == 202, again.text
    assert again.json()["id"] == first.json()["id"]
    assert again.json()["state"] == "succeeded"
    assert_problem(post(other), 409, "'once' was used before", first.json()["id"])


def test_an_update(trained: Service) -> None:
    rows = [{"x": 1.0, "y": 0.8}]
    other = {"rows": rows, "spec": {"extra_basis": 1}}
    assert_repeatable(trained, "/models/plain/update", {"rows": rows}, other)
    assert_problem(
        trained.client.post("/models/plain@1/update", json={"rows": rows}, headers=KEY), 409, "was used before"
    )


def test_a_training_that_begins_at_a_model(trained: Service) -> None:
    columns = {"x": [0.1 * place for place in range(30)], "y": [0.2 * place for place in range(30)]}
    body = {"columns": columns, "spec": {"model": "warm", **QUICK}, "from": "plain"}
    assert_repeatable(trained, "/train", body, body | {"from": "plain@1"})


def test_predictions_of_a_dataset(trained: Service) -> None:
    dataset = trained.client.post("/datasets", files={"file": ("a.csv", TABLE)}).json()["id"]
    body = {"model": "plain", "dataset": dataset}
    assert_repeatable(trained, "/predict", body, body | {"interval": 0.5})
