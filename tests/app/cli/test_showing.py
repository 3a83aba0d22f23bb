"""Small things that are printed."""

import pytest

from app.cli.showing import fault_line, number


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
