"""Arrays to write into, used again and again.

To touch fresh memory for the first time costs some twenty times what writing to it costs, and one evaluation of the
objective fills twenty arrays of 4 MB.
"""

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.arrays import FloatArray

WASTE = 2
"""An array may have so many times the numbers that are needed."""


class Workspace:
    """Memory that nobody uses at the moment. Threads may share one."""

    def __init__(self) -> None:
        self._free: list[FloatArray] = []
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type["Workspace"], tuple[()]]:
        """A copy in another process begins with nothing."""
        return Workspace, ()

    def take(self, *shape: int) -> FloatArray:
        """An array of this shape in C order, with anything in it: the caller's own until given back, or for good."""
        count = math.prod(shape)
        with self._lock:
            for place, memory in enumerate(self._free):
                if count <= len(memory) <= WASTE * count:
                    return self._free.pop(place)[:count].reshape(shape)
        return np.empty(count).reshape(shape)

    def give(self, array: NDArray[Any]) -> None:
        """Takes back what `take` gave, or a view of it; nobody may read or write it any more."""
        memory = array.base
        assert isinstance(memory, np.ndarray)
        with self._lock:
            self._free.append(memory)

    @contextmanager
    def borrow(self, *shape: int) -> Iterator[FloatArray]:
        """An array for the time of a `with` statement."""
        array = self.take(*shape)
        try:
            yield array
        finally:
            self.give(array)

    def clear(self) -> None:
        """Gives the memory back to the system."""
        with self._lock:
            self._free.clear()


class Handover:
    """What a pass over some rows leaves in its process for the next one over the same rows: one thing, under a key that
    says all that it was made of. Threads may share one."""

    def __init__(self) -> None:
        self._left: tuple[object, Any] | None = None
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type["Handover"], tuple[()]]:
        """A copy in another process begins with nothing."""
        return Handover, ()

    def leave(self, key: object, thing: Any) -> Any:
        """Leave a thing; return what was left before and nobody took, None if there is nothing."""
        with self._lock:
            before, self._left = self._left, (key, thing)
        return None if before is None else before[1]

    def take(self, key: object) -> Any:
        """Return what was left under this key, once; None where it is not there."""
        with self._lock:
            if self._left is None or self._left[0] != key:
                return None
            thing, self._left = self._left[1], None
        return thing

    def clear(self) -> None:
        """Forget what was left."""
        with self._lock:
            self._left = None
