"""Rows of a very large table beyond those that a run holds: they are read by sums alone.

A run holds a sample of the table. Theta, the choice of the basis, held-out rows and the calibration come from that;
the posterior rests on all rows, by one more pass over those beyond (`core.sparse.factors.first_sums`), which lie in
files, in this machine's or in those of a cluster. The rows held out for the report are of the sample, and no copy of
them is beyond it: whoever draws the sample keeps rows of equal inputs together.
"""

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from core.arrays import FloatArray, IntArray
from core.data import Dataset, Standardization
from core.errors import InvalidDataError, InvalidSpecError
from core.hyperparameters import Hyperparameters
from core.numeric.shards import ShardedRows
from core.predict.transforms import LEAST_TARGET, Transform
from core.process.rows import Rows
from core.sparse.factors import FirstSums, first_sums
from core.sparse.scheme import Scheme
from core.spec import Artefact, Calibrate, MeanRows, TargetTransform, TrainSpec, Variance


class BeyondRows(Protocol):
    """Rows in files."""

    @property
    def count(self) -> int:
        """Return the number of rows."""
        ...

    @property
    def target_range(self) -> tuple[float, float]:
        """Return the smallest and the largest target, in its own unit."""
        ...

    def scatter(self, unit: Standardization, transform: Transform) -> ShardedRows:
        """Return their sums, with targets under `transform` and then all standardized by `unit`."""
        ...


@dataclass(slots=True, eq=False)
class BeyondSums:
    """Sums of rows beyond a run's for one (theta, Z) after another; the last ones are kept, as a run asks for them with
    the rows that it learns from and again with all of its rows."""

    rows: Rows
    scheme: Scheme
    _last: tuple[Hyperparameters, FloatArray, FirstSums] | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls, beyond: BeyondRows, unit: Standardization, transform: Transform, groups: IntArray, scheme: Scheme
    ) -> "BeyondSums":
        """Return the sums of these rows in the units of others. groups (p,): lengthscale of each column."""
        nothing = np.empty((0, len(groups)))
        rows = Rows(X=nothing, y=np.empty(0), groups=groups, remote=beyond.scatter(unit, transform))
        return cls(rows, scheme)

    def __call__(self, Z: FloatArray, theta: Hyperparameters) -> FirstSums:
        """Return V D^-1 V' and V D^-1 y of the rows. O(n d^2), of the same (theta, Z) once. As `factorise` raises."""
        if self._last is None or self._last[0] is not theta or not np.array_equal(self._last[1], Z):
            self._last = theta, Z, first_sums(self.rows, Z, theta, self.scheme)
        return self._last[2]


def admits(transform: Transform, beyond: BeyondRows) -> bool:
    """Return whether the targets beyond can be under a transform that was chosen by others."""
    return beyond.target_range[0] > LEAST_TARGET.get(transform.kind, -np.inf)


def check_asked(kind: TargetTransform, beyond: BeyondRows) -> None:
    """Raise InvalidDataError where a transform that does not admit the targets beyond was asked for by name."""
    if kind is not TargetTransform.AUTO:
        least = beyond.target_range[0]
        raise InvalidDataError(f"target_transform: {kind} needs targets above {LEAST_TARGET[kind]:g}; one is {least:g}")


def widened(transform: Transform, beyond: BeyondRows) -> Transform:
    """Return a transform of others without a bound that targets beyond are past, and means that reach to them."""
    least, greatest = beyond.target_range
    return replace(
        transform,
        lowest=transform.lowest if least >= transform.lowest else -np.inf,
        highest=transform.highest if greatest <= transform.highest else np.inf,
        least_mean=min(transform.least_mean, least),
        greatest_mean=max(transform.greatest_mean, greatest),
    )


def with_rows_beyond(dataset: Dataset, spec: TrainSpec) -> TrainSpec:
    """Return the specification of a run with rows beyond those that it holds, whose factors no fold of its own rows can
    be taken from. InvalidSpecError for what asks more of each row than its share of the sums."""
    if spec.bounds is not None:
        raise InvalidSpecError("bounds", "they are of tables that are held in memory")
    if spec.artefact is Artefact.COMPACT:
        raise InvalidSpecError("artefact", "compact ones are of tables that are held in memory")
    if spec.variance is Variance.NEAR:
        raise InvalidSpecError("variance", "near rows are those of tables that are held in memory")
    if len(dataset.weights):
        raise InvalidSpecError("weights", "they are of tables that are held in memory")
    if dataset.others.size:
        raise InvalidSpecError("target", "several targets are learnt from tables that are held in memory")
    calibrate = None if spec.calibrate is None else Calibrate.LOO
    return replace(spec, mean_rows=MeanRows.BASIS, calibrate=calibrate)
