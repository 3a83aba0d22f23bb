"""core/train/full_process.py and full_choice.py, alone and in whole runs: against oracles, compared, resumed."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from core.arrays import FloatArray
from core.data import Dataset, standardization
from core.errors import InvalidSpecError
from core.hyperparameters import Hyperparameters, KernelFamily
from core.mean.near import NEAREST
from core.predict.model import ModelPredictor
from core.row_groups import Grouping, RowGroups
from core.spec import Artefact, Effort, KernelChoice, MeanRows, Noise, Refinement, TrainSpec, Variance
from core.train import block_theta, full_choice, full_process, results
from core.train.fit import Subset
from core.train.full_choice import Judged
from core.train.kernel_choice import KERNEL_REASON
from core.train.optimise import heuristic
from core.train.progress import Checkpoint, Progress
from core.train.report import TrainResult
from core.train.run import CONSTANT_MODEL, train
from tests.core.problems import oracle_params
from tests.core.runs import QUICK, START, assert_same_bits, checkpoints_of, saved
from tests.dense.kernel import kernel
from tests.dense.mean import conditional_variance, full_weights, nearest

pytestmark = pytest.mark.usefixtures("short_search")

VARYING: dict[str, Any] = {
    "effort": Effort.NORMAL,
    "mean_rows": MeanRows.AUTO,
    "max_basis_size": 12,
    "adaptation": QUICK["adaptation"],
    "pool_size": 40,
}
NORMAL: dict[str, Any] = VARYING | {"noise": Noise.CONSTANT}  # to learn how it varies takes most of the time
WAYS = ["exact", "blocks"]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to theta and mean, on tables that are small for either."""
    if request.param == "blocks":
        for module in (block_theta, full_process):
            monkeypatch.setattr(module, "EXACT_ROWS", 0)
        monkeypatch.setattr(block_theta, "BLOCK_ROWS", 60)
    return str(request.param)


def waves(rows: int, *, noise: float = 0.1, seed: int = 0) -> Dataset:
    """A function of two columns that a dozen basis vectors do not follow."""
    random = np.random.default_rng(seed)
    X = random.uniform(-2, 2, (rows, 2))
    y = np.sin(4 * X[:, 0]) * np.cos(3 * X[:, 1])
    return Dataset(inputs=X, targets=y + noise * random.normal(size=rows))


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """A whole run on 400 rows that noise was learnt in, with all that it told."""

    dataset: Dataset
    result: TrainResult
    shares: list[float]
    checkpoints: list[Checkpoint]


@cache
def run_of(way: str) -> Run:
    """The run of one way, once for all tests that read it; `way` must be in force."""
    assert (block_theta.EXACT_ROWS > 0) is (way == "exact")
    dataset, shares, checkpoints = waves(400), list[float](), list[Checkpoint]()

    def listen(event: Progress | Checkpoint) -> None:
        if isinstance(event, Progress):
            shares.append(event.fraction)
        else:
            checkpoints.append(saved(event))

    result = train(dataset, TrainSpec(**VARYING), listen=listen)
    return Run(dataset=dataset, result=result, shares=shares, checkpoints=checkpoints)


def whole(dataset: Dataset, workers: int = 1) -> Subset:
    return Subset.of(dataset, np.arange(len(dataset.targets)), standardize=True, workers=workers)


def theta_of(dataset: Dataset, *, workers: int = 1, seed: int = 1, **spec: Any) -> Hyperparameters:
    subset = whole(dataset, workers)
    learning, random = np.arange(0, len(dataset.targets)), np.random.default_rng(seed)
    start = heuristic(subset.rows, reach=0.3)
    return block_theta.block_theta(subset, learning, start, TrainSpec(**spec), random, lambda _: None).theta


def test_short_lengthscales_and_columns_that_say_nothing_are_found(way: str) -> None:
    """Some twenty waves over the rows: a wave of .157 has a lengthscale of about .03, in standard deviations."""
    random = np.random.default_rng(0)
    X = random.uniform(-1.7, 1.7, size=(300, 2))
    dataset = Dataset(inputs=X, targets=np.sin(40.0 * X[:, 0]) + 0.1 * random.normal(size=300))
    subset = whole(dataset)
    start = replace(heuristic(subset.rows), lengthscales=np.array([0.1, 1.0]))
    theta_of, random = block_theta.block_theta, np.random.default_rng(1)
    found = theta_of(subset, np.arange(300), start, TrainSpec(noise=Noise.CONSTANT), random, lambda _: None).theta
    assert 0.02 < found.lengthscales[0] < 0.06, way
    assert found.lengthscales[1] > 2.0
    assert found.noise_variance < 0.05  # .02 in units of the target's variance


def test_noise_that_varies_is_not_taken_for_signal(way: str) -> None:
    """Half of the rows have thirty times the noise: s2 is then between both, and the function as long as it is."""
    random = np.random.default_rng(2)
    X = random.uniform(-1.7, 1.7, size=(300, 2))
    ratio = np.where(X[:, 1] > 0.0, 30.0, 1.0)
    y = np.sin(2.0 * X[:, 0]) + 0.1 * np.sqrt(ratio) * random.normal(size=300)
    found = theta_of(Dataset(inputs=X, targets=y))
    power = float(np.var(y))
    assert 0.01 / power < found.noise_variance < 0.3 / power, way
    assert found.lengthscales[0] > 0.4


@pytest.mark.parametrize("family", [KernelFamily.MATERN32, KernelFamily.GAUSSIAN])
def test_the_kernel_that_was_asked_for_is_kept(family: KernelFamily, way: str) -> None:
    assert theta_of(waves(120), kernel=KernelChoice(family)).kernel is family, way


def test_a_kinked_function_takes_a_rough_kernel(way: str) -> None:
    random = np.random.default_rng(3)
    X = random.uniform(-2, 2, (200, 2))
    y = np.abs(X[:, 0]) + np.abs(X[:, 1] - 0.5) + 0.02 * random.normal(size=200)
    found = theta_of(Dataset(inputs=X, targets=y), kernel=KernelChoice.AUTO, noise=Noise.CONSTANT)
    assert found.kernel is not KernelFamily.GAUSSIAN, way


def test_the_number_of_threads_changes_no_bit(way: str) -> None:
    spec = TrainSpec(**NORMAL | {"kernel": KernelChoice.AUTO})
    first, second = (train(waves(200), spec, workers=workers) for workers in (1, 2))
    assert first.model.near is not None, way
    np.testing.assert_array_equal(first.model.posterior.alpha, second.model.posterior.alpha)
    np.testing.assert_array_equal(first.model.near, second.model.near)


def test_predictions_are_those_of_the_full_process(way: str) -> None:
    """At the theta and noise that were found: the mean by one dense solve, the variance from the nearest rows."""
    dataset, new = waves(260), waves(40, seed=1).inputs
    result = train(dataset, TrainSpec(**VARYING))
    model, unit = result.model, standardization(dataset)
    assert model.near is not None
    X, y, S = unit.inputs(dataset.inputs), unit.targets(dataset.targets), unit.inputs(new)
    params = oracle_params(model.posterior.hyperparameters, dataset.groups)
    expected = kernel(params, S, X) @ full_weights(params, X, y, model.near)
    found = ModelPredictor(model).predict(new)
    mean = (found.centre - unit.target_shift) / unit.target_scale
    error = np.sqrt(np.mean(np.square((mean - expected) / np.sqrt(params.s2))))
    assert error < (1e-6 if way == "exact" else 0.1)  # iterations end near the solution
    places = [nearest(params, X, x, NEAREST) for x in S]
    latent = [conditional_variance(params, X[each], model.near[each], x) for each, x in zip(places, S, strict=True)]
    scaled = model.calibration.latent(np.array(latent), params.v0)
    np.testing.assert_allclose(found.latent_variance / unit.target_scale**2, scaled, rtol=1e-6)


def test_it_is_taken_where_it_predicts_better(way: str) -> None:
    fresh, normal = waves(400, noise=0.0, seed=1), run_of(way).result
    quick = train(waves(400), TrainSpec(**NORMAL | {"effort": "quick", "mean_rows": "basis"}))
    report = normal.report
    assert (report.artefact.variance, report.artefact.mean_rows, report.basis_size) == (Variance.NEAR, 400, 400)
    taken = report.candidates[-1]
    assert (taken.mean, taken.variance, taken.theta, taken.taken) == ("all", "near", way, True)
    assert taken.reason is not None
    assert not any(candidate.taken for candidate in report.candidates[:-1])
    squares = [np.mean((ModelPredictor(r.model).mean(fresh.inputs) - fresh.targets) ** 2) for r in (quick, normal)]
    assert squares[1] < 0.5 * squares[0]
    assert report.holdout is not None
    assert quick.report.holdout is not None
    assert report.holdout.nlpd < quick.report.holdout.nlpd
    assert quick.report.candidates == ()


def test_coverage_of_new_rows_is_what_the_report_says(way: str) -> None:
    fresh, result = waves(2_000, seed=1), run_of(way).result
    lower, upper = ModelPredictor(result.model).predict(fresh.inputs).interval(0.95)
    got = float(np.mean((lower <= fresh.targets) & (fresh.targets <= upper)))
    assert result.model.near is not None, way
    assert abs(got - 0.95) < 0.03  # four hundred scores know a level of 95% to .011
    assert abs(got - result.report.leave_one_out.coverage["0.95"]) < 0.03


def test_a_search_that_is_far_behind_ends_after_its_first_round(way: str) -> None:
    result = run_of(way).result
    sparse = result.report.candidates[0]
    assert (sparse.mean, sparse.theta, sparse.taken) == ("basis", "sparse", False)
    assert sparse.reason is not None
    assert "its search ended" in sparse.reason
    assert len(result.report.objectives) == 1, way


def test_with_best_effort_no_search_ends_early() -> None:
    result = train(waves(400), TrainSpec(**NORMAL | {"effort": Effort.BEST}))
    assert len(result.report.objectives) == 2
    assert result.report.artefact.variance is Variance.NEAR


def test_best_effort_and_updates_take_a_mean_of_less_noise_where_left_out_rows_gain(way: str) -> None:
    """A theta whose noise is too large, of a function without: the mean does without it, error bars keep it."""
    random = np.random.default_rng(6)
    inputs = random.uniform(-2.0, 2.0, (160, 2))
    dataset = Dataset(inputs=inputs, targets=np.sin(2.0 * inputs[:, 0]) + np.cos(inputs[:, 1]))
    subset = Subset.of(dataset, np.arange(160), standardize=True, workers=1)
    theta = Hyperparameters(lengthscales=np.full(2, 1.0), signal_variance=1.0, bias_variance=0.0, noise_variance=0.3)
    held_out = np.arange(0, 160, 8)

    def process(effort: Effort, start: FloatArray | None = None) -> full_process.FullProcess:
        spec = TrainSpec(**VARYING | {"effort": effort})
        draws = np.random.default_rng(1)
        return full_process.full_process(subset, held_out, theta, spec, (0, 1), draws, lambda _: None, start=start)

    normal, best = process(Effort.NORMAL), process(Effort.BEST)
    updated = process(Effort.NORMAL, best.mean.alpha)
    for found in (best, updated):
        np.testing.assert_array_equal(found.D, normal.D)
    errors = [np.square(subset.rows.y - found.mean.left_out)[held_out].mean() for found in (normal, best, updated)]
    assert best.exact == (way == "exact")
    assert max(errors[1:]) < 0.5 * errors[0]


def test_noise_half_way_is_tried_for_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where left-out rows say that it predicts best, it is the mean's, and error bars keep the learnt one."""
    random = np.random.default_rng(3)
    inputs = random.uniform(-2.0, 2.0, (300, 1))
    noise = np.where(inputs[:, 0] < 0.0, 0.05, 1.0) * random.normal(size=300)
    dataset = Dataset(inputs=inputs, targets=np.sin(2.0 * inputs[:, 0]) + noise)
    subset = Subset.of(dataset, np.arange(300), standardize=True, workers=1)
    theta = Hyperparameters(lengthscales=np.full(1, 0.7), signal_variance=1.0, bias_variance=0.0, noise_variance=0.3)
    tried: list[tuple[float, full_process.FullProcess]] = []
    loss = full_process.ProcessTask.loss

    def heard(task: full_process.ProcessTask, found: full_process.FullProcess) -> float:
        tried.append((loss(task, found), found))
        return tried[-1][0]

    monkeypatch.setattr(full_process.ProcessTask, "loss", heard)
    spec, draws = TrainSpec(**VARYING), np.random.default_rng(1)
    taken = full_process.full_process(subset, np.arange(0, 300, 8), theta, spec, (0, 1), draws, lambda _: None)
    (_, first), (_, second), (_, half) = tried
    assert taken is min(tried, key=lambda pair: pair[0])[1]
    np.testing.assert_array_equal(half.D, second.D)
    X, y = subset.rows.X, subset.rows.y
    params = oracle_params(theta, subset.rows.groups)
    weights = full_weights(params, X, y, np.sqrt(first.D * second.D))
    np.testing.assert_allclose(half.mean.alpha, weights, rtol=1e-6, atol=1e-8 * np.abs(weights).max())


def test_a_straight_line_keeps_no_more_than_it_needs(way: str) -> None:
    """Both predict a line with much noise alike; a table past EXACT_ROWS then keeps the basis."""
    random = np.random.default_rng(2)
    X = random.normal(size=(300, 1))
    dataset = Dataset(inputs=X, targets=X[:, 0] + random.normal(size=300))
    result = train(dataset, TrainSpec(**NORMAL))
    full = result.report.candidates[-1]
    assert full.variance == "near"
    assert full.reason is not None
    assert full.taken is (way == "exact")
    assert (result.model.near is None) is (way == "blocks")


def test_variance_that_was_asked_for() -> None:
    random = np.random.default_rng(2)
    X = random.normal(size=(150, 1))
    dataset = Dataset(inputs=X, targets=X[:, 0] + random.normal(size=150))
    near = train(dataset, TrainSpec(**NORMAL | {"variance": "near"}))
    assert near.report.candidates[-1].reason == "asked for"
    assert near.model.near is not None
    assert train(dataset, TrainSpec(**NORMAL | {"variance": "basis"})).model.near is None


@pytest.mark.slow
@pytest.mark.parametrize("holdout", [0.0, 0.02])
def test_few_or_no_rows_held_out(holdout: float, way: str) -> None:
    """All left-out rows are then compared."""
    result = train(waves(400), TrainSpec(**NORMAL | {"holdout": holdout}))
    assert result.model.near is not None, way
    assert (result.report.holdout is None) is (holdout == 0.0)
    assert len(result.report.objectives) == 2  # no search ends early


@pytest.mark.parametrize(("seed", "variance"), [(0, Variance.AUTO), (3, Variance.AUTO), (3, Variance.NEAR)])
def test_pure_noise_is_a_constant(seed: int, variance: Variance) -> None:
    """Whatever was asked of a full process that there is none of."""
    random = np.random.default_rng(seed)
    noise = Dataset(inputs=random.normal(size=(120, 3)), targets=random.normal(size=120))
    result = train(noise, TrainSpec(**NORMAL | {"variance": variance}))
    assert result.model.near is None
    assert CONSTANT_MODEL in result.report.warnings
    assert not any(warning.startswith(KERNEL_REASON) for warning in result.report.warnings)


@pytest.mark.slow
def test_a_run_that_was_cut_off_gives_the_same_bits(way: str) -> None:
    dataset, spec = waves(300), TrainSpec(**NORMAL | {"effort": Effort.BEST})
    result, checkpoints = checkpoints_of(dataset, spec)
    assert result.model.near is not None, way
    for checkpoint in (checkpoints[0], checkpoints[-1]):
        assert_same_bits(train(dataset, spec, resume=checkpoint), result)


def test_a_run_that_ended_early_ends_early_again() -> None:
    run = run_of("exact")
    assert_same_bits(train(run.dataset, TrainSpec(**VARYING), resume=run.checkpoints[-1]), run.result)


def test_progress_rises_and_a_run_can_be_cancelled(way: str) -> None:
    shares = run_of(way).shares
    assert shares == sorted(shares)
    assert shares[-1] == 1.0, way

    def cancel(event: object) -> None:
        if isinstance(event, Progress) and event.fraction > 0.1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(waves(300), TrainSpec(**NORMAL), listen=cancel)


def test_transformed_targets(way: str) -> None:
    dataset = waves(300)
    positive = Dataset(inputs=dataset.inputs, targets=np.exp(dataset.targets))
    result = train(positive, TrainSpec(**NORMAL | {"target_transform": "log"}))
    assert result.model.near is not None, way
    lower, _ = ModelPredictor(result.model).predict(dataset.inputs).interval(0.95)
    assert (lower > 0.0).all()


@pytest.mark.slow
def test_rows_that_come_twice(way: str) -> None:
    """Equal rows make a singular K, which the noise lifts."""
    dataset = waves(150)
    twice = Dataset(inputs=np.tile(dataset.inputs, (2, 1)), targets=np.tile(dataset.targets, 2))
    result = train(twice, TrainSpec(**NORMAL))
    assert np.isfinite(ModelPredictor(result.model).predict(dataset.inputs).variance).all(), way


@pytest.mark.parametrize(
    "given",
    [
        {"calibrate": None},
        {"adaptation": None},
        {"refinement": Refinement(steps=3)},
        {"start": START},
        {"artefact": Artefact.COMPACT},
        {"effort": Effort.QUICK},
        {"mean_rows": MeanRows.BASIS},
    ],
)
def test_specifications_that_ask_for_a_sparse_model_have_no_other(given: dict[str, Any]) -> None:
    spec = TrainSpec(**NORMAL | given)
    assert not spec.compares_full
    with pytest.raises(InvalidSpecError, match="variance: near is of a full process"):
        TrainSpec(**NORMAL | given | {"variance": "near"})


def test_tables_that_are_too_large_or_small_have_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    assert train(waves(40), TrainSpec(**NORMAL | {"max_basis_size": 500})).report.candidates == ()
    monkeypatch.setattr(full_choice, "MOST_ROWS", 50)
    names = [each.variance for each in train(waves(60), TrainSpec(**NORMAL)).report.candidates]
    assert "near" not in names


@pytest.mark.parametrize("grouped", [False, True])
def test_all_left_out_rows_are_compared_too(grouped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the rows decides, and all of them where that does not; of groups their means."""
    compared: list[tuple[int, int]] = []

    def prefers(full: Judged, other: Judged, left_out: tuple[Judged, Judged], **_: Any) -> tuple[bool, str]:
        assert len(full.loss) == len(other.squares)
        assert len(left_out[0].loss) == len(left_out[1].squares)
        compared.append((len(full.loss), len(left_out[0].loss)))
        return True, "asked for"

    monkeypatch.setattr(results, "prefers_full", prefers)
    dataset = waves(250)
    if grouped:
        dataset = replace(dataset, row_groups=RowGroups(by=Grouping.GROUP, group=np.repeat(np.arange(125), 2)))
    train(dataset, TrainSpec(**NORMAL | {"effort": Effort.BEST, "holdout": 0.2}))  # no search ends early
    assert compared == [(25, 125) if grouped else (50, 250)]
