"""A stream made of another, for what is read through: decompressed, checked, changed."""

import io
from typing import Any, BinaryIO

from app.errors import PursuitError


class FilterStream(io.RawIOBase):
    """Stream of what `_next` makes; once it has failed it fails again."""

    def __init__(self, inner: BinaryIO) -> None:
        super().__init__()
        self._inner = inner
        self._ready = memoryview(b"")
        self._ended = False
        self._failure: PursuitError | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._failure is not None:
            raise self._failure
        try:
            while not self._ready and not self._ended:
                self._ready = memoryview(self._next(len(buffer)))
        except PursuitError as error:
            self._failure = error
            raise
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def close(self) -> None:
        if not self.closed:
            self._inner.close()
        super().close()

    def _next(self, size: int) -> bytes:
        """Return more bytes, or none yet; set `_ended` at the end."""
        raise NotImplementedError
