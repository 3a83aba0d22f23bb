"""Measures of all processes of a machine, by way of files in one folder: what is summed is what each wrote last.

Every process has a file with its numbers, and beside it a lock that the kernel releases when it ends, however it does.
Counts of a process that has ended are added to one file of the ended and kept: a sum that fell would look to Prometheus
like a restart, and count everything again. For the same reason a process writes before it answers: nobody has been
shown a number that a death could take back.
"""

import fcntl
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import IO, Any

import orjson

from app.telemetry.families import Family, Gauge, Histogram, Labels
from app.telemetry.measures import Measures

log = logging.getLogger(__name__)

WRITE_SECONDS = 2.0
"""Seconds between two writings of a process's numbers for the others."""
_ENDED = "ended.json"
_GUARD = "guard"
_LOCK = ".lock"

Series = dict[tuple[str, Labels], list[float]]
"""Numbers by family name and label values."""


class SnapshotFolder:
    """The folder that the processes of a machine share, as one of them sees it. A folder that cannot be written is told
    of once; the process then shows its own numbers alone."""

    def __init__(self, folder: Path, measures: Measures) -> None:
        self._folder = folder
        self._families = {family.name: family for family in measures.families}
        self._file = folder / f"{os.getpid()}-{token_hex(4)}.json"
        self._lock: IO[bytes] | None = None
        self._guard = threading.Lock()
        self._stop = threading.Event()
        self._told = False

    def open(self) -> None:
        """Take part, and write from time to time in a thread until `close`."""
        with self._guard, self._or_tell():
            self._folder.mkdir(parents=True, exist_ok=True)
            with _exclusive(self._folder):
                self._lock = self._file.with_suffix(_LOCK).open("wb")
                _try_lock(self._lock)
        threading.Thread(target=self._write_regularly, name="measures", daemon=True).start()

    def close(self) -> None:
        """Write the last numbers and leave; they stay in the sums."""
        self._stop.set()
        with self._guard, self._or_tell():
            if self._lock is not None:
                self._write()
                self._lock.close()
                self._lock = None

    def total(self) -> Series:
        """Return the sums over all processes, those that have ended included but for gauges."""
        with self._guard:
            with self._or_tell():
                if self._lock is not None:
                    self._write()
                    return self._sum()
            return self._own()

    def _own(self) -> Series:
        return {
            (family.name, labels): numbers for family in self._families.values() for labels, numbers in family.series()
        }

    def _write_regularly(self) -> None:
        while not self._stop.wait(WRITE_SECONDS):
            with self._guard, self._or_tell():
                if self._lock is not None:
                    self._write()

    def _write(self) -> None:
        _replace(self._file, _document(self._own(), self._families, []))

    def _sum(self) -> Series:
        with _exclusive(self._folder):
            ended = _read(self._folder / _ENDED)
            sums = self._numbers(ended, gauges=False)
            counted = set(ended.get("counted", ()))
            gone = [lock for lock in self._folder.glob(f"*{_LOCK}") if lock.stem not in counted and _is_free(lock)]
            for lock in gone:
                _add(sums, self._numbers(_read(lock.with_suffix(".json")), gauges=False))
            if gone or counted:
                names = [lock.stem for lock in gone]
                _replace(self._folder / _ENDED, _document(sums, self._families, names))
                for name in {*names, *counted}:
                    for suffix in (".json", _LOCK):
                        (self._folder / f"{name}{suffix}").unlink(missing_ok=True)
            for lock in self._folder.glob(f"*{_LOCK}"):
                _add(sums, self._numbers(_read(lock.with_suffix(".json")), gauges=True))
        return sums

    def _numbers(self, document: dict[str, Any], *, gauges: bool) -> Series:
        """The series of a document that are as this release has them; another's of other shapes are left out."""
        found: Series = {}
        for name, body in document.get("families", {}).items():
            family = self._families.get(name)
            if family is None or (isinstance(family, Gauge) and not gauges):
                continue
            if body["labels"] == list(family.labels) and body["bounds"] == _bounds(family):
                found |= {(name, tuple(labels)): numbers for labels, numbers in body["series"]}
        return found

    @contextmanager
    def _or_tell(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self._told:
                log.warning("measures of other processes are not shown: %s: %s", self._folder, error.strerror)
            self._told = True


def _bounds(family: Family) -> list[float]:
    return list(family.bounds) if isinstance(family, Histogram) else []


def _document(series: Series, families: dict[str, Family], counted: list[str]) -> dict[str, Any]:
    """Numbers as JSON. counted: names of processes whose numbers are in them, and whose files may still be there."""
    found: dict[str, Any] = {}
    for (name, labels), numbers in series.items():
        family = families[name]
        body = found.setdefault(name, {"labels": list(family.labels), "bounds": _bounds(family), "series": []})
        body["series"].append([labels, numbers])
    return {"families": found, "counted": counted}


def _add(sums: Series, more: Series) -> None:
    for key, numbers in more.items():
        before = sums.get(key)
        sums[key] = numbers if before is None else [a + b for a, b in zip(before, numbers, strict=True)]


def _read(path: Path) -> dict[str, Any]:
    """The document of a file; an empty one where it is not there, or was cut short with the machine."""
    try:
        document = orjson.loads(path.read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return {}
    return document if isinstance(document, dict) else {}


def _replace(path: Path, document: dict[str, Any]) -> None:
    written = path.with_suffix(f".{os.getpid()}.new")
    written.write_bytes(orjson.dumps(document))
    written.replace(path)


@contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    with (folder / _GUARD).open("wb") as guard:
        with suppress(OSError):  # a file system without locks: then no process is ever taken for a dead one
            fcntl.flock(guard, fcntl.LOCK_EX)
        yield


def _is_free(lock: Path) -> bool:
    """True if the process of this lock has ended."""
    try:
        with lock.open("rb") as file:
            return _try_lock(file)
    except FileNotFoundError:
        return False


def _try_lock(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
