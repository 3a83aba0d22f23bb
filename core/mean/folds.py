"""Folds of the rows as columns of one system: the whole in the first, the rows without a fold in each of the others.

A row that is left out has infinite noise: it is projected out of a column's vectors, and what the column predicts for
it is its left-out prediction. Of forward folds each has a column of the rows before it. One more column may be without
two folds at once: by how much its errors are larger says how errors fall as rows are added.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from core.arrays import BoolArray, FloatArray, IntArray
from core.row_groups import RowGroups

LEAST_JOINT = 4
"""Folds from which two may be left out together."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Folds:
    """fold (n,): which fold each row is in, from 0, or -1 for a row that is in every fit; count: how many there are;
    forward: a fold is predicted from those before it alone; joint: the last column is without the last two folds."""

    fold: IntArray
    count: int
    forward: bool = False
    joint: bool = False

    @classmethod
    def none(cls, rows: int) -> Self:
        """Leave no row out: the whole fit alone."""
        return cls(fold=np.full(rows, -1, np.int64), count=0)

    def with_joint(self) -> Self:
        """Return the same folds with a joint column, where it leaves at least half of them."""
        return self if self.forward or self.count < LEAST_JOINT else replace(self, joint=True)

    @classmethod
    def each_alone(cls, rows: int) -> Self:
        """Leave each row out by itself."""
        return cls(fold=np.arange(rows), count=rows)

    @property
    def columns(self) -> int:
        """Number of columns: of the whole fit, of each fold, and the joint one."""
        return 1 + self.count + self.joint

    @property
    def kept(self) -> BoolArray:
        """Rows of each column, (n, columns)."""
        columns = np.arange(-1, self.count)
        others = self.fold[:, None] < columns if self.forward else self.fold[:, None] != columns
        kept = others | (columns == -1)
        return np.column_stack((kept, self.fold < self.count - 2)) if self.joint else np.asarray(kept)

    @property
    def jointly_left(self) -> IntArray:
        """Rows that the joint column is without, increasing; none where there is no such column."""
        return np.flatnonzero(self.fold >= self.count - 2) if self.joint else np.empty(0, np.int64)

    @property
    def left(self) -> IntArray:
        """Rows that are in a fold, increasing."""
        return np.flatnonzero(self.fold >= 0)

    def left_out(self, predictions: FloatArray) -> FloatArray:
        """Return each row's prediction by the column without its fold, of predictions (n, columns); by the whole fit
        for a row that is in no fold: (n,)."""
        return np.asarray(predictions[np.arange(len(self.fold)), self.fold + 1])

    def watched(self, predictions: FloatArray) -> FloatArray:
        """Return the predictions to stop by: of the rows in a fold, or where there are no folds of all rows."""
        found = self.left_out(predictions)
        return found[self.fold >= 0] if self.count else found


def held_out_and_others(
    rows: int, held_out: IntArray, most: int, random: np.random.Generator, groups: RowGroups
) -> Folds:
    """Return at most so many folds: the held-out rows as one, where there are any, the others dealt into the rest in
    whole groups."""
    if not len(held_out):
        fold = groups.folds(rows, most, random)
        return Folds(fold=fold, count=int(fold.max()) + 1, forward=groups.forward)
    others = np.setdiff1d(np.arange(rows), held_out)
    count, fold = min(most - 1, len(others)), np.zeros(rows, np.int64)
    dealt = groups.take(others).folds(len(others), count, random)
    if groups.forward:
        fold[others], fold[held_out] = dealt, dealt.max() + 1
    else:
        fold[others] = 1 + dealt
    return Folds(fold=fold, count=int(fold.max()) + 1, forward=groups.forward)


def each_left_out(rows: int, held_out: IntArray, most: int, random: np.random.Generator, groups: RowGroups) -> Folds:
    """Return the folds of a closed form: every row or every group by itself; forward, `held_out_and_others`."""
    if groups.forward:
        return held_out_and_others(rows, held_out, most, random, groups)
    fold = np.arange(rows) if groups.alone else groups.group
    return Folds(fold=fold, count=int(fold.max()) + 1)
