"""Rows that the steps of a run learn from: all, all but those held out, some to find theta on, and those beyond."""

from dataclasses import dataclass

import numpy as np

from core.arrays import IntArray
from core.data import Dataset
from core.numeric.shards import Compute, is_very_large
from core.predict.transforms import Transform
from core.sparse.scheme import Scheme
from core.spec import TrainSpec
from core.train.beyond import BeyondRows, BeyondSums
from core.train.fit import Subset
from core.train.search import Stage, random_of

SEARCH_ROWS = 50_000
"""Theta is a few numbers and moves with fifty thousand rows as with millions; the model is fitted on all of them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunRows:
    """The dataset of a run, with its target as it is learnt, and what adds up over its rows. beyond: more rows, of
    which the dataset is a sample."""

    dataset: Dataset
    spec: TrainSpec
    workers: int
    compute: Compute | None
    beyond: BeyondRows | None

    def subset(self, numbers: IntArray, learning: Subset | None = None) -> Subset:
        """Return these rows in their own units, or where rows beyond are summed once in those of the learning rows."""
        rows_beyond = 0 if self.beyond is None else self.beyond.count
        return Subset.of(
            self.dataset,
            numbers,
            standardize=self.spec.standardize,
            workers=self.workers,
            compute=self.compute,
            unit=None if self.beyond is None or learning is None else learning.standardization,
            very_large=is_very_large(len(self.dataset.targets) + rows_beyond),
        )

    def searched(self, learning: Subset) -> Subset:
        """Return the rows that theta is found on: all, or as many at random as are enough."""
        rows = len(learning.numbers)
        if rows <= SEARCH_ROWS:
            return learning
        some = random_of(self.spec, Stage.SEARCH).permutation(rows)[:SEARCH_ROWS]
        targets = learning.rows.y[some]
        return learning if targets.min() == targets.max() else self.subset(np.sort(learning.numbers[some]))

    def beyond_sums(self, learning: Subset, transform: Transform, scheme: Scheme) -> BeyondSums | None:
        """Return the sums of the rows beyond, in the units of the rows that are learnt from."""
        if self.beyond is None:
            return None
        return BeyondSums.of(self.beyond, learning.standardization, transform, learning.rows.groups, scheme)
