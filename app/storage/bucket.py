"""The blob store in a bucket of S3, or of anything that speaks its protocol and is strongly consistent as S3 is.

S3 has no rename and no deletion under a condition that all servers know, so a deletion could undo a `put` that came
between the look at a blob's age and its end. Two rules exclude that, by plain requests only:

    delete   write a marker of its own under tmp/, look at the blob's age, remove the blob, remove the marker
    put      write the blob, wait until the key has no marker, look whether the blob is there, else begin again

A blob written before the look is young, and stays. One written after it was written after the marker too: `put` sees
the marker and waits for the end, or sees none because the end has come, and then sees whether its blob was hit. Ages
are differences of the store's own times. What is left to a clock: a marker whose owner died is removed after
DELETION_MARKER_SECONDS, and its owner sends no deletion later than DELETION_SECONDS after its marker, so only one that
is frozen for the time between, just before it sends, could still undo a `put`. A deletion whose answer is lost leaves
its marker.

Bytes go up in parts and come down in ranges, of PART_BYTES each; every request has a time-out (`_SHORT`, `_TRANSFER`).
Uploads in parts whose writer was killed are not found from here: a rule of the bucket (AbortIncompleteMultipartUpload)
ends them.
"""

import hashlib
import io
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import urlsplit
from uuid import uuid4

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, PreconditionError, UnauthenticatedError
from obstore.store import S3Store

from app.errors import NotFoundError, UnavailableError
from app.storage.blobs import Blob, chunks, damaged_blob, digest_of, is_key
from app.storage.cache import FileCache

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from obstore import GetOptions, ObjectMeta
    from obstore.store import ClientConfig, RetryConfig

log = logging.getLogger(__name__)

PART_BYTES = 8 << 20
RANGE_BYTES = 1 << 16
"""Least bytes of a range that `open_ranges` asks for."""
PARALLEL_PARTS = 3
"""Parts that are uploaded at a time."""
DELETION_MARKER_SECONDS = 40.0
DELETION_SECONDS = 10.0
STORE_CLOCK_SECONDS = 1.0
"""Resolution of the store's times: they may be whole seconds, rounded down."""
CHECK_INTERVAL_SECONDS = 10.0
"""Seconds for which a successful check counts: each is a request that is paid for."""

_MARKERS = "tmp"
_CHECK = f"{_MARKERS}/check"
"""The object that `check` overwrites."""
_PAUSE = 0.2


def _client(seconds: float) -> "ClientConfig":
    """Time-outs of a client. allow_http: the operator names the endpoint, perhaps inside a private network."""
    return {"connect_timeout": timedelta(seconds=3), "timeout": timedelta(seconds=seconds), "allow_http": True}


def _retry(times: int, seconds: float) -> "RetryConfig":
    return {"max_retries": times, "retry_timeout": timedelta(seconds=seconds)}


_SHORT = (_client(5.0), _retry(1, 5.0))
"""Requests with little data: at most ten seconds."""
_TRANSFER = (_client(30.0), _retry(3, 20.0))
"""Parts: none is retried later than 20 s after its first try."""
_NO_RETRY = (_client(5.0), _retry(0, 5.0))
"""Deletions, which must not come late."""


class BucketBlobStore:
    """A BlobStore under `prefix` (may be empty) of a bucket, with a cache of local files for `path` and `open`.

    Credentials, region and endpoint come from the AWS_* variables of the environment, or from the machine's role.
    """

    def __init__(self, bucket: str, prefix: str, cache: FileCache) -> None:
        self._bucket, self._prefix = bucket, prefix
        self._cache = cache
        self._checked = -CHECK_INTERVAL_SECONDS
        with _bucket_errors("used"):
            self._short, self._transfer, self._no_retry = (
                S3Store(bucket, prefix=prefix or None, client_options=client, retry_config=retry)
                for client, retry in (_SHORT, _TRANSFER, _NO_RETRY)
            )

    def put(self, prefix: str, suffix: str, source: Path | bytes) -> str:
        """Store these bytes durably; return their key. Reads `source` twice; memory: PARALLEL_PARTS parts beside it."""
        digest = hashlib.sha256()
        for chunk in chunks(source):
            digest.update(chunk)
        key = self._valid_key(f"{prefix}/{digest.hexdigest()}{suffix}")
        while True:
            with _bucket_errors("written"):
                obstore.put(self._transfer, key, source, chunk_size=PART_BYTES, max_concurrency=PARALLEL_PARTS)
            self._wait_for_deletions(key)
            if self._head(key) is not None:
                return key
            log.info("%s was deleted during its upload, which is repeated", key)

    def read(self, key: str) -> bytes:
        """Return all the bytes, checked against the key."""
        data = b"".join(self._ranges(self._valid_key(key)))
        if hashlib.sha256(data).hexdigest() != digest_of(key):
            raise damaged_blob(key)
        return data

    def open(self, key: str) -> BinaryIO:
        """Open a local copy of the blob; the caller closes it."""
        return self.path(key).open("rb")

    def path(self, key: str) -> Path:
        """Return a local copy of the blob, to be opened within a minute; an open file stays readable."""
        return self._cache.get(self._valid_key(key), lambda: self._ranges(key))

    def address(self, key: str) -> str:
        """Return the URL of the blob."""
        return "s3://" + "/".join(part for part in (self._bucket, self._prefix, self._valid_key(key)) if part)

    def keys(self, prefix: str) -> Iterator[Blob]:
        """Iterate over the blobs under a prefix. Ages are by this machine's clock; `delete` uses the store's."""
        now = datetime.now(UTC)
        for entry in self._list(prefix):
            if is_key(entry["path"]):
                age = max((now - entry["last_modified"]).total_seconds(), 0.0)
                yield Blob(key=entry["path"], size=entry["size"], age=age)

    def delete(self, key: str, *, older_than: float = 0.0) -> bool:
        """Remove an old blob, by the protocol in the module's docstring."""
        marker = f"{_MARKERS}/{self._valid_key(key)}/{uuid4().hex}"
        began = time.monotonic()
        with _bucket_errors("deleted"):
            obstore.put(self._no_retry, marker, b"")
        written, entry = self._head(marker), self._head(key)
        removed = False
        if written is not None and entry is not None:
            age = (written["last_modified"] - entry["last_modified"]).total_seconds() - STORE_CLOCK_SECONDS
            removed = older_than <= 0.0 or age >= older_than
        with _bucket_errors("deleted"):
            if removed:
                if time.monotonic() - began > DELETION_SECONDS:
                    raise UnavailableError("the store is too slow for a safe deletion")
                obstore.delete(self._no_retry, key)
                self._cache.drop(key)
            obstore.delete(self._short, marker)
        return removed

    def clean(self, *, older_than: float) -> int:
        """Remove the markers of interrupted deletions and incomplete local files; return how many."""
        now = datetime.now(UTC)
        left = [(entry["path"], (now - entry["last_modified"]).total_seconds()) for entry in self._list(_MARKERS)]
        old = [path for path, age in left if age >= older_than and path != _CHECK]
        with _bucket_errors("deleted"):
            for path in old:
                obstore.delete(self._short, path)
        return len(old) + self._cache.clean(older_than=older_than)

    def check(self) -> None:
        """Raise UnavailableError if the bucket takes no object; a success counts for CHECK_INTERVAL_SECONDS."""
        began = time.monotonic()
        if began - self._checked >= CHECK_INTERVAL_SECONDS:
            with _bucket_errors("written"):
                obstore.put(self._short, _CHECK, b"pursuit")
            self._checked = began

    def _valid_key(self, key: str) -> str:
        if not is_key(key):
            raise NotFoundError(f"not a key of the store: {key!r}")
        return key

    def _head(self, path: str) -> "ObjectMeta | None":
        try:
            with _bucket_errors("read", absent=FileNotFoundError()):
                return obstore.head(self._short, path)
        except FileNotFoundError:
            return None

    def _list(self, prefix: str) -> Iterator["ObjectMeta"]:
        with _bucket_errors("read"):
            pages = iter(obstore.list(self._short, prefix))
        while True:
            with _bucket_errors("read"):
                page = next(pages, None)
            if page is None:
                return
            yield from page

    def _ranges(self, key: str) -> Iterator[bytes]:
        """Iterate over the bytes, a part at a time. NotFoundError."""
        entry = self._head(key)
        if entry is None:
            raise NotFoundError(f"the store has no {key}")
        for start in range(0, entry["size"], PART_BYTES):
            length = min(PART_BYTES, entry["size"] - start)
            with _bucket_errors("read", absent=NotFoundError(f"the store has no {key}")):
                part = obstore.get_range(self._transfer, key, start=start, length=length).to_bytes()
            yield part

    def _wait_for_deletions(self, key: str) -> None:
        """Wait until no deletion of this key is under way; remove the markers of those interrupted long ago."""
        first_seen: dict[str, float] = {}
        while markers := [entry["path"] for entry in self._list(f"{_MARKERS}/{key}")]:
            for marker in markers:
                if time.monotonic() - first_seen.setdefault(marker, time.monotonic()) > DELETION_MARKER_SECONDS:
                    with _bucket_errors("deleted"):
                        obstore.delete(self._short, marker)
            time.sleep(_PAUSE)


def open_ranges(url: str, *, version: tuple[int, str] | None = None, changed: Exception | None = None) -> BinaryIO:
    """Open an object of any bucket, s3://bucket/key, to be read by ranges: what is not read is not fetched. The bytes
    are not checked against a hash. version: size and version that it must have, as `list_below` gave them, now and in
    each read: else `changed` is raised. NotFoundError, UnavailableError."""
    place = urlsplit(url)
    opened = _Ranges(_store_of(place.netloc), place.path.lstrip("/"), changed)
    if changed is not None and opened.version != version:
        raise changed
    return io.BufferedReader(opened, RANGE_BYTES)


def list_below(bucket: str, folder: str) -> Iterator[tuple[str, int, str]]:
    """Iterate over key, size and version of each object in a folder of any bucket and all folders below. One request
    for each thousand of them. UnavailableError."""
    with _bucket_errors("read"):
        for chunk in obstore.list(_store_of(bucket), folder or None):
            for entry in chunk:
                yield entry["path"], int(entry["size"]), _version_of(entry)


def _store_of(bucket: str) -> S3Store:
    client, retry = _TRANSFER
    with _bucket_errors("read"):
        return S3Store(bucket, client_options=client, retry_config=retry)


def _version_of(entry: "ObjectMeta") -> str:
    """Return what changes whenever an object does: its ETag, where a store has none its time."""
    return entry["e_tag"] or entry["last_modified"].replace(microsecond=0).isoformat()


class _Ranges(io.RawIOBase):
    """An object of a bucket as a file to read. changed: is raised where it is not what it was when it was opened."""

    def __init__(self, store: S3Store, key: str, changed: Exception | None) -> None:
        self._store, self._key, self._place = store, key, 0
        self._changed = changed
        self._absent = NotFoundError(f"the store has no {key}")
        with _bucket_errors("read", absent=self._absent):
            entry = obstore.head(store, key)
        self._size = int(entry["size"])
        self.version = self._size, _version_of(entry)
        self._tag = None if changed is None else entry["e_tag"]

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a place; a request comes with the next `readinto` only."""
        self._place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        return self._place

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Fetch as much as there is room for."""
        view = memoryview(buffer)
        length = max(min(len(view), self._size - self._place), 0)
        if length:
            with _bucket_errors("read", absent=self._absent, changed=self._changed):
                view[:length] = self._fetched(length)
            self._place += length
        return length

    def _fetched(self, length: int) -> bytes:
        if self._tag is None:
            return obstore.get_range(self._store, self._key, start=self._place, length=length).to_bytes()
        options: GetOptions = {"range": (self._place, self._place + length), "if_match": self._tag}
        return obstore.get(self._store, self._key, options=options).bytes().to_bytes()


@contextmanager
def _bucket_errors(verb: str, *, absent: Exception | None = None, changed: Exception | None = None) -> Iterator[None]:
    """Raise UnavailableError for an error of the bucket, `absent` for an object that is not there, `changed` for one
    that is another than was asked for.

    The cause goes to the log alone: it names the bucket and is many lines long.
    """
    try:
        yield
    except FileNotFoundError as error:
        if absent is not None:
            raise absent from None
        cause: Exception = error
        reason = "there is no such bucket"
    except PreconditionError as error:
        if changed is not None:
            raise changed from None
        cause, reason = error, "the bucket does not answer as it should"
    except (PermissionDeniedError, UnauthenticatedError) as error:
        cause, reason = error, "the bucket refuses these credentials"
    except (BaseError, OSError) as error:
        cause, reason = error, "the bucket does not answer as it should"
    else:
        return
    log.warning("nothing can be %s in the store: %s", verb, str(cause).partition("\n")[0])
    raise UnavailableError(f"nothing can be {verb} in the store: {reason}") from cause
