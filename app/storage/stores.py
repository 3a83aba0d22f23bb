"""The blob store of the settings: a folder or a bucket."""

import os
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from app.errors import NotFoundError, unwritable
from app.settings import Settings
from app.storage.blobs import BlobStore, LocalBlobStore
from app.storage.cache import FileCache


def open_store(settings: Settings) -> BlobStore:
    """Return the store, without a request to it. ImportError for a bucket where the extra `s3` is not installed,
    ValueError for an endpoint that is no URL.
    """
    if settings.artefacts is not None:
        return LocalBlobStore(settings.artefacts)
    assert settings.bucket is not None
    try:
        from app.storage.bucket import BucketBlobStore  # noqa: PLC0415  an extra, and only where it is needed
    except ModuleNotFoundError as error:
        raise ImportError(
            f"a bucket as artefact store needs the package {error.name}: pip install 'pursuit-gp[s3]'"
        ) from error
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"):
        address = os.environ.get(name)
        if address and urlsplit(address).scheme not in {"http", "https"}:
            raise ValueError(f"{name}: expected http://.. or https://.., got {address!r}")
    bucket, prefix = settings.bucket
    return BucketBlobStore(bucket, prefix, FileCache(settings.artefact_cache, settings.artefact_cache_bytes))


def open_address(address: str) -> BinaryIO:
    """Open what a store's `address` names, on this or another machine; the caller closes it. NotFoundError,
    UnavailableError."""
    if address.startswith("s3://"):
        from app.storage.bucket import open_ranges  # noqa: PLC0415  an extra, and only where it is needed

        return open_ranges(address)
    try:
        return Path(address).open("rb")
    except FileNotFoundError:
        raise NotFoundError(f"this machine does not see {address}") from None
    except OSError as error:
        raise unwritable(error) from error
