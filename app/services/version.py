"""Identity of this process: versions of the package, its formats and its API."""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from app.migrations.upgrade import newest
from app.storage.artefact_document import FORMAT_VERSION

API_REVISION = 1
"""Raised when the API changes in what clients rely on; additions do not raise it."""


def package_version() -> str:
    """Version of the package as it is installed."""
    try:
        return version("pursuit-gp")
    except PackageNotFoundError:
        return "0+unknown"


def describe(commit: str | None) -> dict[str, Any]:
    """Version as JSON. commit: of the source that this was built from, where the build said it."""
    return {
        "version": package_version(),
        "api_revision": API_REVISION,
        "artefact_format": FORMAT_VERSION,
        "schema_revision": newest(),
        "commit": commit,
    }
