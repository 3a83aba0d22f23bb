"""Some rows of the dataset in their own units, and what a run has found so far."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import numpy as np

from core.arrays import FloatArray, IntArray
from core.data import Dataset, Standardization, standardization
from core.hyperparameters import Hyperparameters
from core.numeric.shards import Compute, ShardedRows, is_very_large, sample_cuts
from core.process.rows import Rows
from core.selection.state import Selection
from core.sparse.factors import Factors
from core.sparse.leave_one_out import LeftOutMoments, leave_one_out_of_all

Moments = tuple[FloatArray, FloatArray]
"""Means and variances, (n,) each."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Subset:
    """Rows of the dataset, standardized by their own mean and spread. numbers: their row numbers (n,), increasing.
    other_units: of the dataset's other targets."""

    numbers: IntArray
    dataset: Dataset
    rows: Rows
    standardization: Standardization
    other_units: tuple[Standardization, ...] = ()

    @classmethod
    def of(
        cls,
        dataset: Dataset,
        numbers: IntArray,
        *,
        standardize: bool,
        workers: int,
        compute: Compute | None = None,
        unit: Standardization | None = None,
        very_large: bool | None = None,
    ) -> Self:
        """These rows of the dataset. O(n p). compute: what adds up where the table is very large,
        of one target, and does other long passes. unit: of other rows,
        in place of their own. very_large: whether it is, where the dataset is a sample of it."""
        some = dataset.take(numbers)
        if unit is None:
            unit = standardization(some, enabled=standardize)
        units = tuple(
            standardization(some.of_other(place), enabled=standardize) for place in range(some.others.shape[1])
        )
        others = [each.targets(targets) for each, targets in zip(units, some.others.T, strict=True)]
        if very_large is None:
            very_large = is_very_large(len(dataset.targets))
        cuts = sample_cuts(len(dataset.targets), numbers) if very_large else ()
        scatter = None
        if compute is not None and cuts and not units:
            scatter = partial(_scatter, compute, dataset, numbers, unit)
        rows = Rows(
            X=unit.inputs(some.inputs),
            y=unit.targets(some.targets),
            groups=some.groups,
            workers=workers,
            cuts=cuts,
            remote=None if scatter is None else scatter(slice(None)),
            scatter=scatter,
            compute=compute,
            others=np.column_stack(others) if others else np.empty((0, 0)),
            weights=some.weights,
        )
        return cls(numbers=numbers, dataset=some, rows=rows, standardization=unit, other_units=units)

    def of_other(self, place: int) -> "Subset":
        """Return the same rows with another of the targets, alone."""
        return replace(
            self,
            dataset=self.dataset.of_other(place),
            rows=self.rows.of_other(place),
            standardization=self.other_units[place],
            other_units=(),
        )

    def places(self, selection: Selection) -> IntArray:
        """Places of the basis rows among the subset's, (d,)."""
        return np.searchsorted(self.numbers, selection.indices)

    def basis(self, selection: Selection) -> FloatArray:
        """The basis rows, standardized, (d, p)."""
        return np.asarray(self.rows.X[self.places(selection)])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solution:
    """theta, the basis as rows of the dataset, and where it moved to (d, p) in raw units, None where it did not."""

    theta: Hyperparameters
    selection: Selection
    moved: FloatArray | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fit:
    """A basis chosen, or moved, and the factors on it; of one subset."""

    subset: Subset
    solution: Solution
    selection: Selection
    factors: Factors
    _moments: list[LeftOutMoments] = field(default_factory=list, repr=False)

    def of_other(self, place: int) -> "Fit":
        """Return the same basis and factors with another of the targets, alone. O(n)."""
        subset, found = self.subset.of_other(place), self.left_out()
        moments = replace(
            found, mean=subset.rows.y - found.other_errors[:, place], other_errors=np.empty((len(found.mean), 0))
        )
        return replace(self, subset=subset, factors=self.factors.of_other(place), _moments=[moments])

    def leave_one_out(self) -> Moments:
        """Return mean and variance of each row given all the others (`core.sparse.leave_one_out`), standardized.

        O(n d^2), once.
        """
        found = self.left_out()
        return found.mean, found.variance

    def left_out(self) -> LeftOutMoments:
        """Return the same with the errors of the other targets."""
        if not self._moments:
            self._moments.append(leave_one_out_of_all(self.factors))
        return self._moments[0]


def _scatter(
    compute: Compute, dataset: Dataset, numbers: IntArray, unit: Standardization, places: IntArray | slice
) -> ShardedRows:
    """Let other processes read some of these rows of the dataset."""
    return compute.scatter(dataset, numbers[places], unit)
