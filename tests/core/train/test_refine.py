"""Basis vectors that move: the gradient they follow, the loss they stop on, what holds them back."""

import numpy as np
import pytest

import core.train.refine
from core.arrays import FloatArray
from core.hyperparameters import KernelFamily
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


@pytest.mark.parametrize("family", [family for family in KernelFamily if family is not KernelFamily.GAUSSIAN])
@pytest.mark.parametrize("approximation", [Approximation.FITC, Approximation.PEP])
def test_gradient_in_the_basis_of_every_kernel(family: KernelFamily, approximation: Approximation) -> None:
    """The basis lies beside the rows: at a row itself matern12 has a kink. Lengthscales far apart."""
    case = problem(3, n=30, d=6).with_hyperparameters(kernel=family, lengthscales=[0.4, 2.0, 40.0])
    kind, Z = scheme(approximation, POWER), case.Z + 0.05
    jitter = factorise(case.rows, Z, case.hyperparameters, kind).jitter

    def oracle(flat: FloatArray) -> float:
        sparse = case.sparse(approximation, jitter)
        return objective(sparse._replace(Z=flat.reshape(Z.shape)))

    numeric = central_differences(oracle, Z.ravel(), step=1e-5)
    ours = nlml_and_gradients(case.rows, Z, case.hyperparameters, kind).by_basis.ravel()
    np.testing.assert_allclose(ours, numeric, rtol=2e-5, atol=2e-5 * np.abs(numeric).max())


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("family", list(KernelFamily))
def test_a_basis_vector_on_its_row_and_on_copies_is_moved_by_the_others(family: KernelFamily, scale: float) -> None:
    """Equal inputs pull at each other by nothing, not by infinity: where the kernel has a kink the derivative is the
    mean of those at either side of it. Units change neither."""
    case = problem(6, n=30, d=5).with_hyperparameters(kernel=family)
    X = np.concatenate((case.X, case.X[case.indices]))  # every basis vector is two of the rows
    case = case.changed(X=X, y=np.concatenate((case.y, case.y[case.indices])))
    kind = scheme(Approximation.FITC)
    sized = case.changed(X=X * scale).with_hyperparameters(lengthscales=case.hyperparameters.lengthscales * scale)
    ours = nlml_and_gradients(sized.rows, sized.Z, sized.hyperparameters, kind)
    sparse = case.sparse(Approximation.FITC, sized.factors(Approximation.FITC).jitter)
    step = 1e-4
    numeric = central_differences(
        lambda flat: objective(sparse._replace(Z=flat.reshape(case.Z.shape))), case.Z.ravel(), step=step
    )
    # a difference over a kink is off by the curvature of its sides, as large as the step
    atol = (50.0 * step if family is KernelFamily.MATERN12 else 1e-5) * np.abs(numeric).max()
    np.testing.assert_allclose(ours.by_basis.ravel() * scale, numeric, atol=atol)
    assert np.isfinite(ours.by_theta).all()


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
