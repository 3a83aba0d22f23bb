"""Stored tables, whichever way they are kept: a canonical file, or the list of the files of a location.

What reads a table by parts takes both; what needs one file says so (`refuse_location`).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from app.errors import Fault, InvalidRequestError
from app.storage.locations import open_unchanged
from app.storage.stores import open_address
from app.tables import (
    FileSet,
    Table,
    canonical_parts,
    canonical_rows,
    file_set_parts,
    file_set_rows,
    file_set_table,
    open_canonical,
)

LIST_SUFFIX = ".json"
"""Suffix of the list of the files of a location in the store."""


def open_table(path: Path | BinaryIO) -> Table:
    """A table over what is stored of it; see `open_canonical` and `file_set_table`, also for what they raise."""
    found = _file_set(path)
    return open_canonical(path) if found is None else file_set_table(found, open_unchanged)


@contextmanager
def table_at(address: str) -> Iterator[Table]:
    """Open the table at an address of the store, without a copy on this machine."""
    with open_address(address) as file:
        yield open_table(file)


def read_rows(address: str, names: Sequence[str], rows: range) -> Table:
    """Read these columns of some rows of the table at an address. Memory: these."""
    with open_address(address) as file:
        found = _file_set(file)
        return canonical_rows(file, names, rows) if found is None else file_set_rows(found, open_unchanged, names, rows)


def stored_parts(path: Path, names: Sequence[str], *, rows: int) -> Iterator[Table]:
    """Read these columns of a stored table a part of at most so many rows at a time, of a location's files one that
    they are decoded by. Memory: a part. Raises as `open_table`."""
    found = _file_set(path)
    return canonical_parts(path, names, rows=rows) if found is None else file_set_parts(found, open_unchanged, names)


def is_file_list(path: Path | BinaryIO) -> bool:
    """Return whether this is the list of the files of a location."""
    if isinstance(path, Path):
        with path.open("rb") as file:
            return is_file_list(file)
    path.seek(0)
    begins = path.read(1)
    path.seek(0)
    return begins == b"{"


def refuse_location(key: str, what: str) -> None:
    """Raise InvalidRequestError where a table is a location's. what: is asked for, in words."""
    if key.endswith(LIST_SUFFIX):
        message = f"the dataset is a location of many files, which {what} does not read: upload its rows as one file"
        raise InvalidRequestError(f"dataset: {message}", [Fault(message=message, column="dataset")])


def _file_set(path: Path | BinaryIO) -> FileSet | None:
    if not is_file_list(path):
        return None
    return FileSet.from_bytes(path.read_bytes() if isinstance(path, Path) else path.read())
