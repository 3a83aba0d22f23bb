"""Noise that varies with the inputs: a small second GP on the logarithms of left-out rows' squared errors.

With errors r_i of variance l_i + s2 as the first GP sees them,

    log (r_i^2 / (l_i + s2)) = g(x_i) + log chi^2_1,    E log chi^2_1 = -gamma - log 2,  Var = pi^2 / 2

so g, learnt as any target, is the logarithm of how much more noise there is at x than everywhere (the idea of Goldberg
et al. 1998 and Kersting et al. 2007, in one step). A mean of logarithms so noisy is drawn towards their average, and
noise that jumps is made smooth: g is multiplied by the one of SHARPER with the lowest predictive loss of left-out rows,
each row's g learnt without its fold. It is kept only where that loss falls by more than chance would have it.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from core.arrays import FloatArray, IntArray
from core.data import Dataset, standardization
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


def varying_noise(
    dataset: Dataset, left_out: LeftOut, random: np.random.Generator, *, workers: int = 1
) -> LearntNoise | None:
    """dataset: what `left_out.places` count in; its targets are not read. None where constant noise predicts the rows
    as well. O(NOISE_FOLDS ROUNDS STEPS m BASIS^2), m at most MOST_ROWS.
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
    unit = standardization(
        replace(dataset, inputs=inputs, targets=logarithms, row_groups=RowGroups(), others=np.empty((0, 0)))
    )
    rows = Rows(X=unit.inputs(inputs), y=unit.targets(logarithms), groups=dataset.groups, workers=workers)
    mean = np.empty(len(rows))
    for fold, rest in _splits(dataset.row_groups, left_out.places, random):
        factors = _learnt(replace(rows, X=rows.X[rest], y=rows.y[rest]), random)
        mean[fold] = rows.y[fold] - predicted(factors, rows.X[fold], rows.y[fold]).error
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
