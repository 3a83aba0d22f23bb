"""Rows held out for the report: theta does not see them, the model does, and what is said of them holds."""

from dataclasses import replace

import numpy as np
import pytest

from core.data import Dataset
from core.predict.predictor import moments
from core.spec import Adaptation, Noise, TrainSpec
from core.train.run import train
from tests.core.runs import START, table


def test_held_out_rows_do_not_move_theta() -> None:
    """Forty rows, a quarter held out: a change of the target moves the objectives for the other 30 and only those."""
    dataset = table(1, n=40)
    spec = TrainSpec(basis_size=4, adaptation=Adaptation(rounds=1, steps=2), holdout=0.25, calibrate=None)
    before = train(dataset, spec).report
    assert before.holdout is not None
    assert before.holdout.rows == 10
    unmoved = 0
    for row in range(40):
        targets = dataset.targets.copy()
        targets[row] += 10.0
        after = train(Dataset(inputs=dataset.inputs, targets=targets, groups=dataset.groups), spec).report
        unmoved += after.objectives == before.objectives
        assert after.leave_one_out.rmse != before.leave_one_out.rmse
    assert unmoved == 10


def test_published_model_learns_from_all_rows() -> None:
    """Theta is given: holding rows out changes nothing about the model, only about the report."""
    dataset = table(2)
    spec = TrainSpec(basis_size=12, adaptation=None, start=START, pool_size=90)
    held = train(dataset, spec)
    none = train(dataset, replace(spec, holdout=0.0))
    np.testing.assert_array_equal(held.model.posterior.alpha, none.model.posterior.alpha)
    np.testing.assert_array_equal(held.selection.indices, none.selection.indices)
    assert held.report.holdout is not None
    assert held.report.holdout.rows == 9
    assert none.report.holdout is None


@pytest.mark.usefixtures("short_search")
def test_holdout_scores_are_honest() -> None:
    """A smooth function with known noise, the report is close to what rows never uploaded say."""
    dataset = table(3, n=900)
    spec = TrainSpec(
        basis_size=40, holdout=0.3, seed=1, adaptation=Adaptation(rounds=2, steps=15), noise=Noise.CONSTANT
    )
    result = train(dataset.take(np.arange(600)), spec)
    new = dataset.take(np.arange(600, 900))
    ours = moments(result.model.posterior, new.inputs)
    nmse = np.mean((new.targets - ours.mean) ** 2) / new.targets.var()
    assert result.report.holdout is not None
    assert result.report.holdout.nmse == pytest.approx(nmse, rel=0.5)
    assert nmse < 0.12  # the noise alone is 0.06
    assert 0.88 <= result.report.holdout.coverage["0.95"] <= 1.0
