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
