"""A cache of a bucket's files on the local disk, by key: bounded in bytes, least recently used first out.

Processes share one folder. A file is written aside and renamed, and its hash is checked before it is returned, so a
damaged one is fetched again. Files used within the last CACHE_IN_USE_SECONDS stay, whatever the bound says: a process
may be about to open one.
"""

import hashlib
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from app.errors import unwritable
from app.storage.blobs import chunks, damaged_blob, digest_of, remove_old

log = logging.getLogger(__name__)

CACHE_IN_USE_SECONDS = 60.0


class FileCache:
    """Cache in a folder of its own, of at most `max_bytes`."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._temporary = folder / "tmp"
        self._max_bytes = max_bytes

    def get(self, key: str, fetch: Callable[[], Iterable[bytes]]) -> Path:
        """Return the file of this key, made from `fetch` if it is not there.

        UnavailableError where the bytes do not match the key, or the disk cannot be written.
        """
        path = self._folder / key
        try:
            if path.is_file():
                os.utime(path)  # first: from now on no process evicts it
                if _hash(path) == digest_of(key):
                    return path
                log.warning("the local copy of %s is damaged and fetched again", key)
            self._fill(path, key, fetch())
            self._evict()
        except OSError as error:
            raise unwritable(error) from error
        return path

    def drop(self, key: str) -> None:
        """Remove a file."""
        (self._folder / key).unlink(missing_ok=True)

    def clean(self, *, older_than: float) -> int:
        """Remove the incomplete files of writers that died, if older than that many seconds; return how many."""
        return remove_old(self._temporary, older_than=older_than)

    def _fill(self, path: Path, key: str, parts: Iterable[bytes]) -> None:
        self._temporary.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=self._temporary)
        try:
            digest = hashlib.sha256()
            with os.fdopen(descriptor, "wb") as stream:
                for chunk in parts:
                    digest.update(chunk)
                    stream.write(chunk)
            if digest.hexdigest() != digest_of(key):
                raise damaged_blob(key)
            path.parent.mkdir(parents=True, exist_ok=True)
            Path(name).replace(path)
        finally:
            Path(name).unlink(missing_ok=True)

    def _evict(self) -> None:
        """Remove the least recently used files until the rest fits."""
        files: list[tuple[float, int, Path]] = []
        for path in self._folder.glob("*/*"):
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            if path.parent != self._temporary:
                files.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in files)
        for used, size, path in sorted(files):
            if total <= self._max_bytes or time.time() - used < CACHE_IN_USE_SECONDS:
                return
            path.unlink(missing_ok=True)
            total -= size


def _hash(path: Path) -> str:
    digest = hashlib.sha256()
    for chunk in chunks(path):
        digest.update(chunk)
    return digest.hexdigest()
