"""One function of many items, computed by the workers of a Dask cluster wherever there is room.

a worker dies       the scheduler gives its items to others
the scheduler dies  the items that are not done are asked for again once there is one
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from distributed import Client, KilledWorker
from distributed import Future as DaskFuture
from distributed.comm.core import CommClosedError

from app.compute.members import NoProcessesError, SchedulerLostError
from app.errors import TooLargeError

Item = TypeVar("Item")
Result = TypeVar("Result")

POLL_SECONDS = 0.5
"""Seconds after which the client is looked at again: whether it is connected, and to how many threads."""
RESULT_SECONDS = 600.0
"""Seconds that the transfer of one result may take."""
_LOST_ERRORS = (OSError, CommClosedError, CancelledError, asyncio.CancelledError, TimeoutError)


def fill_results(
    client: Client,
    work: Callable[[Item], Result],
    items: Sequence[Item],
    found: dict[int, Result],
    patience: float,
    tell: Callable[[float], None],
) -> None:
    """Add work(item) of each item that is not in `found` yet, by its place.

    tell: hears the share that is done; may raise to cancel. SchedulerLostError, which leaves what is done in `found`;
    NoProcessesError without a worker for `patience` seconds; TooLargeError where several died of one item; whatever
    the work raises.
    """
    missing = [place for place in range(len(items)) if place not in found]
    futures = dict(zip(missing, client.map(work, [items[place] for place in missing], pure=False), strict=True))
    seen, failed = time.monotonic(), None
    try:
        while futures and failed is None:
            ended = [place for place, future in futures.items() if future.done()]
            for place in ended:
                future = futures.pop(place)
                failed = failed or _error(future)
                if failed is None:
                    found[place] = future.result(timeout=RESULT_SECONDS)
            tell(len(found) / len(items))
            if client.status != "running":
                raise SchedulerLostError(f"the connection is {client.status}")
            if ended or client.nthreads():
                seen = time.monotonic()
            if time.monotonic() - seen > patience:
                raise NoProcessesError
            if not ended:
                time.sleep(POLL_SECONDS)
    except _LOST_ERRORS as error:
        raise SchedulerLostError(f"{type(error).__name__}: {error}") from None
    finally:
        for future in futures.values():
            future.release()
    if failed is not None:
        raise failed


def _error(future: DaskFuture[Any]) -> BaseException | None:
    """Return what the work has raised."""
    if future.status != "error":
        return None
    error: BaseException | None = future.exception(timeout=RESULT_SECONDS)
    if isinstance(error, KilledWorker):
        return TooLargeError(
            "several workers of the cluster died of one part of the table: it probably does not fit their memory "
            f"({error})"
        )
    return error
