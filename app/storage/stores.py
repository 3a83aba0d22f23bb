"""The blob store that the settings name: a folder, or a bucket."""

from app.settings import Settings
from app.storage.blobs import BlobStore, LocalBlobStore
from app.storage.cache import FileCache


def open_store(settings: Settings) -> BlobStore:
    """The store; nothing is asked of it yet. ImportError for a bucket where the extra `s3` is not installed."""
    if settings.artefacts is not None:
        return LocalBlobStore(settings.artefacts)
    assert settings.bucket is not None
    try:
        from app.storage.bucket import BucketBlobStore  # noqa: PLC0415  an extra, and only where it is needed
    except ModuleNotFoundError as error:
        raise ImportError(
            f"a bucket as artefact store needs the package {error.name}: pip install 'pursuit-gp[s3]'"
        ) from error
    bucket, prefix = settings.bucket
    return BucketBlobStore(bucket, prefix, FileCache(settings.artefact_cache, settings.artefact_cache_bytes))
