"""core/spec.py: every impossible field is refused by its name."""

import numpy as np
import pytest

from core.errors import InvalidSpecError
from core.hyperparameters import Hyperparameters, KernelFamily
from core.spec import (
    Adaptation,
    Approximation,
    Artefact,
    Calibrate,
    Intervals,
    KernelChoice,
    Method,
    Noise,
    TargetTransform,
    TrainSpec,
)


def test_defaults_are_those_of_the_contract() -> None:
    spec = TrainSpec()
    assert (spec.method, spec.approximation, spec.power) == (Method.BATCH, Approximation.PEP, 0.7)
    assert (spec.basis_size, spec.max_basis_size, spec.candidates) == (None, 500, 59)
    assert (spec.cache_size, spec.pool_size, spec.holdout, spec.seed) == (None, None, 0.1, 0)
    assert spec.standardize
    assert (spec.artefact, spec.tolerance) == (Artefact.FULL, 0.01)
    assert spec.start is None
    assert spec.adaptation == Adaptation(rounds=5, steps=20)
    assert (spec.calibrate, spec.intervals) == (Calibrate.AUTO, Intervals.SYMMETRIC)
    assert (spec.target_transform, spec.noise) == (TargetTransform.NONE, Noise.AUTO)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("basis_size", [0, -1]),
        ("max_basis_size", [0]),
        ("candidates", [0]),
        ("cache_size", [0]),
        ("pool_size", [0]),
        ("power", [0.0, -0.5, 1.0001, np.nan, np.inf]),
        ("holdout", [-0.1, 0.91, 1.0, np.nan]),
        ("seed", [-1]),
        ("tolerance", [0.0, -0.01, 1.0, np.nan]),
    ],
)
def test_impossible_values_are_refused_by_name(field: str, values: list[float]) -> None:
    for value in values:
        with pytest.raises(InvalidSpecError, match=f"^{field}: ") as caught:
            TrainSpec(**{field: value})  # type: ignore[arg-type]  # wrong values are what is tested
        assert caught.value.field == field


def test_every_kernel_may_be_chosen_and_another_is_refused() -> None:
    assert [choice.value for choice in KernelChoice] == ["auto", *KernelFamily]
    with pytest.raises(InvalidSpecError, match="kernel: expected one of auto, gaussian, matern52") as caught:
        TrainSpec(kernel="cosine")  # type: ignore[arg-type]  # a wrong value is what is tested
    assert caught.value.field == "kernel"


@pytest.mark.parametrize("choice", list(KernelChoice))
def test_given_hyperparameters_have_the_kernel_that_is_asked_for(choice: KernelChoice) -> None:
    start = Hyperparameters(
        lengthscales=np.ones(1),
        signal_variance=1.0,
        bias_variance=0.0,
        noise_variance=0.1,
        kernel=KernelFamily.MATERN32,
    )
    given = TrainSpec(start=start, kernel=choice).start
    assert given is not None
    assert given.kernel == (KernelFamily.MATERN32 if choice is KernelChoice.AUTO else choice)


@pytest.mark.parametrize("field", ["rounds", "steps"])
def test_adaptation(field: str) -> None:
    with pytest.raises(InvalidSpecError) as caught:
        Adaptation(**{field: 0})
    assert caught.value.field == f"adapt.{field}"


def test_plain_text_becomes_the_member() -> None:
    """`is Approximation.SOR` is False for "sor": a text let in as it is would be another method in silence."""
    spec = TrainSpec(method="kappa", approximation="sor")  # type: ignore[arg-type]  # as plain Python writes it
    assert spec.method is Method.KAPPA
    assert spec.approximation is Approximation.SOR
    spec = TrainSpec(
        calibrate="cross-fit",  # type: ignore[arg-type]  # as above, and below
        intervals="asymmetric",  # type: ignore[arg-type]
        target_transform="yeo-johnson",  # type: ignore[arg-type]
        noise="input-dependent",  # type: ignore[arg-type]
    )
    assert spec.calibrate is Calibrate.CROSS_FIT
    assert spec.intervals is Intervals.ASYMMETRIC
    assert spec.target_transform is TargetTransform.YEO_JOHNSON
    assert spec.noise is Noise.INPUT_DEPENDENT
    assert TrainSpec(calibrate=None).calibrate is None


@pytest.mark.parametrize(
    "field", ["method", "approximation", "gain", "artefact", "calibrate", "intervals", "target_transform", "noise"]
)
def test_unknown_names_are_refused(field: str) -> None:
    with pytest.raises(InvalidSpecError, match="nope") as caught:
        TrainSpec(**{field: "nope"})  # type: ignore[arg-type]  # wrong values are what is tested
    assert caught.value.field == field


def test_noise_that_varies_needs_left_out_rows() -> None:
    with pytest.raises(InvalidSpecError, match=r"^noise: .*calibrate off") as caught:
        TrainSpec(calibrate=None, noise=Noise.INPUT_DEPENDENT)
    assert caught.value.field == "noise"


@pytest.mark.parametrize("field", ["basis_size", "max_basis_size", "candidates", "cache_size", "pool_size", "seed"])
def test_sizes_are_whole_numbers(field: str) -> None:
    for value in (2.5, np.nan):
        with pytest.raises(InvalidSpecError) as caught:
            TrainSpec(**{field: value})  # type: ignore[arg-type]  # wrong values are what is tested
        assert caught.value.field == field
