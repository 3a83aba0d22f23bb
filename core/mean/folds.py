"""Folds of the rows as columns of one system: the whole in the first, the rows without a fold in each of the others.

A row that is left out has infinite noise: it is projected out of a column's vectors, and what the column predicts for
it is its left-out prediction.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from core.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Folds:
    """fold (n,): which fold each row is in, from 0, or -1 for a row that is in every fit; count: how many there are."""

    fold: IntArray
    count: int

    @classmethod
    def none(cls, rows: int) -> Self:
        """Leave no row out: the whole fit alone."""
        return cls(fold=np.full(rows, -1, np.int64), count=0)

    @classmethod
    def random(cls, rows: int, count: int, random: np.random.Generator) -> Self:
        """Deal the rows into `count` folds of even size."""
        return cls(fold=random.permutation(rows) % count, count=count)

    @property
    def kept(self) -> BoolArray:
        """Rows of each column, (n, 1 + count)."""
        columns = np.arange(-1, self.count)
        return np.asarray((self.fold[:, None] != columns) | (columns == -1))

    def left_out(self, predictions: FloatArray) -> FloatArray:
        """Return each row's prediction by the column without it, of predictions (n, 1 + count); by the whole fit for a
        row that is in no fold: (n,)."""
        return np.asarray(predictions[np.arange(len(self.fold)), self.fold + 1])

    def watched(self, predictions: FloatArray) -> FloatArray:
        """Return the predictions to stop by: of the rows in a fold, or where there are no folds of all rows."""
        found = self.left_out(predictions)
        return found[self.fold >= 0] if self.count else found


def held_out_and_others(rows: int, held_out: IntArray, most: int, random: np.random.Generator) -> Folds:
    """Return at most so many folds: the held-out rows as the first, where there are any, the others dealt into the
    rest."""
    if not len(held_out):
        return Folds.random(rows, min(most, rows), random)
    others = np.setdiff1d(np.arange(rows), held_out)
    count = min(most - 1, len(others))
    fold = np.zeros(rows, np.int64)
    fold[others] = 1 + Folds.random(len(others), count, random).fold
    return Folds(fold=fold, count=1 + count)
