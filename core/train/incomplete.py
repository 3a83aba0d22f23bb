"""Training rows with missing cells: which of them a model learns from, and with which values.

A row whose missing cells matter tells of its known ones no more than a row with so much more noise,

    V_i = var_k f(x_ik)          over its completed rows x_i1 .. x_iK (`core.predict.missing`)

with f a small model of the complete rows. A fit that takes all rows as equally noisy is best, in variance of a mean,
with the N rows of least V for which (s2 + sum V / N) / N is least: rows of V up to about s2 + 2 mean V. Those are
learnt from, each with the values whose prediction is nearest to the mean of all; the others are left out, and tell how
well rows with missing cells are predicted. Rows with missing cells never pretend to be known: f is not fitted to
them where there are complete ones.

A feature is informative where it is the being missing itself that tells of the target: rows of which it is missing lie,
on average, INFORMATIVE standard errors off what integration says.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from core.arrays import BoolArray, FloatArray, IntArray
from core.data import Dataset
from core.predict.missing import COMPONENTS, DONOR_NUMBERS, MOST_DONORS, Completion, Donors
from core.predict.model import ModelPredictor
from core.spec import Adaptation, Calibrate, Noise, TrainSpec
from core.train.run import train

FIRST_ROWS, FIRST_BASIS, FIRST_ROUNDS = 1_000, 100, 2
"""Rows, basis vectors and rounds of the small model, at most."""
FIRST_DRAWS = 16
"""Completed rows of each row that V is measured on."""
FEWEST, FEWEST_EACH = 30, 10
"""Rows of the small model at least, and for each lengthscale; and of the model that is published."""
INFORMATIVE, LEAST_INFORMATIVE = 4.0, 20
"""Standard errors, and rows, from which being missing says something."""
LEAST_DEVIATION = 0.1
"""Errors of such rows are taken to vary by so much of their standard deviation at least."""
SWEEPS = 5
"""Rounds in which donors with missing cells are completed by each other."""
_STAGE = 1 << 23
"""Part of the seed, past every stage of a run."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompletedRows:
    """Rows to learn from. places (r,): which of the table's rows, increasing; inputs (r, p): complete; donors: where
    the values of missing cells come from; left_out: the other rows. marked, shifted: features whose being missing tells
    of the target; such as hardly matter otherwise, and the rows are learnt from; and such of which most rows are left
    out, and show how far off they are."""

    places: IntArray
    inputs: FloatArray
    donors: Donors
    left_out: IntArray
    marked: tuple[int, ...] = ()
    shifted: tuple[int, ...] = ()


def complete_rows(
    inputs: FloatArray,
    targets: FloatArray,
    *,
    starts: IntArray,
    groups: IntArray,
    indicator: BoolArray,
    spec: TrainSpec,
    workers: int = 1,
) -> CompletedRows:
    """Choose the rows to learn from, and complete them.

    Args:
        inputs: (n, p), NaN in all columns of each missing feature.
        targets: (n,).
        starts: where the columns of each feature begin, and p, (f + 1,).
        groups: lengthscale of each column, (p,).
        indicator: columns of 0 and 1, (p,).
        spec: of the run; its kernel, transform and seed are those of the small model.
        workers: threads.

    Returns:
        All rows, as they are, where none is missing a cell. Otherwise a training of at most FIRST_ROWS rows and
        FIRST_BASIS basis vectors, and O(FIRST_DRAWS FIRST_BASIS^2) a row with missing cells.

    Raises as `core.train.run.train` does.
    """
    random = np.random.default_rng([spec.seed, _STAGE])
    donors = choose_donors(inputs, starts=starts, fixed=indicator, random=random)
    absent = donors.missing_features(inputs)
    incomplete = np.flatnonzero(absent.any(axis=1))
    everything = np.arange(len(inputs))
    if not len(incomplete):
        return CompletedRows(places=everything, inputs=inputs, donors=donors, left_out=incomplete)
    completion = Completion(donors)
    first = _first_rows(absent, targets, FEWEST_EACH * (int(groups.max()) + 2), random)
    own = np.array(inputs)
    own[incomplete] = completion.complete(inputs[incomplete], 1)[:, 0]
    dataset = Dataset(inputs=own, targets=targets, groups=groups, indicator=indicator)
    predictor = ModelPredictor(train(dataset.take(first), _small(spec), workers=workers).model)
    found = _measured(inputs, incomplete, completion, predictor)
    own[incomplete] = found.values
    t = predictor.transform.forward(targets[incomplete])
    off = (t - found.mean) / np.sqrt(found.between + found.within)
    least = min(len(inputs), max(FEWEST, FEWEST_EACH * (int(groups.max()) + 2)))
    kept = _kept(len(inputs) - len(incomplete), found.between, float(np.median(found.within)), least)
    marked, shifted = _informative(absent[incomplete], np.where(np.isin(incomplete, first), np.nan, off), kept)
    others = kept & ~absent[incomplete][:, shifted].any(axis=1)
    if len(inputs) - len(incomplete) + np.count_nonzero(others) >= least:
        kept = others
    left_out = incomplete[~kept]
    places = np.setdiff1d(everything, left_out)
    if np.ptp(targets[places]) == 0.0:
        places, left_out = everything, np.empty(0, np.int64)
    return CompletedRows(
        places=places,
        inputs=own[places],
        donors=donors,
        left_out=left_out,
        marked=tuple(marked),
        shifted=tuple(shifted) if len(left_out) else (),
    )


def choose_donors(inputs: FloatArray, *, starts: IntArray, fixed: BoolArray, random: np.random.Generator) -> Donors:
    """Return random rows of those with the fewest missing cells, completed by each other where they have any: up to
    MOST_DONORS, fewer where they are wide."""
    most = min(MOST_DONORS, max(COMPONENTS, DONOR_NUMBERS // inputs.shape[1]))
    count = np.isnan(inputs).sum(axis=1)
    order = random.permutation(len(inputs))
    order = order[np.argsort(count[order], kind="stable")][:most]
    rows = np.array(inputs[np.sort(order)])
    gaps = np.isnan(rows)
    if not gaps.any():
        return Donors(rows=rows, starts=starts, fixed=fixed)
    given = rows.copy()
    for begin, end in pairwise(starts):  # a value of the feature's own, at random
        empty = gaps[:, begin]
        rows[empty, begin:end] = rows[random.choice(np.flatnonzero(~empty), int(empty.sum())), begin:end]
    broken = gaps.any(axis=1)
    for _ in range(SWEEPS):
        each = Completion(Donors(rows=rows, starts=starts, fixed=fixed)).complete(given[broken])
        rows[broken] = each[np.arange(len(each)), random.integers(each.shape[1], size=len(each))]
    return Donors(rows=rows, starts=starts, fixed=fixed)


@dataclass(frozen=True, slots=True, eq=False)
class _Measured:
    """Integrated predictions of the small model, of the learnt target: mean, variance between the completed rows and
    the mean one within, (m,) each; and the completed rows (m, p) that come nearest to the mean."""

    mean: FloatArray
    between: FloatArray
    within: FloatArray
    values: FloatArray


def _measured(inputs: FloatArray, rows: IntArray, completion: Completion, predictor: ModelPredictor) -> _Measured:
    parts = []
    for start in range(0, len(rows), 1024):
        each = completion.complete(inputs[rows[start : start + 1024]], min(FIRST_DRAWS, len(completion.donors.rows)))
        found = predictor.predict(each.reshape(-1, each.shape[2]))
        centre = found.centre.reshape(each.shape[:2])
        mean = centre.mean(axis=1)
        off = np.square(centre - mean[:, None])
        nearest = each[np.arange(len(each)), off.argmin(axis=1)]
        parts.append((mean, off.mean(axis=1), found.variance.reshape(each.shape[:2]).mean(axis=1), nearest))
    return _Measured(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _first_rows(absent: BoolArray, targets: FloatArray, least: int, random: np.random.Generator) -> IntArray:
    """The complete rows, some at random where they are many, and those with the fewest missing cells where they are
    few."""
    count = absent.sum(axis=1)
    order = random.permutation(len(count))
    order = order[np.argsort(count[order], kind="stable")]
    complete = int((count == 0).sum())
    some = np.sort(order[: min(FIRST_ROWS, max(complete, least, FEWEST))])
    return some if np.ptp(targets[some]) > 0.0 else np.arange(len(count))


def _small(spec: TrainSpec) -> TrainSpec:
    return TrainSpec(
        max_basis_size=FIRST_BASIS,
        kernel=spec.kernel,
        start=spec.start,
        adaptation=None if spec.adaptation is None else Adaptation(rounds=min(spec.adaptation.rounds, FIRST_ROUNDS)),
        approximation=spec.approximation,
        power=spec.power,
        calibrate=None if spec.calibrate is None else Calibrate.LOO,
        target_transform=spec.target_transform,
        noise=Noise.CONSTANT,
        standardize=spec.standardize,
        holdout=0.0,
        seed=spec.seed,
    )


def _kept(complete: int, between: FloatArray, noise: float, least: int) -> BoolArray:
    """Return which rows of these V to learn from beside the complete ones."""
    order = np.argsort(between, kind="stable")
    counts = complete + np.arange(len(between) + 1)
    sums = np.concatenate(([0.0], np.cumsum(between[order])))
    loss = np.full(len(counts), np.inf)
    enough = counts >= max(least, 1)
    loss[enough] = (noise + sums[enough] / counts[enough]) / counts[enough]
    kept = np.zeros(len(between), np.bool_)
    kept[order[: int(np.argmin(loss))]] = True
    return kept


def _informative(absent: BoolArray, off: FloatArray, kept: BoolArray) -> tuple[list[int], list[int]]:
    """Return the features whose being missing tells of the target, those to mark and those to shift.

    absent (m, f): what each row misses; off (m,): its error in standard deviations, NaN where that was fitted.
    """
    marked: list[int] = []
    shifted: list[int] = []
    for feature, gone in enumerate(absent.T):
        errors = off[gone & ~np.isnan(off)]
        if len(errors) < LEAST_INFORMATIVE:
            continue
        if abs(errors.mean()) > INFORMATIVE * max(errors.std(), LEAST_DEVIATION) / np.sqrt(len(errors)):
            most_kept = 2 * np.count_nonzero(kept & gone) >= np.count_nonzero(gone)
            (marked if most_kept else shifted).append(feature)
    return marked, shifted
