"""The training table and its standardization: the only place where inputs are checked."""

from dataclasses import dataclass, field, replace

import numpy as np

from core.arrays import BoolArray, FloatArray, IntArray, frozen
from core.errors import ConstantTargetError, InvalidDataError, NonFiniteError, TooFewRowsError
from core.input_transform import InputTransform
from core.row_groups import RowGroups

SMALLEST = 1e-100
"""Spread of a column or target, and one over it, past which squares leave the range of doubles."""


LEAST_WEIGHT = 1e-12
"""Weight of a row as a share of the largest, at least: what a sum in double precision still knows of it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dataset:
    """inputs (n, p) and targets (n,) in raw units, finite, n >= 2, p >= 1, the targets not all equal.

    groups: (p,), the lengthscale each column uses, 0..g-1 (empty, the default: one each).
    indicator: (p,), True for the 0/1 columns of a category, which keep their unit (empty, the default: none).
    row_groups: which rows are left out together (default: each alone).
    others: (n, k), more targets of the same rows, finite, that are learnt with the first one's theta (default: none).
    weights: (n,), above zero: a row's noise variance is that of the model over its weight, as of a mean of so many
    measurements (empty, the default: one each). Of a single target.
    input_transform: what inputs are learnt as, before they are standardized (default: as they are).
    Raises TooFewRowsError, ConstantTargetError, NonFiniteError, InvalidDataError.
    """

    inputs: FloatArray
    targets: FloatArray
    groups: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    indicator: BoolArray = field(default_factory=lambda: np.empty(0, np.bool_))
    row_groups: RowGroups = field(default_factory=RowGroups)
    others: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    weights: FloatArray = field(default_factory=lambda: np.empty(0))
    input_transform: InputTransform = field(default_factory=InputTransform)

    def __post_init__(self) -> None:
        inputs, targets = frozen(self.inputs), frozen(self.targets)
        if inputs.ndim != 2 or targets.ndim != 1 or len(inputs) != len(targets):
            raise InvalidDataError(
                f"expected inputs (n, p) and targets (n,), got shapes {inputs.shape} and {targets.shape}"
            )
        rows, columns = inputs.shape
        if columns == 0:
            raise InvalidDataError("at least one input column is needed")
        if rows < 2:
            raise TooFewRowsError(rows)
        _check_finite(inputs, targets)
        self.row_groups.check(rows)
        if targets.min() == targets.max():
            raise ConstantTargetError(float(targets[0]))
        groups = np.array(self.groups if len(self.groups) else np.arange(columns), dtype=np.int64)
        indicator = np.array(self.indicator if len(self.indicator) else np.zeros(columns), dtype=bool)
        if groups.shape != (columns,) or indicator.shape != (columns,):
            raise InvalidDataError(f"groups and indicator need one entry for each of the {columns} columns")
        if set(groups.tolist()) != set(range(int(groups.max()) + 1)):
            raise InvalidDataError("groups must use every number from 0 to their largest")
        groups.flags.writeable = False
        indicator.flags.writeable = False
        others = frozen(self.others if self.others.size else np.empty((rows, 0)))
        if others.ndim != 2 or len(others) != rows or not np.isfinite(others).all():
            raise InvalidDataError(f"others: expected finite targets ({rows}, k), got shape {others.shape}")
        weights = frozen(self.weights)
        _check_weights(weights, rows, others.shape[1])
        for name, value in (
            ("inputs", inputs),
            ("targets", targets),
            ("groups", groups),
            ("indicator", indicator),
            ("others", others),
            ("weights", weights),
        ):
            object.__setattr__(self, name, value)

    def take(self, rows: IntArray) -> "Dataset":
        """The same columns, only these rows: this very dataset where they are all of its rows, in their order."""
        if len(rows) == len(self.targets) and np.array_equal(rows, np.arange(len(rows))):
            return self
        return Dataset(
            inputs=self.inputs[rows],
            targets=self.targets[rows],
            groups=self.groups,
            indicator=self.indicator,
            row_groups=self.row_groups.take(rows),
            others=self.others[rows],
            weights=self.weights[rows] if len(self.weights) else self.weights,
            input_transform=self.input_transform,
        )

    @property
    def numbers(self) -> BoolArray:
        """Return which columns (p,) are numbers with a lengthscale of their own: no part of a category or a date."""
        return np.asarray(~self.indicator & (np.bincount(self.groups)[self.groups] == 1))

    def with_relative_weights(self) -> "Dataset":
        """Return the rows with weights of mean one, without any where all are equal.

        The noise variance is learnt, so that only their ratios say anything. With this mean the precisions of all rows
        add up to n / s2, as without weights, and s2 means what it does there: starts, bounds and priors hold.
        """
        if not len(self.weights):
            return self
        largest = self.weights.max()  # sums of huge ones overflow
        relative = self.weights / largest
        alike = bool((self.weights == largest).all())
        return replace(self, weights=np.empty(0) if alike else relative / relative.mean())

    def of_other(self, place: int) -> "Dataset":
        """Return the same rows with another of the targets, alone."""
        return replace(self, targets=self.others[:, place], others=np.empty((0, 0)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Standardization:
    """x -> (psi(x) - shift) / scale, column by column, psi the transform of the inputs, and without it for the target.

    A column that is constant in training has an infinite scale: it becomes 0 everywhere, in prediction too, since
    nothing is known of its effect.
    """

    input_shift: FloatArray
    input_scale: FloatArray
    target_shift: float
    target_scale: float
    input_transform: InputTransform = field(default_factory=InputTransform)

    def inputs(self, inputs: FloatArray) -> FloatArray:
        """Raw (m, p) to standardized (m, p)."""
        found = np.subtract(self.input_transform.forward(inputs), self.input_shift)
        found /= self.input_scale
        return np.asarray(found)

    def raw_inputs(self, inputs: FloatArray) -> FloatArray:
        """Standardized (m, p) to raw (m, p); a column without a scale is where it was in training."""
        scale = np.where(np.isfinite(self.input_scale), self.input_scale, 0.0)
        return np.asarray(self.input_transform.inverse(inputs * scale + self.input_shift))

    def targets(self, targets: FloatArray) -> FloatArray:
        """Raw (m,) to standardized (m,)."""
        return np.asarray((targets - self.target_shift) / self.target_scale)


def standardization(dataset: Dataset, *, enabled: bool = True) -> Standardization:
    """Zero mean and unit variance on the rows of `dataset`, its inputs transformed; indicator columns keep their unit.

    With enabled=False units stay as they are. Inputs are centred all the same, which no prediction can notice, and so
    is the target, since the prior's mean is zero. Mean and variance of the target are by weight, for it has noise, and
    those of the inputs are not.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # looked for, and refused by name
        return _standardization(dataset, enabled)


def _standardization(dataset: Dataset, enabled: bool) -> Standardization:
    inputs, targets = dataset.input_transform.forward(dataset.inputs), dataset.targets
    shift = inputs[0] + (inputs - inputs[0]).mean(axis=0)  # exact for a constant column, good for a huge offset
    scale = _deviation(inputs - shift)
    constant = (inputs == inputs[0]).all(axis=0)
    scale[constant] = np.inf
    extreme = np.flatnonzero(~constant & ~((scale > SMALLEST) & (scale < 1.0 / SMALLEST)))
    keeps_unit = dataset.indicator if enabled else np.ones(len(scale), bool)
    scale[keeps_unit & ~constant] = 1.0
    weights = dataset.weights if len(dataset.weights) else None
    target_shift = float(targets[0] + _mean(targets - targets[0], weights))
    target_spread = float(_deviation(targets - target_shift, weights))
    if len(extreme) or not SMALLEST < target_spread < 1.0 / SMALLEST:
        where = f"input column {extreme[0]}" if len(extreme) else "the target"
        raise InvalidDataError(f"{where}: its spread is beyond what squares of doubles hold; give it in another unit")
    return Standardization(
        input_shift=frozen(shift),
        input_scale=frozen(scale),
        target_shift=target_shift,
        target_scale=target_spread if enabled else 1.0,
        input_transform=dataset.input_transform,
    )


def _deviation(centred: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Root mean square of each column, without overflow or underflow of the squares, in whose place they are computed.
    weights (n,): of a single one."""
    largest = np.maximum(np.maximum(centred.max(axis=0), -centred.min(axis=0)), np.finfo(float).tiny)
    centred /= largest
    return np.asarray(largest * np.sqrt(_mean(np.square(centred, out=centred), weights)))


def _mean(values: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Mean of each column, by weight where there are any."""
    return np.asarray(values.mean(axis=0) if weights is None else weights @ values / weights.sum())


def _check_weights(weights: FloatArray, rows: int, others: int) -> None:
    if not weights.size:
        return
    if weights.shape != (rows,):
        raise InvalidDataError(f"weights: expected one for each of the {rows} rows, got shape {weights.shape}")
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights > 0.0)))
    if len(wrong):
        raise InvalidDataError(
            f"weights: expected numbers above zero, got {float(weights[wrong[0]])!r} in row {wrong[0]}"
        )
    if weights.min() < LEAST_WEIGHT * weights.max():
        raise InvalidDataError(
            f"weights: the smallest is {float(weights.min())!r} and the largest {float(weights.max())!r}; a row that "
            f"counts less than {LEAST_WEIGHT:g} of another has no effect: leave it out"
        )
    if others:
        raise InvalidDataError("weights: rows of several targets all count the same")


def _check_finite(inputs: FloatArray, targets: FloatArray) -> None:
    if not np.isfinite(targets).all():
        raise NonFiniteError(int(np.flatnonzero(~np.isfinite(targets))[0]), None)
    if not np.isfinite(inputs).all():
        row, column = np.argwhere(~np.isfinite(inputs))[0]
        raise NonFiniteError(int(row), int(column))
