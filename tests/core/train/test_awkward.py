"""core/train/run.py on tables that break things: they train, predict and are stored like any other."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.data import Dataset
from core.predict.model import ModelPredictor
from core.predict.predictor import moments
from core.sparse.posterior import SparsePosterior
from core.spec import Adaptation, Approximation, Calibrate, Method, TrainSpec
from core.train.report import TrainResult
from core.train.run import train
from tests.core.problems import problem
from tests.core.runs import QUICK, START, table

pytestmark = pytest.mark.usefixtures("short_search")


def assert_quiet_and_finite(dataset: Dataset, result: TrainResult) -> None:
    """No number that is not one, nothing outside what the data can say."""
    ours = moments(result.model.posterior, dataset.inputs)
    spread = np.ptp(dataset.targets)
    assert np.isfinite(ours.mean).all()
    assert (ours.latent_variance >= 0).all()
    assert (ours.target_variance > 0).all()
    assert (np.abs(ours.mean - dataset.targets.mean()) <= 2 * spread).all()
    target = ModelPredictor(result.model).predict(dataset.inputs)
    assert np.isfinite(target.variance).all()
    assert (target.variance > 0.0).all()
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


OTHERS = [approximation for approximation in Approximation if approximation is not Approximation.PEP]
"""Every kind is trained by PEP and by one of these in turn; all pairs are among the slow tests."""


@pytest.mark.parametrize(
    ("kind", "approximation"),
    [
        pytest.param(kind, approximation, marks=[] if often else pytest.mark.slow)
        for place, kind in enumerate(KINDS)
        for approximation in Approximation
        for often in [approximation in (Approximation.PEP, OTHERS[place % len(OTHERS)])]
    ],
)
def test_awkward_tables_train_and_predict(kind: str, approximation: Approximation) -> None:
    dataset = awkward(kind, 0)
    calibrate = Calibrate.CROSS_FIT if approximation is Approximation.PEP else Calibrate.LOO
    spec = TrainSpec(
        approximation=approximation, basis_size=20, adaptation=Adaptation(rounds=2, steps=5), calibrate=calibrate
    )
    assert_quiet_and_finite(dataset, train(dataset, spec))


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(KINDS),
    approximation=st.sampled_from(list(Approximation)),
    method=st.sampled_from(list(Method)),
    calibrate=st.sampled_from([None, *Calibrate]),
    seed=st.integers(0, 10_000),
    standardize=st.booleans(),
    size=st.integers(1, 70),
)
def test_any_method_on_any_awkward_table(
    kind: str,
    approximation: Approximation,
    method: Method,
    calibrate: Calibrate | None,
    seed: int,
    standardize: bool,
    size: int,
) -> None:
    dataset = awkward(kind, seed)
    spec = TrainSpec(
        method=method,
        approximation=approximation,
        basis_size=size,
        standardize=standardize or kind in {"offset", "constant columns", "one outlier"},
        adaptation=Adaptation(rounds=1, steps=5),
        calibrate=calibrate,
        seed=seed,
    )
    assert_quiet_and_finite(dataset, train(dataset, spec))


@pytest.mark.parametrize("approximation", list(Approximation))
def test_noise_free_function_is_learned_to_three_digits(approximation: Approximation) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(300, 2))
    y = np.sin(2 * X[:, 0]) * np.cos(X[:, 1])
    dataset = Dataset(inputs=X[:200], targets=y[:200])
    result = train(dataset, TrainSpec(approximation=approximation, basis_size=60, calibrate=None))
    ours = moments(result.model.posterior, X[200:])
    assert np.mean((ours.mean - y[200:]) ** 2) / y.var() < 1e-3


@pytest.mark.parametrize("approximation", [Approximation.DTC, Approximation.FITC])
def test_huge_offset_changes_only_the_offset(approximation: Approximation) -> None:
    case = problem(3, n=90)
    spec = TrainSpec(approximation=approximation, basis_size=15, adaptation=None, start=START, pool_size=90)
    plain = train(Dataset(inputs=case.X, targets=case.y, groups=case.groups), spec)
    moved = train(Dataset(inputs=1e6 + 1e-3 * case.X, targets=1e6 + 1e-3 * case.y, groups=case.groups), spec)
    np.testing.assert_array_equal(moved.selection.indices, plain.selection.indices)
    new = np.random.default_rng(0).normal(size=(20, 4))
    ours, expected = (
        moments(moved.model.posterior, 1e6 + 1e-3 * new),
        moments(plain.model.posterior, new),
    )
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
    arrays = {name: np.frombuffer(a.tobytes()).reshape(a.shape) for name, a in result.model.posterior.arrays().items()}
    restored = SparsePosterior.restore(arrays, json.loads(json.dumps(result.model.posterior.scalars())))
    new = table(50).inputs
    ours, expected = moments(restored, new), moments(result.model.posterior, new)
    np.testing.assert_array_equal(ours.mean, expected.mean)
    np.testing.assert_array_equal(ours.target_variance, expected.target_variance)
