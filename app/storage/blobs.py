"""Where bytes live: under `prefix/<sha256><suffix>`, so equal bytes have one key and a key never changes meaning.

Nothing counts references: `sweep` removes what no row of the database names, once it is old. Here is the store in a
folder: a write is a temporary file, fsync, rename, fsync of the folder, so after `put` returns the bytes survive a
power cut, and nobody ever sees half a file. `app.storage.bucket` has the one on object storage.
"""

import errno
import hashlib
import logging
import os
import re
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from app.errors import NotFoundError, UnavailableError

log = logging.getLogger(__name__)

_KEY = re.compile(r"[a-z][a-z0-9-]*/[0-9a-f]{64}(\.[a-z0-9]+)*")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """A key with its size in bytes and its age in seconds (since it was last put)."""

    key: str
    size: int
    age: float


class BlobStore(Protocol):
    """Bytes by content. NotFoundError for unknown keys, UnavailableError when the store is full or broken."""

    def put(self, prefix: str, suffix: str, source: Path | bytes) -> str:
        """Keep these bytes for good; their key, `prefix/<sha256>suffix`. Putting them again makes them
        young again.
        """
        ...

    def read(self, key: str) -> bytes:
        """All the bytes, checked against the key."""
        ...

    def open(self, key: str) -> BinaryIO:
        """The bytes as a file; the caller closes it."""
        ...

    def path(self, key: str) -> Path:
        """A local file with these bytes, to read only."""
        ...

    def keys(self, prefix: str) -> Iterator[Blob]:
        """What is under a prefix, in no order."""
        ...

    def delete(self, key: str, *, older_than: float = 0.0) -> bool:
        """Remove it if it was last put `older_than` seconds ago or earlier; True if it was removed."""
        ...

    def clean(self, *, older_than: float) -> int:
        """Remove what writers that died left half-written, if older than that many seconds; how many."""
        ...

    def check(self) -> None:
        """UnavailableError if nothing can be written now."""
        ...


class LocalBlobStore:
    """A BlobStore in a folder of a local disk (or one that several machines share and that has atomic
    renames).
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._temporary = root / "tmp"

    def put(self, prefix: str, suffix: str, source: Path | bytes) -> str:
        """See BlobStore. Memory: one chunk of 1 MiB beside `source`."""
        with _full_disk("written"), self._unfinished() as (temporary, descriptor):
            digest = hashlib.sha256()
            for chunk in chunks(source):
                digest.update(chunk)
                _write_all(descriptor, chunk)
            os.fsync(descriptor)
            key = f"{prefix}/{digest.hexdigest()}{suffix}"
            target = self._locate(key)
            self._folder(target.parent)
            temporary.replace(target)
            _sync_folder(target.parent)
        return key

    def read(self, key: str) -> bytes:
        """See BlobStore."""
        with self.open(key) as stream, _full_disk("read"):
            data = stream.read()
        if hashlib.sha256(data).hexdigest() != digest_of(key):
            raise damaged(key)
        return data

    def open(self, key: str) -> BinaryIO:
        """See BlobStore."""
        path = self._locate(key)
        try:
            with _full_disk("read"):
                return path.open("rb")
        except FileNotFoundError:
            raise NotFoundError(f"the store has no {key}") from None

    def path(self, key: str) -> Path:
        """See BlobStore."""
        path = self._locate(key)
        if not path.is_file():
            raise NotFoundError(f"the store has no {key}")
        return path

    def keys(self, prefix: str) -> Iterator[Blob]:
        """See BlobStore."""
        folder = self._root / prefix
        if not folder.is_dir():
            return
        for entry in os.scandir(folder):
            key = f"{prefix}/{entry.name}"
            if not is_key(key):
                continue
            try:
                status = entry.stat()
            except FileNotFoundError:
                continue
            yield Blob(key=key, size=status.st_size, age=max(time.time() - status.st_mtime, 0.0))

    def delete(self, key: str, *, older_than: float = 0.0) -> bool:
        """See BlobStore. Moved aside before its age is looked at, so that a `put` in between is never
        undone.
        """
        path = self._locate(key)
        aside = self._temporary / f"{path.name}.{os.getpid()}.{time.monotonic_ns()}"
        with _full_disk("deleted"):
            self._folder(self._temporary)
            try:
                path.rename(aside)
            except FileNotFoundError:
                return False
            if time.time() - aside.stat().st_mtime < older_than:
                aside.rename(path)
                return False
            aside.unlink()
        return True

    def clean(self, *, older_than: float) -> int:
        """See BlobStore."""
        return remove_old(self._temporary, older_than=older_than)

    def check(self) -> None:
        """See BlobStore."""
        with _full_disk("written"), self._unfinished() as (_, descriptor):
            _write_all(descriptor, b"pursuit")

    def _locate(self, key: str) -> Path:
        if not is_key(key):
            raise NotFoundError(f"not a key of the store: {key!r}")
        return self._root / key

    @contextmanager
    def _unfinished(self) -> Iterator[tuple[Path, int]]:
        """A temporary file, gone at the end whatever happens (unless it was renamed)."""
        self._folder(self._temporary)
        descriptor, name = tempfile.mkstemp(dir=self._temporary)
        try:
            yield Path(name), descriptor
        finally:
            os.close(descriptor)
            Path(name).unlink(missing_ok=True)

    def _folder(self, folder: Path) -> None:
        if folder.is_dir():
            return
        folder.mkdir(parents=True, exist_ok=True)
        _sync_folder(folder.parent)


def remove_old(folder: Path, *, older_than: float) -> int:
    """Remove the files of a folder that were written so many seconds ago or earlier; how many."""
    removed = 0
    for path in list(folder.glob("*")):
        try:
            if time.time() - path.stat().st_mtime >= older_than:
                path.unlink()
                removed += 1
        except FileNotFoundError:
            continue
    return removed


def sweep(store: BlobStore, prefix: str, referenced: Callable[[], Collection[str]], *, older_than: float) -> list[str]:
    """Remove the old blobs under `prefix` that `referenced()` does not name; the keys removed.

    `older_than` (seconds) must be longer than any writer takes from `put` to the commit that refers to the
    key. `referenced` is called after the listing, so what is referred to before the listing is in its
    answer.
    """
    store.clean(older_than=older_than)
    old = [blob.key for blob in store.keys(prefix) if blob.age >= older_than]
    if not old:
        return []
    kept = referenced()
    return [key for key in old if key not in kept and store.delete(key, older_than=older_than)]


def is_key(key: str) -> bool:
    """True if it has the form of a key."""
    return _KEY.fullmatch(key) is not None


def digest_of(key: str) -> str:
    """The SHA-256 that the key names."""
    return key.partition("/")[2][:64]


def damaged(key: str) -> UnavailableError:
    """What is said of a blob whose bytes are not those of its key."""
    return UnavailableError(f"the stored file {key} is damaged: its bytes do not match its name")


def chunks(source: Path | bytes) -> Iterator[bytes | memoryview]:
    """The bytes, 1 MiB at a time."""
    if isinstance(source, bytes):
        view = memoryview(source)
        for start in range(0, len(view), _CHUNK):
            yield view[start : start + _CHUNK]
        return
    with source.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk


def _write_all(descriptor: int, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _full_disk(verb: str) -> Iterator[None]:
    """UnavailableError for what the disk refuses."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        cause = "no space is left on its disk" if full else (error.strerror or str(error))
        raise UnavailableError(f"nothing can be {verb} in the store: {cause}") from error
