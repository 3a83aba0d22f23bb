"""core/parallel.py: runs that lose nothing, results in order, errors that come through."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import NotPositiveDefiniteError
from core.parallel import each, in_runs


@given(items=st.lists(st.integers(), min_size=1, max_size=50), workers=st.integers(1, 60))
def test_runs_are_even_and_lose_nothing(items: list[int], workers: int) -> None:
    runs = in_runs(items, workers)
    assert [item for run in runs for item in run] == items
    assert len(runs) == min(workers, len(items))
    lengths = [len(run) for run in runs]
    assert max(lengths) - min(lengths) <= 1


def test_results_are_in_order_whichever_ends_first() -> None:
    last_done = threading.Event()

    def work(item: int) -> int:
        if item == 0:
            assert last_done.wait(timeout=10)
        if item == 3:
            last_done.set()
        return 10 * item

    assert each(work, [0, 1, 2, 3]) == [0, 10, 20, 30]


def test_an_error_in_a_thread_is_the_callers() -> None:
    def work(item: int) -> int:
        if item == 1:
            raise NotPositiveDefiniteError("B", 3, 0.0)
        return item

    with pytest.raises(NotPositiveDefiniteError):
        each(work, [0, 1, 2])


def test_one_item_runs_in_the_callers_thread() -> None:
    assert each(lambda _: threading.get_ident(), ["only"]) == [threading.get_ident()]
