"""Noise that varies with the inputs: a small second GP on the logarithms of left-out rows' squared errors.

With errors r_i of variance l_i + s2 / w_i as the first GP sees them, w_i the weight of a row, one where it has none,

    log (r_i^2 / (l_i + s2 / w_i)) = g(x_i) + log chi^2_1,    E log chi^2_1 = -gamma - log 2,  Var = pi^2 / 2

so g, learnt as any target, is the logarithm of how much more noise there is at x than everywhere (the idea of Goldberg
et al. 1998 and Kersting et al. 2007, in one step). A mean of logarithms so noisy is drawn towards their average, and
noise that jumps is made smooth: g is multiplied by the one of SHARPER with the lowest predictive loss of left-out rows,
each row's g learnt without its fold. It is kept only where that loss falls by more than chance would have it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from core.arrays import FloatArray, IntArray
from core.data import Dataset, standardization
from core.hyperparameters import Hyperparameters
from core.mean.closed import left_out_of_blocks
from core.numeric.shards import Compute
from core.numeric.threads import map_threads, split_evenly
from core.predict.calibration import LeftOut, loss_of, scales
from core.predict.model import VaryingNoise
from core.process.rows import Rows
from core.row_groups import RowGroups
from core.selection.greedy import select
from core.sparse.factors import Factors, factorise
from core.sparse.likelihood import nlml_and_gradient
from core.sparse.posterior import posterior
from core.sparse.scheme import scheme
from core.spec import Approximation, TrainSpec
from core.train.cross_fit import predicted
from core.train.optimise import box, descend, heuristic

BASIS, POOL, ROUNDS, STEPS, NOISE_FOLDS = 64, 512, 2, 15, 5
MOST_ROWS = 20_000
"""Rows that the second GP learns from: its target is so noisy that it has no more than a few dozen directions."""
LEAST_ROWS = 200
LEAST_RATIO = 1e-8
"""Squared errors below this share of their variance count as this: an exact hit says only that noise is small."""
MOST = 10.0
"""The noise varies by no more than e to this either way."""
MOST_FOLLOWED = 3.0
"""Scale of the noise above which a mean keeps the noise of theta, for what is so much larger is not noise ..."""
LEAST_SHARE = 0.3
"""... and the share of left-out rows' squared errors that it is then taken for. A rough kernel takes noise for
roughness, and noise that is next to nothing cannot vary."""
SHARPER = (1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.7, 2.0)
_EXPECTED = -np.euler_gamma - np.log(2.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LearntNoise:
    """Noise as a function of the inputs, and the rows left out with it. gain: by how much their mean loss fell, nats a
    row.

    logarithm (m,): of the noise over the constant one at those rows, learnt without their fold.
    """

    noise: VaryingNoise
    logarithm: FloatArray
    left_out: LeftOut
    gain: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Fold:
    """Rows without a fold, and those of the fold: X, X_left (m, p) and y, y_left (m,), standardized; the lengthscale of
    each column (p,); the generator of the fold's draws."""

    X: FloatArray
    y: FloatArray
    X_left: FloatArray
    y_left: FloatArray
    groups: IntArray
    random: np.random.Generator


def left_out_in_blocks(rows: Rows, blocks: Sequence[IntArray], theta: Hyperparameters, groups: RowGroups) -> LeftOut:
    """Return the rows of some blocks, each predicted by the others of its block outside its group.

    They have as much noise as they ask for before it is learnt how it varies: that of theta, or LEAST_SHARE of their
    errors where that is more than MOST_FOLLOWED times it. As `left_out_of_blocks` raises.
    """
    places = np.concatenate(blocks)
    found = left_out_of_blocks(rows, blocks, theta, groups)
    left_out = LeftOut(
        places=places,
        error=found.error,
        latent_variance=found.latent_variance,
        noise_variance=rows.noises(theta.noise_variance)[places],
        far_variance=np.full(len(places), theta.signal_variance),
    )
    if scales(left_out)[1] <= MOST_FOLLOWED:
        return left_out
    return replace(left_out, noise_variance=max(1.0, noise_share(left_out)) * left_out.noise_variance)


def noise_share(left_out: LeftOut) -> float:
    """Return what makes the noise of left-out rows LEAST_SHARE of their squared errors, as a factor."""
    return LEAST_SHARE * float(np.mean(np.square(left_out.error) / left_out.noise_variance))


def varying_noise(
    dataset: Dataset,
    left_out: LeftOut,
    random: np.random.Generator,
    *,
    workers: int = 1,
    compute: Compute | None = None,
) -> LearntNoise | None:
    """dataset: what `left_out.places` count in; its targets are not read. None where constant noise predicts the rows
    as well. O(NOISE_FOLDS ROUNDS STEPS m BASIS^2), m at most MOST_ROWS; the folds beside each other on so many threads,
    or by `compute`, with the same numbers.
    """
    if len(left_out.error) < LEAST_ROWS:
        return None
    some = random.permutation(len(left_out.error))[:MOST_ROWS]  # also the order of the folds
    left_out = left_out.take(some)
    inputs = dataset.inputs[left_out.places]
    ratio = np.square(left_out.error) / (left_out.latent_variance + left_out.noise_variance)
    logarithms = np.log(np.maximum(ratio, LEAST_RATIO)) - _EXPECTED
    if np.ptp(logarithms) == 0.0:
        return None
    nothing = np.empty((0, 0))
    unit = standardization(
        replace(dataset, inputs=inputs, targets=logarithms, row_groups=RowGroups(), others=nothing, weights=np.empty(0))
    )
    rows = Rows(X=unit.inputs(inputs), y=unit.targets(logarithms), groups=dataset.groups, workers=workers)
    mean = np.empty(len(rows))
    splits = _splits(dataset.row_groups, left_out.places, random)
    folds = [
        _Fold(X=rows.X[rest], y=rows.y[rest], X_left=rows.X[fold], y_left=rows.y[fold], groups=rows.groups, random=own)
        for (fold, rest), own in zip(splits, random.spawn(len(splits)), strict=True)
    ]
    for (fold, _), found in zip(splits, _each(folds, workers, compute), strict=True):
        mean[fold] = found
    mean = mean * unit.target_scale + unit.target_shift
    tried = [(factor, *_varied(left_out, factor * mean)) for factor in SHARPER]
    sharper, mean, varied, loss = min(tried, key=lambda one: float(one[3].mean()))
    fall = loss_of(left_out, *scales(left_out)) - loss
    gain, doubt = float(fall.mean()), float(fall.std() / np.sqrt(len(fall)))
    if gain <= doubt:
        return None
    factors = _learnt(rows, random)
    steeper = replace(unit, target_shift=sharper * unit.target_shift, target_scale=sharper * unit.target_scale)
    fitted = posterior(factors, unit.raw_inputs(factors.Z), dataset.groups, steeper)
    noise = VaryingNoise(posterior=fitted.without_variance(), lowest=float(mean.min()), highest=float(mean.max()))
    return LearntNoise(noise=noise, logarithm=mean, left_out=varied, gain=gain)


def _each(folds: Sequence[_Fold], workers: int, compute: Compute | None) -> list[FloatArray]:
    if compute is not None:
        return compute.map(_predicted_fold, folds)
    runs = map_threads(lambda run: [_predicted_fold(fold) for fold in run], split_evenly(folds, workers))
    return [found for run in runs for found in run]


def _predicted_fold(fold: _Fold) -> FloatArray:
    """Return what is predicted for the rows of a fold, (m,)."""
    factors = _learnt(Rows(X=fold.X, y=fold.y, groups=fold.groups), fold.random)
    return np.asarray(fold.y_left - predicted(factors, fold.X_left, fold.y_left).error)


def _splits(groups: RowGroups, places: IntArray, random: np.random.Generator) -> list[tuple[IntArray, IntArray]]:
    """Folds of rows in a random order, of whole groups where there are, and the rest of each. Errors of all times are
    alike: forward folds are random ones here."""
    everything = np.arange(len(places))
    if groups.alone or groups.forward:
        return [(fold, np.setdiff1d(everything, fold)) for fold in np.array_split(everything, NOISE_FOLDS)]
    some = groups.take(places)
    return list(some.splits(some.folds(len(places), NOISE_FOLDS, random)))


def _varied(left_out: LeftOut, logarithm: FloatArray) -> tuple[FloatArray, LeftOut, FloatArray]:
    """The logarithms (m,) within their range, the rows with this noise, and the loss of each."""
    logarithm = np.clip(logarithm, -MOST, MOST)
    varied = replace(left_out, noise_variance=left_out.noise_variance * np.exp(logarithm))
    return logarithm, varied, loss_of(varied, *scales(varied))


def _learnt(rows: Rows, random: np.random.Generator) -> Factors:
    """theta and basis by ROUNDS of choosing and moving, and the factors there."""
    theta, bounds, terms = heuristic(rows), box(rows), scheme(Approximation.VFE)
    spec = TrainSpec(basis_size=min(BASIS, len(rows)), pool_size=POOL, approximation=Approximation.VFE)
    for _ in range(ROUNDS):
        Z = rows.X[select(rows, theta, spec, random).indices]
        theta, _ = descend(partial(nlml_and_gradient, rows, Z, scheme=terms), theta, bounds, STEPS)
    Z = rows.X[select(rows, theta, spec, random).indices]
    return factorise(rows, Z, theta, terms)
