"""`GET /models/{name}/versions/{v}/importance`: what moves the prediction, and by how much."""

import math
import random
from typing import Any

import pytest

from tests.app.routes.service import QUICK, Service


def importance(service: Service, model: str) -> dict[str, Any]:
    answer = service.client.get(f"/models/{model}/versions/1/importance")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.fixture(scope="module")
def told(service: Service) -> dict[str, Any]:
    """Of a target that is twice x, plus one where the kind is high, and that has nothing to do with z."""
    chance = random.Random(4)
    lines = ["x,z,kind,y"]
    for _ in range(160):
        x, z, kind = chance.uniform(-1, 1), chance.uniform(-1, 1), chance.choice(["low", "high"])
        lines.append(f"{x},{z},{kind},{2 * x + (kind == 'high') + chance.gauss(0, 0.02)}")
    job = service.train("\n".join(lines), model="parts", basis_size=100, method="rand", noise="constant")
    assert job["state"] == "succeeded", job
    return importance(service, "parts")


def test_it_is_ranked_in_the_targets_unit(told: dict[str, Any]) -> None:
    assert [each["name"] for each in told["features"]] == ["x", "kind", "z"]
    moved = {each["name"]: each["importance"] for each in told["features"]}
    # Two independent draws from -1 to 1 differ by sqrt(2/3), root mean square; two levels differ in half of the cases.
    assert moved["x"] == pytest.approx(2 * math.sqrt(2 / 3), rel=0.2)
    assert moved["kind"] == pytest.approx(math.sqrt(0.5), rel=0.2)
    assert moved["z"] < 0.05
    assert told["spread"] == pytest.approx(math.sqrt(4 / 3 + 0.25), rel=0.2)
    assert told["rows"] == 100


def test_it_is_the_same_each_time(service: Service, told: dict[str, Any]) -> None:
    assert importance(service, "parts") == told


@pytest.mark.parametrize("artefact", ["compact", "mean"])
def test_of_smaller_artefacts(service: Service, artefact: str) -> None:
    rows = "\n".join(f"{x / 10},{math.sin(x / 10)}" for x in range(60))
    service.train(f"x,y\n{rows}", model=artefact, artefact=artefact, **QUICK)
    (feature,) = importance(service, artefact)["features"]
    assert feature["name"] == "x"
    assert feature["importance"] > 0.3


def test_of_a_version_that_is_not_there(service: Service) -> None:
    assert service.client.get("/models/parts/versions/9/importance").status_code == 404
