"""The blob store in a bucket of S3, or of anything that speaks its protocol and is strongly consistent as S3 is.

S3 has no rename and no deletion under a condition that all servers know, so a deletion could undo a `put` that came
between the look at a blob's age and its end. Two rules exclude that, by plain requests only:

    delete   write a marker of its own under tmp/, look at the blob's age, remove the blob, remove the marker
    put      write the blob, wait until the key has no marker, look whether the blob is there, else begin again

A blob written before the look is young, and stays. One written after it was written after the marker too: `put` sees
the marker and waits for the end, or sees none because the end has come, and then sees whether its blob was hit. Ages
are differences of the store's own times. What is left to a clock: a marker whose owner died is taken for dead after
MARKER_SECONDS, and an owner sends no deletion later than HURRY_SECONDS after its marker, so only one that is frozen for
the time between, just before it sends, could still do harm. A deletion whose answer is lost leaves its marker.

Bytes go up in parts and come down in ranges, of PART_BYTES each; every request has an end (`_QUICK`, `_BULK`). Uploads
in parts whose writer was killed are out of reach here: a rule of the bucket (AbortIncompleteMultipartUpload) ends them.
"""

import hashlib
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from uuid import uuid4

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

from app.errors import NotFoundError, UnavailableError
from app.storage.blobs import Blob, chunks, damaged, digest_of, is_key
from app.storage.cache import FileCache

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ClientConfig, RetryConfig

log = logging.getLogger(__name__)

PART_BYTES = 8 << 20
UPLOADS = 3
"""Parts on their way at a time."""
MARKER_SECONDS = 40.0
HURRY_SECONDS = 10.0
CLOCK_SECONDS = 1.0
"""The store's times may be whole seconds, rounded down."""
CHECK_SECONDS = 10.0
"""So long a store that took bytes is taken to go on taking them: each look is a request that is paid for."""

_MARKERS = "tmp"
_CHECK = f"{_MARKERS}/check"
"""What `check` writes again and again; it stays."""
_PAUSE = 0.2


def _client(seconds: float) -> "ClientConfig":
    """allow_http: an endpoint is named by who runs the service, who means it."""
    return {"connect_timeout": timedelta(seconds=3), "timeout": timedelta(seconds=seconds), "allow_http": True}


def _retry(times: int, seconds: float) -> "RetryConfig":
    return {"max_retries": times, "retry_timeout": timedelta(seconds=seconds)}


_QUICK = (_client(5.0), _retry(1, 5.0))
"""For requests without much to carry: over after ten seconds."""
_BULK = (_client(30.0), _retry(3, 20.0))
"""For parts: none is begun again 20 s after it began first."""
_ONCE = (_client(5.0), _retry(0, 5.0))
"""For deletions, which must not come late."""


class BucketBlobStore:
    """A BlobStore under `prefix` (may be empty) of a bucket, with a cache of local files for `path` and `open`.

    Credentials, region and endpoint come from the AWS_* variables of the environment, or from the machine's role.
    """

    def __init__(self, bucket: str, prefix: str, cache: FileCache) -> None:
        self._bucket = bucket
        self._cache = cache
        self._checked = -CHECK_SECONDS
        with _reached("used"):
            self._quick, self._bulk, self._once = (
                S3Store(bucket, prefix=prefix or None, client_options=client, retry_config=retry)
                for client, retry in (_QUICK, _BULK, _ONCE)
            )

    def put(self, prefix: str, suffix: str, source: Path | bytes) -> str:
        """See BlobStore. Reads `source` twice; memory: UPLOADS parts beside it."""
        digest = hashlib.sha256()
        for chunk in chunks(source):
            digest.update(chunk)
        key = self._known(f"{prefix}/{digest.hexdigest()}{suffix}")
        while True:
            with _reached("written"):
                obstore.put(self._bulk, key, source, chunk_size=PART_BYTES, max_concurrency=UPLOADS)
            self._wait_for_deletions(key)
            if self._head(key) is not None:
                return key
            log.info("%s was removed while it was put, and is put again", key)

    def read(self, key: str) -> bytes:
        """See BlobStore."""
        data = b"".join(self._ranges(self._known(key)))
        if hashlib.sha256(data).hexdigest() != digest_of(key):
            raise damaged(key)
        return data

    def open(self, key: str) -> BinaryIO:
        """See BlobStore."""
        return self.path(key).open("rb")

    def path(self, key: str) -> Path:
        """See BlobStore. To be opened within a minute; what is open stays readable."""
        return self._cache.get(self._known(key), lambda: self._ranges(key))

    def keys(self, prefix: str) -> Iterator[Blob]:
        """See BlobStore. Ages by this machine's clock: for a first look only."""
        now = datetime.now(UTC)
        for found in self._list(prefix):
            if is_key(found["path"]):
                age = max((now - found["last_modified"]).total_seconds(), 0.0)
                yield Blob(key=found["path"], size=found["size"], age=age)

    def delete(self, key: str, *, older_than: float = 0.0) -> bool:
        """See BlobStore, and the module for what is sure."""
        marker = f"{_MARKERS}/{self._known(key)}/{uuid4().hex}"
        began = time.monotonic()
        with _reached("deleted"):
            obstore.put(self._once, marker, b"")
        written, found = self._head(marker), self._head(key)
        removed = False
        if written is not None and found is not None:
            age = (written["last_modified"] - found["last_modified"]).total_seconds() - CLOCK_SECONDS
            removed = older_than <= 0.0 or age >= older_than
        with _reached("deleted"):
            if removed:
                if time.monotonic() - began > HURRY_SECONDS:
                    raise UnavailableError("the store is too slow for a safe deletion")
                obstore.delete(self._once, key)
                self._cache.drop(key)
            obstore.delete(self._quick, marker)
        return removed

    def clean(self, *, older_than: float) -> int:
        """See BlobStore: markers of deletions that were broken off, and local files."""
        now = datetime.now(UTC)
        left = [(found["path"], (now - found["last_modified"]).total_seconds()) for found in self._list(_MARKERS)]
        old = [path for path, age in left if age >= older_than and path != _CHECK]
        with _reached("deleted"):
            for path in old:
                obstore.delete(self._quick, path)
        return len(old) + self._cache.clean(older_than=older_than)

    def check(self) -> None:
        """See BlobStore. A good answer counts for CHECK_SECONDS."""
        began = time.monotonic()
        if began - self._checked >= CHECK_SECONDS:
            with _reached("written"):
                obstore.put(self._quick, _CHECK, b"pursuit")
            self._checked = began

    def _known(self, key: str) -> str:
        if not is_key(key):
            raise NotFoundError(f"not a key of the store: {key!r}")
        return key

    def _head(self, path: str) -> "ObjectMeta | None":
        try:
            with _reached("read", absent=FileNotFoundError()):
                return obstore.head(self._quick, path)
        except FileNotFoundError:
            return None

    def _list(self, prefix: str) -> Iterator["ObjectMeta"]:
        with _reached("read"):
            pages = iter(obstore.list(self._quick, prefix))
        while True:
            with _reached("read"):
                page = next(pages, None)
            if page is None:
                return
            yield from page

    def _ranges(self, key: str) -> Iterator[bytes]:
        """The bytes, a part at a time. NotFoundError."""
        found = self._head(key)
        if found is None:
            raise NotFoundError(f"the store has no {key}")
        for start in range(0, found["size"], PART_BYTES):
            length = min(PART_BYTES, found["size"] - start)
            with _reached("read", absent=NotFoundError(f"the store has no {key}")):
                part = obstore.get_range(self._bulk, key, start=start, length=length).to_bytes()
            yield part

    def _wait_for_deletions(self, key: str) -> None:
        """Until no deletion of this key is under way; those that were broken off long ago are cleared away."""
        first_seen: dict[str, float] = {}
        while markers := [found["path"] for found in self._list(f"{_MARKERS}/{key}")]:
            for marker in markers:
                if time.monotonic() - first_seen.setdefault(marker, time.monotonic()) > MARKER_SECONDS:
                    with _reached("deleted"):
                        obstore.delete(self._quick, marker)
            time.sleep(_PAUSE)


@contextmanager
def _reached(verb: str, *, absent: Exception | None = None) -> Iterator[None]:
    """UnavailableError for whatever the store refuses or does not answer; `absent` for what it does not have.

    What exactly it was goes to the log: it names the bucket and is many lines long.
    """
    try:
        yield
    except FileNotFoundError as error:
        if absent is not None:
            raise absent from None
        cause: Exception = error
        words = "there is no such bucket"
    except (PermissionDeniedError, UnauthenticatedError) as error:
        cause, words = error, "the bucket refuses these credentials"
    except (BaseError, OSError) as error:
        cause, words = error, "the bucket does not answer as it should"
    else:
        return
    log.warning("nothing can be %s in the store: %s", verb, str(cause).partition("\n")[0])
    raise UnavailableError(f"nothing can be {verb} in the store: {words}") from cause
