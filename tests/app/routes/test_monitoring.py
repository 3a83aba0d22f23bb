"""Drift of what a model is asked, and the truth that comes back, over HTTP."""

import math
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select

from app.database.tables import summaries
from app.services.monitoring import monitor
from app.services.monitoring.monitor import Monitor
from app.services.monitoring.monitoring import feedback_json
from app.settings import Settings
from app.storage import monitoring
from app.storage.monitoring import Truth
from app.worker import remove_old
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import QUICK, Service, running, waves


@pytest.fixture
def waved(empty: Service) -> Service:
    assert empty.train(waves(400), model="waves", unseen="prior", **QUICK)["state"] == "succeeded"
    return empty


def report(service: Service, reference: str = "waves") -> dict[str, Any]:
    answer = service.client.get(f"/models/{reference}/monitoring")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def as_trained(count: int, seed: int = 5) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [{"x": chance.uniform(0, 6), "kind": chance.choice(["low", "high"])} for _ in range(count)]


def columns(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {column["name"]: column for column in found["total"]["columns"]}


def test_rows_as_in_training_have_not_drifted(waved: Service) -> None:
    before = report(waved)
    assert (before["total"]["rows"], before["days"], before["messages"]) == (0, [], [])
    assert (before["model"], before["version"], before["has_profile"]) == ("waves", 1, True)
    for start in range(0, 300, 50):
        waved.ask("waves", as_trained(50, seed=start))
    found = report(waved)
    assert found["total"]["rows"] == found["total"]["counted_rows"] == 300
    assert found["total"]["near_prior_share"] == 0.0
    assert [day["rows"] for day in found["days"]] == [300]
    assert found["days"][0]["day"] == datetime.now(UTC).date().isoformat()
    assert list(columns(found)) == ["x", "kind"]
    assert all(column["psi"] < 0.1 for column in columns(found).values())
    assert found["total"]["prediction_psi"] < 0.1
    assert found["messages"] == []


def test_rows_of_another_kind_are_told(waved: Service) -> None:
    waved.ask("waves", as_trained(50))
    waved.ask("waves", [{"x": 5.5 + 8 * (i % 2), "kind": "odd" if i % 3 else "high"} for i in range(150)])
    found = report(waved)
    x, kind = columns(found)["x"], columns(found)["kind"]
    assert x["out_of_range_share"] == pytest.approx(75 / 200)
    assert kind["unseen_share"] == pytest.approx(100 / 200)
    assert x["psi"] > 0.25
    assert kind["psi"] > 0.25
    assert found["total"]["near_prior_share"] > 0.3
    said = " ".join(found["messages"])
    for words in ("'x' is distributed otherwise", "'x' is out of the range", "'kind' has levels that training has not"):
        assert words in said


def test_every_way_to_predict_is_watched_by_version(waved: Service) -> None:
    waved.train(waves(50, seed=1), model="waves", **QUICK)
    waved.ask("waves@1", as_trained(3))
    waved.ask("waves@1", [[1.0, "low"], ["?", "low"]], on_error="null")
    text = {"content-type": "text/csv", "accept": "text/csv"}
    waved.client.post("/predict?model=waves@1", content="x,kind\n1,low\n2,high\n", headers=text)
    tensors = [
        {"name": "x", "datatype": "FP64", "shape": [1], "data": [1.0]},
        {"name": "kind", "datatype": "BYTES", "shape": [1], "data": ["low"]},
    ]
    assert waved.client.post("/v2/models/waves/versions/1/infer", json={"inputs": tensors}).status_code == 200
    assert report(waved, "waves@1")["total"]["rows"] == 3 + 1 + 2 + 1
    assert report(waved, "waves@2")["total"]["rows"] == 0
    assert_problem(waved.client.get("/models/nobody/monitoring"), 404, "nobody")
    assert_problem(waved.client.get("/models/waves/monitoring?days=0"), 422, "days")


def test_processes_and_days_add_up(tmp_path: Path) -> None:
    with running(tmp_path) as one:
        one.train(waves(100), model="waves", **QUICK)
        with running(tmp_path) as two:
            for service, count in ((one, 30), (two, 50)):
                service.ask("waves", as_trained(count))
            report(one)
            assert report(two)["total"]["rows"] == 80
        with one.database.write() as connection:
            (document,) = connection.execute(select(summaries.c.summary)).scalars()
            yesterday = (datetime.now(UTC).date() - timedelta(1)).isoformat()
            monitoring.add(connection, "waves", 1, yesterday, document, merge=lambda _, new: new)
        found = report(one)
        assert [day["rows"] for day in found["days"]] == [80, 80]
        assert found["total"]["rows"] == 160
        remove_old(one.database, Settings(keep_monitoring_days=0.5))
        assert [day["rows"] for day in report(one)["days"]] == [80]


def test_what_is_not_asked_for_is_written_when_the_process_ends(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        service.train(waves(100), model="waves", **QUICK)
        service.ask("waves", as_trained(7))
    with running(tmp_path) as service:
        assert report(service)["total"]["rows"] == 7


def test_the_memory_of_samples_is_bounded(waved: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = as_trained(3000)
    waved.ask("waves", rows)
    monkeypatch.setattr(monitor, "SAMPLE_NUMBERS", 300)
    waved.ask("waves", rows)
    monkeypatch.setattr(monitor, "WAITING_NUMBERS", -1)
    waved.ask("waves", rows)
    found = report(waved)["total"]
    assert found["rows"] == 9000
    assert found["counted_rows"] == 3000 + 100
    assert max(column["psi"] for column in found["columns"]) < 0.1


def test_a_database_that_does_not_answer_loses_no_counts(waved: Service) -> None:
    waved.ask("waves", as_trained(5))
    watcher = Monitor(waved.database)
    watcher.flush()  # of nothing
    assert report(waved)["total"]["rows"] == 5


def tell(service: Service, rows: list[Any], truth: list[float], model: str = "waves@1") -> dict[str, Any]:
    answer = service.client.post("/feedback", json={"model": model, "rows": rows, "truth": truth})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def target(row: dict[str, Any], chance: random.Random, noise: float) -> float:
    return math.sin(row["x"]) + (2.0 if row["kind"] == "high" else 0.0) + chance.gauss(0, noise)


def test_the_truth_gives_coverage_and_error(waved: Service) -> None:
    chance, rows = random.Random(3), as_trained(400, seed=9)
    truth = [target(row, chance, 0.05) for row in rows]
    predicted = waved.ask("waves@1", rows)
    inside = [low <= y <= high for low, y, high in zip(predicted["lower"], truth, predicted["upper"], strict=True)]
    told = [tell(waved, rows[start : start + 200], truth[start : start + 200]) for start in (0, 200)]
    assert [one["rows"] for one in told] == [200, 200]
    assert sum(one["covered"] for one in told) == sum(inside)
    found = report(waved)["feedback"]
    coverage = found["coverage"]
    assert (found["rows"], coverage["covered"], coverage["rows"]) == (400, sum(inside), 400)
    assert coverage["lower"] < coverage["share"] < coverage["upper"]
    errors = np.array(truth) - predicted["mean"]
    assert found["rmse"] == pytest.approx(math.sqrt(np.mean(np.square(errors))))
    assert found["nmse"] == pytest.approx(np.mean(np.square(errors)) / np.var(truth), rel=0.2)


@pytest.mark.parametrize(("noise", "words"), [(1.0, "too narrow"), (0.0, "too wide")])
def test_coverage_that_has_left_its_interval_is_told(waved: Service, noise: float, words: str) -> None:
    chance, rows = random.Random(3), as_trained(300, seed=9)
    predicted = waved.ask("waves@1", rows)["mean"]
    tell(waved, rows, [mean + chance.gauss(0, noise) for mean in predicted])
    found = report(waved)
    assert words in found["feedback"]["message"]
    assert found["feedback"]["message"] in found["messages"]
    assert "300 rows whose truth came back" in found["feedback"]["message"]


@pytest.mark.parametrize(("calibrated", "told"), [(0, True), (300, False), (100_000, True)])
def test_few_left_out_rows_are_chance_for_live_coverage(calibrated: int, told: bool) -> None:
    truth = Truth(day="2026-11-30", rows=1_000, with_interval=1_000, covered=930, squared_error=1.0)
    found = feedback_json([truth], None, calibrated)
    assert (found["message"] is not None) == told
    assert found["coverage"]["lower"] < 0.93 < found["coverage"]["upper"] < 0.95


def test_truth_that_does_not_fit(waved: Service) -> None:
    def ask(**body: Any) -> Any:
        return waved.client.post("/feedback", json={"model": "waves", "rows": [[1, "low"]], "truth": [1.0]} | body)

    assert_problem(ask(truth=[1.0, 2.0]), 422, "truth", "expected 1")
    assert_problem(ask(truth=["much"]), 422, "truth")
    assert ask(truth=[1e300]).status_code == 422
    assert_problem(ask(rows=[["?", "low"]]), 422, "'x'")
    assert_problem(ask(model="nobody"), 404, "nobody")
    assert_problem(ask(more=1), 422, "more")
    assert tell(waved, [], [])["rows"] == 0
    assert report(waved)["feedback"] == {"rows": 0, "coverage": None, "rmse": None, "nmse": None, "message": None}


def test_a_model_with_a_mean_alone_has_an_error_and_no_coverage(waved: Service) -> None:
    waved.train(waves(), model="mean", artefact="mean", **QUICK)
    assert tell(waved, as_trained(3), [0.0, 1.0, 2.0], "mean")["covered"] is None
    found = report(waved, "mean")["feedback"]
    assert (found["rows"], found["coverage"]) == (3, None)
    assert found["rmse"] > 0


def test_a_stored_truth_adds_up(waved: Service) -> None:
    with waved.database.write() as connection:
        for _ in range(2):
            truth = Truth(day="2026-01-01", rows=5, with_interval=5, covered=4, squared_error=0.5)
            monitoring.add_truth(connection, "waves", 1, truth)
        (found,) = monitoring.truths(connection, "waves", 1, limit=9)
    assert (found.rows, found.covered, found.squared_error) == (10, 8, 1.0)
