"""A process's own folder for files in the making: however it ends, the next one to start removes what it left.

Beside each folder lies a file of the same name that its process holds a lock on (flock); the kernel lets go of the lock
when the process is gone, however it went. So several processes may share the place, and none of them waits for age.
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
_STALE_SECONDS = 86_400.0


class ScratchFolder:
    """`path` is there from `open` to `close`, in a place that other processes may have theirs in."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self.path = place / f"{os.getpid()}-{token_hex(4)}"
        self._held: IO[bytes] | None = None

    def open(self) -> None:
        """Make the folder, and remove those of processes that are gone. OSError where it cannot be made."""
        self._place.mkdir(parents=True, exist_ok=True)
        with _guarded(self._place):
            for lock in self._place.glob(f"*{_LOCK}"):
                _remove_if_nobodys(lock)
            _remove_old(self._place)
            self._held = _lock_path(self.path).open("wb")
            _try_to_hold(self._held)
            self.path.mkdir()

    def close(self) -> None:
        """Remove the folder with all that is in it. May be called twice."""
        if self._held is None:
            return
        rmtree(self.path, ignore_errors=True)
        _lock_path(self.path).unlink(missing_ok=True)
        self._held.close()
        self._held = None


@contextmanager
def _guarded(place: Path) -> Iterator[None]:
    """One process at a time: between the making of a lock's file and its being held it looks like nobody's."""
    with (place / _GUARD).open("wb") as guard:
        with suppress(OSError):  # a file system without locks: then nothing is ever nobody's
            fcntl.flock(guard, fcntl.LOCK_EX)
        yield


def _lock_path(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}{_LOCK}")


def _remove_if_nobodys(lock: Path) -> None:
    with suppress(FileNotFoundError), lock.open("rb") as file:
        if _try_to_hold(file):
            log.info("removed what an earlier process left in %s", lock.parent / lock.stem)
            rmtree(lock.with_suffix(""), ignore_errors=True)
            lock.unlink(missing_ok=True)


def _remove_old(place: Path) -> None:
    """What has no lock beside it and is a day old: of a version that had none, or half of what is made here."""
    for left in place.iterdir():
        is_ours = left.name == _GUARD or left.suffix == _LOCK or _lock_path(left).exists()
        with suppress(FileNotFoundError):  # it was not left: its process, of that version, has just removed it
            if not is_ours and time.time() - left.stat().st_mtime > _STALE_SECONDS:
                rmtree(left) if left.is_dir() else left.unlink()


def _try_to_hold(file: IO[bytes]) -> bool:
    """Whether the lock is ours now; it is until the file is closed."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
