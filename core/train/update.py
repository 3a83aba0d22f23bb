"""New rows for a model that is there: theta, units and basis as they are, everything else as if fitted with them.

    sparse      information += V D^-1 V', b += V D^-1 y of the new rows; minus those of rows to forget: O(k d^2 + d^3)
    more basis  the rows that are kept once more, with basis vectors from the new rows: O(n d^2)
    own mean    a mean on rows of its own, and a full process: the system of all rows solved again at the same theta;
                conjugate gradients begin at the old weights (`core.train.full_process`, `core.train.mean_choice`)

Rows were predicted before they were learnt from, so that their errors are honest left-out errors: they join those of
the training, from which scales and quantiles are fitted again (the noise model of a sparse posterior stays). And they
tell whether the model still holds: `Drift`. A basis of m more vectors is a pivoted Cholesky factorisation of what the
basis leaves unexplained of the new rows (Burt et al. 2020).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from core.arrays import FloatArray, IntArray
from core.data import Dataset, Standardization
from core.errors import InvalidDataError
from core.numeric.linalg import cholesky, solve_vector
from core.predict.calibration import LeftOut, fit_calibration
from core.predict.model import Model, ModelPredictor, log_noise
from core.process.rows import Rows
from core.row_groups import groups_of_equal_rows, row_hashes
from core.selection.state import Selection
from core.sparse.factors import Factors, factorise
from core.sparse.posterior import posterior
from core.sparse.scheme import Scheme, scheme
from core.spec import MeanRows, TrainSpec
from core.train.calibrate import calibrate_by
from core.train.cross_fit import left_out_in_closed_form
from core.train.drift import Drift, drift_of
from core.train.fit import Fit, Solution, Subset
from core.train.full_choice import FullModel
from core.train.full_process import full_process
from core.train.mean_choice import choose_mean
from core.train.search import Stage
from core.train.state import NewRows, TrainingState, right_side

POOL_ROWS = 2_000
"""New rows that basis vectors are chosen from, at most."""
LEAST_UNEXPLAINED = 1e-6
"""Share of the prior variance that a basis vector must add."""

Tell = Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Update:
    """A model after an update. how: by which of the ways of the module; basis_numbers: row numbers of the basis vectors
    that were added; recalibrated: whether scales and quantiles are new."""

    model: Model
    state: TrainingState
    drift: Drift
    how: str
    basis_numbers: IntArray
    recalibrated: bool


def update(
    model: Model,
    state: TrainingState,
    new: NewRows,
    spec: TrainSpec,
    *,
    forget: IntArray | None = None,
    extra_basis: int = 0,
    expected_nlpd: float | None = None,
    workers: int = 1,
    tell: Tell = lambda _: None,
) -> Update:
    """Return the model with new rows, and without those to forget.

    Args:
        model: with its error bars.
        state: of its training.
        new: rows to learn; none where there are some to forget.
        spec: of its training.
        forget: numbers of rows to forget.
        extra_basis: basis vectors to add from the new rows.
        expected_nlpd: what left-out rows lost in training, in the target's unit, nats a row.
        workers: threads.
        tell: hears the share that is done; may raise to cancel.

    Raises:
        InvalidDataError: rows that are not the model's; rows to forget or more basis vectors where the rows themselves
            were not kept; a target that the model's transform does not take.
        NumericalError: the arithmetic broke down.
    """
    task = _Update(model, state, new, spec, np.empty(0, np.int64) if forget is None else forget, workers, tell)
    if not len(new.targets) + len(task.forgotten):
        raise InvalidDataError("there are no rows to learn and none to forget")
    drift = drift_of(model, state, new, expected_nlpd)
    if model.near is not None:
        if extra_basis:
            raise InvalidDataError("extra_basis: a full process has no basis vectors, every row is one")
        return task.full(drift)
    extra = task.chosen(extra_basis)
    if model.mean is not None:
        return task.with_mean(drift, extra, len(model.mean.basis))
    return task.sparse(drift, extra)


class _Update:
    """The parts that all ways share."""

    def __init__(
        self,
        model: Model,
        state: TrainingState,
        new: NewRows,
        spec: TrainSpec,
        forget: IntArray,
        workers: int,
        tell: Tell,
    ) -> None:
        self.model, self.state, self.new, self.spec = model, state, new, spec
        self.workers, self.tell = workers, tell
        self.unit: Standardization = model.posterior.standardization
        self.theta = model.posterior.hyperparameters
        self.groups = model.posterior.groups.astype(np.int64)
        self.scheme: Scheme = scheme(spec.approximation, spec.power)
        self.learnt = _transformed(model, new.targets)
        if len(forget) and state.beyond:
            raise InvalidDataError(_too_many("rows to forget", state))
        self.forgotten = state.places(forget) if len(forget) else np.empty(0, np.int64)
        if len(np.unique(self.forgotten)) < len(self.forgotten):
            raise InvalidDataError("forget: expected every row once")
        if len(self.forgotten) and not state.has_rows:
            raise InvalidDataError(_too_many("rows to forget", state))
        self.kept = np.setdiff1d(np.arange(len(state.numbers)), self.forgotten)
        if state.beyond + len(self.kept) + len(new.targets) < 2:
            raise InvalidDataError("forget: at least 2 rows must be left")
        self.rows = self._rows(new.inputs, self.learnt)

    def chosen(self, count: int) -> IntArray:
        """Return which new rows become basis vectors, up to `count`, fewer where no more add anything."""
        if not count or not len(self.rows):
            return np.empty(0, np.int64)
        if not self.state.has_rows:
            raise InvalidDataError(_too_many("extra_basis", self.state))
        pool = np.unique(np.linspace(0, len(self.rows) - 1, min(POOL_ROWS, len(self.rows))).astype(np.int64))
        inputs = self.new.inputs[pool]
        return self._pivots(pool, inputs, count)

    def _pivots(self, pool: IntArray, inputs: FloatArray, count: int) -> IntArray:
        """Pivoted Cholesky of K - V'V of the pool."""
        factors = factorise(self._rows(inputs, self.learnt[pool]), self._Z(), self.theta, self.scheme, keep=False)
        kernel, X = factors.kernel, self.unit.inputs(inputs)
        V = factors.lower.solve(kernel.cross(factors.Z, X))
        left = kernel.diagonal - np.einsum("dm,dm->m", V, V)
        picked: list[int] = []
        R = np.zeros((0, len(pool)))
        while len(picked) < min(count, len(pool)):
            best = int(np.argmax(left))
            if left[best] < LEAST_UNEXPLAINED * kernel.diagonal:
                break
            row = kernel.cross(X[best : best + 1], X)[0] - V[:, best] @ V - R[:, best] @ R
            row /= np.sqrt(left[best])
            R = np.vstack((R, row))
            left = left - np.square(row)
            left[best] = 0.0
            picked.append(best)
        return np.asarray(pool[picked], np.int64)

    def sparse(self, drift: Drift, extra: IntArray) -> Update:
        """A posterior of a basis, whose mean is its own."""
        basis = np.concatenate((self.model.posterior.basis, self.new.inputs[extra]))
        if len(extra):
            factors = factorise(self._rows(*self._every_row()), self.unit.inputs(basis), self.theta, self.scheme)
        else:
            factors = self._summed()
        self.tell(0.7)
        fitted = posterior(factors, basis, self.groups, self.unit)
        left_out, calibration = self._left_out(), self.model.calibration
        if left_out is not None:
            calibration = fit_calibration(left_out, self.spec.intervals)
        found = replace(self.model, posterior=fitted, calibration=calibration)
        state = self._state(factors, left_out)
        how = "basis" if len(extra) else "sums"
        return self._update(found, state, drift, how, extra, recalibrated=left_out is not None)

    def with_mean(self, drift: Drift, extra: IntArray, centres: int) -> Update:
        """Beside such a posterior a mean on rows of its own."""
        if not self.state.has_rows:
            raise InvalidDataError(_too_many("rows for a mean on rows of its own", self.state))
        subset = self._subset()
        basis = np.concatenate((self.model.posterior.basis, self.new.inputs[extra]))
        factors = factorise(subset.rows, self.unit.inputs(basis), self.theta, self.scheme)
        seed = (self.spec.seed, Stage.CALIBRATE)
        fit = Fit(
            subset=subset,
            solution=Solution(theta=self.theta, selection=_NOTHING, moved=basis),
            selection=_NOTHING,
            factors=factors,
        )
        own = np.flatnonzero(np.isin(row_hashes(subset.dataset.inputs), row_hashes(basis)))
        left_out = left_out_in_closed_form(factors, fit.leave_one_out(), own)
        read = calibrate_by(subset.dataset, left_out, self.spec, seed, "leave-one-out", self.workers)
        every = centres == self.state.rows
        mean_rows: MeanRows | int = MeanRows.ALL if every else min(centres, len(subset.rows))
        choice = choose_mean(
            fit,
            read,
            replace(self.spec, mean_rows=mean_rows),
            self.model.transform,
            self.model.transform.inverse(subset.dataset.targets),
            seed,
            held_out=np.empty(0, np.int64),
            seconds=0.0,
            tell=lambda share: self.tell(0.2 + 0.7 * share),
        )
        served = choice.mean
        if served is None:
            raise InvalidDataError("the mean on rows of its own cannot be fitted again: train the model again")
        fitted = posterior(factors, basis, self.groups, self.unit)
        found = replace(
            self.model,
            posterior=fitted,
            mean=replace(fitted.without_variance(), basis=subset.dataset.inputs[served.places], alpha=served.alpha),
            noise=None if served.read.noise is None else served.read.noise.noise,
            calibration=served.read.calibration,
        )
        return self._update(found, self._state(factors, served.read.left_out), drift, "mean", extra, recalibrated=True)

    def full(self, drift: Drift) -> Update:
        """A full process, its mean from the old weights on."""
        subset = self._subset()
        start = np.concatenate((self.model.posterior.alpha[self.kept], np.zeros(len(self.new.targets))))
        random, nothing = np.random.default_rng((self.spec.seed, Stage.FULL)), np.empty(0, np.int64)
        process = full_process(
            subset, nothing, self.theta, self.spec, (self.spec.seed, Stage.FULL), random, self.tell, start=start
        )
        whole = FullModel(process=process, subset=subset, held_out=nothing, seconds=0.0)
        found = whole.model(subset.dataset.inputs, self.groups, self.model.transform)
        found = replace(found, precision=self.model.precision)
        state = self._state(None, process.read.left_out)
        everything = np.arange(len(self.new.targets))
        return self._update(found, state, drift, "full", everything, recalibrated=True)

    def _summed(self) -> Factors:
        """Factors by the sums of the state: those of the new rows, with all that all rows add up to."""
        Z, information, b = self._Z(), self.state.information, self.state.b
        if len(self.rows):
            own = factorise(self.rows, Z, self.theta, self.scheme, keep=False)
            information, b = information + own.information, b + right_side(own)
        if len(self.forgotten):
            gone = self._rows(self.state.inputs[self.forgotten], self.state.targets[self.forgotten])
            less = factorise(gone, Z, self.theta, self.scheme, keep=False)
            information, b = information - less.information, b - right_side(less)
            own = own if len(self.rows) else less
        LB = cholesky(information + np.eye(len(b)), "B = I + V D^-1 V'")
        c = solve_vector(LB, solve_vector(LB, b), transposed=True)
        return replace(own, information=information, LB=LB, c=c, alpha=solve_vector(own.L, c, transposed=True))

    def _left_out(self) -> LeftOut | None:
        """Left-out rows of the training, without those forgotten, and the new rows as the model predicted them; None
        where the training kept none."""
        before = self.state.left_out
        if before is None:
            return None
        place_of = np.full(len(self.state.numbers), -1)
        place_of[self.kept] = np.arange(len(self.kept))
        before = before.take(np.flatnonzero(place_of[before.places] >= 0))
        before = replace(before, places=place_of[before.places])
        if not len(self.rows):
            return before
        scale = self.unit.target_scale
        found = ModelPredictor(self.model).predictor.moments(self.new.inputs)  # whose mean is the posterior's
        count, noise = len(self.rows), np.full(len(self.rows), self.theta.noise_variance)
        if self.model.noise is not None:
            noise = noise * np.exp(log_noise(self.model.noise, self.new.inputs))
        group = np.empty(0, np.int64)
        if len(before.group):
            group = before.group.max() + 1 + groups_or_alone(self.new.inputs)
        now = LeftOut(
            places=len(self.kept) + np.arange(count),
            error=(self.learnt - found.mean) / scale,
            latent_variance=found.latent_variance / scale**2,
            noise_variance=noise,
            far_variance=np.full(count, found.far_variance / scale**2),
            group=group,
        )
        floor = before.noise_floor
        return replace(LeftOut.joined([before, now]), noise_floor=floor)

    def _subset(self) -> Subset:
        """Return all rows, in the units of the training."""
        inputs, targets = self._every_row()
        dataset = Dataset(inputs=inputs, targets=targets, groups=self.groups, row_groups=groups_of_equal_rows(inputs))
        rows = self._rows(dataset.inputs, dataset.targets)
        return Subset(numbers=np.arange(len(targets)), dataset=dataset, rows=rows, standardization=self.unit)

    def _every_row(self) -> tuple[FloatArray, FloatArray]:
        """Raw inputs and learnt targets of the rows that are kept, and of the new ones."""
        state = self.state
        inputs = np.concatenate((state.inputs[self.kept], self.new.inputs))
        return inputs, np.concatenate((state.targets[self.kept], self.learnt))

    def _rows(self, inputs: FloatArray, learnt: FloatArray) -> Rows:
        X, y = self.unit.inputs(inputs), self.unit.targets(learnt)
        return Rows(X=X, y=y, groups=self.groups, workers=self.workers)

    def _Z(self) -> FloatArray:
        return self.unit.inputs(self.model.posterior.basis)

    def _state(self, factors: Factors | None, left_out: LeftOut | None) -> TrainingState:
        numbers = np.concatenate((self.state.numbers[self.kept], self.new.numbers))
        state, added = self.state, self.state.added + len(self.new.targets)
        if state.has_rows:
            inputs, targets = self._every_row()
            return TrainingState.of(
                inputs, targets, factors, left_out, numbers=numbers, trained=state.trained, added=added
            )
        assert factors is not None
        nothing = state.inputs[:0], state.targets[:0]
        return TrainingState.of(
            *nothing, factors, left_out, numbers=numbers, trained=state.trained, added=added, beyond=state.beyond
        )

    def _update(
        self, model: Model, state: TrainingState, drift: Drift, how: str, extra: IntArray, *, recalibrated: bool
    ) -> Update:
        self.tell(1.0)
        return Update(
            model=model,
            state=state,
            drift=drift,
            how=how,
            basis_numbers=self.new.numbers[extra],
            recalibrated=recalibrated,
        )


_NOTHING = Selection(indices=np.empty(0, np.int64), gains=np.empty(0), reason="as in the training")


def groups_or_alone(inputs: FloatArray) -> IntArray:
    """Return the group of each row of equal inputs, each by itself where none are equal, (k,)."""
    _, group = np.unique(row_hashes(inputs), return_inverse=True)
    return np.asarray(group.reshape(-1), np.int64)


def _transformed(model: Model, targets: FloatArray) -> FloatArray:
    """Targets as they are learnt, (k,). InvalidDataError naming the first that has no transform."""
    with np.errstate(all="ignore"):  # looked for
        learnt = model.transform.forward(targets)
    bad = np.flatnonzero(~np.isfinite(learnt))
    if len(bad):
        raise InvalidDataError(
            f"row {bad[0]}: the target {targets[bad[0]]:g} cannot be learnt as {model.transform.kind}, "
            "as those of the model are"
        )
    return learnt


def _too_many(what: str, state: TrainingState) -> str:
    return (
        f"{what}: the model keeps the sums over its {state.rows:,} rows and not the rows themselves, which are "
        'too many; train it again, with "from" to begin where it is'
    )
