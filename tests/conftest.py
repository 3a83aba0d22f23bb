"""Settings of every test."""

import os
import signal
import sys
from pathlib import Path

from tests.needs import HOW, ROOT, left_out

# Before anything imports numpy: the matrices of the tests are small, and threads that wait for each other on them
# make the suite ten times slower. What is set outside stays.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Each process that a test starts would compile all of the service anew, and pytest all tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell starts what it runs in the background with SIGINT ignored, and every process that a test starts would inherit
# that: Ctrl-C would not end it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_LEFT_OUT = dict(left_out())


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out what needs the extra `test-all` where it is not installed."""
    return True if collection_path in _LEFT_OUT else None


def pytest_report_header() -> list[str]:
    """Say what is left out."""
    return [f"left out: {path.relative_to(ROOT)} needs {name}: {HOW}" for path, name in _LEFT_OUT.items()]
