"""Taking a table in: an upload of any format to its canonical file, checked against what is asked of it.

A small upload of text is read here. A large one is read by a process of its own (this module as a program, one
line of JSON in and one out), so that the API does not grow with what people send it and can end it; and so is a binary
one, of which only unpacking shows what it unpacks to.
"""

import json
import logging
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import core.errors
from app import errors
from app.errors import (
    Fault,
    InvalidRequestError,
    PursuitError,
    TooLargeError,
    UnavailableError,
)
from app.file_version import FileVersion
from app.launch import python_command
from app.posix import end_with_parent, limit_resources
from app.services.intake import cancellation
from app.services.intake.cancellation import Cancellation
from app.services.intake.stored_tables import is_file_list, open_table
from app.services.specification import SpecBody
from app.storage.locations import open_unchanged
from app.tables import (
    AUTODETECT,
    Limits,
    ReadOptions,
    Source,
    Table,
    is_binary,
    is_truncated,
    open_canonical,
    open_file,
    read_file_set,
    write_table,
    write_text_blocks,
)
from app.tables.read.limits import BYTES_SETTING, ROWS_SETTING
from app.tables.schema.profile import describe_table

log = logging.getLogger(__name__)

SMALL_BYTES = 8 << 20
"""Larger uploads are read in a process of their own ..."""
SMALL = Limits(bytes=32 << 20, rows=200_000)
"""... and so are those that unpack to more than this."""

_COMMAND = python_command("app.services.intake.ingest")


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestRequest:
    """A table to ingest. upload: the file to read; None where the canonical file `stored` is there already.

    spec: check that this could be trained; fit: the file of the fitted schema, there or to be written. profile:
    describe the columns, with this target (None: the last). options: how the upload is to be read. known: names of
    columns that a header would have. to_predict: one column is enough, and a sheet need not be there. large_rows: rows
    above which a training reads the table by parts, None where none does. location, files: whose Parquet files
    are the table, in place of an upload.
    """

    stored: Path
    upload: Path | None = None
    limits: Limits
    spec: SpecBody | None = None
    fit: Path | None = None
    profile: bool = False
    target: str | None = None
    options: ReadOptions = AUTODETECT
    known: tuple[str, ...] = ()
    to_predict: bool = False
    large_rows: int | None = None
    location: str = ""
    files: tuple[FileVersion, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestResult:
    """An ingested table. profile: what `describe_table` says; memory: bytes that training on it is thought to take."""

    rows: int
    columns: int
    memory: int | None = None
    profile: dict[str, Any] | None = None


def ingest(request: IngestRequest, *, seconds: float, memory: int | None = None) -> IngestResult:
    """Do it here if it is small, else in a process with at most `memory` bytes for at most so many seconds.

    Raises what is wrong with the table or the specification.
    """
    if request.files is not None:
        return _ingest_in_process(request, seconds, memory)
    if request.upload is None:
        small = request.stored.stat().st_size <= SMALL_BYTES and not is_file_list(request.stored)
        return _ingest_here(request) if small else _ingest_in_process(request, seconds, memory)
    source = Source(origin=request.upload, limits=request.limits)
    if is_truncated(source):
        return _ingest_here(request)  # says what it is, and unpacks nothing
    if request.upload.stat().st_size <= SMALL_BYTES and not is_binary(source):
        limits = request.limits
        within = replace(limits, bytes=min(limits.bytes, SMALL.bytes), rows=min(limits.rows, SMALL.rows))
        try:
            return _ingest_here(replace(request, limits=within))
        except TooLargeError as error:
            wider = {BYTES_SETTING: limits.bytes > within.bytes, ROWS_SETTING: limits.rows > within.rows}
            if not any(more and name in error.message for name, more in wider.items()):
                raise
    return _ingest_in_process(request, seconds, memory)


def ingest_table(table: Table, request: IngestRequest) -> IngestResult:
    """The same for a table in memory. InvalidRequestError for a sheet, of which it has none."""
    if request.options.sheet is not None:
        message = "a table of JSON has no sheets: leave the field out"
        raise InvalidRequestError(f"sheet: {message}", [Fault(message=message, column="sheet")])
    table = replace(table, read_options=request.options)
    table = table.read_as(None, table.number_formats())
    began = time.perf_counter()
    write_table(request.stored, table)
    return _check(table, request, parsing=time.perf_counter() - began)


def _ingest_here(request: IngestRequest) -> IngestResult:
    if request.files is not None:
        found = read_file_set(request.location, request.files, open_unchanged, request.limits)
        request.stored.write_bytes(found.to_bytes())
    if request.upload is None:
        return _check(open_table(request.stored), request)
    asked_for = None if request.spec is None else request.spec.target
    targets = asked_for if isinstance(asked_for, list) else [asked_for]
    known = {*request.known, *(name for name in (*targets, request.target) if name is not None)}
    asked = request.options
    began = time.perf_counter()
    text_blocks = open_file(
        Source(origin=request.upload, limits=request.limits),
        known=known,
        least_columns=1 if request.to_predict else 2,
        sheet=asked.sheet,
        sheet_wanted=not request.to_predict,
    )
    write_text_blocks(request.stored, text_blocks, asked)
    parsing = time.perf_counter() - began
    return _check(replace(open_canonical(request.stored), find_lines=text_blocks.lines), request, parsing=parsing)


def _check(table: Table, request: IngestRequest, *, parsing: float = 0.0) -> IngestResult:
    memory = None
    if request.spec is not None:
        from app.services.intake.training_checks import check_training  # noqa: PLC0415  imports what trains, which a
        # table without a specification does not wait for

        memory = check_training(table, request.spec, request.fit, parsing=parsing, large_rows=request.large_rows)
    profile = describe_table(table, request.target) if request.profile else None
    return IngestResult(rows=table.rows, columns=len(table.names), memory=memory, profile=profile)


def _ingest_in_process(request: IngestRequest, seconds: float, memory: int | None) -> IngestResult:
    """Ingest in a process of its own, which ends with this one, and when the request is cancelled."""
    asked = {
        "stored": str(request.stored),
        "upload": None if request.upload is None else str(request.upload),
        "limits": asdict(request.limits),
        "spec": None if request.spec is None else request.spec.model_dump(mode="json"),
        "fit": None if request.fit is None else str(request.fit),
        "profile": request.profile,
        "target": request.target,
        "options": asdict(request.options),
        "known": request.known,
        "to_predict": request.to_predict,
        "large_rows": request.large_rows,
        "location": request.location,
        "files": None if request.files is None else [asdict(file) for file in request.files],
    }
    limits: dict[str, Any] = {"parent": os.getpid(), "memory": memory, "seconds": seconds}
    cancel = cancellation.current.get() or Cancellation()
    with subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            with cancel.calling(process.kill):
                output, _ = process.communicate(json.dumps(asked | limits).encode(), timeout=seconds)
        except subprocess.TimeoutExpired as error:
            raise TooLargeError(
                f"reading the table took longer than {seconds:g} s (PURSUIT_MAX_READ_SECONDS)"
            ) from error
        finally:
            process.kill()
    if process.returncode == -signal.SIGXCPU:
        raise TooLargeError(f"reading the table took the processor time of {seconds:g} s (PURSUIT_MAX_READ_SECONDS)")
    try:
        answer = json.loads(output)
    except ValueError as error:
        if cancel.cancelled:
            raise UnavailableError("reading the table was ended: its client has left") from error
        log.error("the process that read a table ended with code %d and said nothing", process.returncode)
        raise UnavailableError("reading the table was broken off; the server may be short of memory") from error
    if "refused" in answer:
        raise _error_from_json(answer["refused"])
    return IngestResult(**answer["receipt"])


def _error_from_json(document: Mapping[str, Any]) -> Exception:
    """The error that the other process met."""
    kind: type[Exception] = getattr(errors, document["type"], None) or getattr(core.errors, document["type"])
    if not issubclass(kind, PursuitError):
        return kind(document["message"])
    return kind(document["message"], [Fault(**fault) for fault in document["faults"]], document["total"])


def _error_to_json(error: Exception) -> dict[str, Any]:
    known = next(
        kind for kind in type(error).__mro__ if hasattr(errors, kind.__name__) or hasattr(core.errors, kind.__name__)
    )
    document: dict[str, Any] = {"type": known.__name__, "message": str(error)}
    if isinstance(error, PursuitError):
        document |= {"faults": [asdict(fault) for fault in error.faults], "total": error.total}
    return document


def _main() -> None:
    asked = json.loads(sys.stdin.buffer.read())
    end_with_parent(asked["parent"])
    cores = os.cpu_count() or 1  # the reader of Parquet has a thread for each
    limit_resources(memory=asked["memory"], processor_seconds=math.ceil(asked["seconds"] * cores))
    request = IngestRequest(
        stored=Path(asked["stored"]),
        upload=None if asked["upload"] is None else Path(asked["upload"]),
        limits=Limits(**asked["limits"]),
        spec=None if asked["spec"] is None else SpecBody.model_validate(asked["spec"]),
        fit=None if asked["fit"] is None else Path(asked["fit"]),
        profile=asked["profile"],
        target=asked["target"],
        options=ReadOptions(**asked["options"]),
        known=tuple(asked["known"]),
        to_predict=asked["to_predict"],
        large_rows=asked["large_rows"],
        location=asked["location"],
        files=None if asked["files"] is None else tuple(FileVersion(**file) for file in asked["files"]),
    )
    try:
        answer = {"receipt": asdict(_ingest_here(request))}
    except (PursuitError, core.errors.CoreError) as error:
        answer = {"refused": _error_to_json(error)}
    except MemoryError:
        limit = f"{asked['memory']} bytes of memory that there are for it (PURSUIT_MAX_READ_MEMORY_BYTES)"
        answer = {"refused": _error_to_json(TooLargeError(f"reading the table takes more than the {limit}"))}
    except OSError as error:
        answer = {"refused": _error_to_json(errors.unwritable(error))}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    _main()
