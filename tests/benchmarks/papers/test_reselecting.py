"""The descent of a criterion that is chosen again: it finds minima, and keeps to the box and to one basis a step."""

from functools import partial

import numpy as np

from core.arrays import FloatArray
from core.hyperparameters import Hyperparameters
from core.process.exact import exact_nlml_and_gradient
from core.process.rows import Rows
from core.process.theta import Box
from core.train.optimise import box, heuristic
from tests.benchmarks.papers.reselecting import descend
from tests.core.problems import hyperparameters_of, theta_of

START = Hyperparameters(lengthscales=np.ones(3), signal_variance=1.0, bias_variance=1.0, noise_variance=1.0)
WIDE = Box(lower=np.full(6, -9.0), upper=np.full(6, 9.0))


def bowl(middle: FloatArray, theta: Hyperparameters) -> tuple[float, FloatArray]:
    """A quadratic in log hyperparameters, badly scaled, over which no step is perfect."""
    away, curvature = theta_of(theta) - middle, np.array([1.0, 10.0, 100.0, 0.1, 3.0, 30.0])
    return float(1.0 + 0.5 * curvature @ np.square(away)), curvature * away


def test_it_finds_the_bottom_and_only_goes_down() -> None:
    middle = np.array([2.0, -1.0, 0.5, -2.0, 1.0, -4.0])
    trace = descend(lambda _: partial(bowl, middle), START, WIDE, 100)
    np.testing.assert_allclose(trace.end, middle, atol=1e-2)
    assert (np.diff(trace.values) <= 0.0).all()
    assert len(trace.values) < 100
    np.testing.assert_array_equal(trace.thetas[0], theta_of(START))
    np.testing.assert_allclose(theta_of(trace.hyperparameters), trace.end)


def test_it_stays_in_the_box() -> None:
    narrow = Box(lower=np.full(6, -1.0), upper=np.full(6, 1.0))
    middle = np.array([2.0, 0.0, 0.5, -2.0, 0.5, -4.0])
    trace = descend(lambda _: partial(bowl, middle), START, narrow, 200)
    np.testing.assert_allclose(trace.end, np.clip(middle, -1.0, 1.0), atol=1e-2)


def test_a_criterion_is_chosen_once_for_each_line_search() -> None:
    """With criteria that jump by hundreds from one choice to the next the minimum is found all the same."""
    middle, chosen = np.array([1.0, -1.0, 0.5, 0.0, 1.0, -2.0]), list[FloatArray]()

    def choose(theta: Hyperparameters) -> partial[tuple[float, FloatArray]]:
        chosen.append(theta_of(theta))
        height = 100.0 * np.random.default_rng(len(chosen)).normal()
        return partial(lambda point: (bowl(middle, point)[0] + height, bowl(middle, point)[1]))

    trace = descend(choose, START, WIDE, 60)
    np.testing.assert_allclose(trace.end, middle, atol=2e-2)
    np.testing.assert_allclose(np.array(chosen), np.array(trace.thetas), atol=1e-12)


def test_it_fits_a_full_process() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(80, 3))
    rows = Rows(X=X, y=np.sin(2.0 * X[:, 0]) + 0.1 * random.normal(size=80), groups=np.arange(3))
    trace = descend(lambda _: partial(exact_nlml_and_gradient, rows), heuristic(rows), box(rows), 150)
    found = trace.hyperparameters
    assert found.lengthscales[0] < 0.2 * found.lengthscales[1:].min()
    assert 0.004 < found.noise_variance < 0.02
    _, gradient = exact_nlml_and_gradient(rows, hyperparameters_of(trace.end))
    inside = (trace.end > box(rows).lower + 0.01) & (trace.end < box(rows).upper - 0.01)
    assert np.abs(gradient[inside]).max() < 0.5
