"""The end of work that nobody waits for any more: who started it cancels, and the process that does it is killed."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Cancellation:
    """Cancelled at most once; calls what was registered, in the thread that cancels."""

    def __init__(self) -> None:
        self.cancelled = False
        self._lock = threading.Lock()
        self._calls: list[Callable[[], None]] = []

    def cancel(self) -> None:
        """End the work."""
        with self._lock:
            self.cancelled = True
            for call in self._calls:
                call()
            self._calls.clear()

    @contextmanager
    def calling(self, call: Callable[[], None]) -> Iterator[None]:
        """Have `call` called when it is cancelled within the block, or has been before."""
        with self._lock:
            if self.cancelled:
                call()
            else:
                self._calls.append(call)
        try:
            yield
        finally:
            with self._lock:
                if call in self._calls:
                    self._calls.remove(call)


current: ContextVar[Cancellation | None] = ContextVar("cancellation", default=None)
"""The cancellation of the request that this thread works for."""
