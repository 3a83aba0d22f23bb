"""Datasets: tables that are uploaded once, looked at, and trained on as often as wanted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from app.database.engine import Database
from app.errors import ConflictError, TooLargeError
from app.services.intake.ingest import IngestRequest, IngestResult, ingest, ingest_table
from app.services.intake.stored_tables import LIST_SUFFIX, refuse_location
from app.services.intake.table_store import stored_table
from app.services.keys.caller import ANYBODY, Caller
from app.storage import datasets
from app.storage.audit import AuditAction
from app.storage.blobs import BlobStore
from app.storage.datasets import Dataset
from app.storage.locations import Locations
from app.tables import (
    AUTODETECT,
    Limits,
    ReadOptions,
    check_appended,
    from_columns,
    from_rows,
    join_canonical,
    open_canonical,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Datasets:
    """scratch: a directory for files in the making; read_seconds: how long reading a table may take;
    read_memory: bytes that it may take; locations: folders that may be read where they are."""

    database: Database
    blobs: BlobStore
    limits: Limits
    scratch: Path
    read_seconds: float
    read_memory: int | None = None
    locations: Locations = field(default_factory=Locations)

    def add_location(
        self, location: str, *, target: str | None = None, key: str | None = None, caller: Caller = ANYBODY
    ) -> Dataset:
        """Keep the Parquet files of a folder as a dataset, where they are: their list, and what their columns are.
        Raises InvalidRequestError for a location that may not be read, and where the files do not agree; O(bytes)."""
        files = tuple(self.locations.files(location))

        def read(request: IngestRequest) -> IngestResult:
            asked = replace(request, location=location, files=files)
            return ingest(asked, seconds=self.read_seconds, memory=self.read_memory)

        more = {"location": location, "files": len(files), "location_bytes": sum(file.size for file in files)}
        return self._add(location.rstrip("/").rpartition("/")[2], target, key, AUTODETECT, read, caller, more)

    def add_file(
        self,
        path: Path,
        *,
        filename: str,
        target: str | None = None,
        key: str | None = None,
        options: ReadOptions = AUTODETECT,
        caller: Caller = ANYBODY,
    ) -> Dataset:
        """Keep a file of any format. target: what its warnings are about. Raises what is wrong with it; O(file)."""

        def read(request: IngestRequest) -> IngestResult:
            return ingest(replace(request, upload=path), seconds=self.read_seconds, memory=self.read_memory)

        return self._add(filename, target, key, options, read, caller)

    def add_columns(
        self,
        columns: Mapping[str, list[Any]],
        *,
        target: str | None = None,
        key: str | None = None,
        options: ReadOptions = AUTODETECT,
        caller: Caller = ANYBODY,
    ) -> Dataset:
        """Keep columns of JSON values."""
        table = from_columns(columns, limits=self.limits)
        return self._add("", target, key, options, lambda request: ingest_table(table, request), caller)

    def add_rows(
        self,
        rows: list[dict[str, Any]],
        *,
        target: str | None = None,
        key: str | None = None,
        options: ReadOptions = AUTODETECT,
        caller: Caller = ANYBODY,
    ) -> Dataset:
        """Keep rows of JSON values by column."""
        table = from_rows(rows, limits=self.limits)
        return self._add("", target, key, options, lambda request: ingest_table(table, request), caller)

    def append_file(self, dataset: str, path: Path, *, key: str | None = None, caller: Caller = ANYBODY) -> Dataset:
        """Keep a dataset with the rows of a file after its own as a new one; both stay as they are."""

        def read(request: IngestRequest) -> IngestResult:
            return ingest(replace(request, upload=path), seconds=self.read_seconds, memory=self.read_memory)

        return self._append(dataset, key, read, caller)

    def append_columns(
        self, dataset: str, columns: Mapping[str, list[Any]], *, key: str | None = None, caller: Caller = ANYBODY
    ) -> Dataset:
        """The same with columns of JSON values."""
        table = from_columns(columns, limits=self.limits)
        return self._append(dataset, key, lambda request: ingest_table(table, request), caller)

    def append_rows(
        self, dataset: str, rows: list[dict[str, Any]], *, key: str | None = None, caller: Caller = ANYBODY
    ) -> Dataset:
        """The same with rows of JSON values by column."""
        table = from_rows(rows, limits=self.limits)
        return self._append(dataset, key, lambda request: ingest_table(table, request), caller)

    def _append(
        self, dataset: str, key: str | None, read: Callable[[IngestRequest], IngestResult], caller: Caller
    ) -> Dataset:
        """Raise InvalidRequestError naming rows and columns that do not fit, NotFoundError."""
        with self.database.read() as connection:
            whole = datasets.get(connection, dataset)
        refuse_location(whole.table, "appending rows")
        stored = self.blobs.path(whole.table)

        def joined(request: IngestRequest) -> IngestResult:
            more = request.stored.with_name("rows.parquet")
            known = open_canonical(stored)
            given = read(IngestRequest(stored=more, limits=self.limits, known=known.names, to_predict=True))
            rows = whole.rows + given.rows
            if rows > self.limits.rows:
                most = f"{self.limits.rows:,} (PURSUIT_MAX_ROWS)"
                raise TooLargeError(f"the dataset would have {rows:,} rows, more than {most}")
            meant = check_appended(known, open_canonical(more))
            join_canonical(request.stored, stored, more, meant)
            more.unlink()
            return ingest(request, seconds=self.read_seconds, memory=self.read_memory)

        return self._add(whole.name, str(whole.profile["target"]), key, AUTODETECT, joined, caller)

    def get(self, dataset: str) -> Dataset:
        """NotFoundError if there is none of that id."""
        with self.database.read() as connection:
            return datasets.get(connection, dataset)

    def page(self, *, limit: int, cursor: str | None) -> tuple[Sequence[Dataset], str | None]:
        """The newest first, and the cursor of the next page."""
        with self.database.read() as connection:
            return datasets.page(connection, limit=limit, cursor=cursor)

    def delete(self, dataset: str, *, caller: Caller = ANYBODY) -> None:
        """NotFoundError if there is none. Jobs that train on it go on; models stay."""
        with self.database.write() as connection:
            datasets.delete(connection, dataset)
            caller.record(connection, AuditAction.DELETE_DATASET, dataset)

    def refuse_if_full(self, caller: Caller) -> None:
        """Raise LimitExceededError where the caller's bytes are used up: before a table is read."""
        if caller.has_byte_limit:
            with self.database.read() as connection:
                caller.check_bytes(connection, 1)

    def _add(
        self,
        filename: str,
        target: str | None,
        key: str | None,
        options: ReadOptions,
        read: Callable[[IngestRequest], IngestResult],
        caller: Caller,
        more: Mapping[str, Any] | None = None,
    ) -> Dataset:
        name = "".join(letter for letter in filename if letter.isprintable()) or "table"
        suffix = ".parquet" if more is None else LIST_SUFFIX
        with stored_table(self.database, self.blobs, self.scratch, suffix=suffix) as table:
            result = read(
                IngestRequest(stored=table.path, limits=self.limits, profile=True, target=target, options=options)
            )
            if caller.has_byte_limit:  # before it is in the store
                with self.database.read() as connection:
                    caller.check_bytes(connection, table.path.stat().st_size)
        profile = (result.profile or {}) | dict(more or {})
        with self.database.write() as connection:
            caller.hold(connection)
            found, created = datasets.add(
                connection,
                name=name,
                table=table.key,
                size=table.size,
                rows=result.rows,
                profile=profile,
                key=key,
                owner=caller.owner,
            )
            if created:
                caller.check_bytes(connection)
                caller.record(connection, AuditAction.UPLOAD, found.id, name=found.name, rows=found.rows)
        if not created and (found.table, found.name, found.profile["target"]) != (table.key, name, profile["target"]):
            raise ConflictError(
                f"the idempotency key {key!r} was used before, for another table (dataset {found.id}); "
                "use a new key for a new request"
            )
        return found
