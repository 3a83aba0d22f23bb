"""Exact copies of rows: counted once unless they are to be kept, told, and error bars that hold for new rows."""

from typing import Any

import numpy as np

from core.arrays import FloatArray
from tests.app.routes.service import QUICK, Service, numbers


def table_of(rows: FloatArray) -> str:
    return "a,b,y\n" + "".join(",".join(map(repr, row)) + "\n" for row in rows.tolist())


def test_copies_are_counted_once_and_told(empty: Service) -> None:
    once = numbers(60)
    header, *rows = once.splitlines(keepends=True)
    twice = header + "".join(rows + rows[:20])
    plain, copied, kept = (
        empty.train(table, model="m", **QUICK | {"duplicates": what})
        for table, what in ((once, "drop"), (twice, "drop"), (twice, "keep"))
    )
    reports = [job["result"]["report"] for job in (plain, copied, kept)]
    assert [report["rows"] for report in reports] == [60, 60, 80]
    assert [report["rows_dropped"] for report in reports] == [0, 20, 0]
    assert reports[1]["holdout"] == reports[0]["holdout"]
    told = [[said for said in report["warnings"] if "exact copies" in said] for report in reports]
    assert [len(said) for said in told] == [0, 1, 0]
    assert told[1][0].startswith("20 of 80 rows are exact copies of earlier rows")


def test_noise_that_was_uploaded_twice_is_still_noise(empty: Service) -> None:
    """Error bars of 50 rows of pure noise used to hold none of the fresh ones, and to promise 98%."""
    random = np.random.default_rng(0)
    rows = random.normal(size=(50, 3))
    job = empty.train(table_of(np.tile(rows, (2, 1))), model="noise")
    assert job["state"] == "succeeded"
    fresh = random.normal(size=(300, 3))
    answer = empty.ask("noise", fresh[:, :2].tolist())
    inside = (np.array(answer["lower"]) <= fresh[:, 2]) & (fresh[:, 2] <= np.array(answer["upper"]))
    assert inside.mean() > 0.88  # of 95%: fifty rows know their spread to a tenth


def test_copies_but_for_a_counter_are_told(empty: Service) -> None:
    """An export with a line for each hour of what does not change: the table without the hour is its rows once."""
    random = np.random.default_rng(0)
    rows = np.repeat(random.normal(size=(40, 3)), 3, axis=0)
    hours = np.tile(np.arange(3.0), 40)
    lines = [f"{a!r},{hour},{b!r},{y!r}\n" for (a, b, y), hour in zip(rows.tolist(), hours.tolist(), strict=True)]
    table = "a,hour,b,y\n" + "".join(lines)
    asked: tuple[dict[str, Any], ...] = ({}, {"features": ["a", "b"]}, {"groups": "a"}, {"duplicates": "keep"})
    told = []
    for spec in asked:
        warnings = empty.train(table, model="m", **QUICK | spec)["result"]["report"]["warnings"]
        told.append([said for said in warnings if "but for the column" in said])
    assert [len(said) for said in told] == [1, 0, 0, 0]
    assert told[0][0].startswith("120 of 120 rows are copies of others, inputs and target, but for the column 'hour'")


def test_another_treatment_is_refused(empty: Service) -> None:
    answer = empty.post_file(numbers(), {"duplicates": "merge"})
    assert answer.status_code == 422
    assert "spec.duplicates" in answer.json()["detail"]
