"""core/train/compress.py: how small a compact model may be, and what it changes of the error bars that are served."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.arrays import FloatArray
from core.errors import InvalidDataError
from core.predict.calibration import Calibration
from core.predict.model import VaryingNoise, log_noise
from core.predict.predictor import moments
from core.sparse.posterior import SparsePosterior
from core.spec import Approximation, Artefact
from core.train.compress import compress, kept
from tests.core.compacts import EVERY, TOLERANCES, deviations, everywhere, fitted, noise_that_varies
from tests.core.problems import Problem, problem
from tests.dense import compact as oracle
from tests.dense.posterior import predict as conditioned

LATENT = [0.05, 0.3, 1.0, 4.0, 20.0]
SCALES = [(1.0, 1.0), (2.5, 0.6), (0.3, 1.4)]
Value = TypeVar("Value")


def in_turn(values: Sequence[Value]) -> list[tuple[float, Approximation, Value]]:
    """Every approximation with every value, with noise that varies and constant noise in turn."""
    return [
        (0.7 * ((row + column) % 2), approximation, value)
        for row, approximation in enumerate(EVERY)
        for column, value in enumerate(values)
    ]


def dense_deviations(
    case: Problem, approximation: Approximation, jitter: float, calibration: Calibration, logarithms: FloatArray
) -> FloatArray:
    """Standard deviations of the training rows' targets, by conditioning the joint Gaussian."""
    dense = case.sparse(approximation, jitter)
    latent = oracle.stretched(conditioned(dense, case.X)[1], oracle.far_variance(dense), calibration.latent_scale)
    return np.sqrt(latent + calibration.noise_scale * dense.params.s2 * np.exp(logarithms))


@pytest.mark.parametrize(("depth", "approximation", "scales"), in_turn(SCALES))
def test_the_rank_is_the_smallest_that_serves(
    depth: float, approximation: Approximation, scales: tuple[float, float]
) -> None:
    """Between those for a tolerance a little narrower, since rounding has its share, and the tolerance itself."""
    case = problem(3, n=80, d=20)
    factors, full = fitted(case, approximation)
    logarithms = log_noise(noise_that_varies(case, depth), case.X)
    noise = scales[1] * case.hyperparameters.noise_variance * np.exp(logarithms)
    calibration = Calibration(latent_scale=scales[0], noise_scale=scales[1])
    dense, ranks = case.sparse(approximation, factors.jitter), []
    for tolerance in TOLERANCES:
        compact = compress(factors, full, tolerance, calibration=calibration, log_noise=logarithms)
        most, least = (
            oracle.smallest_rank(dense, share * tolerance, latent_scale=scales[0], noise=noise) for share in (0.97, 1.0)
        )
        ranks.append(compact.directions.shape[1])
        assert least <= ranks[-1] <= most
    assert ranks == sorted(ranks)
    assert ranks[0] < ranks[-1]


@pytest.mark.parametrize(("depth", "approximation", "scales"), in_turn([*SCALES, (0.05, 1.0), (20.0, 0.3)]))
def test_the_error_is_that_of_the_error_bars_that_are_served(
    depth: float, approximation: Approximation, scales: tuple[float, float]
) -> None:
    """Calibrated, with noise that varies, against the dense posterior, on every training row."""
    case = problem(4, n=100, d=18)
    factors, full = fitted(case, approximation)
    calibration = Calibration(latent_scale=scales[0], noise_scale=scales[1])
    noise = noise_that_varies(case, depth)
    logarithms = log_noise(noise, case.X)
    truth = dense_deviations(case, approximation, factors.jitter, calibration, logarithms)
    for tolerance in TOLERANCES:
        compact = compress(factors, full, tolerance, calibration=calibration, log_noise=logarithms)
        served = deviations(compact.expand(), calibration, noise, case.X)
        largest = np.abs(served / truth - 1.0).max()
        assert largest <= tolerance
        assert largest == pytest.approx(compact.largest_error, rel=1e-5, abs=1e-10)
        assert compact.tolerance == tolerance


@pytest.mark.parametrize(("depth", "approximation", "latent_scale"), in_turn(LATENT))
def test_the_bound_holds_everywhere(depth: float, latent_scale: float, approximation: Approximation) -> None:
    case = problem(5, n=100, d=16)
    factors, full = fitted(case, approximation)
    calibration = Calibration(latent_scale=latent_scale, noise_scale=0.8)
    noise = noise_that_varies(case, depth, seed=5)
    new = np.vstack([everywhere(case, seed) for seed in range(4)])
    truth = deviations(full, calibration, noise, new)
    for tolerance in (0.3, 0.05, 1e-3):
        compact = compress(factors, full, tolerance, calibration=calibration, log_noise=log_noise(noise, case.X))
        served = deviations(compact.expand(), calibration, noise, new)
        assert np.abs(served / truth - 1.0).max() <= compact.std_bound
        assert compact.largest_error <= compact.std_bound
        change = moments(compact.expand(), new).latent_variance - moments(full, new).latent_variance
        assert np.abs(change).max() <= compact.variance_bound


def test_the_bound_holds_where_the_noise_is_lower_than_at_any_row() -> None:
    """An input's noise goes down to `VaryingNoise.lowest`, that of left-out predictions, not to the least of the rows:
    here beside a basis vector, between the rows."""
    case = problem(9, n=300, d=16).with_hyperparameters(noise_variance=3.0)
    factors, full = fitted(case, Approximation.PEP)
    plain = noise_that_varies(case, 1.0).posterior
    beside = case.Z + 0.15
    dip = {"basis": beside, "alpha": np.full(16, -5.0), "lengthscales": np.full(3, 0.03)}
    mean = SparsePosterior.restore({**plain.arrays(), **dip}, {**plain.scalars(), "bias_variance": 0.0})
    noise = VaryingNoise(posterior=mean, lowest=-5.0, highest=0.0)
    logarithms = log_noise(noise, case.X)
    np.testing.assert_allclose(logarithms, 0.0, atol=1e-3)
    np.testing.assert_allclose(log_noise(noise, beside), -5.0, atol=1e-3)
    for tolerance in (0.3, 0.05, 0.01):
        compact = compress(factors, full, tolerance, log_noise=logarithms, lowest=noise.lowest)
        ours, theirs = (deviations(model, Calibration(), noise, beside) for model in (compact.expand(), full))
        assert np.abs(ours / theirs - 1.0).max() <= compact.std_bound


@pytest.mark.parametrize("latent_scale", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("noise", [0.05, 0.3, 3.0, 30.0])
def test_rows_far_from_the_basis_and_a_bias_well_known(noise: float, latent_scale: float) -> None:
    """Their latent variance is that of the prior, which no calibration changes, and which c must not raise to that of a
    bias that nothing is known of."""
    case = problem(0, n=90, d=12).with_hyperparameters(
        bias_variance=25.0, signal_variance=1.0, lengthscales=[0.15, 0.15, 0.15], noise_variance=noise
    )
    calibration = Calibration(latent_scale=latent_scale)
    for approximation in EVERY if latent_scale == 1.0 else (Approximation.PEP, Approximation.VFE):
        factors, full = fitted(case, approximation)
        dense = case.sparse(approximation, factors.jitter)
        for tolerance in (0.1, 0.005):
            compact = compress(factors, full, tolerance, calibration=calibration)
            assert compact.largest_error <= tolerance
            ours = deviations(compact.expand(), calibration, None, case.X)
            assert np.abs(ours / deviations(full, calibration, None, case.X) - 1.0).max() <= tolerance
            most, least = (
                oracle.smallest_rank(dense, share * tolerance, latent_scale=latent_scale) for share in (0.97, 1.0)
            )
            assert least <= compact.directions.shape[1] <= most


EXTREMES = st.fixed_dictionaries(
    {
        "noise_variance": st.sampled_from([1e-6, 1e-4, 1e-2, 0.1, 1.0, 30.0]),
        "signal_variance": st.sampled_from([1e-3, 1.0, 200.0]),
        "bias_variance": st.sampled_from([0.0, 1e-3, 0.3, 25.0]),
        "lengthscales": st.sampled_from([[0.1, 0.2, 0.1], [1.0, 2.0, 1.5], [1.0, 300.0, 1.0], [30.0, 60.0, 40.0]]),
    }
)


@settings(max_examples=50, deadline=None)
@given(
    theta=EXTREMES,
    seed=st.integers(0, 50),
    approximation=st.sampled_from(EVERY),
    tolerance=st.floats(1e-4, 0.5),
    scales=st.tuples(st.sampled_from(LATENT), st.floats(0.2, 5.0)),
    depth=st.sampled_from([0.0, 0.7]),
)
def test_tolerance_and_bounds_hold(
    theta: dict[str, Any],
    seed: int,
    approximation: Approximation,
    tolerance: float,
    scales: tuple[float, float],
    depth: float,
) -> None:
    case = problem(seed, n=60, d=14).with_hyperparameters(**theta)
    factors, full = fitted(case, approximation)
    calibration = Calibration(latent_scale=scales[0], noise_scale=scales[1])
    noise = noise_that_varies(case.with_hyperparameters(noise_variance=0.1), depth, seed)
    logarithms = log_noise(noise, case.X)
    compact = compress(factors, full, tolerance, calibration=calibration, log_noise=logarithms)
    expanded, kss = compact.expand(), case.hyperparameters.prior_variance
    least = scales[1] * case.hyperparameters.noise_variance * float(np.exp(logarithms.min()))
    rounding = 1e-11 * max(scales[0], 1.0 / scales[0]) * kss / least
    new = everywhere(case, seed)
    changed = np.abs(deviations(expanded, calibration, noise, new) / deviations(full, calibration, noise, new) - 1.0)
    assert changed[:60].max() <= max(tolerance, rounding)
    assert changed[:60].max() == pytest.approx(compact.largest_error, rel=1e-6, abs=rounding)
    assert compact.largest_error <= compact.std_bound
    assert changed.max() <= compact.std_bound
    ours, theirs = moments(expanded, new), moments(full, new)
    assert (np.abs(ours.latent_variance - theirs.latent_variance) <= compact.variance_bound).all()
    assert (ours.latent_variance >= 0.0).all()
    assert (ours.latent_variance <= kss * (1 + 1e-9)).all()


def test_support_and_far_away_are_those_of_the_full_model() -> None:
    """Whatever was left out of the direction of the bias."""
    case = problem(22, n=100, d=15).with_hyperparameters(bias_variance=5.0)
    factors, full = fitted(case, Approximation.PEP)
    calibration = Calibration(latent_scale=0.3)
    compact = compress(factors, full, 0.1, calibration=calibration).expand()
    far = np.array([[1e9] * 4, [-1e9] * 4])
    ours, theirs = (deviations(model, calibration, None, far) for model in (compact, full))
    assert (ours >= np.sqrt(case.hyperparameters.signal_variance)).all()
    np.testing.assert_allclose(ours, theirs, rtol=0.1)


def test_what_cannot_be_compressed_is_refused() -> None:
    factors, full = fitted(problem(15), Approximation.FITC)
    with pytest.raises(InvalidDataError, match="expected one with error bars"):
        compress(factors, full.without_variance(), 0.01)


def test_what_is_kept() -> None:
    """The calibration and the noise decide whether a compact model is smaller."""
    case = problem(16, n=100, d=18)
    factors, full = fitted(case, Approximation.PEP)
    assert kept(factors, full, Artefact.FULL, 0.01) == (full, None)
    mean, said = kept(factors, full, Artefact.MEAN, 0.01)
    assert isinstance(mean, SparsePosterior)
    assert mean.mean_only
    assert said is None
    calibration, logarithms = Calibration(latent_scale=0.05), np.full(100, 2.0)
    compact, said = kept(factors, full, Artefact.COMPACT, 0.02, calibration=calibration, log_noise=logarithms)
    assert not isinstance(compact, SparsePosterior)
    assert said is None
    assert compact.directions.shape[1] < compress(factors, full, 0.02).directions.shape[1]
    same, said = kept(factors, full, Artefact.COMPACT, 1e-12, calibration=calibration, log_noise=logarithms)
    assert same is full
    assert said is not None
    assert "stored in full" in said
