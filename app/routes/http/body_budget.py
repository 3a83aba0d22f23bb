"""One budget of memory for all bodies in progress: clients that send slowly, or leave, do not fill the machine.

A body that came in one piece, 64 KiB at most, is not counted: it is gone before the next one is read.
"""

from collections.abc import MutableMapping
from typing import Any

from app.errors import BusyError

_KEY = "reserved_body"


class BodyBudget:
    """Bytes of bodies that requests of one event loop hold in memory, at most `limit`."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def reserve(self, scope: MutableMapping[str, Any], size: int) -> None:
        """Count `size` bytes more for the request, until `release`. BusyError where there is no room for them."""
        if self.used + size > self.limit:
            raise BusyError(
                f"the bodies of the requests in progress fill the {self.limit} bytes that there are for them "
                "(PURSUIT_MAX_BODIES_BYTES); send the request again"
            )
        self.used += size
        _, before = scope.get(_KEY, (self, 0))
        scope[_KEY] = (self, before + size)


def release(scope: MutableMapping[str, Any]) -> None:
    """Give back what the request has reserved, if anything: when it has been answered."""
    reserved = scope.pop(_KEY, None)
    if reserved is not None:
        budget, size = reserved
        budget.used -= size
