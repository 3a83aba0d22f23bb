"""core/training.py: the published model is what its report says, and a run that was cut off ends with the same bits."""

import json
import tracemalloc
import warnings
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import core.factors
import core.linalg
from core.compact import CompactPosterior, served, stored_bytes
from core.data import Dataset
from core.errors import InvalidSpecError
from core.hyperparameters import FloatArray
from core.linalg import JITTERS
from core.metrics import LEVELS, interval_factor
from core.posterior import SparsePosterior
from core.prediction import Predictor, predict
from core.progress import Checkpoint, Phase, Progress
from core.spec import Adaptation, Approximation, Artefact, Method, TrainSpec
from core.training import TrainResult, train
from tests.core.problems import hyperparameters, oracle_params, problem, to_log
from tests.dense.kernel import Sparse
from tests.dense.loo import leave_one_out
from tests.dense.posterior import predict as oracle_predict

START = hyperparameters([1.1, 2.0, 1.6], signal_variance=1.4, bias_variance=0.3, noise_variance=0.07)
QUICK: dict[str, Any] = {"basis_size": 10, "adaptation": Adaptation(rounds=2, steps=6), "pool_size": 40}


def table(seed: int = 0, n: int = 90) -> Dataset:
    """Raw units: columns of very different size, a target far from nought."""
    case = problem(seed, n=n)
    inputs = case.X * [0.01, 1.0, 300.0, 5.0] + [5.0, -2.0, 1e4, 0.0]
    return Dataset(inputs=inputs, targets=1000.0 + 25.0 * case.y, groups=case.groups)


def oracle_of(dataset: Dataset, result: TrainResult, spec: TrainSpec) -> Sparse:
    """The model that the report describes, standardized here again and rebuilt from nothing."""
    X = (dataset.inputs - dataset.inputs.mean(axis=0)) / dataset.inputs.std(axis=0)
    y = (dataset.targets - dataset.targets.mean()) / dataset.targets.std()
    params = oracle_params(result.report.hyperparameters, dataset.groups)
    Z = X[result.selection.indices]
    return Sparse(spec.approximation.value, params, X, y, Z, spec.power, JITTERS[0])


def same_bits(ours: TrainResult, other: TrainResult) -> None:
    """Everything but the clock."""
    for name, array in ours.posterior.arrays().items():
        np.testing.assert_array_equal(array, other.posterior.arrays()[name], err_msg=name)
    assert ours.posterior.scalars() == other.posterior.scalars()
    np.testing.assert_array_equal(ours.selection.indices, other.selection.indices)
    np.testing.assert_array_equal(ours.selection.gains, other.selection.gains)
    first, second = ours.report.to_json(), other.report.to_json()
    for report in (first, second):
        del report["seconds"]
    assert first == second


@pytest.mark.parametrize("approximation", list(Approximation))
@pytest.mark.parametrize("method", list(Method))
def test_published_model_is_the_one_the_report_describes(method: Method, approximation: Approximation) -> None:
    """Predictions in raw units and leave-one-out scores, from the reported theta and row numbers alone."""
    dataset = table()
    spec = TrainSpec(method=method, approximation=approximation, power=0.3, **QUICK)
    result = train(dataset, spec)
    oracle = oracle_of(dataset, result, spec)
    unit, shift = dataset.targets.std(), dataset.targets.mean()
    new = table(50).inputs
    ours = predict(result.posterior, new)
    mean, variance = oracle_predict(oracle, (new - dataset.inputs.mean(axis=0)) / dataset.inputs.std(axis=0))
    np.testing.assert_allclose(ours.mean, shift + unit * mean, rtol=1e-7)
    np.testing.assert_allclose(ours.latent_variance, unit**2 * variance, rtol=1e-5)
    np.testing.assert_array_equal(result.posterior.basis, dataset.inputs[result.selection.indices])
    loo_mean, loo_variance = leave_one_out(oracle)
    squares = (dataset.targets - shift - unit * loo_mean) ** 2
    loo_variance *= unit**2
    scores = result.report.leave_one_out
    assert scores.rows == 90
    assert scores.nmse == pytest.approx(squares.mean() / unit**2, rel=1e-5)
    assert scores.rmse == pytest.approx(np.sqrt(squares.mean()), rel=1e-5)
    density = 0.5 * np.mean(squares / loo_variance + np.log(2 * np.pi * loo_variance))
    assert scores.nlpd == pytest.approx(density, rel=1e-5)
    for level in LEVELS:
        inside = np.mean(np.sqrt(squares / loo_variance) <= interval_factor(level))
        assert scores.coverage[str(level)] == pytest.approx(inside, abs=1.5 / 90)
    assert result.report.basis_size == len(result.selection.indices) == 10
    assert result.report.rows == 90


# What is kept


@pytest.mark.parametrize("approximation", list(Approximation))
def test_a_compact_model_keeps_the_error_bars(approximation: Approximation) -> None:
    dataset = table(4)
    spec = TrainSpec(approximation=approximation, artefact=Artefact.COMPACT, tolerance=0.02, **QUICK)
    result = train(dataset, spec)
    assert isinstance(result.stored, CompactPosterior)
    ours, full = predict(served(result.stored), dataset.inputs), predict(result.posterior, dataset.inputs)
    np.testing.assert_array_equal(ours.mean, full.mean)
    largest = np.abs(np.sqrt(ours.target_variance / full.target_variance) - 1.0).max()
    told = result.report.artefact
    assert told.largest_std_error == pytest.approx(largest, rel=1e-5, abs=1e-9)
    assert told.largest_std_error is not None
    assert told.bound is not None
    assert largest <= told.largest_std_error * (1 + 1e-9) <= told.bound
    assert (told.kind, told.bytes, told.tolerance) == ("compact", stored_bytes(result.stored), 0.02)
    assert told.directions == result.stored.directions.shape[1]
    assert told.bits == 16
    assert told.bytes < train(dataset, replace(spec, artefact=Artefact.FULL)).report.artefact.bytes
    assert json.loads(json.dumps(result.report.to_json()))["artefact"] == asdict(told)


def test_where_compact_would_not_be_smaller_the_full_model_is_kept() -> None:
    spec = TrainSpec(artefact=Artefact.COMPACT, tolerance=1e-10, **QUICK)
    result = train(table(), spec)
    assert result.stored is result.posterior
    assert result.report.artefact.kind == "full"
    assert any("stored in full: with error bars within 1e-10" in words for words in result.report.warnings)


def test_a_mean_alone_is_the_same_mean() -> None:
    dataset = table(5)
    result = train(dataset, TrainSpec(artefact=Artefact.MEAN, **QUICK))
    mean = served(result.stored)
    assert mean.mean_only
    assert result.report.artefact.kind == "mean"
    assert result.report.artefact.directions is None
    np.testing.assert_array_equal(Predictor(mean).mean(dataset.inputs), predict(result.posterior, dataset.inputs).mean)


# Holding rows out


def test_held_out_rows_do_not_move_theta() -> None:
    """Of 40 rows, a quarter held out: a change of the target moves the objectives for the other 30 and only those."""
    dataset = table(1, n=40)
    spec = TrainSpec(basis_size=4, adaptation=Adaptation(rounds=1, steps=2), holdout=0.25)
    before = train(dataset, spec).report
    assert before.holdout is not None
    assert before.holdout.rows == 10
    unmoved = 0
    for row in range(40):
        targets = dataset.targets.copy()
        targets[row] += 10.0
        after = train(Dataset(inputs=dataset.inputs, targets=targets, groups=dataset.groups), spec).report
        unmoved += after.objectives == before.objectives
        assert after.leave_one_out.rmse != before.leave_one_out.rmse
    assert unmoved == 10


def test_published_model_learns_from_all_rows() -> None:
    """With theta given, holding rows out changes nothing about the model, only about the report."""
    dataset = table(2)
    spec = TrainSpec(basis_size=12, adaptation=None, start=START, pool_size=90)
    held = train(dataset, spec)
    none = train(dataset, replace(spec, holdout=0.0))
    np.testing.assert_array_equal(held.posterior.alpha, none.posterior.alpha)
    np.testing.assert_array_equal(held.selection.indices, none.selection.indices)
    assert held.report.holdout is not None
    assert held.report.holdout.rows == 9
    assert none.report.holdout is None


def test_holdout_scores_are_honest() -> None:
    """On a smooth function with known noise, the report is close to what rows never uploaded say."""
    dataset = table(3, n=900)
    result = train(dataset.take(np.arange(600)), TrainSpec(basis_size=40, holdout=0.3, seed=1))
    new = dataset.take(np.arange(600, 900))
    ours = predict(result.posterior, new.inputs)
    nmse = np.mean((new.targets - ours.mean) ** 2) / new.targets.var()
    assert result.report.holdout is not None
    assert result.report.holdout.nmse == pytest.approx(nmse, rel=0.5)
    assert nmse < 0.12  # the noise alone is 0.06
    assert 0.88 <= result.report.holdout.coverage["0.95"] <= 1.0


# Going on after a crash


class CutError(Exception):
    """Stands for the process that dies."""


def checkpoints_of(dataset: Dataset, spec: TrainSpec) -> tuple[TrainResult, list[Checkpoint]]:
    """An uninterrupted run, and its checkpoints as they come back from a database."""
    checkpoints: list[Checkpoint] = []

    def listen(event: Progress | Checkpoint) -> None:
        if isinstance(event, Checkpoint):
            checkpoints.append(Checkpoint.from_json(json.loads(json.dumps(asdict(event), allow_nan=False))))

    return train(dataset, spec, listen=listen), checkpoints


@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize("approximation", [Approximation.DTC, Approximation.FITC, Approximation.PEP])
def test_resumed_run_ends_with_the_same_bits(method: Method, approximation: Approximation) -> None:
    """From every checkpoint, after a JSON round trip, in a run whose listener hears nothing of the first."""
    spec = TrainSpec(
        method=method,
        approximation=approximation,
        basis_size=10,
        adaptation=Adaptation(rounds=3, steps=6),
        candidates=9,
        cache_size=20,
        pool_size=40,
    )
    dataset = table(4)
    whole, checkpoints = checkpoints_of(dataset, spec)
    rounds = [checkpoint.round for checkpoint in checkpoints]
    assert rounds == [0, 1, 2, 3]
    for checkpoint in checkpoints:
        same_bits(train(dataset, spec, resume=checkpoint), whole)


def test_rounds_end_when_the_loss_has_settled() -> None:
    spec = TrainSpec(basis_size=30, adaptation=Adaptation(rounds=40, steps=40))
    _, checkpoints = checkpoints_of(table(n=400), spec)
    assert len(checkpoints) < 20
    assert checkpoints[-1].round == 40


def test_resumed_run_ends_with_the_same_bits_for_any_theta() -> None:
    """exp(log v) differs from v in the last bit for one theta in five, and a descent makes much of it."""
    for seed in range(25):
        spec = TrainSpec(basis_size=5, adaptation=Adaptation(rounds=2, steps=5), seed=seed)
        dataset = table(seed, n=30)
        whole, checkpoints = checkpoints_of(dataset, spec)
        for checkpoint in checkpoints:
            same_bits(train(dataset, spec, resume=checkpoint), whole)


def test_run_cut_off_again_and_again_ends_with_the_same_bits() -> None:
    """Each attempt dies in the middle of a round that it has just begun, as under kill -9."""
    dataset = table(5)
    spec = TrainSpec(**{**QUICK, "adaptation": Adaptation(rounds=3, steps=6)})
    saved: Checkpoint | None = None

    def listen(event: Progress | Checkpoint) -> None:
        nonlocal saved
        if isinstance(event, Checkpoint):
            saved = event
        elif saved is not None and event.phase is Phase.ADAPTING and event.round == saved.round != begun:
            raise CutError

    deaths, result = 0, None
    while result is None:
        begun = None if saved is None else saved.round
        try:
            result = train(dataset, spec, listen=listen, resume=saved)
        except CutError:
            deaths += 1
            assert deaths < 10
    assert deaths >= 2
    same_bits(result, train(dataset, spec))


def test_resume_with_a_given_start_and_no_bias_keeps_it_exactly() -> None:
    """exp(log v) is not v to the last bit, and the logarithm of no bias is not a number."""
    start = hyperparameters([1.1, 2.0, 1.6], signal_variance=1.4, bias_variance=0.0, noise_variance=0.07)
    spec = TrainSpec(basis_size=10, adaptation=None, start=start)
    dataset = table(4)
    whole, checkpoints = checkpoints_of(dataset, spec)
    assert checkpoints
    for checkpoint in checkpoints:
        same_bits(train(dataset, spec, resume=checkpoint), whole)


def test_warnings_of_finished_rounds_are_in_the_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """A jitter raised in round one is in the report whether or not the run was cut off after it."""
    monkeypatch.setattr(core.linalg, "JITTERS", (1e-18, 1e-8))
    start = hyperparameters([1e3, 1e3, 1e3], signal_variance=1.0, bias_variance=0.1, noise_variance=0.1)
    spec = TrainSpec(method=Method.RAND, basis_size=40, start=start, adaptation=Adaptation(rounds=2, steps=2))
    whole, (_, first, _) = checkpoints_of(table(6), spec)
    assert any("jitter raised" in text for text in whole.report.warnings)
    assert any("jitter raised" in text for text in first.warnings)


# What is told meanwhile


@pytest.mark.parametrize("method", [Method.DMAX, Method.BATCH])
def test_progress(method: Method) -> None:
    events: list[Progress] = []
    train(
        table(),
        TrainSpec(method=method, **QUICK),
        listen=lambda event: events.append(event) if isinstance(event, Progress) else None,
    )
    fractions = [event.fraction for event in events]
    assert fractions == sorted(fractions)
    assert fractions[0] == 0.0
    assert fractions[-1] == 1.0
    assert {event.phase for event in events} == set(Phase) - {Phase.REFINING}
    assert {event.rounds for event in events} == {2}
    assert [event.round for event in events] == sorted(event.round for event in events)
    assert {event.round for event in events if event.phase is Phase.ADAPTING} == {0, 1}
    assert all(event.basis_size == 10 for event in events if event.phase is Phase.ADAPTING)
    adapting = [event for event in events if event.phase is Phase.ADAPTING]
    assert len(adapting) >= 8  # a person sees every evaluation, not only every round
    assert adapting[-1].objective is not None


def test_checkpoints_hold_rows_of_the_dataset() -> None:
    dataset = table(7)
    result, checkpoints = checkpoints_of(dataset, TrainSpec(**QUICK))
    first, *rounds = checkpoints
    assert (first.round, first.indices, first.objectives) == (0, (), ())
    assert [len(checkpoint.indices) for checkpoint in rounds] == [10, 10]
    assert rounds[-1].objectives == result.report.objectives
    assert all(0 <= index < 90 for index in rounds[-1].indices)
    np.testing.assert_allclose(rounds[-1].theta, to_log(result.report.hyperparameters), rtol=1e-14)


def test_report_is_json_with_seconds_for_every_phase() -> None:
    report = train(table(), TrainSpec(**QUICK)).report.to_json()
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    assert set(report["seconds"]) == set(Phase) - {Phase.REFINING}
    assert all(value >= 0 for value in report["seconds"].values())
    assert len(report["hyperparameters"]["lengthscales"]) == 3
    assert len(report["objectives"]) == 2


def test_a_listener_that_fails_stops_the_run() -> None:
    def listen(event: Progress | Checkpoint) -> None:
        if isinstance(event, Progress) and event.phase is Phase.FITTING:
            raise CutError

    with pytest.raises(CutError):
        train(table(), TrainSpec(**QUICK), listen=listen)


# Choice and theta


def test_same_seed_same_bits_other_seed_other_rows() -> None:
    dataset = table(8)
    first = train(dataset, TrainSpec(**QUICK))
    same_bits(train(dataset, TrainSpec(**QUICK)), first)
    other = train(dataset, TrainSpec(**QUICK, seed=1))
    assert other.selection.indices.tolist() != first.selection.indices.tolist()


def test_without_adaptation_the_start_is_kept_exactly() -> None:
    result = train(table(), TrainSpec(basis_size=10, adaptation=None, start=START))
    np.testing.assert_array_equal(result.report.hyperparameters.lengthscales, START.lengthscales)
    assert result.report.hyperparameters.noise_variance == START.noise_variance
    assert result.report.objectives == ()


@pytest.mark.parametrize("approximation", list(Approximation))
def test_adaptation_lowers_its_objective(approximation: Approximation) -> None:
    """Against its own start, on the same number of rows."""
    dataset = table(9, n=150)
    bad = hyperparameters([9.0, 9.0, 9.0], signal_variance=0.5, bias_variance=0.1, noise_variance=0.8)
    spec = TrainSpec(approximation=approximation, basis_size=20, start=bad, adaptation=Adaptation(rounds=3, steps=15))
    adapted = train(dataset, spec).report
    kept = train(dataset, replace(spec, adaptation=None)).report
    assert adapted.objectives[-1] < adapted.objectives[0] + 1.0
    assert adapted.leave_one_out.nlpd < kept.leave_one_out.nlpd - 0.1
    assert adapted.hyperparameters.noise_variance < 0.4


@pytest.mark.parametrize("method", list(Method))
def test_smaller_basis_is_the_start_of_a_larger_one(method: Method) -> None:
    dataset = table(10)
    spec = TrainSpec(
        method=method, adaptation=None, start=START, candidates=8, cache_size=20, pool_size=60, basis_size=25
    )
    long = train(dataset, spec).selection.indices
    for size in (1, 9):
        np.testing.assert_array_equal(train(dataset, replace(spec, basis_size=size)).selection.indices, long[:size])


def test_order_of_rows_does_not_matter_where_nothing_is_drawn() -> None:
    """All rows in the pool and theta given: the same rows are chosen and the same numbers predicted."""
    dataset = table(11)
    order = np.random.default_rng(0).permutation(90)
    spec = TrainSpec(basis_size=15, pool_size=90, adaptation=None, start=START, holdout=0.0)
    before, after = train(dataset, spec), train(dataset.take(order), spec)
    np.testing.assert_array_equal(order[after.selection.indices], before.selection.indices)
    new = table(50).inputs
    ours, expected = predict(after.posterior, new), predict(before.posterior, new)
    np.testing.assert_allclose(ours.mean, expected.mean, rtol=1e-10)
    np.testing.assert_allclose(ours.latent_variance, expected.latent_variance, rtol=1e-7)


def test_chunks_and_threads_change_only_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = table(12, n=300)
    spec = TrainSpec(basis_size=15, pool_size=90, adaptation=None, start=START)
    new = table(50).inputs
    whole = predict(train(dataset, spec).posterior, new)
    monkeypatch.setattr(core.factors, "BLOCK_NUMBERS", 1)
    monkeypatch.setattr(core.factors, "KEPT_BYTES", 0)
    for workers in (1, 2, 5):
        ours = train(dataset, spec, workers=workers)
        np.testing.assert_allclose(predict(ours.posterior, new).mean, whole.mean, rtol=1e-10)
        same_bits(train(dataset, spec, workers=workers), ours)


@pytest.mark.parametrize("approximation", [Approximation.DTC, Approximation.FITC])
def test_memory_is_bounded_by_blocks(approximation: Approximation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a (P, n) nor a (d, n) array, past the size where blocks are kept: what lets a million rows train."""
    monkeypatch.setattr(core.factors, "KEPT_BYTES", 0)
    monkeypatch.setattr(core.factors, "BLOCK_NUMBERS", 1 << 16)  # half a megabyte
    dataset = table(13, n=40_000)
    spec = TrainSpec(
        approximation=approximation, basis_size=60, pool_size=300, start=START, adaptation=Adaptation(rounds=1, steps=2)
    )
    tracemalloc.start()
    train(dataset, spec)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    vector = 8 * len(dataset.targets)
    assert peak < 40 * vector  # 13 MB: a few copies of the table; (d, n) alone would be 60, (P, n) 300


@pytest.mark.parametrize("number", [1, 2, 4])
def test_start_needs_one_lengthscale_for_each_group(number: int) -> None:
    start = hyperparameters([1.0] * number, signal_variance=1.0, bias_variance=0.1, noise_variance=0.1)
    with pytest.raises(InvalidSpecError, match=f"expected 3.*got {number}") as caught:
        train(table(), TrainSpec(start=start))
    assert caught.value.field == "hyperparameters.lengthscales"


def test_auto_size_is_at_most_its_limit() -> None:
    result = train(table(), TrainSpec(max_basis_size=17, adaptation=Adaptation(rounds=1, steps=3)))
    assert 1 <= len(result.selection.indices) <= 17


def test_categories_share_a_lengthscale_and_matter() -> None:
    """Three levels with their own offsets, next to a number: found, and no level told from another by its order."""
    rng = np.random.default_rng(0)
    level, x = rng.integers(0, 3, size=400), rng.normal(size=400)
    block = np.eye(3)[level]
    y = np.array([0.0, 5.0, -3.0])[level] + np.sin(2 * x) + 0.1 * rng.normal(size=400)
    dataset = Dataset(
        inputs=np.column_stack([x, block]),
        targets=y,
        groups=np.array([0, 1, 1, 1]),
        indicator=np.array([False, True, True, True]),
    )
    result = train(dataset, TrainSpec(basis_size=40))
    assert result.report.holdout is not None
    assert result.report.holdout.nmse is not None
    assert result.report.holdout.nmse < 0.01
    assert len(result.report.hyperparameters.lengthscales) == 2
    np.testing.assert_array_equal(result.posterior.input_scale[1:], 1.0)


def test_model_that_explains_nothing_says_so() -> None:
    rng = np.random.default_rng(0)
    noise = Dataset(inputs=rng.normal(size=(300, 3)), targets=rng.normal(size=300))
    spec = TrainSpec(basis_size=15)
    assert any("explains almost nothing" in text for text in train(noise, spec).report.warnings)
    assert not any("explains almost nothing" in text for text in train(table(n=300), spec).report.warnings)


# Awkward tables


def quiet_and_finite(dataset: Dataset, result: TrainResult) -> None:
    """No number that is not one, nothing outside what the data can say."""
    ours = predict(result.posterior, dataset.inputs)
    spread = np.ptp(dataset.targets)
    assert np.isfinite(ours.mean).all()
    assert (ours.latent_variance >= 0).all()
    assert (ours.target_variance > 0).all()
    assert (np.abs(ours.mean - dataset.targets.mean()) <= 2 * spread).all()
    report = result.report.to_json()
    json.dumps(report, allow_nan=False)
    assert not any("encountered" in text for text in report["warnings"]), report["warnings"]


def awkward(kind: str, seed: int) -> Dataset:  # noqa: PLR0912  # a list of cases
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 3))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=60)
    match kind:
        case "two rows":
            X, y = X[:2], y[:2]
        case "three rows":
            X, y = X[:3], y[:3]
        case "fewer rows than columns":
            X, y = rng.normal(size=(8, 30)), rng.normal(size=8)
        case "constant columns":
            X[:, 1:] = [3.0, -1e9]
        case "every column constant":
            X[:] = 7.0
        case "every row twice":
            X, y = np.repeat(X, 2, axis=0), np.repeat(y, 2)
        case "same inputs, other targets":
            X[:30] = X[30:]
        case "noise-free":
            y = np.sin(2 * X[:, 0])
        case "noise-free line":
            y = 3.0 * X[:, 0]
        case "offset":
            X, y = 1e6 + 1e-3 * X, 1e6 + 1e-3 * y
        case "two values":
            y = np.where(X[:, 0] > 0, 1.0, 0.0)
        case "one outlier":
            X[3, 1], y[3] = 1e6, 1e6
        case "one row differs":
            y = np.zeros(60)
            y[7] = 1.0
        case "integers":
            X, y = np.round(3 * X), np.round(3 * y)
        case "copied column":
            X[:, 2] = X[:, 0]
    return Dataset(inputs=X, targets=y)


KINDS = [
    "two rows",
    "three rows",
    "fewer rows than columns",
    "constant columns",
    "every column constant",
    "every row twice",
    "same inputs, other targets",
    "noise-free",
    "noise-free line",
    "offset",
    "two values",
    "one outlier",
    "one row differs",
    "integers",
    "copied column",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("approximation", list(Approximation))
def test_awkward_tables_train_and_predict(kind: str, approximation: Approximation) -> None:
    dataset = awkward(kind, 0)
    spec = TrainSpec(approximation=approximation, basis_size=20, adaptation=Adaptation(rounds=2, steps=10))
    quiet_and_finite(dataset, train(dataset, spec))


@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    approximation=st.sampled_from(list(Approximation)),
    method=st.sampled_from(list(Method)),
    seed=st.integers(0, 10_000),
    standardize=st.booleans(),
    size=st.integers(1, 70),
)
def test_any_method_on_any_awkward_table(
    kind: str, approximation: Approximation, method: Method, seed: int, standardize: bool, size: int
) -> None:
    dataset = awkward(kind, seed)
    spec = TrainSpec(
        method=method,
        approximation=approximation,
        basis_size=size,
        standardize=standardize or kind in {"offset", "constant columns", "one outlier"},
        adaptation=Adaptation(rounds=1, steps=5),
        seed=seed,
    )
    quiet_and_finite(dataset, train(dataset, spec))


@pytest.mark.parametrize("approximation", list(Approximation))
def test_noise_free_function_is_learned_to_three_digits(approximation: Approximation) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(300, 2))
    y = np.sin(2 * X[:, 0]) * np.cos(X[:, 1])
    dataset = Dataset(inputs=X[:200], targets=y[:200])
    result = train(dataset, TrainSpec(approximation=approximation, basis_size=60))
    ours = predict(result.posterior, X[200:])
    assert np.mean((ours.mean - y[200:]) ** 2) / y.var() < 1e-3


@pytest.mark.parametrize("approximation", [Approximation.DTC, Approximation.FITC])
def test_huge_offset_changes_only_the_offset(approximation: Approximation) -> None:
    case = problem(3, n=90)
    spec = TrainSpec(approximation=approximation, basis_size=15, adaptation=None, start=START, pool_size=90)
    plain = train(Dataset(inputs=case.X, targets=case.y, groups=case.groups), spec)
    moved = train(Dataset(inputs=1e6 + 1e-3 * case.X, targets=1e6 + 1e-3 * case.y, groups=case.groups), spec)
    np.testing.assert_array_equal(moved.selection.indices, plain.selection.indices)
    new = np.random.default_rng(0).normal(size=(20, 4))
    ours, expected = predict(moved.posterior, 1e6 + 1e-3 * new), predict(plain.posterior, new)
    np.testing.assert_allclose((ours.mean - 1e6) / 1e-3, expected.mean, atol=1e-5)
    np.testing.assert_allclose(ours.latent_variance / 1e-6, expected.latent_variance, rtol=1e-4)


def test_target_in_its_own_unit_far_from_nought() -> None:
    """standardize=False: a target of mean 10^4 and deviation 1 is learned all the same."""
    case = problem(3, n=200)
    dataset = Dataset(inputs=case.X, targets=1e4 + case.y, groups=case.groups)
    result = train(dataset, TrainSpec(basis_size=30, standardize=False))
    assert result.report.leave_one_out.nmse is not None
    assert result.report.leave_one_out.nmse < 0.3


@pytest.mark.parametrize("approximation", [Approximation.SOR, Approximation.FITC])
def test_trained_model_restored_from_bytes_predicts_bit_for_bit(approximation: Approximation) -> None:
    result = train(table(), TrainSpec(approximation=approximation, **QUICK))
    arrays = {name: np.frombuffer(a.tobytes()).reshape(a.shape) for name, a in result.posterior.arrays().items()}
    restored = SparsePosterior.restore(arrays, json.loads(json.dumps(result.posterior.scalars())))
    new = table(50).inputs
    ours, expected = predict(restored, new), predict(result.posterior, new)
    np.testing.assert_array_equal(ours.mean, expected.mean)
    np.testing.assert_array_equal(ours.target_variance, expected.target_variance)


def test_training_changes_neither_its_data_nor_the_global_state() -> None:
    dataset = table()
    inputs: FloatArray = dataset.inputs.copy()
    state = np.random.get_state()[1].copy()  # type: ignore[index]  # the legacy tuple
    before = warnings.filters[:]
    train(dataset, TrainSpec(**QUICK))
    np.testing.assert_array_equal(dataset.inputs, inputs)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # type: ignore[index]  # as above
    assert warnings.filters[:] == before
