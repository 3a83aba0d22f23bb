"""Folders of Parquet files that lie where this service did not put them: on disks that it sees, or in a bucket.

Which of them may be read is the operator's to say: prefixes, none by default. A location is below one of them by its
resolved path, so neither `..` nor a link leads out of it. Its files are the Parquet files directly in it, and those in
folders that are named `column=value`, which Hive, Spark, Dask and others write; each is opened as it was found or not
at all.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import unquote, urlsplit

from app.errors import ConflictError, Fault, InvalidRequestError, NotFoundError, unwritable
from app.file_version import FileVersion

MOST_FILES: Final = 10_000
"""Files of a location."""
MOST_LISTED: Final = 1_000_000
"""Objects in a folder of a bucket, of the table or not."""
_S3 = "s3://"
_SUFFIXES = (".parquet", ".pq")
_MISSING = "__HIVE_DEFAULT_PARTITION__"

Partition = tuple[tuple[str, str | None], ...]
"""Columns and values that the names of folders say; see `FileVersion`."""


@dataclass(frozen=True, slots=True)
class Locations:
    """Locations below these prefixes: s3://bucket/folder, or absolute paths of folders."""

    prefixes: Sequence[str] = ()

    def files(self, location: str) -> list[FileVersion]:
        """Return the Parquet files of a location by name. InvalidRequestError where it is none that may be read, or has
        none; UnavailableError."""
        place = self.check(location)
        files = _in_folder(place, location) if isinstance(place, Path) else _in_bucket(place[0], place[1:])
        found = list(islice(files, MOST_FILES + 1))
        if not found:
            raise _refused(_no_files(location, place))
        if len(found) > MOST_FILES:
            raise _refused(f"there are more than {MOST_FILES:,} Parquet files in {location[:200]!r}")
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


def _no_files(location: str, place: Path | tuple[str, ...]) -> str:
    """Words on a location without files, with what is there but left out."""
    where = "neither directly nor in folders named column=value"
    told = f"there are no Parquet files (*.parquet) in {location[:200]!r}, {where}"
    if isinstance(place, Path):
        return f"{told}; links and folders not named column=value are left out" if _leaves_out(place) else told
    if _is_parquet(place[-1]):
        return f"{told}; where it is a file itself, name its folder"
    from app.storage.bucket import list_below  # noqa: PLC0415  an extra, and only where it is needed

    keys = (key for key, _, _ in list_below(place[0], "/".join(place[1:])))
    left_out = any(_is_parquet(key.rpartition("/")[2]) for key in islice(keys, MOST_LISTED))
    return f"{told}; folders not named column=value are left out" if left_out else told


def _leaves_out(folder: Path) -> bool:
    """Return whether links, or folders not named column=value, are in a folder or in those of it that are read."""
    for above, folders, files in os.walk(folder):
        if any(_partition([name]) is None for name in folders):
            return True
        if any(Path(above, name).is_symlink() for name in (*folders, *files)):
            return True
    return False


def _in_bucket(bucket: str, folder: Sequence[str]) -> Iterator[FileVersion]:
    from app.storage.bucket import list_below  # noqa: PLC0415  an extra, and only where it is needed

    for count, (key, size, version) in enumerate(list_below(bucket, "/".join(folder))):
        if count == MOST_LISTED:
            raise _refused(f"there are more than {MOST_LISTED:,} objects in {'/'.join((bucket, *folder))[:200]!r}")
        *folders, name = key.split("/")[len(folder) :]
        if not _is_parquet(name) or (partition := _partition(folders)) is None:
            continue
        address = f"{_S3}{bucket}/{key}"
        if _key_parts(address) is None:
            raise _refused(f"the path {key[:200]!r} has one of ? # % @ \\, which are not read in a bucket")
        yield FileVersion(address=address, size=size, version=version, partition=partition)


def _in_folder(folder: Path, location: str, above: Sequence[str] = ()) -> Iterator[FileVersion]:
    try:
        with os.scandir(folder) as entries:
            found = list(entries)
        partition = _partition(above) or ()
        for entry in found:
            folders = (*above, entry.name)
            if _is_parquet(entry.name) and (file := _regular(folder / entry.name, partition)) is not None:
                yield file
            elif entry.is_dir(follow_symlinks=False) and _partition(folders) is not None:
                yield from _in_folder(folder / entry.name, location, folders)
    except (FileNotFoundError, NotADirectoryError):
        if folder.is_file():
            raise _refused(f"{location[:200]!r} is a file: name its folder, whose files are one table") from None
        raise _refused(f"there is no folder {location[:200]!r}") from None
    except PermissionError:
        raise _refused(f"the folder {location[:200]!r}, or one in it, may not be read by this server") from None
    except OSError as error:
        raise unwritable(error) from error


def _partition(folders: Sequence[str]) -> Partition | None:
    """Columns and values that the names of nested folders say; None where one says none. InvalidRequestError where two
    say the same column."""
    found: dict[str, str | None] = {}
    for name in folders:
        column, separator, value = name.partition("=")
        column = unquote(column).strip()
        if not separator or not column or name.startswith((".", "_")):
            return None
        if column in found:
            raise _refused(f"the folder {name[:200]!r} lies in another one that has values of {column!r}")
        found[column] = None if value == _MISSING else unquote(value)
    return tuple(found.items())


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


def _regular(path: Path, partition: Partition) -> FileVersion | None:
    """The file, None where it is none or a link."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        return None
    return FileVersion(address=str(path), size=status.st_size, version=_version(status), partition=partition)


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
