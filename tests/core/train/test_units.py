"""The unit of a column or of the target is not part of what is learnt: predictions convert as the table does."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from core.arrays import FloatArray
from core.data import Dataset
from core.predict.model import ModelPredictor
from core.spec import Adaptation, Method, TrainSpec
from core.train.run import train

pytestmark = pytest.mark.usefixtures("short_search")

AGREES = 1e-3
"""Share of the target's standard deviation. Seen is 1e-7 at most; an offset of 1e6 takes ten digits off the data."""


@dataclass(frozen=True)
class Unit:
    """new = scale * old + offset."""

    scale: float
    offset: float

    def of(self, values: FloatArray) -> FloatArray:
        return self.scale * values + self.offset


SAME = Unit(1.0, 0.0)
UNITS = (
    st.builds(
        Unit,
        st.sampled_from([1.0, -1.0, 1.8, 1e3, 1e-9, 1e9, 0.3048]),
        st.sampled_from([0.0, 32.0, 273.15, -1e3]),
    )
    | st.builds(Unit, st.sampled_from([1.0, -2.0]), st.just(1e6))
    | st.builds(Unit, st.floats(-1e3, 1e3).filter(lambda scale: abs(scale) > 1e-3), st.floats(-1e2, 1e2))
)
"""Offsets of a column with spread 1e-6 and a shift of a thousand leave some six digits, and those agree."""


def table(seed: int, rows: int) -> tuple[Dataset, int]:
    """Two numbers to one decimal, a category of three levels, much noise or little; how many columns have a unit."""
    random = np.random.default_rng(seed)
    numbers = np.round(random.normal(15.0, 6.0, size=(rows, 2)), 1)
    levels = random.integers(0, 3, rows)
    noise = (0.1, 2.0)[seed % 2]
    targets = 3.0 * np.sin(numbers[:, 0] / 4.0) + 0.1 * numbers[:, 1] + levels + noise * random.normal(size=rows)
    inputs = np.column_stack((numbers, np.eye(3)[levels]))
    indicator = np.array([False, False, True, True, True])
    return Dataset(inputs=inputs, targets=targets, groups=np.array([0, 1, 2, 2, 2]), indicator=indicator), 2


def converted(data: Dataset, columns: list[Unit], target: Unit) -> Dataset:
    inputs = np.array(data.inputs)
    for column, unit in enumerate(columns):
        inputs[:, column] = unit.of(inputs[:, column])
    return Dataset(inputs=inputs, targets=target.of(data.targets), groups=data.groups, indicator=data.indicator)


def predicted(data: Dataset, spec: TrainSpec, target: Unit) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of the table's own rows and of those between them, in the target's old unit."""
    between = np.array(data.inputs)
    between[:, :2] = 0.5 * (between[:, :2] + np.roll(between[:, :2], 1, axis=0))
    rows = np.concatenate((data.inputs, between))
    mean, variance = ModelPredictor(train(data, spec).model).predict(rows).moments()
    return (mean - target.offset) / target.scale, np.sqrt(variance) / abs(target.scale)


def assert_agree(data: Dataset, columns: list[Unit], target: Unit, spec: TrainSpec) -> None:
    ours = predicted(data, spec, SAME)
    theirs = predicted(converted(data, columns, target), spec, target)
    for first, second in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(second, first, rtol=0.0, atol=AGREES * data.targets.std())


@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 99), rows=st.sampled_from([12, 25, 60]), columns=st.tuples(UNITS, UNITS), target=UNITS)
@example(seed=0, rows=25, columns=(Unit(1.0, 273.15), SAME), target=SAME)
@example(seed=0, rows=25, columns=(Unit(1e3, 0.0), SAME), target=SAME)
@example(seed=1, rows=80, columns=(Unit(1.0, 1e6), Unit(1e-9, 0.0)), target=Unit(1e9, 0.0))
def test_predictions_of_a_small_table_convert(seed: int, rows: int, columns: tuple[Unit, Unit], target: Unit) -> None:
    """Temperatures in C, K and mC once had deviations 25% to 55% apart."""
    assert_agree(table(seed, rows)[0], list(columns), target, TrainSpec())


QUICK: dict[str, Any] = {"adaptation": Adaptation(rounds=2, steps=8), "calibrate": None, "holdout": 0.0}


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        pytest.param(540, QUICK, marks=pytest.mark.slow),
        (200, QUICK),
        (100, {"basis_size": 15, "adaptation": Adaptation(rounds=2, steps=8)}),
        (100, {"basis_size": 20, "method": Method.SB, **QUICK}),
        (100, {"basis_size": 20, "method": Method.DMAX, **QUICK}),
        (100, {"basis_size": 20, "method": Method.VARIANCE, **QUICK}),
    ],
)
def test_a_choice_among_rows_does_not_hang_on_the_unit(rows: int, options: dict[str, Any]) -> None:
    """Little noise and lengthscales that end up long: rounding once made up gains among rows that are alike."""
    assert_agree(table(2, rows)[0], [Unit(1.0, 273.15), Unit(1.8, 32.0)], Unit(1e3, 5.0), TrainSpec(**options))


def test_a_line_without_noise_converts() -> None:
    """The noise ends at the least allowed, where factors are as badly conditioned as they can be."""
    x = np.linspace(0.0, 9.0, 60)
    data = Dataset(inputs=np.column_stack((x, x)), targets=np.sin(x))
    assert_agree(data, [Unit(1.0, 273.15), Unit(1.8, 32.0)], Unit(-2.0, 1e3), TrainSpec(basis_size=30, **QUICK))
