"""Ten made-up kinds of table on which error bars go wrong, each as training rows and fresh rows of the same kind.

Fresh rows are those that a user will ask for: new groups where rows come in groups, later ones where they come in
time, new settings where settings are repeated.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Columns = dict[str, FloatArray]
FRESH = 500
"""Fresh rows of a draw, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of table. draw: training and fresh columns, the target is `y`; spec: how one would train on it."""

    draw: Callable[[np.random.Generator], tuple[Columns, Columns]]
    spec: Mapping[str, Any] = field(default_factory=dict)


def _clustered(random: np.random.Generator) -> tuple[Columns, Columns]:
    """40 subjects of 8 rows, each with a level of its own that its age and weight do not tell; fresh: new subjects."""

    def some(first: int, subjects: int) -> Columns:
        subject = np.repeat(np.arange(first, first + subjects), 8).astype(np.float64)
        age, weight, level = (np.repeat(random.normal(size=subjects), 8) for _ in range(3))
        x = random.uniform(0.0, 6.0, len(subject))
        y = np.sin(x) + 0.5 * age + level + 0.1 * random.normal(size=len(x))
        return {"subject": subject, "age": age, "weight": weight, "x": x, "y": y}

    return some(0, 40), some(40, FRESH // 8)


def _replicated(random: np.random.Generator) -> tuple[Columns, Columns]:
    """50 settings measured 4 times each; fresh: settings that were never measured."""

    def some(settings: int, times: int) -> Columns:
        a, b = (np.repeat(random.uniform(0.0, 3.0, settings), times) for _ in range(2))
        return {"a": a, "b": b, "y": np.sin(2.0 * a) + b + 0.3 * random.normal(size=len(a))}

    return some(50, 4), some(FRESH, 1)


def _drifting(random: np.random.Generator) -> tuple[Columns, Columns]:
    """300 days of a level that wanders; fresh: the 30 days after the last."""
    days = np.arange(330.0)
    level = np.cumsum(0.1 * random.normal(size=len(days)))
    x = random.uniform(0.0, 6.0, len(days))
    y = level + np.sin(x) + 0.2 * random.normal(size=len(days))
    table = {"day": days, "x": x, "y": y}
    return {name: values[:300] for name, values in table.items()}, {name: v[300:] for name, v in table.items()}


def _skewed(random: np.random.Generator) -> tuple[Columns, Columns]:
    """Log-normal targets, 300 rows."""
    return _of(random, 300, lambda a, b: np.exp(np.sin(2.0 * a) + 0.5 * b + 0.7 * random.normal(size=len(a))))


def _heavy_tailed(random: np.random.Generator) -> tuple[Columns, Columns]:
    """Errors of a t distribution of 2 degrees of freedom, 300 rows."""
    return _of(random, 300, lambda a, b: np.sin(2.0 * a) + b + 0.2 * random.standard_t(2, size=len(a)))


def _varying(random: np.random.Generator) -> tuple[Columns, Columns]:
    """Noise of .1 below x = 5 and of 1 beyond, 300 rows."""

    def some(rows: int) -> Columns:
        x = random.uniform(0.0, 10.0, rows)
        return {"x": x, "y": np.sin(x) + np.where(x < 5.0, 0.1, 1.0) * random.normal(size=rows)}

    return some(300), some(FRESH)


def _missing(random: np.random.Generator) -> tuple[Columns, Columns]:
    """500 rows; a twentieth of the cells of z is missing, in training and in fresh rows."""

    def some(rows: int) -> Columns:
        x, z = random.uniform(0.0, 3.0, rows), random.uniform(0.0, 3.0, rows)
        y = np.sin(2.0 * x) + z + 0.1 * random.normal(size=rows)
        return {"x": x, "z": np.where(random.uniform(size=rows) < 0.05, np.nan, z), "y": y}

    return some(500), some(FRESH)


def _duplicated(random: np.random.Generator) -> tuple[Columns, Columns]:
    """100 rows, uploaded twice."""
    once, fresh = _of(random, 100, lambda a, _: np.sin(5.0 * a) + random.normal(size=len(a)))
    return {name: np.tile(values, 2) for name, values in once.items()}, fresh


def _tiny(random: np.random.Generator) -> tuple[Columns, Columns]:
    """15 rows."""
    return _of(random, 15, lambda a, _: a + 0.3 * random.normal(size=len(a)))


def _wide(random: np.random.Generator) -> tuple[Columns, Columns]:
    """120 rows of 60 columns, of which 3 matter."""

    def some(rows: int) -> Columns:
        x = random.normal(size=(rows, 60))
        y = x[:, 0] + x[:, 1] - x[:, 2] + 0.5 * random.normal(size=rows)
        return {f"x{place}": x[:, place] for place in range(60)} | {"y": y}

    return some(120), some(FRESH)


def _of(
    random: np.random.Generator, rows: int, target: Callable[[FloatArray, FloatArray], FloatArray]
) -> tuple[Columns, Columns]:
    """Rows of two uniform columns, and fresh ones."""

    def some(count: int) -> Columns:
        a, b = random.uniform(0.0, 3.0, count), random.uniform(0.0, 3.0, count)
        return {"a": a, "b": b, "y": target(a, b)}

    return some(rows), some(FRESH)


KINDS: dict[str, Kind] = {
    "clustered": Kind(draw=_clustered, spec={"groups": "subject"}),
    "replicated": Kind(draw=_replicated),
    "drifting": Kind(draw=_drifting, spec={"order": "day"}),
    "skewed": Kind(draw=_skewed, spec={"target_transform": "auto"}),
    "heavy-tailed": Kind(draw=_heavy_tailed),
    "varying noise": Kind(draw=_varying),
    "missing": Kind(draw=_missing, spec={"missing": "impute"}),
    "duplicated": Kind(draw=_duplicated),
    "duplicated, kept": Kind(draw=_duplicated, spec={"duplicates": "keep"}),
    "tiny": Kind(draw=_tiny),
    "wide": Kind(draw=_wide),
}
