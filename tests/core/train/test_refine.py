"""Basis vectors that move: the gradient they follow, the loss they stop on, what holds them back."""

import numpy as np
import pytest

import core.train.refine
from core.arrays import FloatArray
from core.sparse.factors import factorise
from core.sparse.leave_one_out import leave_one_out_loss
from core.sparse.likelihood import nlml_and_gradients
from core.sparse.scheme import scheme
from core.spec import Approximation
from core.train.optimise import box
from core.train.refine import NOISE_FLOOR_SHARE, refine
from tests.core.problems import POWER, Problem, problem
from tests.dense.objective import central_differences, objective

EVERY = list(Approximation)
MOVABLE = [Approximation.VFE, Approximation.FITC, Approximation.PEP]


def moved(case: Problem, approximation: Approximation, steps: int) -> tuple[Problem, FloatArray, float]:
    kind = scheme(approximation, POWER)
    Z, theta, loss = refine(case.rows, case.Z, case.hyperparameters, kind, box(case.rows), steps)
    return case.changed(hyperparameters=theta), Z, loss


@pytest.mark.parametrize("approximation", EVERY)
@pytest.mark.parametrize("seed", [1, 2])
def test_gradient_in_the_basis_against_a_dense_oracle(seed: int, approximation: Approximation) -> None:
    """Four columns in three groups: columns of a group share a weight, not a derivative."""
    case = problem(seed, n=30, d=6)
    kind = scheme(approximation, POWER)
    jitter = case.factors(approximation).jitter

    def oracle(flat: FloatArray) -> float:
        sparse = case.sparse(approximation, jitter)
        return objective(sparse._replace(Z=flat.reshape(case.Z.shape)))

    numeric = central_differences(oracle, case.Z.ravel(), step=2e-5)
    ours = nlml_and_gradients(case.rows, case.Z, case.hyperparameters, kind).by_basis.ravel()
    np.testing.assert_allclose(ours, numeric, rtol=2e-5, atol=2e-5 * np.abs(numeric).max())


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("approximation", EVERY)
def test_the_evaluation_knows_the_leave_one_out_loss(
    approximation: Approximation, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss is there where the gradient needs the same numbers; else it says that it does not."""
    monkeypatch.setattr("core.process.rows.BLOCK_NUMBERS", 1)
    case = problem(3, n=150, d=8).changed(workers=workers)
    found = nlml_and_gradients(case.rows, case.Z, case.hyperparameters, scheme(approximation, POWER)).left_out_loss
    if approximation in (Approximation.FITC, Approximation.PEP):
        assert found == pytest.approx(leave_one_out_loss(case.factors(approximation)), rel=1e-10)
    else:
        assert found is None


@pytest.mark.parametrize("approximation", MOVABLE)
def test_the_loss_never_rises_and_is_that_of_what_comes_back(approximation: Approximation) -> None:
    case = problem(4, n=120, d=6)
    kind = scheme(approximation, POWER)
    before = leave_one_out_loss(case.factors(approximation))
    for steps in (1, 5, 40):
        after, Z, loss = moved(case, approximation, steps)
        again = leave_one_out_loss(factorise(after.rows, Z, after.hyperparameters, kind))
        assert loss == pytest.approx(again, rel=1e-9)
        assert loss <= before
    assert loss < before - 0.05
    assert not np.allclose(Z, case.Z)


def test_noise_has_a_floor() -> None:
    """Hardly any noise, and a start that takes a good part of the target for it."""
    case = problem(5, n=80, d=20).with_hyperparameters(noise_variance=0.1)
    case = case.changed(y=np.sin(case.X[:, 0]))
    after, _, _ = moved(case, Approximation.VFE, 60)
    assert after.hyperparameters.noise_variance >= 0.1 * NOISE_FLOOR_SHARE * (1 - 1e-9)


def test_it_ends_where_looking_finds_nothing_better(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core.train.refine, "LOOK_EVERY", 1)
    monkeypatch.setattr(core.train.refine, "PATIENCE", 2)
    case = problem(6, n=60, d=25)
    told: list[float] = []
    kind = scheme(Approximation.FITC)
    refine(case.rows, case.Z, case.hyperparameters, kind, box(case.rows), 500, told.append)
    assert 2 < len(told) < 500
