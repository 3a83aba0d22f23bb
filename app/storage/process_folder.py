"""A temporary folder of one process: however the process ends, the next one to start removes what it left.

Beside each folder lies a file of the same name that its process holds a lock on (flock); the kernel releases the lock
when the process has ended, also when it was killed. So several processes may share the parent folder.
"""

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from typing import IO

log = logging.getLogger(__name__)

_GUARD = "guard"
_LOCK = ".lock"
_UNLOCKED_RETENTION_SECONDS = 86_400.0


class ProcessFolder:
    """Folder at `path` from `open` to `close`; other processes may have theirs in the same parent."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        self.path = parent / f"{os.getpid()}-{token_hex(4)}"
        self._lock: IO[bytes] | None = None

    def open(self) -> None:
        """Make the folder, and remove those of processes that have ended. OSError where it cannot be made."""
        self._parent.mkdir(parents=True, exist_ok=True)
        with _exclusive(self._parent):
            for lock in self._parent.glob(f"*{_LOCK}"):
                _remove_if_unlocked(lock)
            _remove_old(self._parent)
            self._lock = _lock_path(self.path).open("wb")
            _try_lock(self._lock)
            self.path.mkdir()

    def close(self) -> None:
        """Remove the folder with all that is in it. Calling it twice does no harm."""
        if self._lock is None:
            return
        rmtree(self.path, ignore_errors=True)
        _lock_path(self.path).unlink(missing_ok=True)
        self._lock.close()
        self._lock = None


@contextmanager
def _exclusive(parent: Path) -> Iterator[None]:
    """Let one process at a time in: a lock file that was just made and not yet locked looks like that of a dead one."""
    with (parent / _GUARD).open("wb") as guard:
        with suppress(OSError):  # a file system without locks: then no folder is ever taken for that of a dead process
            fcntl.flock(guard, fcntl.LOCK_EX)
        yield


def _lock_path(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}{_LOCK}")


def _remove_if_unlocked(lock: Path) -> None:
    with suppress(FileNotFoundError), lock.open("rb") as file:
        if _try_lock(file):
            log.info("removed the files of an earlier process in %s", lock.parent / lock.stem)
            rmtree(lock.with_suffix(""), ignore_errors=True)
            lock.unlink(missing_ok=True)


def _remove_old(parent: Path) -> None:
    """Remove entries without a lock that are a day old: of a release that had none, or half-made ones."""
    for left in parent.iterdir():
        is_locked = left.name == _GUARD or left.suffix == _LOCK or _lock_path(left).exists()
        with suppress(FileNotFoundError):  # its process, of that release, has just removed it
            if not is_locked and time.time() - left.stat().st_mtime > _UNLOCKED_RETENTION_SECONDS:
                rmtree(left) if left.is_dir() else left.unlink()


def _try_lock(file: IO[bytes]) -> bool:
    """True if the lock was taken; it is held until the file is closed."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
