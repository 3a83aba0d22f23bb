"""core/train/optimise.py: theta goes downhill, inside its box, and is never worse than its start."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.arrays import FloatArray
from core.errors import NotPositiveDefiniteError, NumericalError
from core.hyperparameters import Hyperparameters
from core.process.rows import Rows
from core.process.theta import Box
from core.sparse.likelihood import nlml_and_gradient
from core.sparse.scheme import scheme
from core.spec import Approximation
from core.train.optimise import box, descend, heuristic
from tests.core.problems import hyperparameters, hyperparameters_of, problem, theta_of, to_log


def test_theta_is_in_the_order_of_the_gradient() -> None:
    case = problem(0)
    np.testing.assert_allclose(theta_of(case.hyperparameters), to_log(case.hyperparameters), rtol=1e-14)


@given(st.lists(st.floats(-8, 8), min_size=4, max_size=9))
def test_theta_and_back(values: list[float]) -> None:
    np.testing.assert_allclose(theta_of(hyperparameters_of(np.array(values))), values, atol=1e-12)


def test_no_bias_has_a_finite_logarithm() -> None:
    case = problem(0).with_hyperparameters(bias_variance=0.0)
    assert np.isfinite(theta_of(case.hyperparameters)).all()


WIDE = Box(lower=np.full(4, -20.0), upper=np.full(4, 20.0))
START = hyperparameters([1.0], signal_variance=1.0, bias_variance=1.0, noise_variance=1.0)


class Bowl:
    """A quadratic in theta that counts its calls and may break down in a region."""

    def __init__(self, least: list[float], *, broken_beyond: float = np.inf, scale: float = 1.0) -> None:
        self.least, self.calls, self.broken, self.scale = np.array(least), 0, broken_beyond, scale
        self.seen: list[FloatArray] = []

    def __call__(self, hyperparameters: Hyperparameters) -> tuple[float, FloatArray]:
        self.calls += 1
        theta = theta_of(hyperparameters)
        self.seen.append(theta)
        if theta[0] > self.broken:
            raise NotPositiveDefiniteError("Kuu", 3, 1e-4)
        gap = theta - self.least
        return float(self.scale * gap @ gap), 2.0 * self.scale * gap


class Valley:
    """Rosenbrock's, which takes many steps."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, hyperparameters: Hyperparameters) -> tuple[float, FloatArray]:
        self.calls += 1
        theta = theta_of(hyperparameters)
        a, b = theta[:-1], theta[1:]
        gradient = np.zeros_like(theta)
        gradient[:-1] += -400 * a * (b - a**2) - 2 * (1 - a)
        gradient[1:] += 200 * (b - a**2)
        return float(np.sum(100 * (b - a**2) ** 2 + (1 - a) ** 2)), gradient


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_descent_finds_the_bottom_whatever_the_scale_of_the_objective(scale: float) -> None:
    bowl = Bowl([1.0, -2.0, 0.5, -1.0], scale=scale)
    found, value = descend(bowl, START, WIDE, 40)
    np.testing.assert_allclose(theta_of(found), bowl.least, atol=1e-3)
    assert value == pytest.approx(bowl(found)[0], rel=1e-9, abs=1e-12 * scale)


def test_first_step_is_short_whatever_the_scale_of_the_objective() -> None:
    """The all-noise trap: a likelihood of many rows must not throw theta across the box."""
    bowl = Bowl([3.0, -3.0, 1.0, -2.0], scale=1e6)
    descend(bowl, START, WIDE, 3)
    assert np.abs(bowl.seen[1] - bowl.seen[0]).max() <= 0.5 + 1e-9


@pytest.mark.parametrize("steps", [1, 2, 5, 20])
def test_the_budget_of_evaluations_is_kept(steps: int) -> None:
    """L-BFGS-B ends the line search it is in: a few more, not a multiple."""

    counted = Valley()
    descend(counted, hyperparameters_of(np.array([-1.2, 1.0, -1.2, 1.0])), WIDE, steps)
    assert min(steps, 5) <= counted.calls <= steps + 3


def test_never_worse_than_the_start() -> None:
    """Rounding can turn a gradient round; here all of it is, and every step goes uphill."""
    bowl = Bowl([0.3, 0.1, 0.0, -0.2])

    def uphill(hyperparameters: Hyperparameters) -> tuple[float, FloatArray]:
        value, gradient = bowl(hyperparameters)
        return value, -gradient

    found, value = descend(uphill, START, WIDE, 20)
    assert bowl.calls > 1
    assert value == bowl(START)[0]
    np.testing.assert_allclose(theta_of(found), theta_of(START), atol=1e-14)


def test_descent_stays_in_the_box() -> None:
    narrow = Box(lower=np.full(4, -0.5), upper=np.full(4, 0.5))
    bowl = Bowl([2.0, -2.0, 0.1, 0.0])
    found, _ = descend(bowl, START, narrow, 30)
    np.testing.assert_allclose(theta_of(found), [0.5, -0.5, 0.1, 0.0], atol=1e-4)
    assert all((np.abs(theta) <= 0.5 + 1e-12).all() for theta in bowl.seen)


def test_a_start_outside_the_box_is_moved_in() -> None:
    narrow = Box(lower=np.full(4, 1.0), upper=np.full(4, 2.0))
    found, _ = descend(Bowl([1.5] * 4), START, narrow, 20)
    np.testing.assert_allclose(theta_of(found), 1.5, atol=1e-4)


def test_a_breakdown_on_the_way_is_survived() -> None:
    """The bottom lies where the objective cannot be evaluated: the best of what could be is kept."""
    bowl = Bowl([5.0, 1.0, 0.0, 0.0], broken_beyond=0.2)
    found, value = descend(bowl, START, WIDE, 25)
    theta = theta_of(found)
    assert theta[0] <= 0.2
    assert value < bowl(START)[0]
    assert value == pytest.approx(bowl(found)[0], rel=1e-12)


def test_a_start_that_cannot_be_evaluated_is_an_error() -> None:
    with pytest.raises(NumericalError):
        descend(Bowl([0.0] * 4, broken_beyond=-1.0), START, WIDE, 5)


@pytest.mark.parametrize("approximation", list(Approximation))
@pytest.mark.parametrize("seed", [0, 1])
def test_a_likelihood_goes_down_and_the_value_returned_is_its_own(seed: int, approximation: Approximation) -> None:
    case = problem(seed, n=80, d=12)

    def objective(hyperparameters: Hyperparameters) -> tuple[float, FloatArray]:
        return nlml_and_gradient(case.rows, case.Z, hyperparameters, scheme(approximation, 0.4))

    start = heuristic(case.rows)
    found, value = descend(objective, start, box(case.rows), 20)
    assert value == pytest.approx(objective(found)[0], rel=1e-10)
    assert value < objective(start)[0]
    longer, longer_value = descend(objective, start, box(case.rows), 200)
    assert longer_value <= value
    _, gradient = objective(longer)
    theta, bounds = theta_of(longer), box(case.rows)
    free = (theta > bounds.lower + 1e-6) & (theta < bounds.upper - 1e-6)
    assert np.abs(gradient[free]).max() < 0.2  # nats; it started at tens


def test_heuristic_is_inside_the_box_and_scales_with_the_data() -> None:
    case = problem(1)
    bounds, start = box(case.rows), heuristic(case.rows)
    theta = theta_of(start)
    assert (theta > bounds.lower).all()
    assert (theta < bounds.upper).all()
    larger = Rows(X=10.0 * case.X, y=3.0 * case.y, groups=case.groups)
    scaled = heuristic(larger)
    np.testing.assert_allclose(scaled.lengthscales, 10.0 * start.lengthscales, rtol=1e-12)
    assert scaled.signal_variance == pytest.approx(9.0 * start.signal_variance)
    assert scaled.noise_variance == pytest.approx(9.0 * start.noise_variance)
    np.testing.assert_allclose(box(larger).lower[:-3], bounds.lower[:-3] - 2 * np.log(10.0), rtol=1e-12)
    np.testing.assert_allclose(box(larger).upper[-3:], bounds.upper[-3:] + 2 * np.log(3.0), rtol=1e-12)


def test_constant_columns_do_not_spoil_the_box() -> None:
    case = problem(1)
    X = case.X.copy()
    X[:, 3] = 0.0  # alone in its group
    X[:, 2] = 0.0  # shares its group with column 1
    rows = Rows(X=X, y=case.y, groups=case.groups)
    start, bounds = heuristic(rows), box(rows)
    assert np.isfinite(bounds.lower).all()
    assert np.isfinite(bounds.upper).all()
    spread = np.sqrt(np.mean(X[:, 1] ** 2))
    np.testing.assert_allclose(start.lengthscales[1], np.sqrt(3) * spread, rtol=1e-12)
    np.testing.assert_allclose(start.lengthscales[2], np.sqrt(3), rtol=1e-12)


@pytest.mark.parametrize("levels", [2, 6, 30, 140, 500])
def test_levels_start_alike_enough_for_a_slope(levels: int) -> None:
    """However many they are: a start where the kernel of two levels is nothing is one that no descent leaves."""
    X = np.column_stack((np.linspace(-1.7, 1.7, 2 * levels), np.tile(np.eye(levels), (2, 1)) - 1.0 / levels))
    rows = Rows(X=X, y=np.sin(7.0 * np.arange(2 * levels)), groups=np.array([0] + [1] * levels))
    start, bounds = heuristic(rows), box(rows)
    assert np.exp(-2.0 * start.weights[1]) > 0.02  # exp(-70) of 140 levels, were it a mean over all
    assert np.exp(-2.0 * np.exp(bounds.lower[1])) > 0.998  # and the box lets them be one
    if levels <= 6:
        spread = np.sqrt(np.mean(np.square(X[:, 1:])))
        np.testing.assert_allclose(start.lengthscales[1], np.sqrt(2) * spread, rtol=1e-12)


def test_a_descent_ends_where_two_steps_gain_less_than_is_asked() -> None:
    start = hyperparameters_of(np.array([-1.2, 1.0, -1.2, 1.0]))
    whole, part = Valley(), Valley()
    _, least = descend(whole, start, WIDE, 500)
    _, value = descend(part, start, WIDE, 500, settled=1e-2)
    assert part.calls < 0.9 * whole.calls
    assert least <= value < least + 1.0  # two steps of a hundredth say little of a valley that goes on


@pytest.mark.parametrize("step", [0.5, 0.1, 0.01])
def test_the_first_step_is_as_long_as_is_asked(step: float) -> None:
    """Far from the minimum, where nothing but its length holds it back."""
    bowl = Bowl([1.5] * 4)
    descend(bowl, START, WIDE, 3, first_step=step)
    assert np.abs(bowl.seen[1] - bowl.seen[0]).max() == pytest.approx(step, rel=1e-6)
