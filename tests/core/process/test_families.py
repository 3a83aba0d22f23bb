"""core/process/families.py against Bessel functions."""

import numpy as np
import pytest
from scipy.special import gamma, kv

from core.arrays import FloatArray
from core.hyperparameters import KernelFamily
from core.process.families import FAMILIES, LEAST_EXPONENT, LEAST_EXPONENT_FLOAT32, Family

KERNELS = {
    0.5: FAMILIES[KernelFamily.MATERN12],
    1.5: FAMILIES[KernelFamily.MATERN32],
    2.5: FAMILIES[KernelFamily.MATERN52],
}
V0 = 1.7


def bessel(nu: float, R: FloatArray) -> FloatArray:
    """Matern kernel of smoothness nu (Rasmussen & Williams 2006, eq. 4.14), r^2 = 2 R."""
    c = np.sqrt(2.0 * nu * 2.0 * R)
    return np.asarray(V0 * 2.0 ** (1.0 - nu) / gamma(nu) * c**nu * kv(nu, c))


def value(family: Family, R: FloatArray) -> FloatArray:
    """k(R)."""
    block = family.offset(V0) - R
    family.value(block, V0, LEAST_EXPONENT)
    return block


@pytest.mark.parametrize("nu", KERNELS)
def test_values_are_those_of_bessel_functions(nu: float) -> None:
    R = np.random.default_rng(0).gamma(0.5, 4.0, size=(130, 300))  # three runs of numbers
    np.testing.assert_allclose(value(KERNELS[nu], R), bessel(nu, R), rtol=1e-11)


@pytest.mark.parametrize("name", FAMILIES)
def test_slopes_are_those_of_the_values(name: KernelFamily) -> None:
    R, family = np.geomspace(1e-3, 30.0, 60)[None], FAMILIES[name]
    slope = family.offset(V0) - R
    (family.slope or family.value)(slope, V0, LEAST_EXPONENT)
    step = 1e-5 * R
    numeric = -(value(family, R + step) - value(family, R - step)) / (2.0 * step)
    np.testing.assert_allclose(slope, numeric, rtol=1e-6)


@pytest.mark.parametrize("nu", KERNELS)
def test_rounding_below_zero_is_zero_and_far_rows_are_normal_numbers(nu: float) -> None:
    family = KERNELS[nu]
    at = value(family, np.array([[-1e-13, 0.0, 1e3, 1e12]]))
    np.testing.assert_array_equal(at[0, :2], V0)
    assert (at > np.finfo(float).tiny).all()
    single = np.array([[-1e12]])
    family.value(single, 1e-3, LEAST_EXPONENT_FLOAT32)
    assert np.finfo(np.float32).tiny <= single[0, 0] < 1e-33
    assert at[0, 3] < 1e-290
    slope = np.array([[1e-13, 0.0, -1e12]])
    assert family.slope is not None
    family.slope(slope, V0, LEAST_EXPONENT)
    assert np.isfinite(slope).all()
    assert slope[0, 0] == slope[0, 1]
