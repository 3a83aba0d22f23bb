"""Calls that are shared: whoever asks gets the result of a call that began after it had asked.

So an answer is never older than the question, and however many ask at once there are two calls: the one under way, and
the next, which is for all who have come meanwhile.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Coalescer(Generic[K, T]):
    """Sharing of calls of `work` by their argument, in one event loop. A cancelled caller cancels no other."""

    def __init__(self, work: Callable[[K], Awaitable[T]]) -> None:
        self._work = work
        self._running: dict[K, asyncio.Task[T]] = {}
        self._next: dict[K, asyncio.Task[T]] = {}

    async def get(self, key: K) -> T:
        """The result of `work(key)`, or its error, of a call that has not begun yet."""
        task = self._next.get(key)
        if task is None:
            task = self._next[key] = asyncio.create_task(self._run(key, self._running.get(key)))
        return await asyncio.shield(task)

    async def _run(self, key: K, before: "asyncio.Task[T] | None") -> T:
        if before is not None:
            await asyncio.wait({before})
        task = self._running[key] = self._next.pop(key)  # whoever asks from here on waits for another one
        try:
            return await self._work(key)
        finally:
            if self._running.get(key) is task:
                del self._running[key]
