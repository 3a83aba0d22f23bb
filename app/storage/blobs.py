"""The blob store: files under `prefix/<sha256><suffix>`, so equal bytes have one key and a key never changes meaning.

Nothing counts references: `sweep` removes blobs that no row of the database names, once they are old. Here is the store
in a folder: a write is a temporary file, fsync, rename, fsync of the folder, so after `put` returns the bytes survive a
power cut, and no reader ever sees half a file. `app.storage.bucket` has the one on object storage.
"""

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

from app.errors import DamagedFileError, NotFoundError, UnavailableError, is_full

log = logging.getLogger(__name__)

MODELS = "models"
"""The prefix of artefacts."""

_KEY = re.compile(r"[a-z][a-z0-9-]*/[0-9a-f]{64}(\.[a-z0-9]+)*")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """A stored file: its key, size in bytes and age in seconds (since it was last put)."""

    key: str
    size: int
    age: float


class BlobStore(Protocol):
    """Bytes by content. NotFoundError for unknown keys, UnavailableError when the store is full or broken."""

    def put(self, prefix: str, suffix: str, source: Path | bytes) -> str:
        """Store these bytes durably; return their key, `prefix/<sha256>suffix`. Their age starts again at 0."""
        ...

    def read(self, key: str) -> bytes:
        """Return all the bytes, checked against the key."""
        ...

    def open(self, key: str) -> BinaryIO:
        """Open the blob as a file; the caller closes it."""
        ...

    def path(self, key: str) -> Path:
        """Return a local file with these bytes, to read only."""
        ...

    def address(self, key: str) -> str:
        """Return where other machines find the blob: a path, or a URL (`app.storage.stores.open_address`)."""
        ...

    def keys(self, prefix: str) -> Iterator[Blob]:
        """Iterate over the blobs under a prefix, in no order."""
        ...

    def delete(self, key: str, *, older_than: float = 0.0) -> bool:
        """Remove a blob that was last put `older_than` seconds ago or earlier; True if it was removed."""
        ...

    def clean(self, *, older_than: float) -> int:
        """Remove the incomplete files of writers that died, if older than that many seconds; return how many."""
        ...

    def check(self) -> None:
        """Raise UnavailableError if nothing can be written now."""
        ...


class LocalBlobStore:
    """A BlobStore in a folder of a local disk, or of a shared one that has atomic renames."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._temporary = root / "tmp"

    def put(self, prefix: str, suffix: str, source: Path | bytes) -> str:
        """Store these bytes durably; return their key. Memory: one chunk of 1 MiB beside `source`."""
        with _disk_errors("written"), self._temporary_file() as (temporary, descriptor):
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
        """Return all the bytes, checked against the key."""
        with self.open(key) as stream, _disk_errors("read"):
            data = stream.read()
        if hashlib.sha256(data).hexdigest() != digest_of(key):
            raise damaged_blob(key)
        return data

    def open(self, key: str) -> BinaryIO:
        """Open the blob as a file; the caller closes it."""
        path = self._locate(key)
        try:
            with _disk_errors("read"):
                return path.open("rb")
        except FileNotFoundError:
            raise NotFoundError(f"the store has no {key}") from None

    def path(self, key: str) -> Path:
        """Return the blob's file, to read only."""
        path = self._locate(key)
        if not path.is_file():
            raise NotFoundError(f"the store has no {key}")
        return path

    def address(self, key: str) -> str:
        """Return the absolute path of the blob, under which machines that share the folder find it."""
        return str(self._locate(key).absolute())

    def keys(self, prefix: str) -> Iterator[Blob]:
        """Iterate over the blobs under a prefix, in no order."""
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
        """Remove an old blob. It is moved aside before its age is read, so that a `put` in between is never undone."""
        path = self._locate(key)
        aside = self._temporary / f"{path.name}.{os.getpid()}.{time.monotonic_ns()}"
        with _disk_errors("deleted"):
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
        """Remove the temporary files of writers that died; return how many."""
        return remove_old(self._temporary, older_than=older_than)

    def check(self) -> None:
        """Raise UnavailableError if the disk refuses a small file."""
        with _disk_errors("written"), self._temporary_file() as (_, descriptor):
            _write_all(descriptor, b"pursuit")

    def _locate(self, key: str) -> Path:
        if not is_key(key):
            raise NotFoundError(f"not a key of the store: {key!r}")
        return self._root / key

    @contextmanager
    def _temporary_file(self) -> Iterator[tuple[Path, int]]:
        """Make a temporary file, removed at the end whatever happens (unless it was renamed)."""
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
    """Remove the files of a folder that were written so many seconds ago or earlier; return how many."""
    removed = 0
    for path in list(folder.glob("*")):
        try:
            if time.time() - path.stat().st_mtime >= older_than:
                path.unlink()
                removed += 1
        except FileNotFoundError:
            continue
    return removed


def sweep(
    store: BlobStore, prefix: str, referenced: Callable[[list[str]], Collection[str]], *, older_than: float
) -> list[str]:
    """Remove the old blobs under `prefix` that `referenced(their keys)` does not name; return their keys.

    `older_than` (seconds) must be longer than any writer takes from `put` to the commit that refers to the key.
    `referenced` is called after the blobs are listed, so it knows every reference from before.
    """
    store.clean(older_than=older_than)
    old = [blob.key for blob in store.keys(prefix) if blob.age >= older_than]
    if not old:
        return []
    kept = referenced(old)
    return [key for key in old if key not in kept and store.delete(key, older_than=older_than)]


def is_key(key: str) -> bool:
    """True if it has the form of a key."""
    return _KEY.fullmatch(key) is not None


def digest_of(key: str) -> str:
    """Return the SHA-256 in a key."""
    return key.partition("/")[2][:64]


def damaged_blob(key: str) -> DamagedFileError:
    """Make the error for a blob whose bytes are not those of its key."""
    return DamagedFileError(f"the stored file {key} is damaged: its bytes do not match its name")


def chunks(source: Path | bytes) -> Iterator[bytes | memoryview]:
    """Iterate over the bytes, 1 MiB at a time."""
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
def _disk_errors(verb: str) -> Iterator[None]:
    """Raise UnavailableError for an error of the disk."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        full = is_full(error)
        cause = "no space is left on its disk" if full else (error.strerror or str(error))
        raise UnavailableError(f"nothing can be {verb} in the store: {cause}") from error
