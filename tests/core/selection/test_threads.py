"""core.selection on several threads: the same rows are chosen, however few numbers each thread has."""

import threading
from typing import Any

import numpy as np
import pytest

import core.numeric.threads
import core.selection.candidates
import core.selection.state
from core.selection.candidates import KernelColumns
from core.spec import Gain, Method
from tests.core.problems import problem
from tests.core.selections import chosen, column, grown


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Threads begin at once, kernel blocks are small; who worked."""
    seen: set[int] = set()
    plain = core.numeric.threads.map_threads

    def map_threads(work: Any, items: Any) -> Any:
        def watched(item: Any) -> Any:
            seen.add(threading.get_ident())
            return work(item)

        return plain(watched, items)

    monkeypatch.setattr(core.numeric.threads, "LEAST_NUMBERS", 1)
    monkeypatch.setattr(core.numeric.threads, "map_threads", map_threads)
    monkeypatch.setattr(core.selection.candidates, "COLUMN_ROWS", 32)
    return seen


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize("size", [12, None])
def test_any_number_of_workers_picks_the_same_rows(method: Method, size: int | None) -> None:
    case = problem(0, n=150)
    options: dict[str, Any] = {"cache_size": 40, "pool_size": 60, "candidates": 12, "max_basis_size": 12}
    one, two, many = (chosen(case.changed(workers=count), method, size, **options) for count in (1, 2, 5))
    for other in (two, many):
        np.testing.assert_array_equal(other.indices, one.indices)
        np.testing.assert_allclose(other.gains, one.gains, rtol=1e-6)
        assert other.reason == one.reason


@pytest.mark.parametrize("gain", list(Gain))
def test_a_pool_on_any_number_of_workers(gain: Gain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.process.rows.BLOCK_NUMBERS", 1)
    case = problem(1, n=300)
    one, two = (chosen(case.changed(workers=n), Method.BATCH, 15, gain=gain, pool_size=80) for n in (1, 2))
    np.testing.assert_array_equal(two.indices, one.indices)


def test_a_growing_fit_is_the_same_in_slices(eager: set[int]) -> None:
    case, basis = problem(2, n=120), [3, 50, 71, 8, 119]
    one, three = (grown(case.changed(workers=count), basis) for count in (1, 3))
    for name in ("W", "V", "b", "mu", "q", "p"):
        ours, theirs = (
            np.asarray(getattr(fit, name))[: 5 if name in {"W", "V", "b"} else None] for fit in (three, one)
        )
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-13)
    assert len(eager) > 1


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("workers", [1, 2, 7])
@pytest.mark.parametrize("rows", [2, 31, 32, 33, 100])
def test_kernel_columns_by_blocks(rows: int, workers: int) -> None:
    """The columns without core's help; some are kept from before, and none is asked for at all."""
    case = problem(3, n=rows, d=1).changed(workers=workers)
    columns = KernelColumns(case.rows, case.hyperparameters)
    assert columns.of(np.empty(0, np.int64)).shape == (0, rows)
    some = np.random.default_rng(0).permutation(rows)[:9]
    for asked in (some[:3], some, some[::-1]):
        expected = np.array([column(case, index) for index in asked])
        np.testing.assert_allclose(columns.of(asked), expected, rtol=1e-9, atol=1e-12)
