"""New rows for a model that is there: what the API does to submit them, what the child does to learn from them.

    submit   rows are read and checked as the model reads them, kept by content, the job is queued
    run      the stored artefact, the state of its training, the new rows -> core.train.update_several -> a version

It is published as a training is.
"""

import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Connection

from app.database.engine import Database
from app.errors import ConflictError, Fault, InvalidRequestError, NotFoundError
from app.jobs import queries, queue
from app.jobs.child import Handler, Reporter, Task
from app.jobs.workers import Resources
from app.services.core_spec import core_spec
from app.services.intake.ingest import IngestRequest, IngestResult, ingest, ingest_table
from app.services.intake.stored_tables import refuse_location
from app.services.intake.table_store import stored_table
from app.services.intake.training_checks import PROCESS_BYTES
from app.services.jobs import JobView, refuse_other_request, view
from app.services.keys.caller import ANYBODY, Caller
from app.services.specification import SpecBody
from app.services.train.several import together
from app.services.train.store_retries import StoreRetries
from app.services.train.update_rows import ReadRows, read_rows, without_copies
from app.services.train.updated_model import expected_nlpd, updated_model
from app.storage import artefact, catalog, datasets, training_state
from app.storage.artefact import HIDDEN, ModelArtefact
from app.storage.audit import AuditAction
from app.storage.blobs import MODELS, BlobStore
from app.storage.catalog import LATEST, Version
from app.storage.stores import open_address
from app.tables import (
    Limits,
    Schema,
    Source,
    Table,
    from_columns,
    from_rows,
    is_binary,
    open_canonical,
    open_file,
)
from app.telemetry.tracing import trace_context
from core.spec import Artefact as KeptPart
from core.train.memory import training_bytes
from core.train.state import NewRows, TrainingState
from core.train.update_several import TargetUpdate, update_several

KIND = "update"
"""The kind of these jobs in the queue."""
MOST_EXTRA_BASIS = 1_000
MOST_FORGOTTEN = 50_000  # they are in the job's payload, which lists of jobs read

Read = Callable[[IngestRequest], IngestResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateOptions:
    """Options beside the rows. extra_basis: basis vectors to add from them; forget: numbers of rows to forget."""

    extra_basis: int = 0
    forget: tuple[int, ...] = ()

    @classmethod
    def read(cls, given: object) -> "UpdateOptions":
        """Read a decoded JSON value. InvalidRequestError naming the field."""
        if not isinstance(given, Mapping):
            raise InvalidRequestError("spec: expected an object")
        unknown = sorted(set(given) - {"extra_basis", "forget"})
        if unknown:
            raise _wrong(unknown[0], "unknown field; known are extra_basis, forget")
        extra, forget = given.get("extra_basis"), given.get("forget")
        extra, forget = 0 if extra is None else extra, [] if forget is None else forget
        if not _is_whole(extra) or extra > MOST_EXTRA_BASIS:
            raise _wrong("extra_basis", f"expected a whole number from 0 to {MOST_EXTRA_BASIS:,}")
        if not isinstance(forget, list) or not all(map(_is_whole, forget)) or len(forget) > MOST_FORGOTTEN:
            raise _wrong("forget", f"expected a list of up to {MOST_FORGOTTEN:,} row numbers, from 0")
        return cls(extra_basis=extra, forget=tuple(forget))


@dataclass(frozen=True, slots=True, kw_only=True)
class Updates:
    """The API's side; its settings are those of `Training`."""

    database: Database
    blobs: BlobStore
    limits: Limits
    scratch: Path
    read_seconds: float = 1_800.0
    read_memory: int | None = None
    max_queued: int | None = None

    def submit_file(
        self, reference: str, path: Path, *, spec: object, key: str | None = None, caller: Caller = ANYBODY
    ) -> JobView:
        """Queue an update by the rows of a file of any format."""

        def read(request: IngestRequest) -> IngestResult:
            return ingest(replace(request, upload=path), seconds=self.read_seconds, memory=self.read_memory)

        return self._submit(reference, read, spec, key, caller, path)

    def submit_columns(
        self, reference: str, columns: Mapping[str, list[Any]], *, spec: object, key: str | None, caller: Caller
    ) -> JobView:
        """Queue an update by columns of JSON values."""
        return self._submit_table(reference, from_columns(columns, limits=self.limits), spec, key, caller)

    def submit_rows(
        self, reference: str, rows: Sequence[Mapping[str, Any]], *, spec: object, key: str | None, caller: Caller
    ) -> JobView:
        """Queue an update by rows of JSON values by column."""
        table = from_rows(rows, limits=self.limits)
        return self._submit_table(reference, table, spec, key, caller)

    def submit_dataset(self, reference: str, dataset: str, *, spec: object, key: str | None, caller: Caller) -> JobView:
        """Queue an update by the rows of a dataset. NotFoundError if there is none of that id."""
        with self.database.read() as connection:
            found = datasets.get(connection, dataset)
        refuse_location(found.table, "an update")
        stored = self.blobs.path(found.table)

        def read(request: IngestRequest) -> IngestResult:
            shutil.copyfile(stored, request.stored)
            return IngestResult(rows=found.rows, columns=len(open_canonical(request.stored).names))

        return self._submit(reference, read, spec, key, caller)

    def _submit_table(self, reference: str, table: Table, spec: object, key: str | None, caller: Caller) -> JobView:
        return self._submit(reference, lambda request: ingest_table(table, request), spec, key, caller)

    def _submit(
        self,
        reference: str,
        read: Read,
        spec: object,
        key: str | None,
        caller: Caller,
        path: Path | None = None,
    ) -> JobView:
        options = UpdateOptions.read(spec)
        version, stored = self._version(reference)
        caller.check_model(version.model)
        self._check_options(options, version, stored)
        schema = Schema.from_json(stored.schema)
        with stored_table(self.database, self.blobs, self.scratch) as table:
            known = (*schema.names, *schema.targets)
            result = read(IngestRequest(stored=table.path, limits=self.limits, known=known, to_predict=True))
            if caller.has_byte_limit:  # before it is in the store
                with self.database.read() as connection:
                    caller.check_bytes(connection, table.path.stat().st_size)
            given = open_canonical(table.path)
            if path is not None:
                given = replace(given, find_lines=partial(_find_lines, Source(origin=path, limits=self.limits), known))
            models = [each.model() for each in _every(stored)]
            left_out = read_rows(schema, given, models)[0].left_out  # refuses what the job would
        asked = {
            "reference": reference,
            "table": table.key,
            "options": {"extra_basis": options.extra_basis, "forget": list(options.forget)},
        }
        resolved = {
            "version": version.version,
            "artefact": version.artefact,
            "state": version.state,
            **({"left_out": left_out} if left_out["rows"] else {}),
        }
        rows = max(int(each.report["rows"]) for each in _every(stored)) + result.rows
        spec_of = core_spec(_body(stored), schema.group_names, np.arange(rows))
        needs = Resources(memory=PROCESS_BYTES + training_bytes(rows, schema.width, spec_of), rows=rows)
        with self.database.write() as connection:
            caller.hold(connection)
            catalog.lock(connection, version.model)  # against another update, and the end of one that runs
            job, created = queue.submit(
                connection,
                kind=KIND,
                model=version.model,
                payload=asked | resolved,
                idempotency_key=key,
                needs=needs,
                table=table.key,
                max_queued=self.max_queued,
                trace_context=trace_context.get(),
                owner=caller.owner,
                max_owned=caller.most_queued,
                table_bytes=table.size or None,
            )
            if not created:
                refuse_other_request(job, key, kind=KIND, model=version.model, asked=asked)
            else:
                _refuse_second(connection, version.model, job.id)
                _refuse_outdated(connection, reference, version)
                caller.check_bytes(connection)
                caller.record(connection, AuditAction.UPDATE, version.reference, job=job.id, rows=result.rows)
            return view(connection, job)

    def _check_options(self, options: UpdateOptions, version: Version, stored: ModelArtefact) -> None:
        """Raise InvalidRequestError for options that the model, or the state of its training, cannot be updated by;
        ConflictError where it cannot be updated by any."""
        models = [each.model() for each in _every(stored)]
        if options.extra_basis and any(model.near is not None for model in models):
            raise _wrong("extra_basis", f"{version.reference} is a full process: every row is a basis vector already")
        own_mean = any(model.mean is not None for model in models)
        if version.state is None or not (options.extra_basis or options.forget or own_mean):
            return
        with open_address(self.blobs.address(version.state)) as file:
            if training_state.keeps_rows(file):
                return
        reason = (
            f"{version.reference} keeps the sums over its {stored.report['rows']:,} rows and not the rows themselves, "
            'which are too many; train it again, with "from" to begin where it is'
        )
        if own_mean:
            raise ConflictError(
                f"{version.reference} cannot be updated, for its mean rests on rows of its own: {reason}"
            )
        raise _wrong("extra_basis" if options.extra_basis else "forget", reason)

    def _version(self, reference: str) -> tuple[Version, ModelArtefact]:
        """Return the version to update, of a plain name the latest. ConflictError where it cannot be."""
        with self.database.read() as connection:
            version = _resolve(connection, reference)
        if version.state is None:
            reason = _reason_without_state(version, artefact.load(self.blobs.read(version.artefact)))
            raise ConflictError(f"{version.reference} cannot be updated: {reason}; train it again with all rows")
        return version, artefact.load(self.blobs.read(version.artefact))


def _resolve(connection: Connection, reference: str) -> Version:
    return catalog.resolve(connection, reference if "@" in reference else f"{reference}@{LATEST}")


def _refuse_second(connection: Connection, model: str, own: str) -> None:
    """Raise ConflictError where another update of the model is not done: the later one would not have its rows."""
    if (other := queries.unfinished(connection, kind=KIND, model=model, other_than=own)) is not None:
        raise ConflictError(
            f"job {other} updates {model!r} already: wait for its version, or this one would lack its rows"
        )


def _refuse_outdated(connection: Connection, reference: str, version: Version) -> None:
    """Raise ConflictError where the reference means another version by now: this update would lack its rows."""
    found = _resolve(connection, reference)
    if (found.version, found.artefact) != (version.version, version.artefact):
        raise ConflictError(
            f"{reference} means version {found.version} since the rows were read, which was version {version.version}: "
            "send the request again"
        )


def _reason_without_state(version: Version, stored: ModelArtefact) -> str:
    """Return why no state of its training was kept, in words."""
    if version.job_id is None:
        return "it was imported, and an artefact does not hold the state of its training"
    for each in _every(stored):
        if each.kind is not KeptPart.FULL:
            return f"it is kept as {each.kind.value}, without the state of its training"
    for field in ("groups", "order"):
        if (column := stored.spec.get(field)) is not None:
            return f"it was trained with `{field}` ({column!r}), and only models of rows that stand alone are updated"
    if (column := stored.spec.get("weights")) is not None:
        return (
            f"it was trained with `weights` ({column!r}), and only models of rows that all count the same are updated"
        )
    return "it was trained by an earlier release, which did not keep the state of a training"


def _find_lines(source: Source, known: tuple[str, ...], rows: Iterable[int]) -> dict[int, int]:
    """Return the lines of rows of an upload, which the table that is kept does not have; none of a binary file."""
    if is_binary(source):
        return {}
    return open_file(source, known=known, least_columns=1, sheet_wanted=False).lines(rows)


def update_handler(blobs: BlobStore, *, threads: int) -> Handler:
    """The child's side: does one update and returns what `training.publish` needs."""

    def run(task: Task, reporter: Reporter) -> dict[str, Any]:
        began = time.perf_counter()
        reporter.progress({"phase": "reading", "fraction": 0.0})
        retry = StoreRetries(lambda reason: reporter.progress({"phase": "reading", "fraction": 0.0, "waiting": reason}))
        try:
            stored = artefact.load(retry(lambda: blobs.read(task.payload["artefact"])))
            states = training_state.load(retry(lambda: blobs.read(task.payload["state"])))
        except NotFoundError as error:
            message = f"version {task.payload['version']} was deleted while its update waited"
            raise InvalidRequestError(message) from error
        table = open_canonical(retry(lambda: blobs.path(task.payload["table"])))
        first = int(stored.report["rows_uploaded"])
        options = task.payload["options"]
        every = _every(stored)
        schema = Schema.from_json(stored.schema)
        read = read_rows(schema, table, [each.model() for each in every])
        if _body(stored).duplicates == "drop":
            read = [
                without_copies(rows, state, each.model().transform)
                for rows, state, each in zip(read, states, every, strict=True)
            ]
        if not options["forget"] and not any(len(rows.targets) for rows in read):
            raise InvalidRequestError(
                f"there is nothing new to learn: all {read[0].copies:,} rows are exact copies, inputs and target, of "
                'rows that the model has, or of each other; of a model trained with "duplicates": "keep" they count'
            )
        found = update_several(
            [_target(*each, first) for each in zip(every, states, read, strict=True)],
            forget=np.array(options["forget"], np.int64),
            extra_basis=int(options["extra_basis"]),
            workers=threads,
            tell=lambda share: reporter.progress({"phase": "fitting", "fraction": round(0.05 + 0.9 * share, 4)}),
        )
        publishing = {"phase": "publishing", "fraction": 0.98}
        reporter.progress(publishing)
        retry = StoreRetries(lambda reason: reporter.progress(publishing | {"waiting": reason}))
        seconds = time.perf_counter() - began
        updated = [
            updated_model(before, one, task, table.rows, rows, seconds, had=state.rows)
            for before, one, rows, state in zip(every, found, read, states, strict=True)
        ]
        whole, report = (updated[0], _shown(updated[0])) if stored.others is None else together(updated)
        data = artefact.save(whole)
        key = retry(lambda: blobs.put(MODELS, ".safetensors", data))
        state_data = training_state.save([one.state for one in found])
        state_key = retry(lambda: blobs.put(training_state.STATES, ".safetensors", state_data))
        return {"artefact": key, "size": len(data), "report": report, "state": state_key}

    return run


def _every(stored: ModelArtefact) -> tuple[ModelArtefact, ...]:
    """The models of all targets."""
    return (replace(stored, others=None), *(stored.others or ()))


def _target(stored: ModelArtefact, state: TrainingState, rows: ReadRows, first: int) -> TargetUpdate:
    """The beginning of a target's update. first: number of the first new row."""
    schema = Schema.from_json(stored.schema)
    return TargetUpdate(
        model=stored.model(),
        state=state,
        new=NewRows(inputs=rows.inputs, targets=rows.targets, numbers=first + rows.rows),
        spec=core_spec(_body(stored), schema.group_names, state.numbers),
        expected_nlpd=expected_nlpd(stored),
    )


def _shown(updated: ModelArtefact) -> dict[str, Any]:
    return {name: part for name, part in updated.report.items() if name not in HIDDEN}


def _body(stored: ModelArtefact) -> SpecBody:
    return SpecBody.model_validate({**stored.spec, "bounds": None, "mean_rows": _mean_rows(stored)})


def _mean_rows(stored: ModelArtefact) -> Any:
    """Return the specification as asked; a number of rows may be more than there are when some are forgotten."""
    asked = stored.spec.get("mean_rows")
    return "auto" if isinstance(asked, int) else asked


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62


def _wrong(field: str, message: str) -> InvalidRequestError:
    text = f"spec.{field}: {message}"
    return InvalidRequestError(text, [Fault(message=text, column=field)])
