"""core/predict/compact.py: what is left of a posterior, what it is expanded to and how it is stored."""

import numpy as np
import pytest

from core.errors import InvalidDataError, MeanOnlyError, NotPositiveDefiniteError
from core.hyperparameters import KernelFamily
from core.predict.compact import CompactPosterior, served, stored_bytes
from core.predict.predictor import Predictor, moments
from core.sparse.posterior import SparsePosterior
from core.spec import Approximation
from core.train.compress import compress
from tests.core.compacts import EVERY, TOLERANCES, everywhere, fitted, ratio
from tests.core.problems import problem
from tests.dense import compact as oracle
from tests.dense.posterior import predict as conditioned


@pytest.mark.parametrize("approximation", EVERY)
@pytest.mark.parametrize("tolerance", TOLERANCES)
@pytest.mark.parametrize("seed", [0, 1])
def test_expanded_variance_is_the_dense_one(approximation: Approximation, tolerance: float, seed: int) -> None:
    case = problem(seed, n=80, d=15)
    factors, full = fitted(case, approximation)
    compact = compress(factors, full, tolerance)
    new = everywhere(case)
    ours = moments(compact.expand(), new)
    directions = compact.directions.astype(np.float64)
    dense = oracle.latent_variance(case.sparse(approximation, factors.jitter), directions, compact.rest, new)
    np.testing.assert_allclose(ours.latent_variance, dense, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(ours.mean, moments(full, new).mean)
    np.testing.assert_allclose(ours.target_variance, ours.latent_variance + case.hyperparameters.noise_variance)


@pytest.mark.parametrize("family", [family for family in KernelFamily if family is not KernelFamily.GAUSSIAN])
def test_expanded_variance_of_every_kernel_is_the_dense_one(family: KernelFamily) -> None:
    case = problem(2, n=80, d=15).with_hyperparameters(kernel=family)
    factors, full = fitted(case, Approximation.PEP)
    compact = compress(factors, full, 0.01)
    ours = moments(compact.expand(), everywhere(case))
    directions = compact.directions.astype(np.float64)
    sparse = case.sparse(Approximation.PEP, factors.jitter)
    dense = oracle.latent_variance(sparse, directions, compact.rest, everywhere(case))
    np.testing.assert_allclose(ours.latent_variance, dense, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("approximation", EVERY)
def test_a_tiny_tolerance_is_the_full_posterior(approximation: Approximation) -> None:
    case = problem(5, n=100, d=18)
    factors, full = fitted(case, approximation)
    compact = compress(factors, full, 1e-12)
    assert compact.directions.shape[1] >= 17  # the last share may be c
    assert compact.directions.dtype == np.float64
    new = everywhere(case)
    ours, theirs = moments(compact.expand(), new), moments(full, new)
    np.testing.assert_allclose(ours.latent_variance, theirs.latent_variance, rtol=1e-10, atol=1e-11)
    assert compact.std_bound < 1e-9


@pytest.mark.parametrize("approximation", EVERY)
def test_a_wide_tolerance_needs_no_direction(approximation: Approximation) -> None:
    case = problem(6, n=60, d=10)
    factors, full = fitted(case, approximation)
    compact = compress(factors, full, 0.9)
    assert compact.directions.shape == (10, 0)
    assert stored_bytes(compact) == stored_bytes(full.without_variance())
    assert np.abs(ratio(compact.expand(), full, case.X) - 1.0).max() <= 0.9


def test_what_more_tolerance_saves() -> None:
    case = problem(7, n=300, d=60)
    factors, full = fitted(case, Approximation.VFE)
    sizes = [stored_bytes(compress(factors, full, tolerance)) for tolerance in (1e-9, 1e-4, 0.01, 0.1)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[2] < 0.6 * stored_bytes(full)


@pytest.mark.parametrize("approximation", EVERY)
def test_threads_find_the_same(approximation: Approximation) -> None:
    case = problem(8, n=1500, d=40)
    compacts = [compress(*fitted(case.changed(workers=count), approximation), 0.01) for count in (1, 3)]
    assert compacts[0].directions.shape == compacts[1].directions.shape
    assert compacts[0].largest_error == pytest.approx(compacts[1].largest_error, rel=1e-3)


def test_directions_without_information_do_not_cost_precision() -> None:
    """Shares of almost 1: rounded up they would make a variance negative."""
    case = problem(14, n=60, d=20).with_hyperparameters(
        noise_variance=5e-4, signal_variance=80.0, lengthscales=[1.3, 6.0, 4.0]
    )
    factors, full = fitted(case, Approximation.FITC)
    compact = compress(factors, full, 0.02)
    assert compact.directions.dtype == np.float16
    assert np.abs(ratio(compact.expand(), full, case.X) - 1.0).max() <= 0.02


def test_far_away_nothing_is_lost() -> None:
    case = problem(9).with_hyperparameters(bias_variance=0.0)
    factors, full = fitted(case, Approximation.FITC)
    far = np.full((3, 4), 1e3) * [[1.0], [-2.0], [1e200]]
    np.testing.assert_array_equal(ratio(compress(factors, full, 0.1).expand(), full, far), 1.0)


# Storage


@pytest.mark.parametrize("approximation", EVERY)
@pytest.mark.parametrize("tolerance", [0.05, 1e-5, 1e-11])
def test_restored_it_predicts_bit_for_bit(approximation: Approximation, tolerance: float) -> None:
    case = problem(10, n=100, d=25)
    before = compress(*fitted(case, approximation), tolerance)
    after = CompactPosterior.restore(before.arrays(), before.scalars())
    assert after.directions.dtype == before.directions.dtype
    assert after.directions.tobytes() == before.directions.tobytes()
    assert after.scalars() == before.scalars()
    one, two = (served(model) for model in (before, after))
    assert one.R.tobytes() == two.R.tobytes()
    assert {name: array.tobytes() for name, array in one.arrays().items()} == {
        name: array.tobytes() for name, array in two.arrays().items()
    }
    assert one.scalars() == two.scalars()


def small() -> CompactPosterior:
    return compress(*fitted(problem(11), Approximation.FITC), 0.01)


def test_restore_refuses_what_does_not_fit() -> None:
    compact = small()
    arrays, scalars = compact.arrays(), compact.scalars()
    for name in arrays:
        with pytest.raises(InvalidDataError):
            CompactPosterior.restore({key: value for key, value in arrays.items() if key != name}, scalars)
    for name in scalars:
        with pytest.raises(InvalidDataError):
            CompactPosterior.restore(arrays, {key: value for key, value in scalars.items() if key != name})
    full = fitted(problem(11), Approximation.FITC)[1]
    with pytest.raises(InvalidDataError, match="R: a compact model has none"):
        CompactPosterior.restore({**arrays, "R": full.arrays()["R"]}, scalars)
    with pytest.raises(InvalidDataError, match="16, 32 or 64 bit"):
        CompactPosterior.restore({**arrays, "directions": arrays["directions"].astype(np.int8)}, scalars)


def test_numbers_of_no_model_do_not_expand() -> None:
    compact = small()
    wrong = {**compact.arrays(), "directions": np.eye(7)[:, :2] * 3.0}
    with pytest.raises(NotPositiveDefiniteError):
        CompactPosterior.restore(wrong, compact.scalars()).expand()


def test_a_mean_alone() -> None:
    case = problem(12)
    full = fitted(case, Approximation.DTC)[1]
    mean = full.without_variance()
    assert mean.mean_only
    assert not full.mean_only
    assert served(mean) is mean
    np.testing.assert_array_equal(Predictor(mean).mean(case.X), moments(full, case.X).mean)
    with pytest.raises(MeanOnlyError, match="train it again as compact or full"):
        moments(mean, case.X)
    again = SparsePosterior.restore(mean.arrays(), mean.scalars())
    assert again.mean_only
    assert stored_bytes(full) - stored_bytes(again) == 8 * 7 * 8 // 2


@pytest.mark.parametrize("approximation", EVERY)
def test_the_oracle_agrees_with_conditioning(approximation: Approximation) -> None:
    """The variance with nothing left out is the joint Gaussian's conditional variance."""
    case = problem(13)
    factors, full = fitted(case, approximation)
    exact = compress(factors, full, 1e-12)
    dense = case.sparse(approximation, factors.jitter)
    new = case.X[:5] + 0.3
    ours = oracle.latent_variance(dense, exact.directions.astype(np.float64), exact.rest, new)
    np.testing.assert_allclose(ours, conditioned(dense, new)[1], atol=1e-9)
