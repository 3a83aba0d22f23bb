"""core/train/calibrate.py: by which rows a run calibrates, that they are none the fit has seen, and that it helps."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import core.train.calibrate
import core.train.fold_fits
import core.train.run
from core.arrays import IntArray
from core.data import Dataset
from core.numeric.linalg import JITTERS
from core.predict.calibration import LeftOut
from core.predict.distribution import PredictiveDistribution
from core.predict.metrics import scores
from core.predict.model import ModelPredictor
from core.selection.pool import pursue
from core.sparse.factors import Factors
from core.spec import (
    Adaptation,
    Approximation,
    Calibrate,
    Gain,
    Intervals,
    Noise,
    Refinement,
    TargetTransform,
    TrainSpec,
)
from core.train.calibrate import MANY_ROWS, calibration_method
from core.train.cross_fit import CROSS_FIT_FOLDS, left_out_by_folds
from core.train.refine import refine
from core.train.report import TrainResult
from core.train.run import train
from tests.core.problems import oracle_params
from tests.core.runs import (
    QUICK,
    START,
    assert_same_bits,
    assert_same_model,
    assert_same_posterior,
    checkpoints_of,
    table,
)
from tests.dense.compact import far_variance, stretched
from tests.dense.kernel import Sparse
from tests.dense.loo import leave_one_out

EVERYTHING: dict[str, Any] = {
    "target_transform": TargetTransform.YEO_JOHNSON,
    "noise": Noise.INPUT_DEPENDENT,
    "intervals": Intervals.ASYMMETRIC,
}


def coverage(result: TrainResult, inputs: Any, targets: Any, level: float) -> float:
    lower, upper = ModelPredictor(result.model).predict(inputs).interval(level)
    return float(np.mean((lower <= targets) & (targets <= upper)))


# By which rows


@pytest.mark.parametrize(
    ("rows", "basis_size", "expected"),
    [
        (20 * MANY_ROWS, 20, Calibrate.LOO),
        (20 * MANY_ROWS - 1, 20, Calibrate.CROSS_FIT),
        (9 * MANY_ROWS, 10, Calibrate.CROSS_FIT),
    ],
)
def test_auto_takes_the_cheapest_that_holds(rows: int, basis_size: int, expected: Calibrate) -> None:
    assert calibration_method(TrainSpec(), rows, basis_size) is expected
    for asked in (Calibrate.LOO, Calibrate.CROSS_FIT):
        assert calibration_method(TrainSpec(calibrate=asked), rows, basis_size) is asked
    assert calibration_method(TrainSpec(calibrate=None), rows, basis_size) is None


@pytest.mark.usefixtures("short_search")
def test_the_report_says_by_what() -> None:
    """All 90 rows, the held-out ones too; leave-one-out takes those of the basis, where so few others are there."""
    dataset = table()
    found = {asked: train(dataset, TrainSpec(**QUICK, calibrate=asked)).report for asked in (None, *Calibrate)}
    assert [report.calibration.by for report in found.values()] == [
        "nothing",
        "cross-fitting",
        "leave-one-out",
        "cross-fitting",
    ]
    assert [report.calibration.rows for report in found.values()] == [0, 90, 90, 90]
    nothing = found[None].calibration
    assert (nothing.latent_scale, nothing.noise_scale, nothing.most_level) == (1.0, 1.0, 1.0)
    assert found[Calibrate.LOO].calibration.most_level == pytest.approx(90 / 91, rel=1e-12)
    assert "0.99" in found[Calibrate.LOO].leave_one_out.coverage
    assert "0.95" in found[Calibrate.LOO].leave_one_out.coverage
    many = train(table(n=400), TrainSpec(basis_size=3, adaptation=None, start=START, holdout=0.0)).report.calibration
    assert (many.by, many.rows) == ("leave-one-out", 397)


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize("asked", list(Calibrate))
def test_calibration_changes_error_bars_and_nothing_else(asked: Calibrate) -> None:
    """The published posterior is the uncalibrated one, read with the report's scales on its two parts."""
    dataset, new = table(3, n=150), table(50).inputs
    plain = train(dataset, TrainSpec(**QUICK, calibrate=None))
    calibrated = train(dataset, TrainSpec(**QUICK, calibrate=asked))
    np.testing.assert_array_equal(calibrated.selection.indices, plain.selection.indices)
    np.testing.assert_array_equal(calibrated.model.posterior.alpha, plain.model.posterior.alpha)
    assert_same_posterior(calibrated.model.posterior, plain.model.posterior)
    report = calibrated.report.calibration
    assert report.latent_scale != 1.0
    assert plain.model.calibration.latent_scale == plain.model.calibration.noise_scale == 1.0
    X = (dataset.inputs - dataset.inputs.mean(axis=0)) / dataset.inputs.std(axis=0)
    params = oracle_params(plain.report.hyperparameters, dataset.groups)
    y = (dataset.targets - dataset.targets.mean()) / dataset.targets.std()
    dense = Sparse("pep", params, X, y, X[plain.selection.indices], 0.7, JITTERS[0])
    far = far_variance(dense) * dataset.targets.var()
    ours, theirs = (ModelPredictor(result.model).predict(new) for result in (calibrated, plain))
    np.testing.assert_array_equal(ours.centre, theirs.centre)
    expected = stretched(theirs.latent.variance, far, report.latent_scale)
    np.testing.assert_allclose(ours.latent.variance, expected, rtol=1e-7)
    np.testing.assert_array_equal(ours.support, theirs.support)
    noise, scaled = (forecast.variance - forecast.latent.variance for forecast in (theirs, ours))
    np.testing.assert_allclose(scaled, report.noise_scale * noise, rtol=1e-9)
    assert calibrated.report.leave_one_out.rmse == plain.report.leave_one_out.rmse


@pytest.mark.parametrize("approximation", list(Approximation))
def test_leave_one_out_scores_are_read_through_the_calibration(approximation: Approximation) -> None:
    """Scores by n deletions of the reported model, its two variances scaled, its quantiles those of the table."""
    dataset = table(4, n=130)  # more than have their coverage by calibrations that have not seen them
    spec = TrainSpec(approximation=approximation, power=0.3, calibrate=Calibrate.LOO, noise=Noise.CONSTANT, **QUICK)
    result = train(dataset, spec)
    calibration, report = result.model.calibration, result.report
    X = (dataset.inputs - dataset.inputs.mean(axis=0)) / dataset.inputs.std(axis=0)
    unit, shift = dataset.targets.std(), dataset.targets.mean()
    params = oracle_params(report.hyperparameters, dataset.groups)
    Z, y = X[result.selection.indices], (dataset.targets - shift) / unit
    dense = Sparse(approximation.value, params, X, y, Z, spec.power, JITTERS[0])
    mean, variance = leave_one_out(dense)
    scaled = stretched(variance - params.s2, far_variance(dense), report.calibration.latent_scale)
    scaled += report.calibration.noise_scale * params.s2
    predicted = PredictiveDistribution(centre=shift + unit * mean, variance=unit**2 * scaled, calibration=calibration)
    expected = scores(dataset.targets, predicted)
    assert report.leave_one_out.nlpd == pytest.approx(expected.nlpd, rel=1e-5)
    assert report.leave_one_out.crps == pytest.approx(expected.crps, rel=1e-5)
    for name, width in expected.mean_width.items():
        assert report.leave_one_out.mean_width[name] == pytest.approx(width, rel=1e-5)
        assert report.leave_one_out.coverage[name] == pytest.approx(expected.coverage[name], abs=1.5 / 130)


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("adaptation", [None, Adaptation(rounds=1, steps=3)])
def test_folds_choose_their_basis_among_their_own_rows(
    adaptation: Adaptation | None, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the rows nor the basis of a fold's fit hold any row of the fold; theta moves where it was adapted.

    shared: folds choose from one pool, as they do where bases are large.
    """
    moved = []
    if shared:
        monkeypatch.setattr(core.train.fold_fits, "SMALL_BASIS", 9)

    def watched(rows: Any, fit: Any, random: np.random.Generator, groups: Any, **options: Any) -> LeftOut:
        def watch(number: int, rest: IntArray) -> Factors:
            factors: Factors = fit(number, rest)
            np.testing.assert_array_equal(factors.rows.X, rows.X[rest])
            np.testing.assert_array_equal(factors.rows.y, rows.y[rest])
            own = {row.tobytes() for row in rows.X[rest]}
            assert len(factors.Z)
            assert all(vector.tobytes() in own for vector in factors.Z)
            moved.append(factors.hyperparameters.noise_variance != START.noise_variance)
            return factors

        return left_out_by_folds(rows, watch, random, groups, **options)

    monkeypatch.setattr(core.train.calibrate, "left_out_by_folds", watched)
    train(table(), TrainSpec(basis_size=10, adaptation=adaptation, start=START, calibrate=Calibrate.CROSS_FIT))
    assert moved == [adaptation is not None] * len(moved)
    assert 1 < len(moved) <= CROSS_FIT_FOLDS


@pytest.mark.parametrize("gain", [gain for gain in Gain if gain is not Gain.VARIANCE])  # its first row is a draw
def test_folds_that_share_a_pool_choose_as_if_they_had_their_own(gain: Gain, monkeypatch: pytest.MonkeyPatch) -> None:
    """The share of a fold in the pool's sums is taken off again: the same basis, the same predictions to rounding."""
    monkeypatch.setattr(core.train.fold_fits, "SMALL_BASIS", 9)
    fits: list[tuple[IntArray, Factors]] = []

    def watched(rows: Any, fit: Any, random: np.random.Generator, groups: Any, **options: Any) -> LeftOut:
        def watch(number: int, rest: IntArray) -> Factors:
            fits.append((rest, fit(number, rest)))
            return fits[-1][1]

        return left_out_by_folds(rows, watch, random, groups, **options)

    monkeypatch.setattr(core.train.calibrate, "left_out_by_folds", watched)
    dataset = table(6, n=150)
    spec = TrainSpec(
        basis_size=12,
        gain=gain,
        adaptation=None,
        start=START,
        calibrate=Calibrate.CROSS_FIT,
        holdout=0.0,
        pool_size=200,
    )
    result = train(dataset, spec)
    X = (dataset.inputs - dataset.inputs.mean(axis=0)) / dataset.inputs.std(axis=0)
    assert result.report.calibration.rows == 150
    for rest, factors in fits:
        np.testing.assert_allclose(factors.rows.X, X[rest], rtol=1e-9, atol=1e-12)
        alone = pursue(factors.rows, np.arange(len(rest)), START, 12, gain)
        same = {row.tobytes() for row in factors.Z}
        assert {row.tobytes() for row in factors.rows.X[alone.indices]} == same


# The same again


@pytest.mark.usefixtures("short_search")
def test_same_seed_same_bits() -> None:
    dataset = table(8, n=240)
    spec = TrainSpec(**QUICK, **EVERYTHING)
    first = train(dataset, spec)
    assert len(first.model.calibration.probabilities)
    assert_same_bits(train(dataset, spec), first)
    other = train(dataset, TrainSpec(**QUICK, **EVERYTHING, seed=1))
    assert other.model.calibration.quantiles.tolist() != first.model.calibration.quantiles.tolist()


@pytest.mark.slow
@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize("refinement", [None, Refinement(steps=5)])
@pytest.mark.parametrize("calibrate", [Calibrate.LOO, Calibrate.CROSS_FIT])
def test_resumed_run_gives_the_same_calibration(calibrate: Calibrate, refinement: Refinement | None) -> None:
    """Resumed from the last two checkpoints, with a transform, a second GP and both tails: nothing of them is in a
    checkpoint (`test_resume` goes on from the others)."""
    rng = np.random.default_rng(0)
    inputs = rng.uniform(-2.0, 2.0, size=(400, 2))
    targets = np.exp(np.sin(2.0 * inputs[:, 1]) + 0.05 * 10.0 ** (inputs[:, 0] / 2.0) * rng.normal(size=400))
    dataset = Dataset(inputs=inputs, targets=targets)
    spec = TrainSpec(**QUICK, **EVERYTHING, calibrate=calibrate, refinement=refinement, holdout=0.3)
    whole, checkpoints = checkpoints_of(dataset, spec)
    assert (whole.model.noise is not None) == (refinement is None)  # half of the held-out rows are too few for it
    assert len(checkpoints) == 3 + (refinement is not None)
    for checkpoint in checkpoints[-2:] if calibrate is Calibrate.LOO else checkpoints[-1:]:
        resumed = train(dataset, spec, resume=checkpoint)
        if checkpoint.basis:  # why the selection once stopped is not in it
            resumed = replace(resumed, report=replace(resumed.report, stop_reason=whole.report.stop_reason))
        assert_same_model(resumed.model, whole.model)
        assert_same_bits(resumed, whole)


# Basis vectors that moved


def test_moved_basis_is_calibrated_and_scored_by_halves_of_the_holdout() -> None:
    """A change of one target moves the calibration, or the report's error, or (in a row that is learnt) theta."""
    dataset = table(1, n=240)
    spec = TrainSpec(
        basis_size=5,
        pool_size=40,
        start=START,
        adaptation=None,
        refinement=Refinement(steps=2),
        holdout=0.5,
    )
    before = train(dataset, spec)
    assert before.moved
    assert before.report.calibration.by == "held-out rows"
    assert before.report.calibration.rows == 60
    assert before.report.holdout is not None
    assert before.report.holdout.rows == 60
    kinds = {"learnt": 0, "calibrates": 0, "reports": 0}
    for row in range(60):
        targets = dataset.targets.copy()
        targets[row] += 10.0
        after = train(Dataset(inputs=dataset.inputs, targets=targets, groups=dataset.groups), spec)
        assert after.report.holdout is not None
        ours, theirs = after.report.calibration, before.report.calibration
        calibrates = (ours.latent_scale, ours.noise_scale) != (theirs.latent_scale, theirs.noise_scale)
        reports = after.report.holdout.rmse != before.report.holdout.rmse
        if not np.array_equal(after.model.posterior.lengthscales, before.model.posterior.lengthscales):
            kinds["learnt"] += 1
            continue
        assert calibrates != reports
        kinds["calibrates" if calibrates else "reports"] += 1
    assert kinds["learnt"] + kinds["calibrates"] + kinds["reports"] == 60
    assert min(kinds.values()) >= 8  # of 30, 15 and 15 to be expected


def test_a_moved_basis_moves_again_in_folds_where_held_out_rows_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not leave-one-out of a basis that has seen every row; in large tables it is, and that is said."""
    spec = TrainSpec(**QUICK, refinement=Refinement(steps=3))
    moved = []

    def watched(rows: Any, Z: Any, *others: Any) -> Any:
        moved.append(len(rows))
        return refine(rows, Z, *others)

    monkeypatch.setattr(core.train.fold_fits, "refine", watched)
    report = train(table(), spec).report
    assert report.calibration.by == "cross-fitting"
    assert report.calibration.rows == 90
    assert moved == [72] * 5
    monkeypatch.setattr(core.train.calibrate, "MOVED_ROWS", 50)
    monkeypatch.setattr(core.train.run, "MOVED_ROWS", 50)
    report = train(table(), spec).report
    assert any("held-out rows are too few to calibrate basis vectors that moved" in text for text in report.warnings)
    assert report.calibration.by == "leave-one-out"
    assert report.holdout is not None
    assert report.holdout.rows == 9
    off = train(table(), TrainSpec(**QUICK, refinement=Refinement(steps=3), calibrate=None)).report
    assert off.calibration.by == "nothing"
    assert not any("too few to calibrate" in text for text in off.warnings)
