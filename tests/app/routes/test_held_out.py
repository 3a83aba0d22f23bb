"""`GET /models/{name}/versions/{v}/held-out`: single rows that a version had not seen, as it predicted them."""

import csv
import io
import math
from typing import Any

import pytest

from core.train.predicted_rows import MOST_ROWS
from tests.app.routes.service import QUICK, Service, curve, even, waves


def held_out(service: Service, model: str) -> dict[str, Any]:
    answer = service.client.get(f"/models/{model}/versions/1/held-out")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_they_are_the_rows_that_the_report_scores(service: Service) -> None:
    found = held_out(service, "waves")
    scores = service.client.get("/models/waves/versions/1").json()["report"]["holdout"]
    assert (found["held_out"], found["total"], found["name"]) == (True, scores["rows"], "y")
    table = list(csv.DictReader(io.StringIO(waves())))
    assert found["target"] == pytest.approx([float(table[row]["y"]) for row in found["rows"]], rel=1e-6)
    errors = [truth - mean for truth, mean in zip(found["target"], found["mean"], strict=True)]
    assert math.sqrt(sum(error**2 for error in errors) / len(errors)) == pytest.approx(scores["rmse"], rel=1e-5)
    ends = zip(found["lower"], found["target"], found["upper"], strict=True)
    inside = sum(lower <= truth <= upper for lower, truth, upper in ends)
    assert inside / len(errors) == pytest.approx(scores["coverage"][str(found["interval"])])
    widths = [upper - lower for lower, upper in zip(found["lower"], found["upper"], strict=True)]
    assert sum(widths) / len(widths) == pytest.approx(scores["mean_width"]["0.95"], rel=1e-5)
    assert all(std > 0 for std in found["std"])


def test_as_csv(service: Service) -> None:
    found = held_out(service, "waves")
    answer = service.client.get("/models/waves/versions/1/held-out", headers={"accept": "text/csv"})
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [int(row["row"]) for row in rows] == found["rows"]
    for name in ("target", "mean", "std", "lower", "upper"):
        assert [float(row[name]) for row in rows] == found[name]


def test_without_held_out_rows_they_are_left_out_ones(service: Service) -> None:
    job = service.train(waves(90, seed=3), model="all", holdout=0, **QUICK)
    assert job["result"]["report"]["holdout"] is None
    found = held_out(service, "all")
    assert (found["held_out"], found["total"]) == (False, 90)
    scores = job["result"]["report"]["leave_one_out"]
    errors = [truth - mean for truth, mean in zip(found["target"], found["mean"], strict=True)]
    assert math.sqrt(sum(error**2 for error in errors) / len(errors)) == pytest.approx(scores["rmse"], rel=1e-5)


def test_they_are_bounded_and_neither_in_the_job_nor_in_the_description(service: Service) -> None:
    job = service.train(curve(1300, even), model="long", holdout=0.5, **QUICK)
    found = held_out(service, "long")
    assert (len(found["rows"]), found["total"]) == (MOST_ROWS, 650)
    assert len(set(found["rows"])) == MOST_ROWS
    assert "predicted_rows" not in job["result"]["report"]
    assert "predicted_rows" not in service.client.get("/models/long/versions/1").json()["report"]


def test_a_version_that_is_not_there(service: Service) -> None:
    assert service.client.get("/models/waves/versions/7/held-out").status_code == 404


def test_a_description_without_its_basis(service: Service) -> None:
    whole = service.client.get("/models/waves/versions/1").json()
    short = service.client.get("/models/waves/versions/1?basis=false").json()
    assert {name: whole.pop(name) for name in ("basis", "basis_rows", "gains")}
    assert short == whole
