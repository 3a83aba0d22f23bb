"""core/predict/predictor.py and core/sparse/posterior.py: the served numbers against conditioning of the joint
Gaussian."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.arrays import FloatArray
from core.data import Dataset, standardization
from core.errors import InvalidDataError
from core.hyperparameters import Hyperparameters
from core.predict.calibration import Calibration
from core.predict.model import Model, ModelPredictor
from core.predict.predictor import PREDICTED_ROWS, Predictor, moments
from core.process.rows import Rows
from core.sparse.factors import factorise
from core.sparse.posterior import SparsePosterior, posterior
from core.sparse.scheme import scheme
from core.spec import Approximation
from tests.core.problems import POWER, hyperparameters, oracle_params, problem
from tests.core.runs import table
from tests.dense import precise
from tests.dense.kernel import Sparse
from tests.dense.posterior import exact_predict
from tests.dense.posterior import predict as oracle_predict

EVERY = list(Approximation)


def fitted(
    dataset: Dataset,
    hyperparameters: Hyperparameters,
    indices: list[int],
    approximation: Approximation,
    *,
    standardize: bool = True,
) -> tuple[SparsePosterior, Sparse]:
    """The served posterior, and the same model for the oracles (standardized)."""
    units = standardization(dataset, enabled=standardize)
    X, y = units.inputs(dataset.inputs), units.targets(dataset.targets)
    rows = Rows(X=X, y=y, groups=dataset.groups)
    factors = factorise(rows, X[indices], hyperparameters, scheme(approximation, POWER))
    served = posterior(factors, dataset.inputs[indices], dataset.groups, units)
    params = oracle_params(hyperparameters, dataset.groups)
    return served, Sparse(approximation.value, params, X, y, X[indices], POWER, factors.jitter)


HP = hyperparameters([1.1, 2.0, 1.6], signal_variance=1.4, bias_variance=0.3, noise_variance=0.07)
BASIS = [3, 17, 30, 8, 22, 11, 5]


def model(approximation: Approximation, seed: int = 0) -> SparsePosterior:
    return fitted(table(seed, 40), HP, BASIS, approximation)[0]


@pytest.mark.parametrize("approximation", EVERY)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_prediction_in_the_targets_unit(seed: int, approximation: Approximation) -> None:
    dataset = table(seed, 40)
    served, oracle = fitted(dataset, HP, BASIS, approximation)
    new = table(seed + 100, 40).inputs
    ours = moments(served, new)
    X = (new - dataset.inputs.mean(axis=0)) / dataset.inputs.std(axis=0)
    mean, variance = oracle_predict(oracle, X)
    unit = dataset.targets.std()
    np.testing.assert_allclose(ours.mean, dataset.targets.mean() + unit * mean, rtol=1e-9)
    np.testing.assert_allclose(ours.latent_variance, unit**2 * variance, rtol=1e-7)
    np.testing.assert_allclose(ours.target_variance, unit**2 * (variance + HP.noise_variance), rtol=1e-7)
    np.testing.assert_array_equal(Predictor(served).mean(new), ours.mean)


@pytest.mark.parametrize("approximation", EVERY)
def test_all_rows_as_basis_is_the_full_process(approximation: Approximation) -> None:
    dataset = table(3, 40)
    served, oracle = fitted(dataset, HP, list(range(40)), approximation)
    X = np.random.default_rng(1).normal(size=(30, 4))
    new = X * dataset.inputs.std(axis=0) + dataset.inputs.mean(axis=0)
    ours = moments(served, new)
    mean, variance = exact_predict(oracle.params, oracle.X, oracle.y, X)
    unit = dataset.targets.std()
    np.testing.assert_allclose(ours.mean, dataset.targets.mean() + unit * mean, atol=1e-5 * unit)
    if approximation is Approximation.SOR:
        assert (ours.latent_variance < unit**2 * variance + 1e-5).all()
    else:
        np.testing.assert_allclose(ours.latent_variance, unit**2 * variance, atol=1e-5 * unit**2)


@pytest.mark.parametrize("approximation", EVERY)
@pytest.mark.parametrize("distance", [1e3, 1e6, 1e150, 1e300, 1.7e308])
def test_far_from_the_data_there_is_only_the_prior(distance: float, approximation: Approximation) -> None:
    """No bias: the target's mean, and variance v0 (+ s2), or nothing for SoR: its known fault."""
    hp = hyperparameters([1.1, 2.0, 1.6], signal_variance=1.4, bias_variance=0.0, noise_variance=0.07)
    dataset = table(0, 40)
    served, _ = fitted(dataset, hp, BASIS, approximation)
    far = dataset.inputs[:3] + distance * np.eye(4)[:3] * [[1.0], [-1.0], [1.0]]
    far[2] = [distance, -distance, distance, distance]
    ours = moments(served, far[1:])
    unit = dataset.targets.std()
    np.testing.assert_allclose(ours.mean, dataset.targets.mean(), rtol=1e-12)
    prior = 0.0 if approximation is Approximation.SOR else 1.4
    np.testing.assert_allclose(ours.latent_variance, prior * unit**2, rtol=1e-10)
    np.testing.assert_allclose(ours.target_variance, (prior + 0.07) * unit**2, rtol=1e-10)


@pytest.mark.parametrize("approximation", EVERY)
def test_variance_is_never_negative_and_never_above_the_prior(approximation: Approximation) -> None:
    served = model(approximation)
    ours = moments(served, np.vstack([table(0, 40).inputs, table(7, n=200).inputs]))
    unit = served.target_scale**2
    assert (ours.latent_variance >= 0).all()
    assert (ours.latent_variance <= HP.prior_variance * unit * (1 + 1e-12)).all()
    assert (ours.target_variance >= HP.noise_variance * unit).all()


@pytest.mark.parametrize("approximation", EVERY)
@pytest.mark.parametrize("noise", [1e-4, 1e-8])
def test_small_noise_keeps_its_digits(noise: float, approximation: Approximation) -> None:
    """Against 60-digit arithmetic. At the basis rows the latent variance is about s2: k'Bk has no digit of it."""
    case = problem(12, n=30, d=8).with_hyperparameters(noise_variance=noise)
    dataset = Dataset(inputs=case.X, targets=case.y, groups=case.groups)
    served, oracle = fitted(dataset, case.hyperparameters, case.indices.tolist(), approximation, standardize=False)
    new = np.vstack([case.Z[:3], np.random.default_rng(0).normal(size=(3, 4))])
    ours = moments(served, new)
    mean, variance = precise.predict(oracle, new - served.input_shift)
    np.testing.assert_allclose(ours.mean, mean, atol=1e-7)
    np.testing.assert_allclose(ours.latent_variance, variance, rtol=1e-5, atol=1e-14 / noise**0.5)


# How far the data reach


@pytest.mark.parametrize("approximation", [a for a in EVERY if a is not Approximation.SOR])
def test_support_is_the_share_of_what_is_left_far_away(approximation: Approximation) -> None:
    """Support by the dense posterior at these rows and at one a million lengthscales off."""
    dataset, new = table(0, 40), table(9, 40).inputs
    served, oracle = fitted(dataset, HP, BASIS, approximation)
    shift, scale = dataset.inputs.mean(axis=0), dataset.inputs.std(axis=0)
    _, variance = oracle_predict(oracle, np.vstack([(new - shift) / scale, np.full((1, 4), 1e6)]))
    found = Predictor(served).moments(new)
    assert found.far_variance == Predictor(served).far_variance
    assert found.far_variance == pytest.approx(variance[-1] * dataset.targets.std() ** 2, rel=1e-9)
    support = ModelPredictor(Model(posterior=served)).predict(new).support
    np.testing.assert_allclose(support, np.minimum(variance[:-1] / variance[-1], 1.0), rtol=1e-7)
    assert 0.01 < support.min() < support.max() <= 1.0
    far = shift + 1e6 * scale * [[1.0, 1.0, 1.0, 1.0], [-1.0, 1.0, 1.0, 1.0]]
    np.testing.assert_allclose(ModelPredictor(Model(posterior=served)).predict(far).support, 1.0, rtol=1e-12)
    scaled = Model(posterior=served, calibration=Calibration(latent_scale=3.0, noise_scale=0.2))
    np.testing.assert_array_equal(ModelPredictor(scaled).predict(new).support, support)


@pytest.mark.parametrize("approximation", [a for a in EVERY if a is not Approximation.SOR])
def test_support_is_nought_at_the_data_where_there_is_no_noise(approximation: Approximation) -> None:
    hp = hyperparameters([1.1, 2.0, 1.6], signal_variance=1.4, bias_variance=0.3, noise_variance=1e-9)
    dataset = table(0, 40)
    served, _ = fitted(dataset, hp, list(range(40)), approximation)
    support = ModelPredictor(Model(posterior=served)).predict(dataset.inputs).support
    assert (support >= 0.0).all()
    assert (support < 1e-5).all()


def test_sor_has_no_support() -> None:
    """Its prior has no variance outside the span of its basis: near and far are told apart by nothing."""
    assert Predictor(model(Approximation.SOR)).far_variance == np.inf
    support = ModelPredictor(Model(posterior=model(Approximation.SOR))).predict(table(9, 40).inputs).support
    np.testing.assert_array_equal(support, np.zeros(40))


# A row's answer and its batch


def bits(served: SparsePosterior, inputs: FloatArray) -> FloatArray:
    ours = moments(served, inputs)
    np.testing.assert_array_equal(Predictor(served).mean(inputs), ours.mean)
    return np.column_stack([ours.mean, ours.latent_variance, ours.target_variance])


@pytest.mark.parametrize("size", [1, 7, 30, 129])
@pytest.mark.parametrize("approximation", [Approximation.SOR, Approximation.FITC])
def test_a_row_is_the_same_to_the_last_bit_whatever_its_batch(size: int, approximation: Approximation) -> None:
    dataset = table(0, n=300)
    indices = np.random.default_rng(0).permutation(300)[:size].tolist()
    served, _ = fitted(dataset, HP, indices, approximation)
    new = table(5, n=PREDICTED_ROWS + 301).inputs
    whole = bits(served, new)
    rng = np.random.default_rng(1)
    for row in (0, 1, 7, 8, 300, PREDICTED_ROWS - 1, PREDICTED_ROWS, len(new) - 1):
        np.testing.assert_array_equal(bits(served, new[row : row + 1]), whole[row : row + 1])
    for batch in (2, 3, 5, 8, 9, 17, 64, 511, 513):
        rows = rng.permutation(len(new))[:batch]
        np.testing.assert_array_equal(bits(served, new[rows]), whole[rows])
    np.testing.assert_array_equal(bits(served, new[::-1]), whole[::-1])
    np.testing.assert_array_equal(bits(served, np.asfortranarray(new)), whole)


BATCHES = """
import json
from dataclasses import replace
import numpy as np
from core.sparse.posterior import SparsePosterior
from core.predict.predictor import moments
rng = np.random.default_rng(0)
d, p = 700, 9
new = rng.normal(size=(1000, p))
squares = SparsePosterior(
    basis=rng.normal(size=(d, p)), lengthscales=np.full(p, 2.0), groups=np.arange(p, dtype=float),
    alpha=rng.normal(size=d), R=np.triu(rng.normal(size=(d, d))), input_shift=np.zeros(p),
    input_scale=np.ones(p), target_shift=0.0, target_scale=1.0, signal_variance=1.0, bias_variance=0.1,
    noise_variance=0.1, variance_base=0.0, variance_sign=1.0, far_variance=0.0)
share = 1.0 / moments(squares, new).latent_variance.max()  # from here on the variance is 1.1 - |R k|^2, down to 0.1
served = replace(squares, R=squares.R * np.sqrt(share), variance_base=1.1, variance_sign=-1.0, far_variance=1.1)
whole = moments(served, new)
differences = {}
for size in (1, 2, 8, 9, 31, 100, 257, 512):
    for start in (0, 3, 480):
        part = moments(served, new[start:start + size])
        for name in ("mean", "latent_variance", "target_variance"):
            difference = np.abs(getattr(part, name) - getattr(whole, name)[start:start + size]).max()
            differences[name] = max(differences.get(name, 0.0), float(difference))
print(json.dumps({"differences": differences, "size": float(np.abs(whole.mean).max())}))
"""


@pytest.mark.parametrize(
    ("threads", "most"), [("1", 0.0), pytest.param("2", 1e-12, marks=pytest.mark.slow), ("4", 1e-12)]
)
def test_batches_of_a_large_basis(threads: str, most: float) -> None:
    """The same bits where BLAS has one thread, as when served; more threads split a product by its size, and the bits
    of the tails with it. A new process: threads are set at import."""
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, threads)}
    answer = subprocess.run(
        [sys.executable, "-c", BATCHES], env=environment, check=True, capture_output=True, timeout=60
    )
    found = json.loads(answer.stdout)
    assert found["size"] > 1.0
    assert max(found["differences"].values()) <= most * found["size"]


def test_no_rows() -> None:
    ours = moments(model(Approximation.FITC), np.empty((0, 4)))
    assert len(ours.mean) == len(ours.latent_variance) == 0


def test_prediction_leaves_its_argument_and_the_predictor_alone() -> None:
    predictor = Predictor(model(Approximation.FITC))
    new = table(5, 40).inputs
    given_ = new.copy()
    first, second = predictor.moments(new), predictor.moments(new)
    np.testing.assert_array_equal(new, given_)
    np.testing.assert_array_equal(first.mean, second.mean)
    np.testing.assert_array_equal(first.latent_variance, second.latent_variance)


@pytest.mark.parametrize("inputs", [np.zeros((3, 5)), np.zeros(4), np.zeros((1, 3)), np.zeros((2, 2, 4))])
def test_another_shape_is_refused(inputs: FloatArray) -> None:
    with pytest.raises(InvalidDataError, match=r"\(m, 4\)"):
        moments(model(Approximation.FITC), inputs)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_finite_names_the_cell(value: float) -> None:
    new = table(5, 40).inputs
    new = new.copy()
    new[6, 2] = value
    with pytest.raises(InvalidDataError, match="row 6, input column 2"):
        moments(model(Approximation.FITC), new)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), approximation=st.sampled_from(EVERY))
def test_order_of_rows_and_basis_does_not_matter(seed: int, approximation: Approximation) -> None:
    dataset = table(seed, 40)
    order = np.random.default_rng(seed).permutation(40)
    moved = dataset.take(order)
    places = np.argsort(order)[BASIS][::-1].tolist()
    new = table(seed + 1, 40).inputs
    before = moments(fitted(dataset, HP, BASIS, approximation)[0], new)
    after = moments(fitted(moved, HP, places, approximation)[0], new)
    np.testing.assert_allclose(after.mean, before.mean, rtol=1e-9)
    np.testing.assert_allclose(after.latent_variance, before.latent_variance, rtol=1e-6)


@pytest.mark.parametrize("approximation", EVERY)
def test_a_basis_vector_twice_is_that_vector_once(approximation: Approximation) -> None:
    """Only the jitter tells them apart."""
    dataset, new = table(0, 40), table(9, 40).inputs
    once = moments(fitted(dataset, HP, BASIS, approximation)[0], new)
    twice = moments(fitted(dataset, HP, [*BASIS, BASIS[0]], approximation)[0], new)
    unit = dataset.targets.std()
    np.testing.assert_allclose(twice.mean, once.mean, atol=1e-5 * unit)
    np.testing.assert_allclose(twice.latent_variance, once.latent_variance, atol=1e-5 * unit**2)


@pytest.mark.parametrize("approximation", EVERY)
def test_every_row_twice_halves_the_noise(approximation: Approximation) -> None:
    """Two observations of one function value count as one with half the noise (DTC; FITC shares more)."""
    dataset, new = table(0, 40), table(9, 40).inputs
    doubled = dataset.take(np.tile(np.arange(40), 2))
    ours = moments(fitted(doubled, HP, BASIS, approximation)[0], new)
    if approximation in {Approximation.FITC, Approximation.PEP}:
        oracle = fitted(doubled, HP, BASIS, approximation)[1]
        units = standardization(doubled)
        mean, _ = oracle_predict(oracle, units.inputs(new))
        np.testing.assert_allclose(ours.mean, units.target_shift + units.target_scale * mean, rtol=1e-9)
        return
    half = Hyperparameters(
        lengthscales=HP.lengthscales,
        signal_variance=HP.signal_variance,
        bias_variance=HP.bias_variance,
        noise_variance=HP.noise_variance / 2,
    )
    expected = moments(fitted(dataset, half, BASIS, approximation)[0], new)
    np.testing.assert_allclose(ours.mean, expected.mean, rtol=1e-9)
    np.testing.assert_allclose(ours.latent_variance, expected.latent_variance, rtol=1e-7)


def test_a_constant_column_changes_nothing_at_all() -> None:
    dataset = table(0, 40)
    wider = Dataset(
        inputs=np.column_stack([dataset.inputs, np.full(40, 1e6 + 0.1)]),
        targets=dataset.targets,
        groups=np.append(dataset.groups, 3),
    )
    more = hyperparameters(
        [*HP.lengthscales, 0.5],
        signal_variance=HP.signal_variance,
        bias_variance=HP.bias_variance,
        noise_variance=HP.noise_variance,
    )
    new = table(9, 40).inputs
    expected = moments(fitted(dataset, HP, BASIS, Approximation.FITC)[0], new)
    for value in (1e6 + 0.1, -3.0):  # seen and never seen
        ours = moments(fitted(wider, more, BASIS, Approximation.FITC)[0], np.column_stack([new, np.full(40, value)]))
        np.testing.assert_allclose(ours.mean, expected.mean, rtol=1e-12)
        np.testing.assert_allclose(ours.latent_variance, expected.latent_variance, rtol=1e-9)


@pytest.mark.parametrize("approximation", EVERY)
def test_a_huge_offset_changes_only_the_offset(approximation: Approximation) -> None:
    """Inputs and target at 1e6 +- 1e-3."""
    case = problem(3)
    hp = case.hyperparameters
    plain = Dataset(inputs=case.X, targets=case.y, groups=case.groups)
    moved = Dataset(inputs=1e6 + 1e-3 * case.X, targets=1e6 + 1e-3 * case.y, groups=case.groups)
    new = np.random.default_rng(0).normal(size=(20, 4))
    expected = moments(fitted(plain, hp, BASIS, approximation)[0], new)
    ours = moments(fitted(moved, hp, BASIS, approximation)[0], 1e6 + 1e-3 * new)
    np.testing.assert_allclose((ours.mean - 1e6) / 1e-3, expected.mean, atol=3e-6)
    np.testing.assert_allclose(ours.latent_variance / 1e-6, expected.latent_variance, rtol=1e-5)
