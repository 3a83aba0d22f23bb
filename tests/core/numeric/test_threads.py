"""core/numeric/threads.py: runs that lose nothing, results in order, errors that come through."""

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import NotPositiveDefiniteError
from core.numeric.threads import LEAST_NUMBERS, map_in_order, map_slices, map_threads, split_evenly


@given(items=st.lists(st.integers(), min_size=1, max_size=50), workers=st.integers(1, 60))
def test_runs_are_even_and_lose_nothing(items: list[int], workers: int) -> None:
    runs = split_evenly(items, workers)
    assert [item for run in runs for item in run] == items
    assert len(runs) == min(workers, len(items))
    lengths = [len(run) for run in runs]
    assert max(lengths) - min(lengths) <= 1


@given(count=st.integers(1, 200), paid=st.integers(0, 12), workers=st.integers(1, 9))
def test_slices_are_even_and_cover_the_range_in_order(count: int, paid: int, workers: int) -> None:
    """There are as many as threads, items, and whole helpings of work that pay for one: at least one."""
    slices = map_slices(lambda run: run, count, paid * LEAST_NUMBERS + LEAST_NUMBERS // 2, workers)
    assert [item for run in slices for item in range(count)[run]] == list(range(count))
    assert len(slices) == max(1, min(workers, count, paid))
    lengths = [run.stop - run.start for run in slices]
    assert max(lengths) - min(lengths) <= 1
    assert min(lengths) >= 1


@pytest.mark.parametrize(
    ("cost", "threads"), [(0, 1), (LEAST_NUMBERS - 1, 1), (2 * LEAST_NUMBERS - 1, 1), (2 * LEAST_NUMBERS, 2)]
)
def test_threads_begin_where_each_has_enough_to_read(cost: int, threads: int) -> None:
    met = threading.Barrier(threads)

    def work(run: slice) -> tuple[int, int]:
        met.wait(timeout=10)  # all at once, or never
        return run.stop - run.start, threading.get_ident()

    found = map_slices(work, 100, cost, 2)
    assert [length for length, _ in found] == [100 // threads] * threads
    assert len({who for _, who in found}) == threads


def test_no_items_are_one_empty_slice() -> None:
    assert map_slices(lambda run: (run.start, run.stop), 0, 10 * LEAST_NUMBERS, 4) == [(0, 0)]


def test_an_error_in_a_slice_is_the_callers() -> None:
    def work(run: slice) -> None:
        if run.start:
            raise NotPositiveDefiniteError("B", 3, 0.0)

    with pytest.raises(NotPositiveDefiniteError):
        map_slices(work, 10, 4 * LEAST_NUMBERS, 4)


def test_results_are_in_order_whichever_ends_first() -> None:
    last_done = threading.Event()

    def work(item: int) -> int:
        if item == 0:
            assert last_done.wait(timeout=10)
        if item == 3:
            last_done.set()
        return 10 * item

    assert map_threads(work, [0, 1, 2, 3]) == [0, 10, 20, 30]


def test_the_caller_is_one_of_the_threads_and_the_others_are_kept() -> None:
    def who(_: int) -> int:
        met.wait(timeout=10)
        return threading.get_ident()

    met = threading.Barrier(3)
    first, again = map_threads(who, range(3)), map_threads(who, range(3))
    assert first[0] == again[0] == threading.get_ident()
    assert set(first) == set(again)


def test_threads_of_threads_are_none() -> None:
    """A call inside a thread does not wait for a thread, which may all be waiting like itself."""

    def inner(_: int) -> int:
        return threading.get_ident()

    def outer(_: int) -> set[int]:
        return set(map_threads(inner, range(3)))

    found = map_threads(outer, range(3))
    assert [len(threads) for threads in found[1:]] == [1, 1]


@pytest.mark.parametrize("fails", [0, 2])
def test_nothing_runs_any_more_after_an_error(fails: int) -> None:
    ended = []

    def work(item: int) -> None:
        if item == fails:
            raise NotPositiveDefiniteError("B", 3, 0.0)
        time.sleep(0.1)
        ended.append(item)

    with pytest.raises(NotPositiveDefiniteError):
        map_threads(work, range(3))
    assert sorted(ended) == sorted({0, 1, 2} - {fails})


def test_an_error_in_a_thread_is_the_callers() -> None:
    def work(item: int) -> int:
        if item == 1:
            raise NotPositiveDefiniteError("B", 3, 0.0)
        return item

    with pytest.raises(NotPositiveDefiniteError):
        map_threads(work, [0, 1, 2])


def test_one_item_runs_in_the_callers_thread() -> None:
    assert map_threads(lambda _: threading.get_ident(), ["only"]) == [threading.get_ident()]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_results_come_in_order_as_soon_as_they_are_there(workers: int) -> None:
    released = [threading.Event() for _ in range(6)]
    released[0].set()

    def work(item: int) -> int:
        assert released[item].wait(timeout=10)
        return item * item

    for item, result in enumerate(map_in_order(work, range(6), workers)):
        assert result == item * item
        if item < 5:
            released[item + 1].set()


@pytest.mark.parametrize("workers", [1, 2])
def test_after_an_error_no_item_begins(workers: int) -> None:
    begun = []

    def work(item: int) -> int:
        begun.append(item)
        if item == 1:
            raise NotPositiveDefiniteError("K", 3, 0.0)
        return item

    with pytest.raises(NotPositiveDefiniteError):
        list(map_in_order(work, range(100), workers))
    assert len(begun) < 50
