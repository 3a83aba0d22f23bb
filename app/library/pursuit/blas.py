"""BLAS held to one thread while a model is fitted or predicts, and as it was afterwards.

The numerics have threads of their own. BLAS's would wait for each other on matrices that are small: a fit of 200 rows
took fifty times as long on two busy cores. With one, predictions also are those of the server to the bit.
"""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_users = 0
_controller: Any = None
_limit: AbstractContextManager[Any] | None = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread in this process for the length of the block; the last of several blocks ends it."""
    global _users, _controller, _limit  # noqa: PLW0603  BLAS's setting belongs to the process, and so does this
    with _lock:
        if _users == 0:
            _controller = _controller or ThreadpoolController()
            _limit = _controller.limit(limits=1, user_api="blas")
            _limit.__enter__()
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0 and _limit is not None:
                _limit.__exit__(None, None, None)
