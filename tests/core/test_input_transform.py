"""Transforms of the inputs: Yeo and Johnson's family, its inverse, and which columns are drawn in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import yeojohnson

from core.data import Dataset, Standardization, standardization
from core.errors import InvalidDataError
from core.input_transform import POWERS, InputTransform
from core.train.input_powers import yeo_johnson

POWER = st.floats(*POWERS)
NUMBER = st.floats(-1e6, 1e6)


def of_one(power: float, centre: float = 0.0, unit: float = 1.0) -> InputTransform:
    return InputTransform(table=np.array([[centre], [unit], [power]]))


@given(st.lists(NUMBER, min_size=1, max_size=20), POWER)
def test_it_is_the_family_of_yeo_and_johnson(values: list[float], power: float) -> None:
    x = np.array(values)
    found = of_one(power).forward(x[:, None])[:, 0]
    np.testing.assert_allclose(found, yeojohnson(x, power), rtol=1e-9, atol=1e-9)


@given(st.lists(NUMBER, min_size=2, max_size=20), POWER, st.floats(-10.0, 10.0), st.floats(0.1, 10.0))
def test_it_increases_and_its_inverse_brings_every_number_back(
    values: list[float], power: float, centre: float, unit: float
) -> None:
    x, transform = np.sort(values)[:, None], of_one(power, centre, unit)
    z = transform.forward(x)
    assert (np.diff(z, axis=0) >= 0.0).all()
    # a power near 2 of the other side is a logarithm: what is left of 1e6 in its digits
    np.testing.assert_allclose(transform.inverse(z), x, rtol=1e-8, atol=1e-8)


def test_without_a_transform_inputs_are_the_same_array() -> None:
    x = np.arange(6.0).reshape(3, 2)
    assert InputTransform().forward(x) is x
    assert InputTransform().inverse(x) is x


def test_columns_of_power_one_keep_their_bits_beside_others() -> None:
    x = np.random.default_rng(0).normal(size=(50, 2))
    transform = InputTransform(table=np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 0.5]]))
    assert transform.columns.tolist() == [1]
    found = transform.forward(x)
    np.testing.assert_array_equal(found[:, 0], x[:, 0])
    assert (found[:, 1] != x[:, 1]).any()


def test_numbers_far_away_stay_in_their_order_without_nan() -> None:
    x = np.array([[-1e300], [-1e3], [0.0], [1e3], [1e300]])
    with np.errstate(over="ignore"):
        for power in (*POWERS, 0.5, 1.5):
            z = of_one(power).forward(x)
            assert np.isfinite(z).all()
            assert (np.diff(z, axis=0) > 0.0).all()
            assert np.isfinite(of_one(power).inverse(x)).all()


@pytest.mark.parametrize(
    "table", [[[0.0], [0.0], [0.5]], [[np.nan], [1.0], [0.5]], [[0.0], [1.0], [2.0]], [[0.0], [1.0]], [0.0, 1.0, 0.5]]
)
def test_numbers_that_are_no_transform_are_refused(table: list[float]) -> None:
    with pytest.raises(InvalidDataError, match="input_transform"):
        InputTransform(table=np.array(table))


def columns(rows: int = 400) -> np.ndarray:
    chance = np.random.default_rng(1)
    return np.column_stack(
        (
            chance.normal(size=rows),
            chance.uniform(size=rows),
            np.exp(chance.normal(size=rows)),
            -np.exp(chance.normal(size=rows)),
            chance.integers(0, 2, rows),
            np.full(rows, 3.0),
            chance.pareto(1.0, rows),
        )
    )


def test_only_columns_with_a_long_tail_are_drawn_in_to_either_side() -> None:
    found = yeo_johnson(columns(), np.ones(7, bool))
    assert found.columns.tolist() == [2, 3, 6]
    power = found.table[2]
    assert power[2] < 0.5
    assert power[3] > 1.5
    drawn = found.forward(columns())
    for column in (2, 3, 6):
        before, after = (np.abs((x - x.mean()) / x.std()).max() for x in (columns()[:, column], drawn[:, column]))
        assert after < 0.6 * before


def test_columns_that_may_not_change_do_not() -> None:
    alone = np.ones(7, bool)
    alone[2] = False
    assert yeo_johnson(columns(), alone).columns.tolist() == [3, 6]


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_the_powers_do_not_depend_on_the_unit(offset: float, scale: float) -> None:
    x = columns()[:, 2:3]
    one, two = (yeo_johnson(each, np.ones(1, bool)) for each in (x, x * scale + offset))
    # offset and scale cost digits of the values: 1e12 of 1e16
    np.testing.assert_allclose(two.table[2], one.table[2], atol=5e-3)


def test_a_column_that_was_constant_says_nothing_however_far_it_is() -> None:
    transform, nothing = of_one(1.7), np.array([np.inf])
    unit = Standardization(
        input_shift=np.zeros(1), input_scale=nothing, target_shift=0.0, target_scale=1.0, input_transform=transform
    )
    assert unit.inputs(np.array([[1e300], [-1e300]])).tolist() == [[0.0], [0.0]]


def test_what_can_not_be_standardized_stays_as_it_is() -> None:
    x = columns()[:, 2:3]
    for scale in (1e300, 1e-300):
        assert not len(yeo_johnson(x * scale, np.ones(1, bool)).columns)


def test_standardized_inputs_come_back_raw() -> None:
    X = columns()
    dataset = Dataset(inputs=X, targets=X[:, 0], input_transform=yeo_johnson(X, np.ones(7, bool)))
    unit = standardization(dataset)
    Z = unit.inputs(X)
    np.testing.assert_allclose(Z[:, 2].mean(), 0.0, atol=1e-12)
    np.testing.assert_allclose(Z[:, 2].std(), 1.0, rtol=1e-12)
    np.testing.assert_allclose(unit.raw_inputs(Z), X, rtol=1e-9, atol=1e-9)


def test_numbers_are_columns_with_a_lengthscale_of_their_own() -> None:
    groups, indicator = np.array([0, 1, 1, 2, 2, 3]), np.array([0, 0, 0, 1, 1, 1], bool)
    dataset = Dataset(inputs=np.ones((2, 6)), targets=np.arange(2.0), groups=groups, indicator=indicator)
    assert dataset.numbers.tolist() == [True, False, False, False, False, False]
