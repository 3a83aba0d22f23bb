"""Folders of Parquet files that lie where this service did not put them: on disks that it sees, or in a bucket.

Which of them may be read is the operator's to say: prefixes, none by default. A location is below one of them by its
resolved path, so neither `..` nor a link leads out of it; of its files the Parquet files directly in it are listed,
and each is opened as it was found or not at all.
"""

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import urlsplit

from app.errors import ConflictError, Fault, InvalidRequestError, NotFoundError, unwritable
from app.file_version import FileVersion

MOST_FILES: Final = 10_000
"""Files of a location."""
_S3 = "s3://"
_SUFFIXES = (".parquet", ".pq")


@dataclass(frozen=True, slots=True)
class Locations:
    """Locations below these prefixes: s3://bucket/folder, or absolute paths of folders."""

    prefixes: Sequence[str] = ()

    def files(self, location: str) -> list[FileVersion]:
        """Return the Parquet files of a location by name. InvalidRequestError where it is none that may be read, or has
        none; UnavailableError."""
        place = self.check(location)
        found = _in_folder(place, location) if isinstance(place, Path) else _in_bucket(*place)
        if not found:
            raise _refused(f"there are no Parquet files (*.parquet) in {location[:200]!r}")
        if len(found) > MOST_FILES:
            raise _refused(f"there are {len(found):,} Parquet files in {location[:200]!r}, more than {MOST_FILES:,}")
        return sorted(found, key=lambda file: file.address)

    def check(self, location: str) -> Path | tuple[str, ...]:
        """Return the folder that is meant, or bucket and folders. InvalidRequestError where it may not be read."""
        if not self.prefixes:
            raise _refused("this server reads no locations: its operator allows folders by PURSUIT_DATASET_LOCATIONS")
        if location.startswith(_S3):
            place = _key_parts(location)
            allowed = [_key_parts(prefix) for prefix in self.prefixes if prefix.startswith(_S3)]
            if place is not None and any(prefix is not None and place[: len(prefix)] == prefix for prefix in allowed):
                return place
        elif not location.startswith("/"):
            raise _refused("expected s3://bucket/folder/ or the absolute path of a folder")
        elif "\0" not in location:
            folder = Path(location).resolve()  # without links and `..`, whether it is there or not
            roots = [Path(prefix).resolve() for prefix in self.prefixes if not prefix.startswith(_S3)]
            if any(folder.is_relative_to(root) for root in roots):
                return folder
        raise _refused(f"{location[:200]!r} is below no folder that this server may read (PURSUIT_DATASET_LOCATIONS)")


def _in_bucket(bucket: str, *folder: str) -> list[FileVersion]:
    from app.storage.bucket import list_folder  # noqa: PLC0415  an extra, and only where it is needed

    return [
        FileVersion(address=f"{_S3}{bucket}/{key}", size=size, version=version)
        for key, size, version in list_folder(bucket, "/".join(folder))
        if _is_parquet(key.rpartition("/")[2]) and _key_parts(f"{_S3}{bucket}/{key}") is not None
    ]


def _in_folder(folder: Path, location: str) -> list[FileVersion]:
    try:
        names = [entry.name for entry in os.scandir(folder) if _is_parquet(entry.name)]
        return [found for name in names if (found := _regular(folder / name)) is not None]
    except (FileNotFoundError, NotADirectoryError):
        raise _refused(f"there is no folder {location[:200]!r}") from None
    except PermissionError:
        raise _refused(f"the folder {location[:200]!r} may not be read by this server") from None
    except OSError as error:
        raise unwritable(error) from error


def open_unchanged(file: FileVersion) -> BinaryIO:
    """Open a file of a location; the caller closes it. ConflictError where it is not as it was found any more, of a
    bucket also while it is read; NotFoundError where this machine does not see it, UnavailableError."""
    if file.address.startswith(_S3):
        from app.storage.bucket import open_ranges  # noqa: PLC0415  an extra, and only where it is needed

        try:
            return open_ranges(file.address, version=(file.size, file.version), changed=_changed(file, "has changed"))
        except NotFoundError:
            raise _changed(file, "is not there any more") from None
    try:
        descriptor = os.open(file.address, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        if Path(file.address).parent.is_dir():
            raise _changed(file, "is not there any more") from None
        raise NotFoundError(f"this machine does not see {file.address}") from None
    except OSError as error:
        if Path(file.address).is_symlink():
            raise _changed(file, "is a link now") from error
        raise unwritable(error) from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or (status.st_size, _version(status)) != (file.size, file.version):
        os.close(descriptor)
        raise _changed(file, "has changed")
    return os.fdopen(descriptor, "rb")


def _changed(file: FileVersion, what: str) -> ConflictError:
    return ConflictError(f"file {file.name!r} of the dataset's location {what}: make the dataset again from it")


def _regular(path: Path) -> FileVersion | None:
    """The file, None where it is none or a link."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        return None
    return FileVersion(address=str(path), size=status.st_size, version=_version(status))


def _version(status: Any) -> str:
    return str(status.st_mtime_ns)


def _is_parquet(name: str) -> bool:
    """Return whether a file is of the table: neither hidden nor a note of who wrote it, as `_SUCCESS`."""
    return name.lower().endswith(_SUFFIXES) and not name.startswith((".", "_"))


def _key_parts(url: str) -> tuple[str, ...] | None:
    """Bucket and folders of a URL; None where a part is empty, a way up, or read otherwise by some."""
    place = urlsplit(url)
    parts = (place.netloc, *url.removeprefix(f"{_S3}{place.netloc}").strip("/").split("/"))
    parts = parts[:1] if parts[1:] == ("",) else parts
    unclear = any(part in ("", ".", "..") or not part.isprintable() or set(part) & set("?#%\\@") for part in parts)
    return None if unclear else parts


def _refused(message: str) -> InvalidRequestError:
    return InvalidRequestError(f"location: {message}", [Fault(message=message, column="location")])
