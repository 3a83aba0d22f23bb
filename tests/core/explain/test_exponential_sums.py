"""core/explain/exponential_sums.py: against the kernels themselves."""

import numpy as np
import pytest

from core.explain.exponential_sums import exponential_sum
from core.hyperparameters import KernelFamily
from tests.dense.kernel import KERNELS


@pytest.mark.parametrize("family", list(KernelFamily))
def test_the_sum_is_the_kernel(family: KernelFamily) -> None:
    rates, weights = exponential_sum(family)
    R = np.concatenate(([0.0], np.logspace(-10, 3, 400)))
    found = np.exp(-np.multiply.outer(R, rates)) @ weights
    np.testing.assert_allclose(found, KERNELS[family.value](R), atol=1e-9, rtol=0.0)
    assert found[0] == pytest.approx(1.0, abs=1e-14)
    assert (weights > 0.0).all()


def test_a_gaussian_kernel_is_one_term() -> None:
    rates, weights = exponential_sum(KernelFamily.GAUSSIAN)
    assert (rates.tolist(), weights.tolist()) == ([1.0], [1.0])


def test_the_closest_rows_of_the_roughest_kernel() -> None:
    rates, weights = exponential_sum(KernelFamily.MATERN12)
    R = np.logspace(-14, -10, 100)
    np.testing.assert_allclose(
        np.exp(-np.multiply.outer(R, rates)) @ weights, KERNELS["matern12"](R), atol=2e-6, rtol=0.0
    )
