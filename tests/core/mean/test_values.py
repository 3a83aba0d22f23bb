"""core/mean/values.py."""

import numpy as np
import pytest

from core.mean.values import mean_at
from tests.core.mean.cases import case
from tests.dense.kernel import kernel


@pytest.mark.parametrize("shape", [(), (3,)])
def test_the_mean_at_new_rows(shape: tuple[int, ...]) -> None:
    at, random = case(0, n=700), np.random.default_rng(0)
    inputs, alpha = random.normal(size=(1501, 4)), random.normal(size=(700, *shape))
    found = mean_at(at.kernel, at.rows.X, alpha, inputs)
    np.testing.assert_allclose(found, kernel(at.params, inputs, at.rows.X) @ alpha, atol=1e-10)
    np.testing.assert_array_equal(mean_at(at.kernel, at.rows.X, alpha, inputs, workers=3), found)
    assert mean_at(at.kernel, at.rows.X, alpha, inputs[:0]).shape == (0, *shape)
