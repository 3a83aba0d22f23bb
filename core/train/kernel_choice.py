"""Choice of the kernel for `kernel: "auto"`.

    1. theta of each family by the exact likelihood of the same random rows, from the gaussian's theta
    2. the families whose likelihood there is higher than the gaussian's, the best CHALLENGERS of them, and the gaussian
       predict the same left-out rows: on a table that is a basis of its own by leave-one-out in closed form, else by
       sparse models of some of the rows, after theta has moved on by their objective
    3. the gaussian stays unless another's log density of these rows is higher by more than a standard error of their
       paired differences, and LEAST_GAIN

The likelihood alone prefers a rough kernel where rows are few; left-out rows know what the sparse model makes of it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from core.arrays import FloatArray, IntArray
from core.hyperparameters import Hyperparameters, KernelFamily
from core.numeric.threads import map_threads
from core.predict.calibration import LeftOut, loss_of, scales
from core.process.rows import Rows
from core.process.theta import Box
from core.row_groups import RowGroups
from core.selection.greedy import select
from core.selection.size import every_row
from core.sparse.factors import Factors, factorise
from core.sparse.leave_one_out import leave_one_out
from core.sparse.likelihood import nlml_and_gradient
from core.sparse.scheme import Scheme
from core.spec import Method, TrainSpec
from core.train.cross_fit import far_variance, predicted
from core.train.exactly_left_out import exactly_left_out
from core.train.optimise import descend

KERNEL_REASON = "the kernel is "
"""Beginning of the sentence that says why it is this one."""
STEPS, FIRST_STEP = 15, 0.2
"""Evaluations for each family, from a theta that is near."""
CHALLENGERS = 2
FOLDS, MOST_LEFT_OUT = 5, 2_000
"""Folds are left out one after the other until so many rows are predicted."""
SOME_ROWS, SOME_BASIS = 4_000, 200
"""Rows and basis vectors of the sparse models, at most: fewer tell two kernels apart than make the best model."""
LEAST_GAIN = 0.005
"""Nats a row below which another kernel is not worth its slower values."""

_OTHERS = [family for family in KernelFamily if family is not KernelFamily.GAUSSIAN]

Objective = Callable[[Rows, Hyperparameters], tuple[float, FloatArray]]


def choose_kernel(
    rows: Rows,
    some: Rows,
    gaussian: Hyperparameters,
    objective: Objective,
    bounds: Box,
    spec: TrainSpec,
    scheme: Scheme,
    random: np.random.Generator,
    groups: RowGroups,
) -> tuple[Hyperparameters, str]:
    """Return theta of the kernel that predicts left-out rows best, and why it is this one.

    Args:
        rows: training rows, standardized.
        some: of them, by whose exact likelihood theta is found.
        gaussian: theta of the gaussian kernel.
        objective: negative log likelihood and its gradient.
        bounds: of theta.
        spec: largest basis.
        scheme: of the approximation.
        random: draws the left-out rows.
        groups: of the rows, of which whole ones are left out.

    Returns:
        The gaussian's theta or that of another family, and a sentence for the report. O(60 m^3 / 2) for m = len(some),
        and up to 3 STEPS evaluations of a sparse model and 3 FOLDS fits.
    """

    def moved(family: KernelFamily) -> tuple[Hyperparameters, float]:
        start = replace(gaussian, kernel=family)
        return descend(
            lambda theta: objective(some, theta), start, bounds, STEPS, settled=1e-4 * len(some), first_step=FIRST_STEP
        )

    (standing, level), *others = map_threads(moved, [KernelFamily.GAUSSIAN, *_OTHERS])
    likelier = sorted((pair for pair in others if pair[1] < level), key=lambda pair: pair[1])[:CHALLENGERS]
    if not likelier:
        return gaussian, f"{KERNEL_REASON}gaussian: no other makes {len(some):,} rows likelier"
    everything = every_row(rows, spec)
    if everything is not None:
        judged = _Complete(rows, rows.X[everything.indices], scheme, groups).judge
    else:
        judged = _Sparse(rows, spec, scheme, bounds, random, groups).judge
    (_, loss), best, best_gain, compared = judged(standing), gaussian, 0.0, []
    for theta, _ in likelier:
        adapted, other_loss = judged(theta)
        fall = loss - other_loss
        gain, doubt = float(fall.mean()), float(fall.std() / np.sqrt(len(fall)))
        compared.append(f"{theta.kernel} {gain:.4f} (standard error {doubt:.4f})")
        if gain > max(doubt, LEAST_GAIN, best_gain):
            best, best_gain = adapted, gain
    gains = f"gains over the gaussian on {len(loss):,} left-out rows, nats a row: {', '.join(compared)}"
    return best, f"{KERNEL_REASON}{best.kernel}: {gains}"


@dataclass(frozen=True, slots=True, eq=False)
class _Complete:
    """A table whose distinct rows Z are the basis."""

    rows: Rows
    Z: FloatArray
    scheme: Scheme
    groups: RowGroups

    def judge(self, theta: Hyperparameters) -> tuple[Hyperparameters, FloatArray]:
        """Return theta and the loss of every row by leave-one-out, or without its group, nats."""
        if not self.groups.alone:
            return theta, _loss(exactly_left_out(self.rows, theta, self.groups))
        return theta, _loss(_by_leave_one_out(factorise(self.rows, self.Z, theta, self.scheme)))


class _Sparse:
    """Sparse models on some of the rows, with fewer basis vectors than will be chosen."""

    def __init__(
        self,
        rows: Rows,
        spec: TrainSpec,
        scheme: Scheme,
        bounds: Box,
        random: np.random.Generator,
        groups: RowGroups,
    ) -> None:
        order = random.permutation(len(rows))[:SOME_ROWS]
        self._rows, self._scheme, self._bounds = rows.take(order, workers=rows.workers), scheme, bounds
        everything, some = np.arange(len(order)), groups.take(order)
        if groups.alone:
            splits = [(fold, np.setdiff1d(everything, fold)) for fold in np.array_split(everything, FOLDS)]
        else:
            splits = list(some.splits(some.folds(len(order), FOLDS, random)))
        self._splits = splits[: -(-MOST_LEFT_OUT // len(splits[0][0]))]
        # the other methods take long, and memory of their own
        method = Method.BATCH if spec.method is Method.BATCH else Method.RAND
        size = min(spec.most_basis, SOME_BASIS, *(len(rest) for _, rest in self._splits))
        self._spec = replace(spec, method=method, basis_size=size)
        self._seed = int(random.integers(2**32))

    def judge(self, theta: Hyperparameters) -> tuple[Hyperparameters, FloatArray]:
        """Return theta moved on by the sparse objective, and the loss of each left-out row, nats."""
        objective = partial(nlml_and_gradient, self._rows, self._basis(self._rows, theta), scheme=self._scheme)
        theta, _ = descend(objective, theta, self._bounds, STEPS, first_step=FIRST_STEP)
        return theta, _loss(LeftOut.joined([self._predicted(theta, *split) for split in self._splits]))

    def _predicted(self, theta: Hyperparameters, fold: IntArray, rest: IntArray) -> LeftOut:
        fitted = self._rows.take(rest, workers=self._rows.workers)
        factors = factorise(fitted, self._basis(fitted, theta), theta, self._scheme)
        weights = self._rows.weights[fold] if self._rows.weighted else None
        return predicted(factors, self._rows.X[fold], self._rows.y[fold], weights=weights)

    def _basis(self, rows: Rows, theta: Hyperparameters) -> FloatArray:
        return np.asarray(rows.X[select(rows, theta, self._spec, np.random.default_rng(self._seed)).indices])


def _by_leave_one_out(factors: Factors) -> LeftOut:
    mean, variance = leave_one_out(factors)
    noise = factors.rows.noises(factors.hyperparameters.noise_variance)
    count = len(mean)
    return LeftOut(
        places=np.arange(count),
        error=factors.rows.y - mean,
        latent_variance=np.maximum(variance - noise, 0.0),
        noise_variance=noise,
        far_variance=np.full(count, far_variance(factors)),
    )


def _loss(left_out: LeftOut) -> FloatArray:
    return loss_of(left_out, *scales(left_out))
