"""The form that inputs are learnt in is chosen by left-out rows, and predictions take them as they were given."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from core.arrays import IntArray
from core.data import Dataset
from core.hyperparameters import Hyperparameters
from core.predict.model import ModelPredictor
from core.predict.transforms import Transform
from core.spec import Adaptation, Artefact, Effort, InputTransforms, MeanRows, Noise, Refinement, TrainSpec
from core.train.block_judge import BlockJudge
from core.train.input_choice import InputTransformChoice, input_transform_asked
from core.train.run import train
from core.train.state import NewRows
from core.train.update import update

SHORT = Adaptation(rounds=2, steps=8)


def long_tailed(rows: int, seed: int = 0, linear: bool = False) -> Dataset:
    """Two columns of incomes, whose logarithms matter, or themselves."""
    chance = np.random.default_rng(seed)
    z = chance.normal(size=(rows, 2))
    X = np.exp(2.0 * z)
    signal = X[:, 0] / 20.0 + X[:, 1] / 40.0 if linear else np.sin(2.0 * z[:, 0]) + z[:, 1]
    return Dataset(inputs=X, targets=signal + 0.1 * chance.normal(size=rows))


def asked_for(
    dataset: Dataset,
    learning: IntArray | None = None,
    *,
    tell: Callable[[float], None] = lambda _: None,
    start: Hyperparameters | None = None,
) -> InputTransformChoice:
    """Choose the inputs' transform by some of the rows, or all."""
    rows = np.arange(len(dataset.targets)) if learning is None else learning
    spec = TrainSpec(input_transform=InputTransforms.AUTO, start=start)
    return input_transform_asked(BlockJudge(dataset, rows, spec, np.random.default_rng(0)), Transform(), tell)


def test_tails_that_hide_the_function_are_drawn_in_and_why_is_told() -> None:
    choice = asked_for(long_tailed(250))
    assert choice.transform.columns.tolist() == [0, 1]
    assert choice.reason is not None
    assert "drawn in by Yeo and Johnson's powers" in choice.reason
    assert choice.report().kind == "yeo-johnson"


def test_a_function_that_is_linear_in_the_tails_keeps_them() -> None:
    choice = asked_for(long_tailed(250, linear=True))
    assert not len(choice.transform.columns)
    assert choice.reason is not None
    assert "learnt as they are" in choice.reason


def test_nothing_is_compared_where_no_column_has_a_tail() -> None:
    chance = np.random.default_rng(0)
    X = chance.normal(size=(200, 3))
    told: list[float] = []
    dataset = Dataset(inputs=X, targets=X[:, 0])
    choice = asked_for(dataset, tell=told.append)
    assert (choice.reason, len(choice.transform.columns), told) == (None, 0, [])


def test_rows_that_are_held_out_are_not_looked_at() -> None:
    dataset, held_out = long_tailed(250), np.arange(200, 250)
    targets = dataset.targets.copy()
    targets[held_out] = 1e3
    inputs = dataset.inputs.copy()
    inputs[held_out] *= 1e3
    one, two = (asked_for(each, np.arange(200)) for each in (dataset, replace(dataset, inputs=inputs, targets=targets)))
    np.testing.assert_array_equal(one.transform.table, two.transform.table)
    assert one.reason == two.reason


@pytest.mark.parametrize(
    "spec",
    [
        TrainSpec(max_basis_size=60),
        *(
            pytest.param(spec, marks=pytest.mark.slow)
            for spec in (
                TrainSpec(max_basis_size=40, refinement=Refinement(steps=4)),
                TrainSpec(effort=Effort.NORMAL, mean_rows=MeanRows.AUTO, max_basis_size=40),
                TrainSpec(max_basis_size=60, mean_rows=MeanRows.ALL),
                TrainSpec(max_basis_size=40, artefact=Artefact.COMPACT),
            )
        ),
    ],
    ids=["sparse", "refined", "full", "all rows", "compact"],
)
def test_every_kind_of_model_predicts_raw_inputs_as_one_of_logarithms_does(spec: TrainSpec) -> None:
    """The same table with its tails drawn in by hand is the same training, but for rounding in powers and sums."""
    dataset, spec = long_tailed(250), replace(spec, adaptation=SHORT, noise=Noise.CONSTANT)
    drawn = replace(spec, input_transform=InputTransforms.YEO_JOHNSON)
    result = train(dataset, drawn)
    transform = result.model.posterior.input_transform
    assert transform.columns.tolist() == [0, 1]
    by_hand = train(replace(dataset, inputs=transform.forward(dataset.inputs)), spec)
    new = long_tailed(200, seed=1)
    ours = ModelPredictor(result.model).predict(new.inputs)
    theirs = ModelPredictor(by_hand.model).predict(transform.forward(new.inputs))
    # rounding of the powers moves theta in a search's last digits, and a refinement's more
    np.testing.assert_allclose(ours.centre, theirs.centre, atol=2e-3)
    np.testing.assert_allclose(ours.variance, theirs.variance, rtol=2e-2)
    plain = ModelPredictor(train(dataset, spec).model).predict(new.inputs)
    error, of_plain = (float(np.mean(np.square(new.targets - each.centre))) for each in (ours, plain))
    assert error < 0.6 * of_plain


def test_auto_keeps_units_in_which_hyperparameters_were_given() -> None:
    dataset = long_tailed(100)
    start = train(dataset, TrainSpec(adaptation=SHORT)).report.hyperparameters
    choice = asked_for(dataset, start=start)
    assert (choice.reason, len(choice.transform.columns)) == (None, 0)


def test_a_training_that_is_cancelled_while_it_compares_ends() -> None:
    class CancelledError(Exception):
        pass

    def tell(share: float) -> None:
        if share > 0.0:
            raise CancelledError

    with pytest.raises(CancelledError):
        asked_for(long_tailed(250), tell=tell)


def test_an_update_draws_new_rows_in_as_the_training_did() -> None:
    dataset, new = long_tailed(200), long_tailed(60, seed=2)
    spec = TrainSpec(adaptation=SHORT, max_basis_size=40, holdout=0.0)
    drawn = replace(spec, input_transform=InputTransforms.YEO_JOHNSON)
    result = train(dataset, drawn)
    transform = result.model.posterior.input_transform
    by_hand = train(replace(dataset, inputs=transform.forward(dataset.inputs)), spec)
    numbers = np.arange(200, 260)
    rows = [
        NewRows(inputs=inputs, targets=new.targets, numbers=numbers)
        for inputs in (new.inputs, transform.forward(new.inputs))
    ]
    assert result.state is not None
    assert by_hand.state is not None
    ours = update(result.model, result.state, rows[0], drawn).model
    theirs = update(by_hand.model, by_hand.state, rows[1], spec).model
    np.testing.assert_array_equal(ours.posterior.input_transform.table, transform.table)
    later = long_tailed(50, seed=3).inputs
    one = ModelPredictor(ours).predict(later).centre
    two = ModelPredictor(theirs).predict(transform.forward(later)).centre
    # as two trainings whose powers round otherwise
    np.testing.assert_allclose(one, two, atol=2e-3)
