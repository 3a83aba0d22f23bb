"""Columns that give the target away are told; those that merely predict it well are not."""

from typing import Any

import numpy as np
import pytest

from app.tables import fit_schema, from_columns
from app.tables.columns.cells import FloatArray

PERFECT = "column 'x' predicts the target almost perfectly by itself"
RISES = f"{PERFECT}, rising with it as a copy on another scale does"
FALLS = f"{PERFECT}, falling with it as a copy on another scale does"
NEAR = "column 'x' is nearly equal to the target"
ROUNDED = "column 'x' is the target rounded or put into classes"
CLASSES = "column 'x' is the target put into classes"
SUM = "the target is a weighted sum of the columns 'a', 'b', 'c'"
NEARLY_SUM = "the target is up to rounding a weighted sum of the columns 'a', 'b', 'c'"
IT = ': if it is not known when predictions are wanted, leave it out ("columns": {"...": "ignore"})'
THEM = ': if they are not known when predictions are wanted, leave them out ("columns": {"...": "ignore"})'


def told(gap: str | None = None, **columns: Any) -> list[str]:
    """Return what is said of leaks; gap: a column in which one cell is missing."""
    cells: dict[str, list[Any]] = {name: np.asarray(values).tolist() for name, values in columns.items()}
    if gap is not None:
        cells[gap][3] = None
    _, prepared = fit_schema(from_columns(cells), missing="error" if gap is None else "impute")
    return [said for said in prepared.warnings if "missing cell" not in said]


def draws(rows: int) -> FloatArray:
    found: FloatArray = np.random.default_rng(rows).standard_normal((4, rows))
    return found


@pytest.mark.parametrize("gap", [None, "a", "c"])
@pytest.mark.parametrize("rows", [40, 120, 1_000])
def test_a_sum_is_told_with_and_without_a_missing_cell(rows: int, gap: str | None) -> None:
    a, b, c, other = draws(rows)
    assert told(gap, a=a, b=b, c=c, other=other, y=a + 2 * b - c) == [SUM + THEM]
    one = np.round([a, b, c], 1)
    assert told(gap, a=one[0], b=one[1], c=one[2], other=other, y=np.round(a + b + c, 1)) == [NEARLY_SUM + THEM]


def test_a_column_that_is_mostly_empty_hides_no_sum() -> None:
    a, b, c, other = draws(200)
    cells: dict[str, Any] = {"a": a.tolist(), "b": b.tolist(), "c": c.tolist()}
    sparse = [value if row % 5 == 0 else None for row, value in enumerate(other.tolist())]
    _, prepared = fit_schema(from_columns({**cells, "other": sparse, "y": (a + b + c).tolist()}), missing="impute")
    assert prepared.warnings[-1] == SUM + THEM


LEAKS: dict[str, tuple[Any, Any, str]] = {
    "a copy": (lambda y: y, lambda y: y, NEAR),
    "a copy with a little noise": (lambda y: y + 0.01 * np.cos(999 * y), lambda y: y, NEAR),
    "another unit": (lambda y: 1.8 * y + 32, lambda y: y, RISES),
    "the other sign": (lambda y: -3 * y, lambda y: y, FALLS),
    "a logarithm": (lambda y: y, lambda y: np.exp(3 * y), RISES),
    "a power": (lambda y: np.exp(-3 * y), lambda y: y, FALLS),
    "to the nearest": (lambda y: np.round(5 * y), lambda y: 5 * y, ROUNDED),
    "cut off": (lambda y: np.floor(5 * y), lambda y: 5 * y, ROUNDED),
    "rounded in another unit": (lambda y: np.round(1.8 * y + 32), lambda y: y, ROUNDED),
    "rounded without a scale": (lambda y: np.floor(np.exp(y)) ** 2, np.exp, ROUNDED),
    "above or below": (lambda y: 1.0 * (y > 0.3), lambda y: y, ROUNDED),
    "true above": (lambda y: y > 0.3, lambda y: y, CLASSES),
    "low, middle and high": (lambda y: np.where(y > 1, "high", np.where(y < 0, "low", "middle")), lambda y: y, CLASSES),
    "another function": (lambda y: y, lambda y: np.sin(4 * y / (1 + abs(y))), PERFECT),
}


@pytest.mark.parametrize("name", LEAKS)
def test_a_column_that_gives_the_target_away_is_told(name: str) -> None:
    column, target, said = LEAKS[name]
    for rows, gap in ((200, None), (200, "x"), (2_000, "x")):
        a, b, *_ = draws(rows)
        assert told(gap, b=b, x=column(a), y=target(a)) == [said + IT], (rows, gap)


def test_a_sum_is_told_beside_a_column_that_leaks_by_itself() -> None:
    a, b, c, _ = draws(120)
    y = a + b + c
    assert told(a=a, b=b, c=c, x=np.exp(y), y=y) == [RISES + IT, SUM + THEM]


def groups(rows: int, gap: float, wide: FloatArray) -> FloatArray:
    result: FloatArray = gap * (np.arange(rows) % 3) + wide
    return result


@pytest.mark.parametrize("rows", [40, 200, 2_000])
def test_columns_that_predict_well_are_no_leak(rows: int) -> None:
    a, b, c, _ = draws(rows)
    kinds = np.array(["a", "b", "c"])[np.arange(rows) % 3]
    assert told(b=b, x=kinds, y=groups(rows, 10.0, np.clip(c, -3, 3))) == []
    assert told(b=b, x=np.arange(rows) % 3, y=groups(rows, 10.0, np.clip(c, -3, 3))) == []
    assert told(x=a, b=b, y=a + 0.1 * b * c) == []
    assert told(x=np.round(a, 1), b=b, y=np.round(a + 0.1 * c, 2)) == []
    assert told(x=np.arange(rows), b=b, y=2.0 * np.arange(rows) + rows / 10 * c) == []
    assert told(a=a, b=b, c=c, y=a + b + c + 0.01 * np.sin(99 * a)) == []
