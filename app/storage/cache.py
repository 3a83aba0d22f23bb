"""Files of a bucket on the local disk, by key: at most so many bytes, those that were used longest ago go first.

Processes share one folder. A file is written aside and renamed, and its hash is looked at before it is handed out, so a
damaged one is fetched again. What was used within the last IN_USE_SECONDS stays, whatever the bound says: somebody may
be about to open it.
"""

import hashlib
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from app.errors import unwritable
from app.storage.blobs import chunks, damaged, digest_of, remove_old

log = logging.getLogger(__name__)

IN_USE_SECONDS = 60.0


class FileCache:
    """See the module. folder: its own; most: bytes."""

    def __init__(self, folder: Path, most: int) -> None:
        self._folder = folder
        self._temporary = folder / "tmp"
        self._most = most

    def get(self, key: str, fetch: Callable[[], Iterable[bytes]]) -> Path:
        """The file of this key, made from `fetch` if it is not there. UnavailableError where what came is not what the
        key says, or the disk refuses it.
        """
        path = self._folder / key
        try:
            if path.is_file():
                os.utime(path)  # first: from now on nobody removes it
                if _hash(path) == digest_of(key):
                    return path
                log.warning("the local copy of %s is damaged and fetched again", key)
            self._fill(path, key, fetch())
            self._evict()
        except OSError as error:
            raise unwritable(error) from error
        return path

    def drop(self, key: str) -> None:
        """Forget a file."""
        (self._folder / key).unlink(missing_ok=True)

    def clean(self, *, older_than: float) -> int:
        """Remove what writers that died left, if older than that many seconds; how many."""
        return remove_old(self._temporary, older_than=older_than)

    def _fill(self, path: Path, key: str, arriving: Iterable[bytes]) -> None:
        self._temporary.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=self._temporary)
        try:
            digest = hashlib.sha256()
            with os.fdopen(descriptor, "wb") as stream:
                for chunk in arriving:
                    digest.update(chunk)
                    stream.write(chunk)
            if digest.hexdigest() != digest_of(key):
                raise damaged(key)
            path.parent.mkdir(parents=True, exist_ok=True)
            Path(name).replace(path)
        finally:
            Path(name).unlink(missing_ok=True)

    def _evict(self) -> None:
        """Least recently used first, until the rest fits."""
        found: list[tuple[float, int, Path]] = []
        for path in self._folder.glob("*/*"):
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            if path.parent != self._temporary:
                found.append((status.st_mtime, status.st_size, path))
        held = sum(size for _, size, _ in found)
        for used, size, path in sorted(found):
            if held <= self._most or time.time() - used < IN_USE_SECONDS:
                return
            path.unlink(missing_ok=True)
            held -= size


def _hash(path: Path) -> str:
    digest = hashlib.sha256()
    for chunk in chunks(path):
        digest.update(chunk)
    return digest.hexdigest()
