"""core/predict/mean.py and models that have such a mean: against the plain product, row by row, beside their basis."""

from dataclasses import replace

import numpy as np
import pytest

from core.arrays import FloatArray
from core.errors import InvalidDataError
from core.hyperparameters import KernelFamily
from core.predict.float32 import kept_precision
from core.predict.mean import MeanPredictor
from core.predict.model import Model, ModelPredictor
from core.spec import KernelChoice, Precision, TrainSpec
from core.train.run import train
from tests.core.runs import table
from tests.dense.kernel import Params, kernel


def model(family: KernelFamily = KernelFamily.GAUSSIAN, centres: int = 301) -> Model:
    """A trained basis beside random weights of centres of their own: an odd number, as rows of memory begin anywhere"""
    spec = TrainSpec(basis_size=10, adaptation=None, kernel=KernelChoice(family), calibrate=None)
    trained = train(table(), spec).model
    random = np.random.default_rng(1)
    basis = trained.posterior.basis.mean(axis=0) + trained.posterior.input_scale * random.normal(size=(centres, 4))
    own = replace(trained.posterior.without_variance(), basis=basis, alpha=random.normal(size=centres))
    return replace(trained, mean=own)


def inputs(rows: int) -> FloatArray:
    return np.random.default_rng(2).permutation(np.repeat(table().inputs, 4, axis=0))[:rows] + 0.01


@pytest.mark.parametrize("family", list(KernelFamily))
def test_the_mean_is_that_of_its_own_rows(family: KernelFamily) -> None:
    found, X = model(family), inputs(70)
    own, unit = found.mean, found.posterior.standardization
    assert own is not None
    params = Params(
        w=own.hyperparameters.weights[own.groups.astype(int)],
        v0=own.signal_variance,
        vb=own.bias_variance,
        s2=own.noise_variance,
        family=family.value,
    )
    plain = kernel(params, unit.inputs(X), unit.inputs(own.basis)) @ own.alpha
    expected = plain * unit.target_scale + unit.target_shift
    np.testing.assert_allclose(ModelPredictor(found).mean(X), expected, rtol=1e-10)


@pytest.mark.parametrize("family", list(KernelFamily))
def test_a_row_has_the_same_bits_alone_and_in_a_table(family: KernelFamily) -> None:
    found, X = ModelPredictor(model(family)), inputs(70)
    whole = found.predict(X).centre
    assert found.mean(X).tobytes() == whole.tobytes()
    for begin, end in ((0, 1), (3, 4), (5, 13), (8, 47), (69, 70), (0, 0)):
        assert found.mean(X[begin:end]).tobytes() == whole[begin:end].tobytes()


def test_error_bars_are_those_of_the_basis() -> None:
    found, X = model(), inputs(30)
    with_mean, basis = (ModelPredictor(each).predict(X) for each in (found, replace(found, mean=None)))
    assert with_mean.variance.tobytes() == basis.variance.tobytes()
    assert with_mean.support.tobytes() == basis.support.tobytes()
    assert (with_mean.centre != basis.centre).all()
    assert ModelPredictor(found).nbytes > ModelPredictor(replace(found, mean=None)).nbytes + 301 * 5 * 8


def test_single_precision_is_for_error_bars_alone() -> None:
    found, X = model(), inputs(30)
    asked, doubt = kept_precision(found, X, Precision.FLOAT32)
    assert (asked, doubt) == kept_precision(replace(found, mean=None), X, Precision.FLOAT32)
    single = ModelPredictor(replace(found, precision=Precision.FLOAT32)).predict(X)
    assert single.centre.tobytes() == ModelPredictor(found).predict(X).centre.tobytes()


def test_a_row_of_a_larger_mean_counts_for_more_work() -> None:
    small, large = (ModelPredictor(model(centres=centres)).row_work for centres in (50, 500))
    assert small > 10**2
    assert large - small == (small - 10**2) * 9


@pytest.mark.parametrize("bad", [[[1.0, 2.0]], [[1.0, 2.0, np.nan, 0.0]], [1.0, 2.0, 3.0, 4.0]])
def test_inputs_of_another_shape_or_no_number_are_refused(bad: list[float]) -> None:
    own = model().mean
    assert own is not None
    with pytest.raises(InvalidDataError):
        MeanPredictor(own).mean(np.array(bad))


def test_a_mean_of_another_theta_is_refused() -> None:
    found = model()
    assert found.mean is not None
    with pytest.raises(InvalidDataError, match="same kernel, noise and units"):
        replace(found, mean=replace(found.mean, signal_variance=2.0 * found.mean.signal_variance))
    with pytest.raises(InvalidDataError, match="lengthscales"):
        replace(found, mean=replace(found.mean, lengthscales=2.0 * found.mean.lengthscales))
    with pytest.raises(InvalidDataError, match="weights alone"):
        replace(found, mean=found.posterior)
