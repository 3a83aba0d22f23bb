"""core/predict/float32.py: float32 where it changes nothing that matters, and what it leaves as it is."""

from dataclasses import replace

import numpy as np
import pytest

from core.data import Dataset
from core.hyperparameters import Hyperparameters, KernelFamily
from core.predict.float32 import MOST_ERROR, float32_error, kept_precision
from core.predict.model import Model, ModelPredictor
from core.predict.predictor import PREDICTED_ROWS
from core.predict.transforms import Transform
from core.process.families import FAMILIES, LEAST_EXPONENT, LEAST_EXPONENT_FLOAT32
from core.spec import Approximation, Artefact, Effort, KernelChoice, MeanRows, Method, Noise, Precision, TrainSpec
from core.train.fit import Subset
from core.train.full_choice import FullModel
from core.train.full_process import full_process
from core.train.report import TrainResult
from core.train.run import train

FEW = {"method": Method.RAND, "basis_size": 40, "adaptation": None, "holdout": 0.0, "noise": Noise.CONSTANT}


def wave(rows: int = 300, noise: float = 0.3) -> Dataset:
    chance = np.random.default_rng(0)
    inputs = chance.uniform(-3.0, 3.0, (rows, 2))
    return Dataset(inputs=inputs, targets=np.sin(inputs[:, 0]) + noise * chance.normal(size=rows))


def start(noise: float) -> Hyperparameters:
    return Hyperparameters(
        lengthscales=np.array([1.0, 3.0]), signal_variance=1.0, bias_variance=0.5, noise_variance=noise
    )


def result(**spec: object) -> TrainResult:
    given = {**FEW, "start": start(0.1), "precision": Precision.FLOAT32, **spec}
    return train(wave(), TrainSpec(**given))  # type: ignore[arg-type]  # a table of fields


@pytest.mark.parametrize(
    ("approximation", "noise"),
    [
        *((approximation, Noise.CONSTANT) for approximation in Approximation),
        *((Approximation.PEP, noise) for noise in Noise if noise is not Noise.CONSTANT),
    ],
)
def test_the_mean_is_the_same_and_the_error_bar_nearly(approximation: Approximation, noise: Noise) -> None:
    model = result(approximation=approximation, noise=noise).model
    assert model.precision is Precision.FLOAT32
    new = wave(PREDICTED_ROWS + 77).inputs
    single = ModelPredictor(model)
    ours, exact = single.predict(new), ModelPredictor(replace(model, precision=Precision.FLOAT64)).predict(new)
    np.testing.assert_array_equal(ours.centre, exact.centre)
    np.testing.assert_array_equal(single.mean(new), exact.centre)
    np.testing.assert_allclose(ours.variance, exact.variance, rtol=2.0 * MOST_ERROR)
    assert (ours.variance != exact.variance).any()


def test_the_error_is_that_of_the_worst_training_row() -> None:
    model, inputs = result().model, wave().inputs
    exact, single = (ModelPredictor(replace(model, precision=p)).predict(inputs) for p in Precision)
    worst = float(np.abs(np.sqrt(single.variance / exact.variance) - 1.0).max())
    assert float32_error(model, inputs) == pytest.approx(worst, rel=1e-6)
    assert 0.0 < worst < MOST_ERROR


def test_it_is_not_kept_where_the_noise_is_too_small() -> None:
    dataset = wave(noise=0.0)
    spec = TrainSpec(**FEW, start=start(1e-9), precision=Precision.FLOAT32, calibrate=None)  # type: ignore[arg-type]
    ended = train(dataset, spec)
    assert ended.model.precision is Precision.FLOAT64
    assert ended.report.artefact.precision is Precision.FLOAT64
    (said,) = [warning for warning in ended.report.warnings if "float32" in warning]
    assert "predicts in float64" in said
    assert f"{float32_error(ended.model, dataset.inputs):.2g}" in said


def test_nothing_is_looked_at_where_float64_is_asked() -> None:
    model = Model(posterior=result().model.posterior)
    assert kept_precision(model, np.full((1, 9), np.nan), Precision.FLOAT64) == (Precision.FLOAT64, None)


def full_model(family: KernelFamily, noise: float = 0.1) -> Model:
    """A full process on 300 rows, in float32."""
    dataset, few = wave(noise=noise**0.5), np.arange(0)
    subset = Subset.of(dataset, np.arange(300), standardize=True, workers=1)
    theta, spec = replace(start(noise), kernel=family), TrainSpec(noise=Noise.CONSTANT)
    process = full_process(subset, few, theta, spec, (0, 1), np.random.default_rng(0), lambda _: None)
    found = FullModel(process=process, subset=subset, held_out=few, seconds=0.0)
    return replace(found.model(dataset.inputs, dataset.groups, Transform()), precision=Precision.FLOAT32)


@pytest.mark.parametrize("family", list(KernelFamily))
def test_the_mean_of_a_full_process_is_nearly_the_same_and_its_error_bar_the_same(family: KernelFamily) -> None:
    model, new = full_model(family), wave(77).inputs
    single, double = ModelPredictor(model), ModelPredictor(replace(model, precision=Precision.FLOAT64))
    ours, exact = single.predict(new), double.predict(new)
    np.testing.assert_array_equal(ours.variance, exact.variance)
    assert 0.0 < np.abs((ours.centre - exact.centre) / np.sqrt(exact.variance)).max() < 1e-4
    np.testing.assert_array_equal(single.mean(new), ours.centre)
    alone = np.concatenate([single.mean(row[None]) for row in new])
    np.testing.assert_array_equal(alone, ours.centre)
    worst = (
        np.abs(single.mean(wave().inputs) - double.mean(wave().inputs)) / double.predict(wave().inputs).std()
    ).max()
    assert float32_error(model, wave().inputs) == pytest.approx(worst, rel=1e-6)
    assert kept_precision(model, wave().inputs, Precision.FLOAT32) == (Precision.FLOAT32, None)


def test_it_is_not_kept_where_the_weights_of_a_full_process_are_too_large() -> None:
    model = full_model(KernelFamily.GAUSSIAN, noise=1e-11)
    kept, said = kept_precision(model, wave().inputs, Precision.FLOAT32)
    assert kept is Precision.FLOAT64
    assert said is not None
    assert "predicts in float64" in said


def test_a_run_of_a_full_process_may_be_asked_for_it() -> None:
    spec = TrainSpec(
        effort=Effort.NORMAL,
        mean_rows=MeanRows.AUTO,
        kernel=KernelChoice.MATERN32,
        noise=Noise.CONSTANT,
        max_basis_size=12,
        precision=Precision.FLOAT32,
    )
    random = np.random.default_rng(0)
    inputs = random.uniform(-2.0, 2.0, (300, 2))
    targets = np.sin(4 * inputs[:, 0]) * np.cos(3 * inputs[:, 1]) + 0.1 * random.normal(size=300)
    ended = train(Dataset(inputs=inputs, targets=targets), spec)
    assert ended.model.near is not None
    assert ended.model.precision is ended.report.artefact.precision is Precision.FLOAT32


@pytest.mark.parametrize("family", list(KernelFamily))
@pytest.mark.parametrize("v0", [1e-6, 1.0, 1e6])
def test_kernel_values_in_single_precision_are_those_in_double(family: KernelFamily, v0: float) -> None:
    """They are so for the same R, to rounding of the exponent, and nowhere subnormal."""
    of = FAMILIES[family]
    R = np.concatenate([[0.0, -1e-15], np.geomspace(1e-14, 1e5, 500)])
    double, single = of.offset(v0) - R, (of.offset(v0) - R).astype(np.float32)
    of.value(single, v0, LEAST_EXPONENT_FLOAT32)
    of.value(double, v0, LEAST_EXPONENT)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, double, rtol=1e-4, atol=1e-7 * v0)  # 87 units of 2^-24 in the exponent
    assert (single >= np.finfo(np.float32).tiny).all()


@pytest.mark.parametrize("artefact", list(Artefact))
def test_every_form_of_a_model_may_be_asked_for_it(artefact: Artefact) -> None:
    ended = result(artefact=artefact)
    assert ended.report.to_json()["artefact"]["precision"] == "float32"


@pytest.mark.parametrize("family", list(KernelFamily))
def test_far_rows_have_the_prior(family: KernelFamily) -> None:
    """Kernel values there are the smallest normal numbers of single precision, and no smaller."""
    model = replace(result(kernel=family).model, noise=None)
    assert model.precision is Precision.FLOAT32
    far = np.array([[1e3, 0.0], [1e150, -1e300], [-1.7e308, 1.7e308]])
    ours, exact = (ModelPredictor(replace(model, precision=p)).predict(far) for p in Precision)
    np.testing.assert_allclose(ours.variance, exact.variance, rtol=1e-5)
    np.testing.assert_allclose(ours.centre, exact.centre, rtol=1e-12)
