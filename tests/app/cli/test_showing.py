"""Small things that are printed."""

import io

import pytest
from rich.console import Console

from app.cli.showing import fault_line, jobs, number


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
    assert all(any(line.startswith((f"{name} ", f" {name} ")) for line in lines) for name in ids)
    if not terminal:
        assert len([line for line in lines if line.strip()]) == 4  # head, rule, two jobs
