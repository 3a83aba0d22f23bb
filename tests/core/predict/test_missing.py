"""core/predict/missing.py: values of missing cells given the others, and predictions that integrate over them."""

from functools import cache

import numpy as np
import pytest

from core.arrays import FloatArray
from core.data import Dataset
from core.errors import InvalidDataError
from core.predict.missing import COMPONENTS, Completion, Donors, IntegratedPredictor
from core.predict.model import ModelPredictor
from core.spec import TrainSpec
from core.train.run import train
from tests.dense.mixture import mixture_moments

ROWS = 200
FUNCTION_NOISE = 0.1


def normal(correlation: float, rows: int = ROWS, seed: int = 0) -> FloatArray:
    """Two columns of normal numbers with this correlation, and one that has nothing to do with them."""
    chance = np.random.default_rng(seed)
    a, b, c = chance.normal(size=(3, rows))
    return np.stack([a, correlation * a + np.sqrt(1 - correlation**2) * b, c], axis=1)


def donors_of(rows: FloatArray, starts: list[int] | None = None, fixed: list[bool] | None = None) -> Donors:
    columns = rows.shape[1]
    return Donors(
        rows=rows,
        starts=np.array(starts if starts is not None else list(range(columns + 1))),
        fixed=np.array(fixed if fixed is not None else [False] * columns),
    )


@cache
def predictor() -> ModelPredictor:
    """A model of 10 a + b, in which c does not matter, trained on complete rows."""
    X = normal(0.8)
    y = 10.0 * X[:, 0] + X[:, 1] + FUNCTION_NOISE * np.random.default_rng(1).normal(size=ROWS)
    spec = TrainSpec(basis_size=40, calibrate=None)
    return ModelPredictor(train(Dataset(inputs=X, targets=y), spec).model)


def integrated(correlation: float = 0.8) -> IntegratedPredictor:
    donors = donors_of(normal(correlation))
    return IntegratedPredictor(predictor(), Completion(donors.ordered(predictor().mean(donors.rows))))


def without(inputs: FloatArray, *columns: int) -> FloatArray:
    found = inputs.copy()
    found[:, columns] = np.nan
    return found


def test_known_cells_stay_and_values_are_within_the_column() -> None:
    X, new = normal(0.8), normal(0.8, 20, seed=5)
    found = Completion(donors_of(X)).complete(without(new, 1))
    assert found.shape == (20, COMPONENTS, 3)
    assert (found[:, :, [0, 2]] == new[:, None, [0, 2]]).all()
    assert X[:, 1].min() <= found[:, :, 1].min() <= found[:, :, 1].max() <= X[:, 1].max()


def test_an_unrelated_column_is_taken_from_its_own_distribution() -> None:
    """The quantiles of the values are those of the column: with 64 of 200 values to about half a step of 1 / 64."""
    X = normal(0.0)
    X = X[np.argsort(X[:, 2])]
    found = Completion(donors_of(X)).complete(np.array([[np.nan, np.nan, np.nan]]))[0, :, 2]
    ranks = np.searchsorted(X[:, 2], found, side="right") / ROWS
    np.testing.assert_allclose(ranks, (np.arange(COMPONENTS) + 0.5) / COMPONENTS, atol=1 / COMPONENTS)


@pytest.mark.parametrize("correlation", [-0.95, 0.0, 0.6, 0.95])
def test_other_columns_tell_of_the_missing_one(correlation: float) -> None:
    """Mean and spread are those of a conditional normal distribution: on average to .15 of a standard deviation, the
    error of a mean of some 50 donors; single ones are twice as far off."""
    a = np.linspace(-1.5, 1.5, 9)
    found = Completion(donors_of(normal(correlation))).complete(np.stack([a, np.full(9, np.nan), a], axis=1))[:, :, 1]
    assert np.sqrt(np.mean(np.square(found.mean(axis=1) - correlation * a))) < 0.15
    assert found.std(axis=1).mean() == pytest.approx(np.sqrt(1 - correlation**2), rel=0.2)


def test_cells_missing_together_are_taken_together() -> None:
    X = normal(0.95)
    found = Completion(donors_of(X)).complete(np.array([[np.nan, np.nan, 0.3]]))[0]
    assert np.corrcoef(found[:, 0], found[:, 1])[0, 1] == pytest.approx(0.95, abs=0.03)


def test_levels_are_whole_and_as_frequent_as_they_are_beside_the_known_column() -> None:
    chance = np.random.default_rng(2)
    level = np.sort(chance.choice(3, 240, p=[0.6, 0.3, 0.1]))
    X = np.column_stack([level + 0.2 * chance.normal(size=240), np.eye(3)[level]])
    completion = Completion(donors_of(X, [0, 1, 4], [False, True, True, True]))
    nan = np.nan
    own, near = completion.complete(np.array([[nan, nan, nan, nan], [2.0, nan, nan, nan]]))[:, :, 1:]
    assert (np.sort(own, axis=1) == [0.0, 0.0, 1.0]).all()
    np.testing.assert_allclose(own.mean(axis=0), X[:, 1:].mean(axis=0), atol=1 / COMPONENTS)
    assert near.mean(axis=0)[2] > 0.8  # every tenth row has this level, and all rows near 2 do


def test_an_unseen_level_leaves_the_other_columns_their_distribution() -> None:
    chance = np.random.default_rng(2)
    level = chance.choice(3, 100)
    X = np.column_stack([chance.normal(size=100), np.eye(3)[level]])
    completion = Completion(donors_of(X, [0, 1, 4], [False, True, True, True]))
    far = completion.complete(np.array([[np.nan, 1e6, 0.0, 0.0]]))[0, :, 0]
    assert far.std() == pytest.approx(X[:, 0].std(), rel=0.1)


def test_a_row_has_the_same_values_and_answer_alone_and_among_others() -> None:
    new = np.concatenate([without(normal(0.8, 9, seed=3), 1), without(normal(0.8, 9, seed=4), 0, 2), normal(0.8, 9)])
    order = np.random.default_rng(0).permutation(len(new))
    whole, shuffled = integrated().predict(new), integrated().predict(new[order])
    for one, two in zip(whole.interval(0.9), shuffled.interval(0.9), strict=True):
        assert one[order].tobytes() == two.tobytes()
    for row in (0, 10, 20):
        alone = integrated().predict(new[row : row + 1])
        for one, two in zip(whole.moments(), alone.moments(), strict=True):
            assert one[row] == two[0]


def test_rows_without_missing_cells_are_predicted_as_before() -> None:
    new = normal(0.8, 30, seed=6)
    plain, alone = predictor().predict(new), integrated().predict(new)
    beside = integrated().predict(np.concatenate([new, without(new[:3], 1)]))
    for found in (alone, beside):
        ours = (*found.moments(), *found.interval(0.9))
        for one, two in zip((*plain.moments(), *plain.interval(0.9)), ours, strict=True):
            assert one.tobytes() == two[:30].tobytes()
    assert integrated().mean(new).tobytes() == predictor().mean(new).tobytes()


def test_mean_and_variance_are_those_of_the_mixture_of_completed_rows() -> None:
    new = without(normal(0.8, 6, seed=7), 0)
    found = integrated().predict(new)
    mean, variance = found.moments()
    donors = donors_of(normal(0.8))
    completed = Completion(donors.ordered(predictor().mean(donors.rows))).complete(new)
    for row in range(6):
        parts = predictor().predict(completed[row])
        # the second moment of the oracle loses digits to its mean, here of some hundred times the deviation's square
        assert (mean[row], variance[row]) == pytest.approx(mixture_moments(*parts.moments()), rel=1e-9)
    np.testing.assert_allclose(integrated().mean(new), mean, rtol=1e-12)
    assert (found.latent_std() < found.std()).all()


def test_a_missing_column_that_does_not_matter_changes_next_to_nothing() -> None:
    new = normal(0.8, 40, seed=8)
    known, asked = predictor().predict(new), integrated().predict(without(new, 2))
    std = np.sqrt(known.moments()[1])
    # c has a lengthscale of many spreads, not an infinite one: what is left of it is a small share of the noise
    np.testing.assert_array_less(np.abs(asked.moments()[0] - known.moments()[0]), 0.5 * std)
    assert np.sqrt(asked.moments()[1]).mean() == pytest.approx(std.mean(), rel=0.1)
    wide, known_wide = (np.mean(upper - lower) for lower, upper in (asked.interval(0.95), known.interval(0.95)))
    assert wide == pytest.approx(known_wide, rel=0.1)


def test_error_bars_grow_with_what_is_not_known() -> None:
    new = normal(0.8, 60, seed=9)
    asked = [new, *(without(new, *gone) for gone in ((1,), (0,), (0, 1)))]
    predicted = [integrated().predict(inputs) for inputs in asked]
    stds = [float(np.sqrt(found.moments()[1]).mean()) for found in predicted]
    assert stds == sorted(stds)
    # b given a has a standard deviation of .6; a given b times 10, 6; all of 10 a + b 10.8: to a tenth, of 200 donors
    np.testing.assert_allclose(stds[1:], [0.6, 6.0, 10.8], rtol=0.15)


def test_all_cells_missing_is_the_distribution_of_the_target() -> None:
    X = normal(0.8)
    found = integrated().predict(np.full((1, 3), np.nan))
    y = 10.0 * X[:, 0] + X[:, 1]
    assert found.moments()[0][0] == pytest.approx(y.mean(), abs=0.1)
    assert np.sqrt(found.moments()[1][0]) == pytest.approx(y.std(), rel=0.05)
    for probability in (0.05, 0.5, 0.95):
        assert found.quantile(probability)[0] == pytest.approx(np.quantile(y, probability), abs=0.2 * y.std())


def test_few_donors_and_constant_columns() -> None:
    rows = np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]])
    found = Completion(donors_of(rows)).complete(np.array([[np.nan, 5.0], [2.0, np.nan], [np.nan, np.nan]]))
    assert found.shape == (3, 3, 2)
    assert sorted(found[0, :, 0].tolist()) == [1.0, 2.0, 3.0]
    assert (found[1:, :, 1] == 5.0).all()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rows": np.empty((0, 2))}, "expected rows of finite numbers"),
        ({"rows": np.array([[1.0, np.nan]])}, "expected rows of finite numbers"),
        ({"starts": [0, 3]}, "end at 2"),
        ({"starts": [0, 0, 2]}, "begin at 0 and end at 2"),
        ({"fixed": [True]}, "one mark for each of the 2 columns"),
    ],
)
def test_donors_that_are_none(changes: dict[str, object], words: str) -> None:
    given: dict[str, object] = {"rows": np.ones((3, 2)), "starts": [0, 1, 2], "fixed": [False, False]}
    with pytest.raises(InvalidDataError, match=words):
        Donors(**(given | changes))  # type: ignore[arg-type]  # what is wrong with them is the test


def test_the_last_bit_of_a_cell_changes_no_completion() -> None:
    """Half of the donors have a known cell that is the other half's but for rounding, as sines of mirrored times."""
    X = normal(0.95)
    X[:, 0] = np.round(X[:, 0], 1)
    X[1::2, 0] = np.nextafter(X[1::2, 0], 9.0)
    completion = Completion(donors_of(X))
    rows = without(X[::2][:20], 1)
    other = rows.copy()
    other[:, 0] = np.nextafter(rows[:, 0], 9.0)
    np.testing.assert_allclose(completion.complete(other)[:, :, 1], completion.complete(rows)[:, :, 1], atol=1e-9)
