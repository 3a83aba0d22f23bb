"""Levels of categories: which of a column's texts have a place of their own in the design matrix.

A level is a 0/1 column, so that the kernel learns from all pairs of levels alike and no target is looked at. Each costs
a column in every product, and a number for every row: tables of many rows have fewer, unless more are asked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

MIN_LEVELS: Final = 50
"""Number of levels of a column that have a place in any table."""
MAX_LEVELS: Final = 500
"""Most levels of a column, where the specification does not say."""
MAX_CELLS: Final = 20_000_000
"""Cells of the design matrix that all categories of more than MIN_LEVELS levels may fill together: 160 MB a copy ..."""
MAX_COLUMNS: Final = 1_000
"""... and its columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenLevels:
    """Names of the levels with a place of their own, sorted; pooled: how many others there are, in so many cells."""

    names: tuple[str, ...]
    pooled: int = 0
    cells: int = 0


def level_limits(counts: Mapping[str, int], rows: int, asked: int | None) -> dict[str, int]:
    """The most levels of each category; counts: how many it has. asked: for every column; None: as many as the table
    affords. The room is shared out from the column of the fewest levels on."""
    if asked is not None:
        return dict.fromkeys(counts, asked)
    limits = {name: count for name, count in counts.items() if count <= MIN_LEVELS}
    wide = sorted((count, name) for name, count in counts.items() if count > MIN_LEVELS)
    room = min(MAX_CELLS // max(rows, 1), MAX_COLUMNS)
    for place, (count, name) in enumerate(wide):
        limits[name] = max(MIN_LEVELS, min(count, MAX_LEVELS, room // (len(wide) - place)))
        room = max(room - limits[name], 0)
    return limits


def choose_levels(counts: Mapping[str, int], limit: int) -> ChosenLevels:
    """The most common texts, of equally common ones the first by name. counts: cells of each text."""
    if len(counts) <= limit:
        return ChosenLevels(names=tuple(sorted(counts)))
    common = sorted(counts, key=lambda level: (-counts[level], level))[:limit]
    cells = sum(counts.values()) - sum(counts[level] for level in common)
    return ChosenLevels(names=tuple(sorted(common)), pooled=len(counts) - limit, cells=cells)
