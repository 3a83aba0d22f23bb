"""core/data.py: what is refused, and standardization that survives every offset and scale."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.arrays import FloatArray
from core.data import Dataset, Standardization, standardization
from core.errors import ConstantTargetError, InvalidDataError, NonFiniteError, TooFewRowsError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3))
Y = RNG.normal(size=20)


def standardized(inputs: FloatArray, targets: FloatArray = Y) -> tuple[Dataset, Standardization]:
    dataset = Dataset(inputs=inputs, targets=targets)
    return dataset, standardization(dataset)


def test_arrays_are_read_only_copies() -> None:
    inputs = X.copy()
    dataset = Dataset(inputs=inputs, targets=Y)
    inputs[0, 0] = 99.0
    assert dataset.inputs[0, 0] == X[0, 0]
    for array in (dataset.inputs, dataset.targets, dataset.groups, dataset.indicator):
        assert not array.flags.writeable
    np.testing.assert_array_equal(dataset.groups, [0, 1, 2])
    assert not dataset.indicator.any()


def test_take_keeps_groups_and_indicators() -> None:
    dataset = Dataset(inputs=X, targets=Y, groups=np.array([0, 1, 1]), indicator=np.array([False, True, True]))
    part = dataset.take(np.array([5, 1, 3]))
    np.testing.assert_array_equal(part.inputs, X[[5, 1, 3]])
    np.testing.assert_array_equal(part.targets, Y[[5, 1, 3]])
    np.testing.assert_array_equal(part.groups, [0, 1, 1])
    np.testing.assert_array_equal(part.indicator, [False, True, True])


@pytest.mark.parametrize(
    ("inputs", "targets"),
    [(X[:, 0], Y), (X, Y[:-1]), (X, Y[:, None]), (X[:, :0], Y), (X[None], Y)],
)
def test_shapes(inputs: FloatArray, targets: FloatArray) -> None:
    with pytest.raises(InvalidDataError):
        Dataset(inputs=inputs, targets=targets)


@pytest.mark.parametrize("rows", [0, 1])
def test_too_few_rows(rows: int) -> None:
    with pytest.raises(TooFewRowsError, match=f"got {rows}"):
        Dataset(inputs=X[:rows], targets=Y[:rows])


def test_constant_target_says_its_value() -> None:
    with pytest.raises(ConstantTargetError, match=r"3\.0 in every row") as caught:
        Dataset(inputs=X, targets=np.full(20, 3.0))
    assert caught.value.value == 3.0


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_finite_names_the_cell(value: float) -> None:
    inputs = X.copy()
    inputs[7, 2] = value
    with pytest.raises(NonFiniteError) as caught:
        Dataset(inputs=inputs, targets=Y)
    assert (caught.value.row, caught.value.column) == (7, 2)
    targets = Y.copy()
    targets[4] = value
    with pytest.raises(NonFiniteError) as caught:
        Dataset(inputs=X, targets=targets)
    assert (caught.value.row, caught.value.column) == (4, None)


@pytest.mark.parametrize("groups", [[0, 1], [0, 2, 2], [1, 1, 2], [-1, 0, 1]])
def test_groups_must_be_whole(groups: list[int]) -> None:
    with pytest.raises(InvalidDataError, match="groups"):
        Dataset(inputs=X, targets=Y, groups=np.array(groups))


@given(
    offset=st.floats(-1e9, 1e9),
    scale=st.floats(1e-3, 1e6),
    target_offset=st.floats(-1e9, 1e9),
    target_scale=st.floats(1e-3, 1e6),
)
def test_mean_nought_and_variance_one_whatever_the_unit(
    offset: float, scale: float, target_offset: float, target_scale: float
) -> None:
    dataset, units = standardized(X * scale + offset, Y * target_scale + target_offset)
    inputs, targets = units.inputs(dataset.inputs), units.targets(dataset.targets)
    np.testing.assert_allclose(inputs.mean(axis=0), 0.0, atol=2e-3)
    np.testing.assert_allclose(inputs.std(axis=0), 1.0, rtol=1e-3)
    np.testing.assert_allclose(targets.std(), 1.0, rtol=1e-3)


def test_huge_offset_keeps_the_digits_that_the_data_hold() -> None:
    """1e6 +- 1e-3: a ulp at 1e6 is 1e-10, so seven digits of the deviation are there and must be kept."""
    inputs = 1e6 + 1e-3 * X
    dataset, units = standardized(inputs, 1e6 + 1e-3 * Y)
    plain = (X - X.mean(axis=0)) / X.std(axis=0)
    np.testing.assert_allclose(units.inputs(dataset.inputs), plain, atol=1e-6)
    np.testing.assert_allclose(units.targets(dataset.targets), (Y - Y.mean()) / Y.std(), atol=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6 + 0.1, -1e300, 5e-324])
def test_constant_column_is_nought_in_training_and_in_prediction(value: float) -> None:
    inputs = X.copy()
    inputs[:, 1] = value
    dataset, units = standardized(inputs)
    assert not units.inputs(dataset.inputs)[:, 1].any()
    elsewhere = inputs[:1].copy()
    elsewhere[0, 1] = 12345.0
    np.testing.assert_array_equal(units.inputs(elsewhere), units.inputs(inputs[:1]))


def test_indicator_columns_keep_their_unit() -> None:
    """The distance between two categories is the same whatever their frequencies."""
    flags = np.zeros(20)
    flags[3] = 1.0
    dataset = Dataset(inputs=np.column_stack([X[:, 0], flags]), targets=Y, indicator=np.array([False, True]))
    inputs = standardization(dataset).inputs(dataset.inputs)
    assert np.ptp(inputs[:, 1]) == 1.0
    np.testing.assert_allclose(inputs[:, 0].std(), 1.0, rtol=1e-12)


def test_disabled_keeps_every_unit_and_centres() -> None:
    dataset = Dataset(inputs=7.0 * X + 3.0, targets=5.0 * Y + 2.0)
    units = standardization(dataset, enabled=False)
    np.testing.assert_array_equal(units.input_scale, 1.0)
    centred = dataset.targets - dataset.targets.mean()
    np.testing.assert_allclose(units.targets(dataset.targets), centred, atol=1e-12)
    inputs = units.inputs(dataset.inputs)
    np.testing.assert_allclose(inputs - inputs[0], dataset.inputs - dataset.inputs[0], atol=1e-12)


@pytest.mark.parametrize("size", [1e160, 1e300, 1e-170, 1e-300])
@pytest.mark.parametrize("where", ["input", "target"])
def test_extreme_magnitudes_work_or_are_refused(size: float, where: str) -> None:
    """Numbers that a parser lets in: their squares are not finite, or nought. Silence would be a wrong model."""
    inputs, targets = X.copy(), Y.copy()
    if where == "input":
        inputs[:, 0] *= size
    else:
        targets = targets * size
    try:
        dataset, units = standardized(inputs, targets)
    except InvalidDataError:
        return
    np.testing.assert_allclose(units.inputs(dataset.inputs).std(axis=0), 1.0, rtol=1e-6)
    np.testing.assert_allclose(units.targets(dataset.targets).std(), 1.0, rtol=1e-6)


@pytest.mark.parametrize("enabled", [True, False])
def test_spread_whose_mean_overflows_is_refused(enabled: bool) -> None:
    inputs = X.copy()
    inputs[:, 1] = np.where(np.arange(len(X)) % 2, 1e308, -1e308)
    with pytest.raises(InvalidDataError, match="input column 1: its spread"):
        standardization(Dataset(inputs=inputs, targets=Y), enabled=enabled)


def test_arrays_that_nobody_can_change_are_shared() -> None:
    dataset = Dataset(inputs=X, targets=Y)
    assert not np.shares_memory(dataset.inputs, X)
    again = replace(dataset, targets=2.0 * Y)
    assert again.inputs is dataset.inputs
    view = dataset.inputs[:10]  # whose owner may let itself be changed
    assert not np.shares_memory(Dataset(inputs=view, targets=Y[:10]).inputs, view)


def test_all_rows_in_their_order_are_the_dataset_itself() -> None:
    dataset = Dataset(inputs=X, targets=Y)
    assert dataset.take(np.arange(len(Y))) is dataset
    turned = dataset.take(np.arange(len(Y))[::-1])
    np.testing.assert_array_equal(turned.inputs, X[::-1])
    assert len(dataset.take(np.arange(len(Y) - 1)).targets) == len(Y) - 1
