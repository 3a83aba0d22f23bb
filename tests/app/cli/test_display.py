"""Small things that are printed."""

import io
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from app.cli.display import (
    calibration,
    coverage,
    fault_line,
    jobs,
    kernel,
    local_time,
    missing_cells,
    models,
    number,
    report,
    versions,
    weights,
)


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ({"line": 3, "row": 1, "column": "x", "value": "?", "message": "no"}, "line 3, column x, '?': no"),
        ({"row": 1, "message": "no"}, "row 1: no"),
        ({"row": 0, "column": "x", "message": "no"}, "row 0, column x: no"),
        ({"message": "no"}, "no"),
    ],
)
def test_fault_line(fault: dict[str, object], line: str) -> None:
    assert fault_line(fault) == line


@pytest.mark.parametrize(
    ("value", "text"), [(0.123456, "0.1235"), (1234567, "1234567"), (None, "-"), ("a", "a"), (1e-9, "1e-09")]
)
def test_number(value: object, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("scores", "text"),
    [
        ({"coverage": {"0.95": 0.9444}, "coverage_standard_error": {"0.95": 0.0123}}, "94.4% +- 1.2%"),
        ({"coverage": {"0.95": 1.0}}, "100.0%"),
        ({"coverage": {"0.9": 0.9}, "coverage_standard_error": {"0.9": 0.1}}, None),
        ({}, None),
    ],
)
def test_coverage(scores: dict[str, object], text: str | None) -> None:
    assert coverage(scores, "0.95") == text


def test_missing_cells() -> None:
    left_out = {"coverage": {"0.95": 0.925}, "coverage_standard_error": {"0.95": 0.034}}
    columns = {"a": {"cells": 1200, "treated": "integrated"}, "b": {"cells": 3, "treated": "marked"}}
    columns["c"] = {"cells": 40, "treated": "integrated"}
    facts = {"cells": 1243, "rows": 1205, "columns": columns, "rows_left_out": 40, "left_out": left_out}
    assert missing_cells({"missing": facts}) == (
        "1,243 missing cells in 1,205 rows, integrated: a (1,200), c (40); marked: b (3); 40 rows not learnt from, "
        "92.5% +- 3.4% of them within their 95% interval"
    )
    none = {"rows_left_out": 0, "left_out": None}
    assert missing_cells({"missing": facts | none}) == (
        "1,243 missing cells in 1,205 rows, integrated: a (1,200), c (40); marked: b (3)"
    )
    assert missing_cells({"missing": {"cells": 0}}) is missing_cells({}) is None


TOLD = {
    "by": "leave-one-out",
    "rows": 12_000,
    "latent_scale": 1.5,
    "noise_scale": 0.25,
    "most_level": 12_000 / 12_001,
    "noise_gain": 0.2,
}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            TOLD,
            "error bars calibrated by leave-one-out on 12,000 rows: latent variance x 1.5, noise x 0.25; "
            "intervals up to 99.9%; the noise varies with the inputs",
        ),
        (
            TOLD | {"rows": 900, "most_level": 0.99889, "tail_freedom": 6.123},
            "error bars calibrated by leave-one-out on 900 rows: latent variance x 1.5, noise x 0.25; intervals up to "
            "99.8% by rank, beyond by a t distribution of 6.12 degrees of freedom; the noise varies with the inputs",
        ),
        (
            TOLD | {"rows": 9, "most_level": 0.0, "noise_gain": None, "tail_freedom": 8.5},
            "error bars calibrated by leave-one-out on 9 rows: latent variance x 1.5, noise x 0.25; "
            "all intervals by a t distribution of 8.5 degrees of freedom",
        ),
        (
            TOLD | {"rows": 9, "most_level": 1.0, "noise_gain": None},
            "error bars calibrated by leave-one-out on 9 rows: latent variance x 1.5, noise x 0.25; "
            "too few for intervals of their own",
        ),
        (
            TOLD | {"by": "nothing", "rows": 0},
            "error bars are not calibrated: intervals are those of a normal distribution",
        ),
        (None, None),
    ],
)
def test_calibration_in_one_line(given: object, text: str | None) -> None:
    assert calibration({"calibration": given}) == text


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"kernel": "matern32", "basis_size": 1500}, "kernel matern32, 1,500 basis vectors"),
        (
            {"kernel": "gaussian", "basis_size": 60, "artefact": {"mean_rows": 60}},
            "kernel gaussian, 60 basis vectors",
        ),
        (
            {"kernel": "gaussian", "basis_size": 60, "artefact": {"mean_rows": 4000}},
            "kernel gaussian, 60 basis vectors, mean of 4,000 rows",
        ),
        ({"basis_size": 500}, None),
        ({}, None),
    ],
)
def test_kernel_in_one_line(facts: dict[str, object], text: str | None) -> None:
    assert kernel(facts) == text


def test_weights_in_one_line() -> None:
    found = {"column": "times", "least": 1.0, "mean": 25.5, "greatest": 50.0, "effective_rows": 103.99}
    assert weights({"rows": 2000, "weights": found}) == (
        "weights by times, 1 to 50: error bars are those of a row of mean weight, 25.5; 2,000 rows say as much as 104 "
        "of equal weight"
    )
    assert weights({"rows": 200}) is None


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("width", [80, 40])
def test_the_id_of_a_job_is_never_broken(terminal: bool, width: int) -> None:
    ids = [f"job_{figure * 32}" for figure in "12"]
    page = {
        "jobs": [
            {"id": name, "model": "a-rather-long-name-of-a-model", "state": "succeeded", "created_at": "2026-01-02" * 3}
            for name in ids
        ]
    }
    console = Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None)
    jobs(console, page)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert all(any(name in line.split() for line in lines) for name in ids)
    if not terminal:
        assert len([line for line in lines if line.strip()]) == 4  # head, rule, two jobs


PAGES: dict[str, dict[str, Any]] = {
    "jobs": {
        "jobs": [
            {
                "id": f"job_{figure * 32}",
                "model": model,
                "state": "succeeded",
                "created_at": "2026-01-02T03:04:05.678Z",
            }
            for figure, model in (("1", "cars"), ("2", "a-rather-long-name-of-a-model"), ("3", "[bold]"))
        ],
    },
    "models": {
        "models": [{"name": "m" * 50, "latest": 12, "versions": 12, "created_at": "2026-01-02T03:04:05.678Z"}],
        "next_cursor": "c",
    },
    "versions": {
        "versions": [
            {
                "version": 12,
                "aliases": ["latest", "champion"],
                "summary": {
                    "target": "median_house_value_in_dollars",
                    "basis_size": 1200,
                    "holdout": {"nmse": 0.12345, "nlpd": -12.345},
                },
                "created_at": "2026-01-02T03:04:05.678Z",
            }
        ]
    },
}


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("name", PAGES)
def test_no_line_is_wider_than_the_terminal_and_no_figure_is_broken(name: str, width: int) -> None:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    {"jobs": jobs, "models": models, "versions": versions}[name](console, PAGES[name])
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    words = [word.strip(",") for line in lines for word in line.split()]
    whole = {
        "jobs": [f"job_{figure * 32}" for figure in "123"] + ["succeeded", "100%", "[bold]", "2026-01-02"],
        "models": ["12", "versions", "2026-01-02"],
        "versions": ["12", "champion", "1200", "0.1235", "-12.35", "2026-01-02"],
    }[name]
    assert not {*whole} - {*words}


def test_scores_of_an_update_are_those_of_the_training() -> None:
    summary = {"target": "y", "basis_size": 3, "leave_one_out": {"nmse": 0.25, "nlpd": 1.5, "coverage": {}}}
    version = {"created_at": "2026-01-02T12:00:00.000Z", "aliases": []}
    trained = version | {"version": 1, "summary": summary}
    updated = version | {"version": 2, "summary": summary | {"scores_of": 1}}
    out = io.StringIO()
    versions(Console(file=out, width=200), {"versions": [updated, trained], "next": None})
    assert "0.25 (version 1)" in out.getvalue()
    assert "1.5 (version 1)" in out.getvalue()
    assert out.getvalue().count("(version 1)") == 2


def test_times_are_short_on_a_terminal_and_whole_in_a_pipe() -> None:
    terminal, pipe = (Console(file=io.StringIO(), force_terminal=forced) for forced in (True, False))
    now = datetime.now(UTC)
    assert local_time(terminal, now.isoformat()) in {f"{now.astimezone():%H:%M:%S}", f"{now.astimezone():%Y-%m-%d}"}
    assert local_time(terminal, "2026-01-02T12:00:00.000Z") == "2026-01-02"
    assert local_time(pipe, "2026-01-02T12:00:00.000Z") == "2026-01-02T12:00:00.000Z"
    assert local_time(terminal, "yesterday") == "yesterday"


def test_a_job_of_predictions_says_how_many_and_where() -> None:
    out = io.StringIO()
    warning = {"kind": "failed", "message": "1 row has no prediction [x]", "count": 1, "rows": [3]}
    result = {"model": "m", "version": 2, "rows": 1200, "predictions": "/jobs/job_1/predictions", "warnings": [warning]}
    report(Console(file=out, width=100), {"state": "succeeded", "kind": "predict", "result": result})
    assert out.getvalue() == (
        "m version 2\n1,200 rows predicted: GET /jobs/job_1/predictions\nnote: 1 row has no prediction [x]\n"
    )
