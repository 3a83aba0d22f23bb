"""core/sparse/posterior.py: what is stored of a posterior is all that predicts, bit for bit."""

import json

import numpy as np
import pytest

from core.errors import InvalidDataError
from core.sparse.posterior import SparsePosterior
from core.spec import Approximation
from tests.core.predict.test_predictor import BASIS, EVERY, HP, bits, fitted, model
from tests.core.runs import table


@pytest.mark.parametrize("approximation", EVERY)
def test_restored_posterior_predicts_bit_for_bit(approximation: Approximation) -> None:
    served = model(approximation)
    arrays = {name: np.frombuffer(a.tobytes()).reshape(a.shape) for name, a in served.arrays().items()}
    scalars = json.loads(json.dumps(served.scalars()))
    restored = SparsePosterior.restore(arrays, scalars)
    new = table(5, 40).inputs
    np.testing.assert_array_equal(bits(restored, new), bits(served, new))
    np.testing.assert_array_equal(restored.hyperparameters.lengthscales, HP.lengthscales)


@pytest.mark.parametrize("approximation", EVERY)
def test_an_older_file_knows_the_farthest_from_its_square(approximation: Approximation) -> None:
    served = model(approximation)
    older = {name: value for name, value in served.scalars().items() if name != "farthest"}
    restored = SparsePosterior.restore({**served.arrays(), "R": served.R}, older)
    assert restored.far_variance == served.far_variance
    np.testing.assert_array_equal(bits(restored, table(5, 40).inputs), bits(served, table(5, 40).inputs))


def test_restore_refuses_what_does_not_fit() -> None:
    served = model(Approximation.FITC)
    arrays, scalars = served.arrays(), served.scalars()
    for name in arrays:
        rest = {key: value for key, value in arrays.items() if key != name}
        if name == "R":  # what is left is a mean alone
            assert SparsePosterior.restore(rest, scalars).mean_only
            continue
        with pytest.raises(InvalidDataError):
            SparsePosterior.restore(rest, scalars)
        with pytest.raises(InvalidDataError, match=name if name != "basis" else None):
            SparsePosterior.restore({**arrays, name: np.zeros((3, 3, 3))}, scalars)
    for wrong in (np.zeros((3, 3, 3)), np.zeros((3, 3)), np.zeros(27), np.zeros(6)):
        with pytest.raises(InvalidDataError, match=r"R: expected|a packed triangle"):
            SparsePosterior.restore({**arrays, "R": wrong}, scalars)
    for name in scalars:
        with pytest.raises(InvalidDataError):
            SparsePosterior.restore(arrays, {key: value for key, value in scalars.items() if key != name})
    with pytest.raises(InvalidDataError):
        SparsePosterior.restore(arrays, {**scalars, "more": 1.0})


def test_the_posterior_holds_no_training_row_but_the_basis() -> None:
    """Its size depends on d and p only."""
    small = fitted(table(0, 40), HP, BASIS, Approximation.FITC)[0]
    large = fitted(table(0, n=400), HP, BASIS, Approximation.FITC)[0]
    assert {k: v.shape for k, v in small.arrays().items()} == {k: v.shape for k, v in large.arrays().items()}
    np.testing.assert_array_equal(small.basis, table(0, 40).inputs[BASIS])
