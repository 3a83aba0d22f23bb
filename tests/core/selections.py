"""Shared by the tests of `core.selection`: runs, fits grown row by row, small problems at random."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import core.selection.gains
import core.selection.pool
from core.arrays import FloatArray, IntArray
from core.hyperparameters import KernelFamily
from core.selection.candidates import AllRows, CandidateCache, Candidates, KernelColumns
from core.selection.gains import CRITERIA, CacheCriterion
from core.selection.greedy import select
from core.selection.state import GrowingFit, Selection
from core.spec import Method, TrainSpec
from tests.core.problems import Problem, hyperparameters, oracle_params
from tests.dense.kernel import kernel

NOBODY: IntArray = np.empty(0, np.int64)
CACHED = [method for method, criterion in CRITERIA.items() if isinstance(criterion, CacheCriterion)]
"""Methods that choose from a cache."""
BY_ROW = [Method.INFO, Method.VARIANCE]
"""Methods that see every row at every step."""
REACHED = "basis_size reached"


def chosen(
    case: Problem, method: Method, size: int | None, *, seed: int = 0, previous: IntArray = NOBODY, **options: Any
) -> Selection:
    """A run of one method; size None is "auto", which chooses among so few rows too: one at least may not be taken."""
    if size is None:
        options.setdefault("max_basis_size", max(len(case.rows) - 1, 1))
    spec = TrainSpec(method=method, basis_size=size, **options)
    return select(case.rows, case.hyperparameters, spec, np.random.default_rng(seed), previous)


def by_gain(found: Selection) -> Selection:
    """The rows that were chosen by a gain, without those that filled the basis up."""
    return found.first(int(np.argmax(np.append(np.isnan(found.gains), True))), found.reason)


@contextmanager
def without_ridge() -> Iterator[None]:
    """Gains by their definition to the last digit, without what keeps rounding out of the choice."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (core.selection.pool, core.selection.gains):
            patch.setattr(module, "RIDGE", 0.0)
        yield


def column(case: Problem, index: int) -> FloatArray:
    """K(X, x) of one row, without core's help."""
    params = oracle_params(case.hyperparameters, case.groups)
    return np.asarray(kernel(params, case.X, case.X[[index]])[:, 0])


def grown(case: Problem, indices: list[int], *, capacity: int | None = None, explained: bool = True) -> GrowingFit:
    """The fit of a basis."""
    fit = GrowingFit.empty(case.rows, case.hyperparameters, capacity or len(indices) + 1, explained=explained)
    for index in indices:
        assert fit.grow(index, column(case, index)) is not None
    return fit


def gains_along(
    case: Problem, method: Method, indices: list[int], candidates: IntArray, joins: int = 0
) -> FloatArray | None:
    """The gains of candidates that were there from step `joins` on, at the end; None where core refused the basis."""
    criterion = CRITERIA[method]
    columns = KernelColumns(case.rows, case.hyperparameters)
    explained = method in BY_ROW or (isinstance(criterion, CacheCriterion) and criterion.needs.explained)
    fit = GrowingFit.empty(case.rows, case.hyperparameters, len(indices) + 1, explained=explained)
    seen: Candidates | None = None
    for step in range(len(indices) + 1):
        if step == joins:
            if isinstance(criterion, CacheCriterion):
                seen = CandidateCache.fill(fit, columns, criterion.needs, candidates)
            else:
                seen = AllRows(fit=fit, columns=columns, indices=candidates)
        if step < len(indices):
            grew = fit.grow(indices[step], column(case, indices[step]))
            if grew is None:
                return None
            if seen is not None:
                seen.follow(grew)
    assert seen is not None
    return criterion.score(fit, seen)


def _log(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(np.log(low), np.log(high)).map(lambda value: float(np.exp(value)))


@st.composite
def small_problems(draw: st.DrawFn, *, ill: bool = False) -> Problem:
    """A few rows in one to three columns and a basis of up to five, which leaves two rows at least.

    ill: lengthscales, variances and noise over many more orders of magnitude.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, p = draw(st.integers(5, 11)), draw(st.integers(1 if ill else 2, 3))
    X = rng.normal(size=(n, p))
    noise = draw(st.sampled_from([0.0, 0.1, 1.0]))
    y = np.sin(2 * X[:, 0]) + X[:, -1] + noise * rng.normal(size=n)
    return Problem(
        X=X,
        y=y,
        groups=np.arange(p),
        hyperparameters=hyperparameters(
            draw(st.lists(_log(0.3, 100.0) if ill else _log(0.3, 1.5), min_size=p, max_size=p)),
            signal_variance=draw(_log(1e-4, 1e4) if ill else _log(0.2, 5.0)),
            bias_variance=draw(st.just(0.0) | (_log(1e-4, 1e4) if ill else _log(0.01, 2.0))),
            noise_variance=draw(_log(1e-9, 1e4) if ill else _log(3e-3, 3.0)),
            kernel=draw(st.sampled_from(KernelFamily)),
        ),
        indices=rng.permutation(n)[: draw(st.integers(0, min(5, n - 2)))],
    )
