"""Long lists of values in parts that one statement takes."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def batched(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of up to `size` values each (`itertools.batched` of Python 3.12)."""
    iterator = iter(values)
    while part := list(islice(iterator, size)):
        yield part
