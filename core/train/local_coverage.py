"""Coverage where it may differ: of rows alike in how sure their predictions are, in a column, or in their group.

An interval that holds 95% of all rows may hold 85% of some and 99% of others. Left-out rows are cut into quarters by
the predicted std and by each of the columns that matter most, by the levels of categories, and by groups where these
were given. The worst part is an alarm only where chance would not have it: where a binomial distribution of the level
has so few inside with a probability below ALARM, over the number of parts that were looked at (Bonferroni).
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import bdtr

from core.arrays import BoolArray, FloatArray, IntArray
from core.data import Dataset

LEVEL = 0.95
MOST_COLUMNS, MOST_LEVELS, MOST_GROUPS = 5, 4, 1_000
"""Columns, the shortest lengthscales first; levels of a category and groups, the commonest first."""
LEAST_ROWS = 20
"""Rows of a part that is told of."""
IRRELEVANT = 10.0
"""A lengthscale of so many standard deviations: the column does not matter."""
ALARM = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some of the left-out rows. by: std, column or group; feature: which column, None for the others; lowest, highest:
    of the std or the column, or the level or group twice; rows; covered: how many of them are inside."""

    by: str
    feature: int | None
    lowest: float
    highest: float
    rows: int
    covered: int

    @property
    def chance(self) -> float:
        """Probability of so few inside, or fewer, if LEVEL holds."""
        return float(bdtr(self.covered, self.rows, LEVEL))


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCoverage:
    """Coverage of the parts that were looked at; none without calibration, or where rows are few."""

    parts: tuple[Part, ...] = ()

    @property
    def worst(self) -> Part | None:
        """The part that chance explains least."""
        return min(self.parts, key=lambda part: part.chance, default=None)

    @property
    def alarming(self) -> bool:
        """True where chance does not explain the worst part."""
        return self.worst is not None and self.worst.chance < ALARM / len(self.parts)

    def sentence(self, names: Sequence[str], groups: Sequence[str] = ()) -> str | None:
        """Say which part is covered worst. names: of the features; groups: of the groups, by their numbers."""
        worst = self.worst
        if worst is None:
            return None
        where = _place(worst, names, groups)
        share = f"{worst.covered} ({worst.covered / worst.rows:.1%}) are inside of their {LEVEL:.0%} intervals"
        end = "fewer than chance would have it" if self.alarming else "the lowest share, and within chance"
        return f"of {worst.rows:,} left-out rows with {where} {share}: {end}"

    def to_json(self, names: Sequence[str], groups: Sequence[str] = ()) -> dict[str, Any]:
        """Plain numbers, text and lists; columns and groups by name."""
        parts = [
            {name: value for name, value in asdict(part).items() if name != "feature"}
            | ({"group": _named(part, groups)} if part.by == "group" else {})
            | {"column": None if part.feature is None else names[part.feature], "coverage": part.covered / part.rows}
            for part in self.parts
        ]
        return {"level": LEVEL, "parts": parts, "worst": self.sentence(names, groups), "alarming": self.alarming}


def _place(part: Part, names: Sequence[str], groups: Sequence[str]) -> str:
    """Return in words where the rows of a part are."""
    if part.by == "group":
        return f"group {_named(part, groups)}"
    if part.by == "level":
        return f"one level of {names[part.feature or 0]!r}"
    column = "a predicted std" if part.by == "std" else repr(names[part.feature or 0])
    return f"{column} from {part.lowest:.4g} to {part.highest:.4g}"


def _named(part: Part, groups: Sequence[str]) -> str:
    """Return the name of a part that is a group."""
    return repr(groups[int(part.lowest)]) if groups else f"{part.lowest:g}"


def local_coverage(
    inputs: FloatArray,
    inside: BoolArray,
    std: FloatArray,
    dataset: Dataset,
    lengthscales: FloatArray,
    groups: IntArray | None = None,
) -> LocalCoverage:
    """Cut left-out rows into parts. O(m log m) for each of a few columns.

    Args:
        inputs: of these rows, (m, p), in raw units.
        inside: which of them are inside of their intervals of LEVEL, (m,).
        std: predicted, in the learnt target's unit, (m,).
        dataset: whose columns they are; its rows are not read.
        lengthscales: of the features, in standard deviations of their columns, (g,).
        groups: of the rows, (m,), where they were given.
    """
    found = [Part(by="std", feature=None, **part) for part in _quarters(std, inside)]
    order = np.argsort(lengthscales, kind="stable")
    for feature in [int(each) for each in order if lengthscales[each] < IRRELEVANT][:MOST_COLUMNS]:
        columns = np.flatnonzero(dataset.groups == feature)
        if len(columns) > 1 and dataset.indicator[columns].all():
            levels = np.argmax(inputs[:, columns], axis=1)
            found += [Part(by="level", feature=feature, **part) for part in _commonest(levels, inside, MOST_LEVELS)]
        else:
            column = inputs[:, columns[0]]
            found += [Part(by="column", feature=feature, **part) for part in _quarters(column, inside)]
    if groups is not None:
        found += [Part(by="group", feature=None, **part) for part in _commonest(groups, inside, MOST_GROUPS)]
    return LocalCoverage(parts=tuple(found))


def _quarters(values: FloatArray, inside: BoolArray) -> Iterator[dict[str, Any]]:
    """Four parts of equal size, fewer where values are tied."""
    cuts = np.unique(np.quantile(values, (0.25, 0.5, 0.75)))
    place = np.searchsorted(cuts, values, side="left")
    for quarter in range(len(cuts) + 1):
        yield from _part(values, inside, place == quarter)


def _commonest(values: IntArray, inside: BoolArray, most: int) -> Iterator[dict[str, Any]]:
    kinds, counts = np.unique(values, return_counts=True)
    for kind in kinds[np.argsort(-counts, kind="stable")[:most]]:
        yield from _part(values.astype(np.float64), inside, values == kind)


def _part(values: FloatArray, inside: BoolArray, which: BoolArray) -> Iterator[dict[str, Any]]:
    rows = int(which.sum())
    if rows >= LEAST_ROWS:
        some = values[which]
        yield {
            "lowest": float(some.min()),
            "highest": float(some.max()),
            "rows": rows,
            "covered": int(inside[which].sum()),
        }
