"""The errors of the service. They know no HTTP: `app.routes.http.errors` has the one table of status codes.

PursuitError
├── MalformedError              the bytes are not what they claim to be (not JSON, not a table)
├── InvalidRequestError         understood, but a field, a column or a cell is wrong
├── UnsupportedMediaError       a content type that is not read here
├── NotAcceptableError          an answer is requested in a format that is not written here
├── TooLargeError               a limit is exceeded; the message names it
├── NotFoundError               no such job, model, version, alias
├── ConflictError               the request conflicts with the current state
├── TooSlowError                a body did not come within its time
├── UnauthenticatedError        an API key is needed, and none that is valid was sent
├── ForbiddenError              the API key lacks a scope, or may not use this model
├── LimitExceededError          the API key has used up a limit of its own
├── UnavailableError            the database or the store does not answer; try again
│   ├── BusyError               a queue, a budget or all table readers are full
│   ├── ComputeUnavailableError the cluster does not answer; the job waits
│   ├── DamagedFileError        the bytes of a stored file do not match its SHA-256
│   └── WrongStoreError         the store is not the one that belongs to the database
├── LeaseLostError              a worker writes about a job that it no longer holds
└── BrokenArtefactError         a stored model cannot be read back
"""

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass

MAX_FAULTS = 20
"""Most faults that an error lists; `total` counts all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One wrong place. row: 0-based data row; line: 1-based line of the file; value: its text."""

    message: str
    row: int | None = None
    line: int | None = None
    column: str | None = None
    value: str | None = None


class PursuitError(Exception):
    """Base of all errors of the service. faults: the wrong places, at most MAX_FAULTS; total: how many there are."""

    def __init__(self, message: str, faults: Sequence[Fault] = (), total: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.faults = tuple(faults[:MAX_FAULTS])
        self.total = len(faults) if total is None else total


class MalformedError(PursuitError):
    """The bytes are not what they claim to be."""


class InvalidRequestError(PursuitError):
    """Understood, but a field, a column or a cell is wrong."""


class UnsupportedMediaError(PursuitError):
    """A content type that is not read here."""


class NotAcceptableError(PursuitError):
    """An answer is requested in a format that is not written here."""


class TooLargeError(PursuitError):
    """A limit is exceeded; the message names it."""


class TooSlowError(PursuitError):
    """A body did not come within its time; the message names the setting."""


class NotFoundError(PursuitError):
    """No such job, model, version or alias."""


class ConflictError(PursuitError):
    """The request conflicts with the current state."""


class UnauthenticatedError(PursuitError):
    """An API key is needed, and none was sent, or one that is not valid."""

    def __init__(self, message: str, *, invalid: bool = False) -> None:
        super().__init__(message)
        self.invalid = invalid


class ForbiddenError(PursuitError):
    """The API key lacks the scope that is wanted, or may not use this model. scope: the one that it lacks."""

    def __init__(self, message: str, *, scope: str | None = None) -> None:
        super().__init__(message)
        self.scope = scope


class LimitExceededError(PursuitError):
    """The API key has used up a limit of its own. retry_seconds: when trying again may help."""

    def __init__(self, message: str, *, retry_seconds: int) -> None:
        super().__init__(message)
        self.retry_seconds = retry_seconds


class UnavailableError(PursuitError):
    """The database or the store does not answer; trying again may help. retry_seconds: after how long."""

    retry_seconds = 1


class BusyError(UnavailableError):
    """More is asked of the service than it takes at once: a queue, a budget or all table readers are full."""

    retry_seconds = 5


class WrongStoreError(UnavailableError):
    """The store is not the one that belongs to the database; another process may have the right one."""


class DamagedFileError(UnavailableError):
    """The bytes of a stored file do not match the SHA-256 that it is stored under."""


class ComputeUnavailableError(UnavailableError):
    """The cluster does not answer: the job goes back to the queue and is tried again."""


def is_full(error: OSError) -> bool:
    """Return whether a disk has no room left, or none for this user."""
    return error.errno in {errno.ENOSPC, errno.EDQUOT}


def unwritable(error: OSError) -> UnavailableError:
    """Make the error for a disk of the server that cannot be written, in plain words and without its paths."""
    if is_full(error):
        return UnavailableError("the disk of the server is full")
    cause = f": {os.strerror(error.errno)}" if error.errno else ""
    return UnavailableError(f"the server's disk cannot be written{cause}")


class LeaseLostError(PursuitError):
    """A worker writes about a job that it no longer holds."""


class BrokenArtefactError(PursuitError):
    """A stored model cannot be read back: truncated, altered, or of another format version."""
