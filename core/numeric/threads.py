"""Sums over blocks of rows, on several threads.

All heavy work of training is a sum over rows: each thread adds up a run of consecutive blocks with single-threaded
BLAS, and the partial sums are added in the order of the rows. That uses the cores better than BLAS's own threads:
element-wise work runs in parallel too, and nothing spins where the cores are shared. Results are the same from run to
run for one number of workers, and to rounding for another.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

LEAST_NUMBERS = 1 << 20
"""Numbers that a thread must have to read before starting it pays: about half a millisecond's worth."""

Item = TypeVar("Item")
Partial = TypeVar("Partial")


def split_evenly(items: Sequence[Item], workers: int) -> list[Sequence[Item]]:
    """Split items into at most `workers` consecutive runs, as even as can be, none of them empty."""
    count = max(1, min(workers, len(items)))
    cuts = [len(items) * run // count for run in range(count + 1)]
    return [items[begin:end] for begin, end in pairwise(cuts)]


def map_slices(work: Callable[[slice], Partial], count: int, cost: int, workers: int) -> list[Partial]:
    """work(slice) for even slices of range(count), results in order: one each thread where `cost` numbers are read in
    all and that is enough to pay for threads, else one for all."""
    runs = max(1, min(workers, count, cost // LEAST_NUMBERS))
    cuts = [count * run // runs for run in range(runs + 1)]
    return map_threads(work, [slice(begin, end) for begin, end in pairwise(cuts)])


def map_threads(work: Callable[[Item], Partial], items: Sequence[Item]) -> list[Partial]:
    """work(item) for every item, one thread each, results in order. The first exception is raised.

    The threads wait for the next call: to start new ones costs as much as the work of a small one. Inside such a
    thread there are no more, and items go one after another.
    """
    if len(items) == 1 or getattr(_here, "is_worker", False):
        return [work(item) for item in items]
    futures = [_threads(len(items) - 1).submit(work, item) for item in items[1:]]
    try:
        first = work(items[0])
    finally:
        wait(futures)
    return [first, *(future.result() for future in futures)]


@lru_cache(maxsize=1)
def _threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=count, thread_name_prefix="rows", initializer=_mark)


def _mark() -> None:
    _here.is_worker = True


_here = threading.local()


def map_in_order(work: Callable[[Item], Partial], items: Sequence[Item], workers: int) -> Iterator[Partial]:
    """work(item) for every item, as many at a time as there are workers; results in order, each as soon as it is there.

    Where one raises, or the caller stops, those that have not begun never do.
    """
    if workers == 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(max_workers=workers) as threads:
        pending = [threads.submit(work, item) for item in items]
        try:
            for future in pending:
                yield future.result()
        finally:
            for future in pending:
                future.cancel()
