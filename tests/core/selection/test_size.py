"""core/selection/size.py: basis_size "auto" against an exhaustive scan of the measure, computed from nothing."""

import re
from typing import Any

import numpy as np
import pytest

import core.sparse.factors
from core.arrays import FloatArray
from core.process.rows import Rows
from core.selection import size as sizes
from core.selection.greedy import select
from core.selection.size import GAP_METHODS, PATIENCE_SHARE, PATIENCE_STEPS, Measure, prefix_measures
from core.selection.state import Selection
from core.sparse.factors import factorise
from core.spec import Approximation, Gain, Method, TrainSpec
from tests.core.problems import Problem, oracle_params, problem
from tests.core.selections import chosen
from tests.dense.kernel import Params, kernel
from tests.dense.objective import objective
from tests.dense.selection import measures

JITTER = 1e-8
"""The share of the prior variance that `core.sparse.factors` adds to Kuu, here in the oracle too."""
LEFT_OUT = [Method.LOO_CVE, Method.NLGPP, Method.GPE]
RISING = [Method.NLML, *LEFT_OUT]
"""Methods that are cut by their own measure."""
CUT = [(method, Gain.SB) for method in Method if method not in RISING and method not in GAP_METHODS]
CUT += [(Method.BATCH, gain) for gain in Gain if gain is not Gain.SB]
"""Methods that are cut by leave-one-out."""
OPTIONS: dict[str, Any] = {"candidates": 8, "cache_size": 8, "pool_size": 45}


def noisy(seed: int = 1, n: int = 45) -> Problem:
    """Much noise, and hyperparameters that believe in less: too many basis vectors overfit."""
    case = problem(seed, n=n)
    y = case.y + 0.5 * np.random.default_rng(seed).normal(size=n)
    return case.changed(y=y).with_hyperparameters(noise_variance=0.2, lengthscales=[1.5, 2.0, 1.5])


def smooth() -> Problem:
    """Every measure falls for six basis vectors at least."""
    return problem(8, n=45).with_hyperparameters(noise_variance=0.3)


def dense_measure(method: Method, case: Problem, indices: list[int], jitter: float = 0.0) -> float:
    """Measure that the method minimises."""
    if method in (Method.NLML, Method.VFE):
        approximation = Approximation.DTC if method is Method.NLML else Approximation.VFE
        return objective(case.changed(indices=np.array(indices, np.int64)).sparse(approximation))
    params = oracle_params(case.hyperparameters, case.groups)
    return float(measures(params, case.X, case.y, indices, jitter)[LEFT_OUT.index(method)])


# Measures of prefixes


def prefix_of(indices: Any) -> Selection:
    return Selection(indices=np.array(indices), gains=np.full(len(indices), np.nan), reason="")


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_prefix_measures_are_leave_one_out_by_deletion(seed: int) -> None:
    case = problem(seed, n=40, d=12)
    found = prefix_measures(case.rows, case.hyperparameters, prefix_of(case.indices))
    oracle = [dense_measure(Method.LOO_CVE, case, case.indices[:k].tolist(), JITTER) for k in range(13)]
    np.testing.assert_allclose(found, oracle, rtol=1e-9)


def test_prefix_measures_of_some_rows_are_the_measures_of_these() -> None:
    case = problem(3, n=80, d=6)
    found = prefix_of(case.indices)
    everywhere = prefix_measures(case.rows, case.hyperparameters, found, np.arange(80))
    np.testing.assert_array_equal(everywhere, prefix_measures(case.rows, case.hyperparameters, found))
    halves = [prefix_measures(case.rows, case.hyperparameters, found, np.arange(start, 80, 2)) for start in (0, 1)]
    assert halves[0][0] + halves[1][0] == pytest.approx(2.0 * everywhere[0])
    assert not np.array_equal(halves[0], halves[1])


def test_size_of_a_large_table_is_that_of_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def counted(rows: Rows, *rest: Any) -> Any:
        seen.append(len(rows))
        return factorise(rows, *rest)

    monkeypatch.setattr("core.selection.greedy.SUMMED_ROWS", 300)
    monkeypatch.setattr("core.selection.size.factorise", counted)
    case = problem(4, n=900, d=6)
    spec = TrainSpec(max_basis_size=40)
    found = select(case.rows, case.hyperparameters, spec, np.random.default_rng(0))
    assert seen == [300]
    assert 0 < len(found.indices) <= 40


def test_prefix_measures_over_blocks_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 64 rows, kept or made again."""
    case = problem(3, n=150, d=4)
    oracle = [dense_measure(Method.LOO_CVE, case, case.indices[:k].tolist(), JITTER) for k in (0, 1, 4)]
    monkeypatch.setattr("core.process.rows.BLOCK_NUMBERS", 1)
    for kept in (1 << 29, 0):
        monkeypatch.setattr(core.sparse.factors, "KEPT_BYTES", kept)
        for workers in (1, 3):
            rows = case.changed(workers=workers).rows
            found = prefix_measures(rows, case.hyperparameters, prefix_of(case.indices))
            np.testing.assert_allclose(found[[0, 1, 4]], oracle, rtol=1e-9)


# The measure that a method follows


@pytest.mark.parametrize("method", [*RISING, Method.VFE])
def test_measures_of_a_run_are_dense_values(method: Method) -> None:
    """Measures from the empty basis on: a sum of gains for nlml and vfe, the gain itself for leave-one-out."""
    case = noisy()
    ours = chosen(case, method, 14, candidates=6)
    oracle = [dense_measure(method, case, ours.indices[:k].tolist()) for k in range(15)]
    np.testing.assert_allclose(ours.measures, oracle, rtol=1e-8)


@pytest.mark.parametrize("method", [m for m in Method if m not in (*RISING, Method.VFE)])
def test_other_methods_follow_no_measure_when_the_size_is_given(method: Method) -> None:
    assert len(chosen(noisy(), method, 6).measures) == 0


def measure_with(values: list[float], *, size: int | None = None, method: Method = Method.NLML) -> Measure:
    case = problem(0, n=10)
    measure = Measure(TrainSpec(method=method, basis_size=size), case.rows, case.hyperparameters, 500)
    measure.values = values
    return measure


@pytest.mark.parametrize(("best", "wait"), [(0, 50), (1, 50), (33, 50), (34, 51), (100, 150)])
def test_patience_is_fifty_steps_or_one_and_a_half_times_the_best_size(best: int, wait: int) -> None:
    assert (PATIENCE_STEPS, PATIENCE_SHARE) == (50, 1.5)
    falling = [float(best - k) for k in range(best + 1)]
    for more in range(wait):
        assert not measure_with([*falling, *[0.5] * more]).settled()
    assert measure_with([*falling, *[0.5] * wait]).settled()
    assert not measure_with([*falling, *[0.5] * wait], size=300).settled()


def test_a_lower_minimum_that_comes_in_time_starts_the_patience_again() -> None:
    """The several minima of Sundararajan et al., section 4.1."""
    twice = [3.0, 1.0, *[2.0] * 18, 0.9]
    assert not measure_with([*twice, *[2.0] * 49]).settled()
    assert measure_with([*twice, *[2.0] * 50]).settled()


@pytest.mark.parametrize("method", [m for m in Method if m not in (*RISING, Method.VFE, *GAP_METHODS)])
def test_a_method_without_a_measure_is_never_settled(method: Method) -> None:
    case = problem(0, n=10)
    measure = Measure(TrainSpec(method=method), case.rows, case.hyperparameters, 500)
    assert measure.values == []
    assert not measure.settled()


# Auto


def numbers_in(reason: str) -> list[int]:
    return [int(number) for number in re.findall(r"\b\d+\b(?!\.)", reason)]


@pytest.mark.parametrize(
    ("method", "seed"),
    [
        (Method.NLML, 1),
        (Method.LOO_CVE, 4),
        pytest.param(Method.NLGPP, 1, marks=pytest.mark.slow),
        pytest.param(Method.GPE, 4, marks=pytest.mark.slow),
    ],
)
def test_auto_is_the_minimum_of_an_exhaustive_scan(method: Method, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same run to the end, its measure by dense computation: auto stops at the least, and has waited in vain.

    With less patience than by default, so that a small problem shows where the loop ends.
    """
    monkeypatch.setattr(sizes, "PATIENCE_STEPS", 20)
    monkeypatch.setattr(sizes, "PATIENCE_SHARE", 0.25)
    case = noisy(seed)
    ours = chosen(case, method, None, **OPTIONS)
    everything = chosen(case, method, 45, **OPTIONS)
    size = len(ours.indices)
    assert 0 < size <= 25, "the problem has no minimum inside"
    assert ours.indices.tolist() == everything.indices[:size].tolist()
    np.testing.assert_array_equal(ours.gains, everything.gains[:size])
    scan = [dense_measure(method, case, everything.indices[:k].tolist()) for k in range(46)]
    assert int(np.argmin(scan)) == size
    np.testing.assert_allclose(ours.measures, scan[: size + 1], rtol=1e-8)
    followed = size + max(20, int(np.ceil(size / 4)))
    assert f"({method})" in ours.reason
    assert "smallest" in ours.reason
    assert numbers_in(ours.reason) == [size, followed]


@pytest.mark.parametrize("method", RISING)
def test_auto_where_the_measure_still_falls_at_the_most_allowed(method: Method) -> None:
    case = smooth()
    ours = chosen(case, method, None, max_basis_size=6, **OPTIONS)
    assert ours.indices.tolist() == chosen(case, method, 6, **OPTIONS).indices.tolist()
    assert "still falling at 6" in ours.reason
    oracle = [dense_measure(method, case, ours.indices[:k].tolist()) for k in range(7)]
    np.testing.assert_allclose(ours.measures, oracle, rtol=1e-8)


@pytest.mark.parametrize(("method", "gain"), CUT)
def test_auto_cuts_the_others_where_leave_one_out_is_least(method: Method, gain: Gain) -> None:
    case = noisy()
    ours = chosen(case, method, None, gain=gain, max_basis_size=20, **OPTIONS)
    everything = chosen(case, method, 20, gain=gain, **OPTIONS)
    scan = [dense_measure(Method.LOO_CVE, case, everything.indices[:k].tolist(), JITTER) for k in range(21)]
    size = len(ours.indices)
    assert 0 < size < 20, "the problem has no minimum inside"
    assert size == int(np.argmin(scan))
    assert ours.indices.tolist() == everything.indices[:size].tolist()
    np.testing.assert_allclose(ours.measures, scan[: size + 1], rtol=1e-8)
    assert "leave-one-out" in ours.reason
    assert numbers_in(ours.reason) == [size, 20]


@pytest.mark.parametrize(("method", "gain"), CUT)
def test_measures_are_those_of_the_reason_where_leave_one_out_still_falls(method: Method, gain: Gain) -> None:
    """The report shows one trace for `auto`, whether or not the basis was cut."""
    case = smooth()
    ours = chosen(case, method, None, gain=gain, max_basis_size=2, **OPTIONS)
    scan = [dense_measure(Method.LOO_CVE, case, ours.indices[:k].tolist(), JITTER) for k in range(3)]
    assert "leave-one-out" in ours.reason
    assert "still falling at 2" in ours.reason
    np.testing.assert_allclose(ours.measures, scan, rtol=1e-8)


@pytest.mark.parametrize("method", list(Method))
def test_auto_has_one_basis_vector_at_least_and_no_more_than_rows(method: Method) -> None:
    """Nothing but noise: the empty basis would be best."""
    rng = np.random.default_rng(6)
    case = problem(6, n=30).changed(y=0.01 * rng.normal(size=30))
    ours = chosen(case.with_hyperparameters(noise_variance=10.0), method, None)
    assert 1 <= len(ours.indices) <= 30
    assert len(ours.gains) == len(ours.indices)
    if method in RISING:
        assert len(ours.measures) == len(ours.indices) + 1
    few = problem(6, n=4)
    assert 1 <= len(chosen(few, method, None).indices) <= 4


@pytest.mark.parametrize("method", [Method.NLML, Method.VFE])
def test_the_measure_is_true_where_rows_are_close_together(method: Method) -> None:
    """Candidates that add only rounding are near: what rounding makes of their gains must not lower the measure.

    The dense objective has no digits left itself where rounding counts, but DTC's can only rise there, and VFE's not.
    """
    rng = np.random.default_rng(4)
    X = np.concatenate([np.sort(rng.uniform(0, 3, size=(60, 1)), axis=0), np.zeros((60, 2))], axis=1)
    y = np.sin(2 * X[:, 0]) + 0.05 * rng.normal(size=60)
    theta = {"signal_variance": 1.0, "bias_variance": 0.1, "noise_variance": 1e-3, "lengthscales": [1.0, 1.0, 1.0]}
    case = problem(0, n=60, groups=(0, 1, 2)).changed(X=X, y=y).with_hyperparameters(**theta)
    for size in (None, 40):
        ours = chosen(case, method, size, candidates=60)
        trace = [dense_measure(method, case, ours.indices[:k].tolist()) for k in range(min(len(ours.indices), 5) + 1)]
        np.testing.assert_allclose(chosen(case, method, 40, candidates=60).measures[: len(trace)], trace, rtol=1e-6)
    moves = np.diff(ours.measures)[5:]
    assert ((moves >= -1e-2) if method is Method.NLML else (moves <= 1e-2)).all()


# The gap of Smola and Bartlett


def dual_greedy(params: Params, X: FloatArray, y: FloatArray, size: int) -> list[float]:
    """Q* over the first 1, 2, .. rows of a second greedy set: each step lowers it most; by inverses."""
    C = kernel(params, X, X) + params.s2 * np.eye(len(X))
    chosen_rows: list[int] = []
    values = []
    for _ in range(size):
        rest = [i for i in range(len(X)) if i not in chosen_rows]
        least = {
            i: float(-0.5 * y[J] @ np.linalg.inv(C[np.ix_(J, J)]) @ y[J]) for i in rest for J in [[*chosen_rows, i]]
        }
        chosen_rows.append(min(rest, key=lambda i: least[i]))
        values.append(least[chosen_rows[-1]])
    return values


def gaps(case: Problem, indices: list[int]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Q of every prefix, the lower bound from as many rows of the dual set, and their gap."""
    params = oracle_params(case.hyperparameters, case.groups)
    K = kernel(params, case.X, case.X)
    upper = []
    for size in range(1, len(indices) + 1):
        I = indices[:size]  # noqa: E741  # the papers' letter
        b = K[I] @ case.y
        upper.append(-0.5 * b @ np.linalg.inv(params.s2 * K[np.ix_(I, I)] + K[I] @ K[:, I]) @ b)
    power = case.y @ case.y
    Q, dual = np.array(upper), np.array(dual_greedy(params, case.X, case.y, len(indices)))
    gap = 2 * (Q + params.s2 * dual + 0.5 * power) / (-Q + params.s2 * dual + 0.5 * power)
    return Q, -0.5 * power - params.s2 * dual, gap


@pytest.mark.parametrize("tolerance", [0.5, 0.1, 0.025])
def test_sb_stops_at_the_first_gap_that_is_small_enough(tolerance: float) -> None:
    case = problem(7, n=40).with_hyperparameters(noise_variance=0.3)
    ours = chosen(case, Method.SB, None, gap_tolerance=tolerance, candidates=10)
    size = len(ours.indices)
    assert ours.indices.tolist() == chosen(case, Method.SB, size, candidates=10).indices.tolist()
    Q, lower, gap = gaps(case, ours.indices.tolist())
    np.testing.assert_allclose(ours.measures[1:], gap, rtol=1e-7)
    assert ours.measures[0] == 2.0  # of nothing: Q = Q* = 0
    assert (gap[:-1] > tolerance).all()
    assert gap[-1] <= tolerance
    assert f"{gap[-1]:.4f}" in ours.reason
    assert "fell to" in ours.reason
    params = oracle_params(case.hyperparameters, case.groups)
    K = kernel(params, case.X, case.X)
    best = -0.5 * case.y @ K @ np.linalg.inv(params.s2 * np.eye(40) + K) @ case.y
    assert (lower <= best + 1e-9).all()
    assert (best - 1e-9 <= Q).all()


def test_sb_says_how_large_the_gap_still_is() -> None:
    case = problem(7, n=40).with_hyperparameters(noise_variance=0.3)
    ours = chosen(case, Method.SB, None, max_basis_size=3, candidates=10)
    assert len(ours.indices) == 3
    assert "still" in ours.reason
    assert f"{gaps(case, ours.indices.tolist())[2][-1]:.4f}" in ours.reason


def test_gap_of_sb_and_nlpp_are_one() -> None:
    case = problem(8, n=50)
    first, second = (chosen(case, method, None, candidates=10) for method in (Method.SB, Method.NLPP))
    assert first.indices.tolist() == second.indices.tolist()
    np.testing.assert_array_equal(first.measures, second.measures)
    assert first.reason == second.reason
