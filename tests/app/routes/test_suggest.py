"""Rows to measure next, over HTTP: candidates, regions, goals, and what is refused."""

import math
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.app.routes.problems import assert_problem
from tests.app.routes.service import QUICK, Service, curve, even, running, waves


def gap(rows: int = 120) -> str:
    """x from 0 to 6 but for 2 to 4, where nothing is known."""
    chance = random.Random(1)
    lines = ["x,y"]
    while len(lines) <= rows:
        x = chance.uniform(0, 6)
        if not 2 < x < 4:
            lines.append(f"{x!r},{math.sin(x) + chance.gauss(0, 0.1)!r}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """`gap`, `waves` (a category), `log`, `bounded`, never below 0, `full`, a full process, and `mean`, without
    error bars."""
    sparse = {"basis_size": 20, "approximation": "dtc"}
    near = {"variance": "near", "kernel": "gaussian", "max_basis_size": 20, "effort": "normal"}
    tables: dict[str, tuple[str, dict[str, Any]]] = {
        "gap": (gap(), sparse | {"adapt": {"rounds": 2, "steps": 10}}),
        "waves": (waves(), QUICK),
        "log": (curve(120, even, bend=math.exp), QUICK | {"target_transform": "log"}),
        "full": (gap(60), near),
        "bounded": (curve(120, even, bend=math.exp), QUICK | {"target_transform": "yeo-johnson"}),
        "mean": (curve(120, even), QUICK | {"artefact": "mean"}),
    }
    with running(tmp_path_factory.mktemp("service")) as service:
        for name, (table, spec) in tables.items():
            job = service.train(table, model=name, **spec)
            assert job["state"] == "succeeded", job
        yield service


def suggest(service: Service, model: str, **body: Any) -> dict[str, Any]:
    answer = service.client.post(f"/models/{model}/suggest", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize("model", ["gap", "full"])
def test_what_is_not_known_is_measured_first(trained: Service, model: str) -> None:
    """The first row is in the gap, and measuring all of them takes off what their gains say."""
    found = suggest(trained, model, ranges={"x": [0, 6]}, count=6)
    assert (found["criterion"], found["scale"], found["version"]) == ("variance", "target", 1)
    assert 2.0 < found["suggestions"][0]["row"]["x"] < 4.0
    gains = [one["gain"] for one in found["suggestions"]]
    assert gains == sorted(gains, reverse=True)
    region = found["region"]
    assert region["rows"] == 1000
    left = region["latent_std_before"] ** 2 - region["latent_std_after"] ** 2
    assert left == pytest.approx(sum(gains), rel=1e-6)
    assert region["latent_std_after"] < 0.85 * region["latent_std_before"]
    row = found["suggestions"][0]
    served = trained.ask(model, [row["row"]], include=["latent_std"])
    for name in ("mean", "std", "latent_std"):
        assert row[name] == pytest.approx(served[name][0], rel=1e-9)
    assert suggest(trained, model, ranges={"x": [0, 6]}, count=6) == found
    assert suggest(trained, model, ranges={"x": [0, 6]}, count=6, seed=1) != found


def test_a_region_draws_the_rows_to_it(trained: Service) -> None:
    rows = [{"x": 0.1 * place} for place in range(61)]
    near = suggest(trained, "gap", rows=rows, region=[{"x": 5.5}, {"x": 5.7}], count=1)["suggestions"][0]
    ranged = suggest(trained, "gap", rows=rows, region={"x": [5.4, 5.8]}, count=1)["suggestions"][0]
    for one in (near, ranged):
        assert 4.5 < one["row"]["x"] <= 6.0
        assert one["row"] == rows[one["number"]]


@pytest.mark.parametrize(("goal", "place"), [("max", math.pi / 2), ("min", 3 * math.pi / 2)])
def test_improvement_is_looked_for_where_the_best_is(trained: Service, goal: str, place: float) -> None:
    found = suggest(trained, "gap", ranges={}, criterion="improvement", goal=goal, count=3)
    assert found["goal"] == goal
    assert abs(found["best"]) == pytest.approx(1.0, abs=0.2)
    assert min(abs(one["row"]["x"] - place) for one in found["suggestions"]) < 0.8
    far = 30.0 if goal == "max" else -30.0
    beaten = suggest(trained, "gap", ranges={}, criterion="improvement", goal=goal, best=far)
    assert abs(beaten["best"]) == 30.0
    assert beaten["suggestions"][0]["gain"] < 1e-9


def test_columns_that_are_not_named_are_as_in_training(trained: Service) -> None:
    found = suggest(trained, "waves", ranges={"x": 3.0}, count=2)
    assert {one["row"]["kind"] for one in found["suggestions"]} <= {"low", "high"}
    assert {one["row"]["x"] for one in found["suggestions"]} == {3.0}
    assert suggest(trained, "waves", count=2) == suggest(trained, "waves", ranges={}, count=2)
    chosen = suggest(trained, "waves", ranges={"x": {"values": [1, 2, 5]}, "kind": "low"}, candidates=30, count=3)
    assert {one["row"]["kind"] for one in chosen["suggestions"]} == {"low"}
    assert {one["row"]["x"] for one in chosen["suggestions"]} <= {1, 2, 5}


def test_a_transformed_target_is_compared_as_it_is_learnt(trained: Service) -> None:
    found = suggest(trained, "log", ranges={}, criterion="improvement", best=2.0)
    assert (found["scale"], found["best"]) == ("log", pytest.approx(2.0))
    assert found["suggestions"][0]["mean"] > 0.0


@pytest.mark.parametrize(
    ("model", "body", "words"),
    [
        ("gap", {"criterion": "improvement", "best": 1e308}, ["best: 1e+308 is out of reach"]),
        ("gap", {"criterion": "improvement", "best": -1e308}, ["best: -1e+308 is out of reach"]),
        ("bounded", {"criterion": "improvement", "best": -5.0}, ["best: -5.0 is out of reach", "from 0 to inf"]),
        ("gap", {"rows": [{"x": 1.0}], "ranges": {}}, ["`rows` and `ranges`"]),
        ("gap", {"rows": []}, ["rows: expected 1 to 5,000"]),
        ("gap", {"rows": [{"x": "wide"}]}, ["row 0", "'x'", "wide"]),
        ("gap", {"rows": [{"z": 1.0}]}, ["'x'"]),
        ("gap", {"ranges": {"z": [0, 1]}}, ["ranges.z", "'x'"]),
        ("gap", {"ranges": {"x": [1, 0]}}, ["ranges.x", "lowest first"]),
        ("gap", {"ranges": {"x": {"low": 1}}}, ["ranges.x", "values"]),
        ("gap", {"ranges": {"x": ["a", "b"]}}, ["'x'", "a"]),
        ("waves", {"ranges": {"kind": [0, 1]}}, ["ranges.kind", "category"]),
        ("gap", {"ranges": {}, "count": 0}, ["count", "1 to 100"]),
        ("gap", {"ranges": {}, "candidates": 10_000}, ["candidates", "5,000"]),
        ("gap", {"ranges": {}, "criterion": "luck"}, ["criterion", "variance, improvement"]),
        ("gap", {"ranges": {}, "criterion": "improvement", "region": []}, ["region"]),
        ("gap", {"ranges": {}, "region": []}, ["region: expected 1 to 5,000"]),
        ("gap", {"ranges": {}, "best": 1.0}, ["best", "improvement"]),
        ("log", {"ranges": {}, "criterion": "improvement", "best": -1.0}, ["best", "log"]),
        ("mean", {"ranges": {}}, ["no error bars"]),
        ("gap", {"ranges": {}, "often": 3}, ["often"]),
    ],
)
def test_refusals(trained: Service, model: str, body: dict[str, Any], words: list[str]) -> None:
    assert_problem(trained.client.post(f"/models/{model}/suggest", json=body), 422, *words)


@pytest.mark.parametrize("model", ["gap", "full"])
def test_ranges_of_any_finite_numbers(trained: Service, model: str) -> None:
    """Whole numbers beyond 64 bits, and a range wider than the largest number."""
    for low, high in ((10**20, 3e20), (-1.7e308, 1.7e308)):
        answer = trained.client.post(f"/models/{model}/suggest", json={"ranges": {"x": [low, high]}})
        if answer.status_code != 200:
            assert_problem(answer, 422, "so large")
            assert high > 1e300
            continue
        assert all(low <= one["row"]["x"] <= high for one in answer.json()["suggestions"])
    for ranges in ({"x": [0, 10**400]}, {"x": {"values": [10**400]}}, {"x": 10**400}):
        answer = trained.client.post(f"/models/{model}/suggest", json={"ranges": ranges})
        assert_problem(answer, 422, "ranges.x", "too large")


def test_no_such_model(trained: Service) -> None:
    assert_problem(trained.client.post("/models/nothing/suggest", json={"ranges": {}}), 404, "nothing")
