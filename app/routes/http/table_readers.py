"""Threads that read tables: few of them, apart from all others, so that nothing else waits for a table.

Who waits too long for one, or would be one too many, is told to come again. Work of a client that has left is ended.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.requests import ClientDisconnect, Request

from app.errors import BusyError
from app.services.intake import cancellation
from app.services.intake.cancellation import Cancellation

P = ParamSpec("P")
T = TypeVar("T")


class TableReaders:
    """At most `number` tables are read at once, and `waiting` more wait for `seconds`; for one event loop."""

    def __init__(self, number: int, *, waiting: int, seconds: float) -> None:
        self._limiter = CapacityLimiter(number)
        self._most = number + waiting
        self._seconds = seconds
        self._inside = 0

    async def run(self, request: Request, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` in a thread of these. BusyError; ClientDisconnect once the client has left."""
        if self._inside >= self._most:
            raise self._busy()
        cancel = Cancellation()
        started = False

        def read() -> T:
            nonlocal started
            started = True
            cancellation.current.set(cancel)
            return work(*args, **kwargs)

        self._inside += 1
        reading = asyncio.create_task(to_thread.run_sync(read, limiter=self._limiter))
        leaving = asyncio.create_task(_left(request))
        try:
            done, _ = await asyncio.wait({reading, leaving}, timeout=self._seconds, return_when="FIRST_COMPLETED")
            if not done and not started:
                raise self._busy()
            await asyncio.wait({reading, leaving}, return_when="FIRST_COMPLETED")
            if reading.done():
                return reading.result()
            raise ClientDisconnect
        finally:
            leaving.cancel()
            if not reading.done():
                cancel.cancel()
                if not started:
                    reading.cancel()
                await asyncio.wait({reading})  # a table may be there only while its request is
                with suppress(Exception, asyncio.CancelledError):
                    reading.result()
            self._inside -= 1

    def _busy(self) -> BusyError:
        return BusyError("all that read tables are busy; send the request again in a while")


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, which is cancelled once the client has left; then ClientDisconnect."""
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_left(request))
    try:
        await asyncio.wait({working, leaving}, return_when="FIRST_COMPLETED")
        if working.done():
            return working.result()
        raise ClientDisconnect
    finally:
        leaving.cancel()
        if not working.done():
            working.cancel()
            with suppress(Exception, asyncio.CancelledError):
                await working


async def _left(request: Request) -> None:
    """Wait until the client has left; its body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
