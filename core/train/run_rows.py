"""Rows that the steps of a run learn from: some to find theta on, all but those held out, all, and those beyond.

Each step has its own rows standardized, and in a table of millions none is kept for a later one: two copies of such a
table would be most of what a training takes.
"""

from dataclasses import dataclass

import numpy as np

from core.arrays import IntArray
from core.data import Dataset, Standardization, standardization
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
    """The dataset of a run, with its target as it is learnt, the places of the rows held out for the report, and what
    adds up over its rows. beyond: more rows, of which the dataset is a sample."""

    dataset: Dataset
    held_out: IntArray
    spec: TrainSpec
    workers: int
    compute: Compute | None
    beyond: BeyondRows | None

    def searched(self) -> Subset:
        """Return the rows that theta is found on: all but those held out, or as many at random as are enough."""
        learnt = self._learnt()
        if len(learnt) <= SEARCH_ROWS:
            return self._subset(learnt)
        some = np.sort(learnt[random_of(self.spec, Stage.SEARCH).permutation(len(learnt))[:SEARCH_ROWS]])
        targets = self.dataset.targets[some]
        return self._subset(learnt if targets.min() == targets.max() else some)

    def learning(self, searched: Subset) -> Subset:
        """Return all rows but those held out: those that are searched on, where these are as many."""
        learnt = self._learnt()
        return searched if len(searched.numbers) == len(learnt) else self._subset(learnt)

    def whole(self, searched: Subset) -> Subset:
        """Return all rows: those that are searched on, where these are as many; with rows beyond, which are summed
        once, in the units of all but those held out."""
        if not len(self.held_out):
            return self.learning(searched)
        unit = None if self.beyond is None else self._unit()
        return self._subset(np.arange(len(self.dataset.targets)), unit)

    def beyond_sums(self, transform: Transform, scheme: Scheme) -> BeyondSums | None:
        """Return the sums of the rows beyond, in the units of all but those held out."""
        if self.beyond is None:
            return None
        return BeyondSums.of(self.beyond, self._unit(), transform, self.dataset.groups, scheme)

    def _learnt(self) -> IntArray:
        return np.setdiff1d(np.arange(len(self.dataset.targets)), self.held_out)

    def _unit(self) -> Standardization:
        return standardization(self.dataset.take(self._learnt()), enabled=self.spec.standardize)

    def _subset(self, numbers: IntArray, unit: Standardization | None = None) -> Subset:
        """Return these rows in their own units, or in those of others."""
        rows_beyond = 0 if self.beyond is None else self.beyond.count
        return Subset.of(
            self.dataset,
            numbers,
            standardize=self.spec.standardize,
            workers=self.workers,
            compute=self.compute,
            unit=unit,
            very_large=is_very_large(len(self.dataset.targets) + rows_beyond),
        )
