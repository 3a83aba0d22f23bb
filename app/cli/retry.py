"""Repetition of requests: to a server that is busy, away or being replaced, after the pause that it asks for.

A request that may do something twice is only sent again where the server said that it has done nothing (429, 503).
"""

import random
import time
from email.utils import parsedate_to_datetime

ATTEMPTS = 12
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 10.0
_DONE_NOTHING = frozenset({429, 503})
_MAY_HAVE = frozenset({502, 504})


def pause_seconds(attempt: int, *, status: int | None, asked: float | None, repeatable: bool) -> float | None:
    """Return the seconds to wait before a request is sent again; None where it is not to be.

    Args:
        attempt: how often it was sent again already.
        status: of the answer; None where there was none.
        asked: the answer's `Retry-After`, in seconds.
        repeatable: it may be done twice.
    """
    if attempt + 1 >= ATTEMPTS:
        return None
    if status not in _DONE_NOTHING and not (repeatable and (status is None or status in _MAY_HAVE)):
        return None
    if asked is not None:
        return asked
    # at random, so that clients that were refused together do not come back together
    return random.uniform(0.5, 1.0) * min(_FIRST_PAUSE * 2.0**attempt, _LONGEST_PAUSE)


def retry_after(header: str | None) -> float | None:
    """Return the seconds of a `Retry-After`, which may also be a date; None without one that can be read."""
    if header is None:
        return None
    if header.strip().isdigit():
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return None
