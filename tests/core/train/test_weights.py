"""Training on rows of weights: what they change and what not, and that every part of a run has each row's noise."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core.arrays import FloatArray
from core.data import Dataset, standardization
from core.errors import InvalidDataError, InvalidSpecError
from core.hyperparameters import Hyperparameters
from core.mean.closed import closed_form_mean, left_out_of_blocks
from core.predict.calibration import LeftOut, fit_calibration, replicate_noise
from core.predict.metrics import scores
from core.predict.model import ModelPredictor
from core.process.exact import exact_nlml_and_gradient
from core.process.kernel import Kernel
from core.process.near_blocks import blocks_nlml_and_gradient
from core.row_groups import Grouping, RowGroups
from core.sparse.factors import factorise
from core.sparse.leave_one_out import leave_one_out
from core.sparse.scheme import scheme
from core.spec import Adaptation, Approximation, Effort, MeanRows, Noise, Refinement, TrainSpec
from core.train.beyond import with_rows_beyond
from core.train.calibrate import CalibrationResult, grouped
from core.train.cross_fit import left_out_by_folds, left_out_in_closed_form
from core.train.exactly_left_out import exactly_left_out
from core.train.optimise import box
from core.train.run import train
from core.train.weight_check import weight_doubt
from tests.core.problems import oracle_params, problem, to_log
from tests.core.runs import QUICK, assert_same_bits, table
from tests.dense import weighted as dense
from tests.dense.kernel import kernel
from tests.dense.mean import full_weights
from tests.dense.objective import central_differences

NOISE = 0.4
FULL: dict[str, Any] = {"effort": Effort.NORMAL, "mean_rows": MeanRows.AUTO, "max_basis_size": 40}


def smooth(x: FloatArray) -> FloatArray:
    return np.asarray(np.sin(2.0 * x[:, 0]) + 0.5 * x[:, 1])


def uneven(n: int, seed: int, spread: float = 1.5) -> tuple[Dataset, FloatArray]:
    """Rows whose noise is NOISE for mean weight, and the function without it."""
    random = np.random.default_rng(seed)
    inputs = random.uniform(-2.0, 2.0, (n, 2))
    weights = np.exp(spread * random.normal(size=n))
    weights /= weights.mean()
    truth = smooth(inputs)
    return Dataset(
        inputs=inputs, targets=truth + NOISE / np.sqrt(weights) * random.normal(size=n), weights=weights
    ), truth


def with_weights(dataset: Dataset, weights: FloatArray) -> Dataset:
    return replace(dataset, weights=weights)


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize(
    ("spec", "n"),
    [(TrainSpec(**QUICK), 90), (TrainSpec(holdout=0.0), 40), (TrainSpec(**FULL), 90)],
    ids=["sparse", "exact", "full"],
)
def test_equal_weights_are_no_weights_to_the_bit(spec: TrainSpec, n: int) -> None:
    rows = table(n=n)
    assert_same_bits(train(with_weights(rows, np.full(n, 0.3)), spec), train(rows, spec))


@pytest.mark.usefixtures("short_search")
def test_only_ratios_matter() -> None:
    """A power of two, which changes no digit."""
    rows, _ = uneven(80, 1)
    spec = TrainSpec(**QUICK)
    assert_same_bits(train(with_weights(rows, 1024.0 * rows.weights), spec), train(rows, spec))
    huge = with_weights(rows, 1e300 * rows.weights).with_relative_weights()
    np.testing.assert_allclose(huge.weights, rows.weights, rtol=1e-12)


def test_the_target_is_standardized_by_weight_and_the_inputs_are_not() -> None:
    rows, _ = uneven(50, 2)
    unit, plain = standardization(rows), standardization(replace(rows, weights=np.empty(0)))
    mean = np.average(rows.targets, weights=rows.weights)
    spread = np.sqrt(np.average((rows.targets - mean) ** 2, weights=rows.weights))
    assert unit.target_shift == pytest.approx(mean)
    assert unit.target_scale == pytest.approx(spread)
    np.testing.assert_array_equal(unit.input_shift, plain.input_shift)
    np.testing.assert_array_equal(unit.input_scale, plain.input_scale)


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([1.0, 2.0], "expected one for each of the 3 rows"),
        ([1.0, 0.0, 2.0], "expected numbers above zero, got 0.0 in row 1"),
        ([1.0, np.nan, 2.0], "expected numbers above zero, got nan in row 1"),
        ([1.0, 1.0, 1e-13], "counts less than 1e-12 of another"),
    ],
)
def test_what_is_no_weight(weights: list[float], said: str) -> None:
    with pytest.raises(InvalidDataError, match=said):
        Dataset(inputs=np.eye(3), targets=np.arange(3.0), weights=np.array(weights))


def test_what_weights_do_not_go_with() -> None:
    rows = table(n=20)
    with pytest.raises(InvalidDataError, match="rows of several targets"):
        replace(rows, others=rows.targets[:, None], weights=np.arange(1.0, 21.0))
    with pytest.raises(InvalidSpecError, match="held in memory"):
        with_rows_beyond(with_weights(rows, np.arange(1.0, 21.0)), TrainSpec())


def test_rows_that_are_taken_keep_their_weights() -> None:
    rows, _ = uneven(30, 3)
    np.testing.assert_array_equal(rows.take(np.array([5, 2])).weights, rows.weights[[5, 2]])


# ---- exact likelihoods and left-out rows, against dense ones


@pytest.mark.parametrize("varying", [False, True])
def test_exact_objective_and_gradient(varying: bool) -> None:
    case = problem(4, n=20).weighted()
    ratio = np.exp(case.X[:, 0]) if varying else None
    own = case.weights if ratio is None else case.weights / ratio
    value, gradient = exact_nlml_and_gradient(case.rows, case.hyperparameters, ratio)

    def oracle(theta: FloatArray) -> float:
        params = oracle_params(case.at(theta).hyperparameters, case.groups)
        return dense.exact_objective(params, case.X, case.y, own)

    theta = to_log(case.hyperparameters)
    np.testing.assert_allclose(value, oracle(theta), rtol=1e-9)
    numeric = central_differences(oracle, theta, step=2e-5)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-5 * np.abs(numeric).max())
    blocks = [np.arange(12), np.arange(12, 20)]
    parts = [
        exact_nlml_and_gradient(case.rows.take(b), case.hyperparameters, None if ratio is None else ratio[b])
        for b in blocks
    ]
    found, slope = blocks_nlml_and_gradient(case.rows, blocks, case.hyperparameters, ratio)
    np.testing.assert_allclose(found, sum(part[0] for part in parts), rtol=1e-12)
    np.testing.assert_allclose(slope, sum(part[1] for part in parts), rtol=1e-12)


def deleted(case: Any) -> tuple[FloatArray, FloatArray]:
    """Error and latent variance of each row by the exact process of the others."""
    params, D = oracle_params(case.hyperparameters, case.groups), case.hyperparameters.noise_variance / case.weights
    K, n = kernel(params, case.X, case.X), len(case.y)
    error, latent = np.empty(n), np.empty(n)
    for i in range(n):
        rest = np.arange(n) != i
        inverse = np.linalg.inv(K[np.ix_(rest, rest)] + np.diag(D[rest]))
        error[i] = case.y[i] - K[i, rest] @ inverse @ case.y[rest]
        latent[i] = K[i, i] - K[i, rest] @ inverse @ K[rest, i]
    return error, latent


def test_exactly_left_out_rows_have_their_own_noise() -> None:
    case = problem(5, n=25).weighted()
    error, latent = deleted(case)
    found = exactly_left_out(case.rows, case.hyperparameters, RowGroups())
    np.testing.assert_allclose(found.error, error, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.latent_variance, latent, rtol=1e-6)
    np.testing.assert_allclose(found.noise_variance, case.hyperparameters.noise_variance / case.weights, rtol=1e-14)
    in_blocks = left_out_of_blocks(case.rows, [np.arange(25)], case.hyperparameters)
    np.testing.assert_allclose(in_blocks.error, error, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(in_blocks.latent_variance, latent, rtol=1e-6)


@pytest.mark.parametrize("approximation", list(Approximation))
def test_rows_left_out_in_closed_form_and_by_folds_have_their_own_noise(approximation: Approximation) -> None:
    case = problem(6, n=30).weighted()
    factors = case.factors(approximation)
    mean, variance = dense.leave_one_out(case.sparse(approximation, factors.jitter), case.weights)
    noise = case.hyperparameters.noise_variance / case.weights
    closed = left_out_in_closed_form(factors, leave_one_out(factors), np.empty(0, np.int64))
    by_folds = left_out_by_folds(
        case.rows,
        lambda _, rest: factorise(
            case.rows.take(rest), case.Z, case.hyperparameters, scheme(approximation, factors.scheme.power)
        ),
        np.random.default_rng(0),
        folds=30,
    )
    by_folds = by_folds.take(np.argsort(by_folds.places))
    for found in (closed, by_folds):
        np.testing.assert_allclose(found.error, case.y - mean, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(found.noise_variance, noise, rtol=1e-12)
        np.testing.assert_allclose(found.latent_variance, variance - noise, rtol=1e-5, atol=1e-9)


def test_the_mean_of_all_rows_is_that_of_their_own_noise() -> None:
    """Served with everything fixed, its noise is that of theta or in proportion to it: y - K alpha = D alpha."""
    rows, _ = uneven(60, 7)
    start = Hyperparameters(
        lengthscales=np.array([1.0, 2.0]), signal_variance=1.0, bias_variance=0.1, noise_variance=0.2
    )
    spec = TrainSpec(
        start=start, adaptation=None, basis_size=20, mean_rows=MeanRows.ALL, noise=Noise.CONSTANT, holdout=0.0
    )
    model = train(rows, spec).model
    assert model.mean is not None
    unit = standardization(rows)
    X, y = unit.inputs(rows.inputs), unit.targets(rows.targets)
    params = oracle_params(start, np.arange(2))
    s2 = (y - kernel(params, X, X) @ model.mean.alpha) / model.mean.alpha * rows.weights
    np.testing.assert_allclose(s2, np.median(s2), rtol=1e-6)
    np.testing.assert_allclose(model.mean.alpha, full_weights(params, X, y, np.median(s2) / rows.weights), rtol=1e-6)


# ---- calibration


def test_noise_of_rows_of_equal_inputs_is_that_of_weight_one() -> None:
    random = np.random.default_rng(8)
    group = np.repeat(np.arange(400), 5)
    weights = np.exp(random.normal(size=2000))
    error = np.repeat(random.normal(size=400), 5) + 0.5 / np.sqrt(weights) * random.normal(size=2000)
    assert replicate_noise(error, group, weights) == pytest.approx(0.25, rel=0.1)
    assert replicate_noise(error, group, np.ones(2000)) == pytest.approx(replicate_noise(error, group), rel=1e-12)
    assert replicate_noise(error, group) > 0.4  # what rows that count little would make of it


def test_a_floor_of_the_noise_is_of_weight_one() -> None:
    """Errors that know the level of their group by heart, but not the noise within."""
    random = np.random.default_rng(9)
    weights = np.exp(random.normal(size=400))
    error = 0.5 / np.sqrt(weights) * random.normal(size=400)
    rows = Dataset(
        inputs=np.repeat(np.arange(200.0), 2)[:, None],
        targets=random.normal(size=400),
        weights=weights,
        row_groups=RowGroups.of(Grouping.EQUAL, np.repeat(np.arange(200), 2)),
    )
    left_out = LeftOut(
        places=np.arange(400),
        error=0.1 * error,
        latent_variance=np.zeros(400),
        noise_variance=0.01 * 0.25 / weights,
        far_variance=np.ones(400),
    )
    found = grouped(left_out, rows)
    assert found.typical_noise == pytest.approx(0.0025)
    assert found.noise_floor == pytest.approx(0.0025, rel=0.2)
    half = found.take(np.arange(200))
    assert half.typical_noise == pytest.approx(0.0025)
    np.testing.assert_array_equal(half.weights, weights[:200])
    assert fit_calibration(found).noise_scale == pytest.approx(1.0, rel=0.15)


def test_a_constant_is_no_better_where_heavy_rows_are_predicted() -> None:
    """Errors of rows that count little would hide it."""
    case, random = problem(10, n=200), np.random.default_rng(10)
    heavy = np.arange(200) < 100
    y = np.where(heavy, case.y, 30.0 * random.normal(size=200))
    error = np.where(heavy, 0.1 * case.y, y + 3.0 * random.normal(size=200))
    weights = np.where(heavy, 1.999, 0.001)
    left_out = LeftOut(
        places=np.arange(200),
        error=error,
        latent_variance=np.zeros(200),
        noise_variance=np.ones(200),
        far_variance=np.ones(200),
    )
    read = CalibrationResult(left_out=left_out)
    assert not read.no_better_than_constant(case.changed(y=y, weights=weights).rows)
    constant = CalibrationResult(left_out=replace(left_out, error=y))
    assert constant.no_better_than_constant(case.changed(y=y, weights=weights).rows)


def test_weights_that_say_nothing_of_the_noise_are_told() -> None:
    random = np.random.default_rng(15)
    weights = np.exp(random.normal(size=400))
    honest = LeftOut(
        places=np.arange(400),
        error=0.5 / np.sqrt(weights) * random.normal(size=400),
        latent_variance=np.zeros(400),
        noise_variance=0.25 / weights,
        far_variance=np.ones(400),
        weights=weights,
    )
    assert weight_doubt(CalibrationResult(left_out=honest)) is None
    said = weight_doubt(CalibrationResult(left_out=replace(honest, error=0.5 * random.normal(size=400))))
    assert said is not None
    assert "a weight says how precise a row is" in said
    for nothing in (None, replace(honest, weights=np.empty(0)), honest.take(np.arange(50))):
        assert weight_doubt(CalibrationResult(left_out=nothing)) is None


def test_the_noise_floor_of_theta_is_that_of_the_heaviest_row() -> None:
    case = problem(11, n=50)
    weights = np.ones(50)
    weights[0] = 26.0
    plain, weighted = box(case.rows), box(case.changed(weights=weights / weights.mean()).rows)
    assert weighted.lower[-1] - plain.lower[-1] == pytest.approx(
        np.log(26.0 / 1.5) + np.log(case.changed(weights=weights).rows.mean_square / case.rows.mean_square)
    )


# ---- whole runs


@pytest.mark.usefixtures("short_search")
def test_scores_of_squared_errors_are_by_weight() -> None:
    rows, _ = uneven(200, 12)
    model = train(rows, TrainSpec(**QUICK)).model
    predicted = ModelPredictor(model).predict(rows.inputs)
    found, plain = scores(rows.targets, predicted, rows.weights), scores(rows.targets, predicted)
    mean = predicted.moments()[0]
    assert found.rmse == pytest.approx(np.sqrt(np.average((rows.targets - mean) ** 2, weights=rows.weights)))
    centre = np.average(rows.targets, weights=rows.weights)
    variance = np.average((rows.targets - centre) ** 2, weights=rows.weights)
    assert found.nmse == pytest.approx(found.rmse**2 / variance)
    assert (found.nlpd, found.coverage, found.crps) == (plain.nlpd, plain.coverage, plain.crps)


SPECS: dict[str, dict[str, Any]] = {
    "sparse": {"basis_size": 40},
    "sparse folds": {"basis_size": 40, "calibrate": "cross-fit"},
    "dtc by sb": {"basis_size": 30, "approximation": "dtc", "method": "sb"},
    "moved": {"basis_size": 20, "refinement": Refinement(steps=15)},
    "mean of all rows": {"basis_size": 30, "mean_rows": MeanRows.ALL},
    "full": {**FULL, "variance": "near"},
    "exact": {},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECS)
def test_weighted_rows_are_learnt_from_by_weight(name: str) -> None:
    """Nearer to the function than without weights; noise and intervals are those of a row of mean weight, and rows
    that were left out are inside of intervals of their own."""
    errors, plain_errors, covered = [], [], []
    for seed in range(2):
        rows, _ = uneven(300, 20 + seed)
        spec = TrainSpec(**{"adaptation": Adaptation(rounds=2, steps=8), **SPECS[name]})
        result, plain = train(rows, spec), train(replace(rows, weights=np.empty(0)), spec)
        random = np.random.default_rng(seed)
        new = random.uniform(-1.9, 1.9, (1000, 2))
        predicted = ModelPredictor(result.model).predict(new)
        mean = predicted.moments()[0]
        errors.append(np.mean((mean - smooth(new)) ** 2))
        plain_errors.append(np.mean((ModelPredictor(plain.model).predict(new).moments()[0] - smooth(new)) ** 2))
        lower, upper = predicted.interval(0.95)
        y = smooth(new) + NOISE * random.normal(size=1000)
        covered.append(np.mean((lower <= y) & (y <= upper)))
        for found, least in ((result.report.leave_one_out, 0.9), (result.report.holdout, 0.7)):  # of 30 rows
            assert found is not None
            assert found.coverage["0.95"] > least
            assert found.rmse < 0.6
        assert not any("weights say" in said for said in result.report.warnings)
    assert np.mean(errors) < 0.8 * np.mean(plain_errors)
    assert np.mean(covered) == pytest.approx(0.95, abs=0.035)


@pytest.mark.slow
def test_noise_that_varies_is_learnt_beside_weights() -> None:
    """Its logarithm is that of a row of mean weight."""
    random = np.random.default_rng(30)
    inputs = random.uniform(-2.0, 2.0, (2000, 2))
    weights = np.exp(random.normal(size=2000))
    weights /= weights.mean()
    std = 0.3 * np.exp(0.6 * inputs[:, 0])
    rows = Dataset(
        inputs=inputs, targets=smooth(inputs) + std / np.sqrt(weights) * random.normal(size=2000), weights=weights
    )
    result = train(rows, TrainSpec(basis_size=40, adaptation=Adaptation(rounds=2, steps=8)))
    assert result.model.noise is not None
    new = random.uniform(-1.8, 1.8, (500, 2))
    predicted = ModelPredictor(result.model).predict(new)
    told = np.sqrt(predicted.moments()[1])
    assert np.median(np.abs(np.log(told / (0.3 * np.exp(0.6 * new[:, 0]))))) < 0.15
    for found in (result.report.leave_one_out, result.report.holdout):
        assert found is not None
        assert found.coverage["0.95"] == pytest.approx(0.95, abs=0.045)


@pytest.mark.slow
def test_groups_times_and_kernels_go_with_weights() -> None:
    rows, _ = uneven(200, 40)
    group = np.random.default_rng(1).integers(0, 30, size=200)
    for groups in (RowGroups.of(Grouping.GROUP, group), RowGroups.of(Grouping.ORDER, np.arange(200))):
        for options in ({"basis_size": 20}, FULL, {"kernel": "auto", "target_transform": "auto"}):
            spec = TrainSpec(**{"adaptation": Adaptation(rounds=1, steps=5), **options})
            found = train(replace(rows, row_groups=groups), spec).report.holdout
            assert found is not None
            assert found.coverage["0.95"] > 0.8


def test_a_closed_form_has_the_noise_it_is_given() -> None:
    case = problem(14, n=20).weighted()
    noises = case.rows.noises(case.hyperparameters.noise_variance)
    found = closed_form_mean(case.rows, Kernel.of(case.hyperparameters, case.groups), noises)
    error, _ = deleted(case)
    np.testing.assert_allclose(case.y - found.mean.left_out, error, rtol=1e-7, atol=1e-9)
