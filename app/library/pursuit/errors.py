"""Errors of this package.

PursuitError
├── RefusalError        the server, or the model, refuses what it is asked: status, faults
│   ├── InvalidError        (also a ValueError) a table, a cell, a field or an option is wrong
│   │   └── ColumnError         (also a KeyError) the model has no such column
│   ├── AccessError         a key is missing, unknown, or not enough
│   ├── NotFoundError       (also a LookupError) no such model, version, alias or job
│   ├── ConflictError       it conflicts with what is there, such as an alias that points at it
│   ├── TooLargeError       a limit of the server is exceeded
│   └── UnavailableError    the server is busy, or cannot do its work now
├── JobError            a training failed or was cancelled
├── ArgumentError       (also a TypeError) an argument is of a kind that nothing can be made of
├── FileError           (also an OSError) a file cannot be read or written; where there is none also a FileNotFoundError
└── any other           no server answers, or one that is not Pursuit's
"""

import errno
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, Self

from app.cli.client import ClientError, ProblemError
from app.cli.client_errors import NotFiniteError
from app.errors import Fault, InvalidRequestError, MalformedError
from app.errors import TooLargeError as TableTooLargeError
from core.errors import CoreError

SHOWN_FAULTS = 20


class PursuitError(Exception):
    """Base of the errors of this package."""


class RefusalError(PursuitError):
    """A request that was refused. detail: why, in a sentence; status: HTTP's, None where there was no server.

    faults: the first wrong places, each with some of `row` (0-based), `line`, `column`, `value` and `message`; total:
    how many there are.
    """

    def __init__(
        self, detail: str, *, status: int | None = None, faults: Sequence[Mapping[str, Any]] = (), total: int = 0
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.status = status
        self.faults = [dict(fault) for fault in faults]
        self.total = max(total, len(self.faults))

    def __str__(self) -> str:
        lines = [self.detail]
        if self.total > 1 or any("row" in fault for fault in self.faults):
            lines += ["  " + _line(fault) for fault in self.faults[:SHOWN_FAULTS]]
        if self.total > min(len(self.faults), SHOWN_FAULTS) > 0:
            lines.append(f"  .. {self.total} in all")
        return "\n".join(lines)

    def from_row(self, first: int, rows: int) -> Self:
        """Return the error of a part of a table, rows counted from the first of the whole."""
        if first == 0:
            return self
        moved = [fault | {"row": fault["row"] + first} if "row" in fault else fault for fault in self.faults]
        detail = f"rows {first} to {first + rows - 1}, counted from the first of them: {self.detail}"
        return type(self)(detail, status=self.status, faults=moved, total=self.total)


class InvalidError(RefusalError, ValueError):
    """A table, a cell, a field or an option is wrong."""


class ColumnError(InvalidError, KeyError):
    """A model has no such column."""


class AccessError(RefusalError):
    """A key is missing, unknown, or does not allow this."""


class NotFoundError(RefusalError, LookupError):
    """No such model, version, alias or job."""


class ConflictError(RefusalError):
    """The request conflicts with what is there."""


class TooLargeError(RefusalError):
    """A limit is exceeded; the text names it."""


class UnavailableError(RefusalError):
    """The server is busy or cannot do its work now; trying again later may help."""


class JobError(PursuitError):
    """A training that failed or was cancelled. job: as the server shows it."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        reason = (job.get("error") or {}).get("message")
        super().__init__(f"{job['id']} {job['state']}{f': {reason}' if reason else ''}")
        self.job = dict(job)


class ArgumentError(PursuitError, TypeError):
    """An argument is of a kind that nothing can be made of."""


class FileError(PursuitError, OSError):
    """A file cannot be read or written."""


class MissingFileError(FileError, FileNotFoundError):
    """There is no such file."""


def read_file(path: str | PathLike[str]) -> bytes:
    """Return the bytes of a file. FileError where it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise file_error(path, error) from None


def file_error(path: str | PathLike[str], error: OSError, what: str = "read") -> FileError:
    """Return the error of a file that cannot be read, or that something else cannot be done with."""
    kind = MissingFileError if error.errno == errno.ENOENT else FileError
    return kind(error.errno, f"cannot {what} {path}: {error.strerror or error}")


class PredictionWarning(UserWarning):
    """Warning about some predictions, such as those far from all training rows. Rows are counted from 0, as they were
    given, whatever their index is."""


def warn(message: str) -> None:
    """Warn of predictions, at the line outside of this package that asked for them."""
    package, level, frame = __name__.partition(".")[0], 1, sys._getframe()
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == package:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, PredictionWarning, stacklevel=level)


_CLASSES: Mapping[int, type[RefusalError]] = {
    400: InvalidError,
    401: AccessError,
    403: AccessError,
    404: NotFoundError,
    409: ConflictError,
    413: TooLargeError,
    415: InvalidError,
    422: InvalidError,
    429: UnavailableError,
    502: UnavailableError,
    503: UnavailableError,
    504: UnavailableError,
}


@contextmanager
def server_errors() -> Iterator[None]:
    """Raise what the HTTP client raises as an error of this package."""
    try:
        yield
    except ProblemError as error:
        kind = _CLASSES.get(error.status, RefusalError)
        raise kind(str(error), status=error.status, faults=error.faults, total=error.total) from None
    except NotFiniteError as error:
        raise InvalidError(str(error)) from None
    except ClientError as error:
        raise PursuitError(str(error)) from None


@contextmanager
def model_errors() -> Iterator[None]:
    """Raise what refuses a table or an option without a server as the error that a server's refusal would be."""
    try:
        yield
    except TableTooLargeError as error:
        raise TooLargeError(str(error)) from None
    except (InvalidRequestError, MalformedError) as error:
        raise InvalidError(error.message, faults=[*map(_document, error.faults)], total=error.total) from None
    except CoreError as error:
        raise InvalidError(str(error)) from None


def _document(fault: Fault) -> dict[str, Any]:
    names = ("row", "line", "column", "value", "message")
    return {name: value for name in names if (value := getattr(fault, name)) is not None}


def _line(fault: Mapping[str, Any]) -> str:
    places = [f"{name} {fault[name]}" for name in ("row", "line") if name in fault]
    places += [f"{name} {fault[name]!r}" for name in ("column", "value") if name in fault]
    return ": ".join(filter(None, [", ".join(places), str(fault.get("message", ""))]))
