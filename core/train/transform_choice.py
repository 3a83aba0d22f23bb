"""Choice of the target's transform for `target_transform: "auto"`.

    log p(y_i | the others) = log q(g(y_i) | the others) + log g'(y_i)

on up to MOST_ROWS random rows, left out in closed form of a full GP that is adapted to each g(y), q with scales and a
tail of its own as published error bars have them (`core.predict.calibration`). The target stays as it is unless the
mean log density of another is higher by more than DOUBTS standard errors of the paired differences, and LEAST_GAIN; of
several that are as near to the best the first is taken, in the order of KINDS, which is from plain to flexible.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from core.arrays import FloatArray, IntArray
from core.data import Dataset
from core.errors import CoreError
from core.predict.calibration import fit_calibration
from core.predict.transforms import LEAST_TARGET, Transform, transform_of
from core.spec import TargetTransform
from core.train.exactly_left_out import exactly_left_out
from core.train.fit import Subset
from core.train.objective import exact_objective_and_gradient
from core.train.optimise import box, descend, heuristic
from core.train.report import TransformReport

KINDS = (
    TargetTransform.NONE,
    TargetTransform.LOG,
    TargetTransform.LOG1P,
    TargetTransform.YEO_JOHNSON,
    TargetTransform.RANK_NORMAL,
)
MOST_ROWS, STEPS = 400, 25
DOUBTS, LEAST_GAIN = 2.0, 0.01
"""Nats a row below which another scale is not worth that means and quantiles are no longer those of a normal."""
LEAST_ROWS = 30
"""Rows below which densities tell nothing of a target's distribution."""
TIED_SHARE = 0.5
"""Share of distinct targets below which ranks are no scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformChoice:
    """The transform of all targets, and why it is this one; None where it was asked for."""

    transform: Transform
    reason: str | None = None

    def report(self, targets: FloatArray) -> TransformReport:
        """Return the report on it; targets in their own unit."""
        return TransformReport.of(self.transform, values_of(targets), self.reason)


def transform_asked(
    dataset: Dataset, kind: TargetTransform, held_out: IntArray, random: np.random.Generator
) -> TransformChoice:
    """Return the transform of this kind, or the one that `auto` chooses without the held-out rows."""
    if kind is not TargetTransform.AUTO:
        return TransformChoice(transform=transform_of(kind, dataset.targets))
    return choose_transform(dataset, np.setdiff1d(np.arange(len(dataset.targets)), held_out), random)


def as_learnt(
    dataset: Dataset, kind: TargetTransform, held_out: IntArray, random: Callable[[], np.random.Generator]
) -> tuple[Dataset, list[TransformChoice]]:
    """Return the rows with every target under its transform, and these: of the first target, then of each other.

    random: makes a generator, the same for each target.
    """
    tables = [dataset, *(dataset.of_other(place) for place in range(dataset.others.shape[1]))]
    choices = [transform_asked(each, kind, held_out, random()) for each in tables]
    first, *others = [choice.transform.forward(each.targets) for choice, each in zip(choices, tables, strict=True)]
    return replace(dataset, targets=first, others=np.column_stack(others) if others else dataset.others), choices


def choose_transform(dataset: Dataset, learning: IntArray, random: np.random.Generator) -> TransformChoice:
    """Choose the transform that makes left-out rows likeliest. O(5 STEPS m^3 / 2), m up to MOST_ROWS.

    Args:
        dataset: with targets in their own unit.
        learning: rows that may be looked at, (n,): not those held out for the report.
        random: draws the rows.
    """
    looks = f"the target looks like {values_of(dataset.targets)}"
    plain = transform_of(TargetTransform.NONE, dataset.targets)
    if len(learning) < LEAST_ROWS:
        return TransformChoice(
            transform=plain, reason=f"{looks}; learnt as it is, for {len(learning)} rows are too few"
        )
    some = np.sort(random.permutation(learning)[:MOST_ROWS])
    found: dict[TargetTransform, FloatArray] = {}
    for kind in _possible(dataset.targets):
        density = _log_densities(dataset.take(some), transform_of(kind, dataset.targets))
        if density is not None:
            found[kind] = density
    best = max(found, key=lambda kind: float(found[kind].mean()), default=TargetTransform.NONE)
    chosen, told = TargetTransform.NONE, []
    standing = found.get(TargetTransform.NONE)
    if standing is None:
        return TransformChoice(transform=plain, reason=f"{looks}; learnt as it is")
    for kind, density in found.items():
        gain, doubt = _difference(density, standing)
        behind, unsure = _difference(found[best], density)
        near = behind <= max(DOUBTS * unsure, LEAST_GAIN)
        if kind is not TargetTransform.NONE:
            told.append(f"{kind} {gain:.4f} (standard error {doubt:.4f})")
        if chosen is TargetTransform.NONE and gain > max(DOUBTS * doubt, LEAST_GAIN) and near:
            chosen = kind
    gains = f"gains over none on {len(some):,} left-out rows, nats a row: {', '.join(told)}"
    return TransformChoice(
        transform=transform_of(chosen, dataset.targets), reason=f"{looks}; learnt as {chosen}: {gains}"
    )


def values_of(targets: FloatArray) -> str:
    """Return what targets (n,) look like, in words: counts, shares, never negative, or any number."""
    if targets.min() < 0.0:
        return "any number"
    if targets.max() <= 1.0:
        return "shares from 0 to 1"
    return "counts" if (targets == np.rint(targets)).all() else "a quantity that is never negative"


def _possible(targets: FloatArray) -> list[TargetTransform]:
    least, distinct = float(targets.min()), len(np.unique(targets))
    ties = distinct < TIED_SHARE * len(targets)
    return [
        kind
        for kind in KINDS
        if least > LEAST_TARGET.get(kind, -np.inf)
        and not (kind is TargetTransform.LOG1P and least < 0.0)
        and not (kind is TargetTransform.RANK_NORMAL and ties)
    ]


def _log_densities(some: Dataset, transform: Transform) -> FloatArray | None:
    """Log density of each row that is left out, (m,), in the target's unit; None where the arithmetic breaks down."""
    learnt = replace(some, targets=transform.forward(some.targets))
    try:
        subset = Subset.of(learnt, np.arange(len(some.targets)), standardize=True, workers=1)
        rows = subset.rows
        theta, _ = descend(
            partial(exact_objective_and_gradient, rows), heuristic(rows), box(rows), STEPS, settled=1e-4 * len(rows)
        )
        left_out = exactly_left_out(rows, theta, some.row_groups)
    except CoreError:
        return None
    calibration = fit_calibration(left_out)
    variance = calibration.variance(left_out.latent_variance, left_out.noise_variance, left_out.far_variance)
    density = calibration.log_density(left_out.error, variance) - np.log(subset.standardization.target_scale)
    return np.asarray(density + transform.log_slope(some.targets[left_out.places]))


def _difference(density: FloatArray, other: FloatArray) -> tuple[float, float]:
    """Mean and standard error of the paired differences."""
    gains = density - other
    return float(gains.mean()), float(gains.std() / np.sqrt(len(gains)))
