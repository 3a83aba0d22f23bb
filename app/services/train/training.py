"""Training: what the API does to submit it, what the child does to run it, what the supervisor does to publish it.

    submit   specification and table are read and checked, the table is stored by content, the job is queued
    run      the stored table -> its matrix -> core.train, with progress and checkpoints -> the artefact, in the store
    publish  the new version, in the transaction that ends the job

The three run in three processes and share nothing but the job's row and the store.
"""

import logging
import resource
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection

from app.database.engine import Database
from app.errors import Fault, InvalidRequestError, MalformedError, NotFoundError, UnavailableError
from app.jobs import queries, queue
from app.jobs.child import Handler, Reporter, Task
from app.jobs.job import Job
from app.jobs.workers import Resources
from app.services.core_spec import core_spec
from app.services.intake.ingest import IngestRequest, IngestResult, ingest, ingest_table, table_options
from app.services.intake.table_store import StoredTable, stored_table
from app.services.jobs import JobView, refuse_other_request, view
from app.services.keys.caller import ANYBODY, Caller
from app.services.specification import SpecBody, default_name
from app.services.train.assemble import build_artefact, build_report, dataset_of, profile_of, without_copies
from app.services.train.missing import complete_table
from app.services.train.origin import Start, read_spec_and_origin, read_start
from app.services.train.several import Told, train_targets
from app.services.train.unseen import place_unseen
from app.storage import artefact, catalog, datasets, training_state
from app.storage.artefact import ModelArtefact
from app.storage.audit import AuditAction
from app.storage.blobs import MODELS, BlobStore
from app.tables import (
    DesignMatrix,
    Limits,
    ReadOptions,
    Table,
    TableFit,
    from_columns,
    from_rows,
    open_canonical,
    options_digest,
)
from app.telemetry.tracing import trace_context
from core.numeric.shards import Compute
from core.spec import Artefact
from core.train.progress import Checkpoint, Phase, Progress
from core.train.report import TrainResult
from core.train.run import train

KIND = "train"
"""The kind of these jobs in the queue."""

RETRY_SECONDS = 300.0
"""So long a training waits for a store that is away; then its job goes back to the queue."""
LONGEST_PAUSE = 5.0

Result = TypeVar("Result")

log = logging.getLogger(__name__)

_READ = 0.02  # share of the whole that reading takes, and publishing
_PUBLISH = 0.98
_PUBLIC_PHASES = {Phase.REFINING: Phase.ADAPTING, Phase.CALIBRATING: Phase.EVALUATING}
"""Names that clients get for phases that their contract does not know; the report keeps the seconds of each."""
_PACE_SHARE, _PACE_SECONDS = 0.01, 0.2  # before so much is done the pace is a guess


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """The API's side. max_basis_size: the largest basis one may ask for; scratch: a directory for files in the making;
    read_seconds: how long reading a table may take; read_memory: bytes that it may take; max_queued: most jobs that
    wait.
    """

    database: Database
    blobs: BlobStore
    limits: Limits
    max_basis_size: int
    scratch: Path
    read_seconds: float = 1_800.0
    read_memory: int | None = None
    max_queued: int | None = None

    def submit_file(
        self, path: Path, *, filename: str, spec: object, key: str | None = None, caller: Caller = ANYBODY
    ) -> JobView:
        """Queue a training on a file of any format. Raises what is wrong with it or the specification; O(file)."""
        body, origin = read_spec_and_origin(spec, max_basis_size=self.max_basis_size)
        return self._submit(
            body, default_name(filename), key, lambda request: self._read(replace(request, upload=path)), caller, origin
        )

    def submit_columns(
        self, columns: Mapping[str, list[Any]], *, spec: object, key: str | None = None, caller: Caller = ANYBODY
    ) -> JobView:
        """Queue a training on columns of JSON values."""
        body, origin = read_spec_and_origin(spec, max_basis_size=self.max_basis_size)
        table = from_columns(columns, limits=self.limits)
        return self._submit(body, "model", key, lambda request: ingest_table(table, request), caller, origin)

    def submit_rows(
        self, rows: list[dict[str, Any]], *, spec: object, key: str | None = None, caller: Caller = ANYBODY
    ) -> JobView:
        """Queue a training on rows of JSON values by column."""
        body, origin = read_spec_and_origin(spec, max_basis_size=self.max_basis_size)
        table = from_rows(rows, limits=self.limits)
        return self._submit(body, "model", key, lambda request: ingest_table(table, request), caller, origin)

    def submit_dataset(
        self, dataset: str, *, spec: object, key: str | None = None, caller: Caller = ANYBODY
    ) -> JobView:
        """Queue a training on an uploaded dataset. NotFoundError if there is none of that id."""
        body, origin = read_spec_and_origin(spec, max_basis_size=self.max_basis_size)
        if body.sheet is not None:
            message = "the dataset was read when it was uploaded: say it there, POST /datasets?sheet=.."
            raise InvalidRequestError(f"spec.sheet: {message}", [Fault(message=message, column="sheet")])
        with self.database.read() as connection:
            found = datasets.get(connection, dataset)
        caller.check_model(body.model or default_name(found.name))
        stored = self.blobs.path(found.table)
        digest = options_digest(table_options(body))
        with stored_table(self.database, self.blobs, self.scratch) as table:
            if digest in found.fits:
                with suppress(NotFoundError, UnavailableError):  # damaged or swept away: it is made again
                    table.fit_path.write_bytes(self.blobs.read(found.fits[digest]))
            result = self._read(IngestRequest(stored=stored, limits=self.limits, spec=body, fit=table.fit_path))
        table.key = found.table
        if found.fits.get(digest) != table.fit_key:
            with self.database.write() as connection:
                datasets.keep_fit(connection, found.id, digest, table.fit_key)
        return self._queue(body, default_name(found.name), key, table, result, caller, origin, dataset=dataset)

    def refuse_if_full(self, caller: Caller = ANYBODY) -> None:
        """Raise BusyError or LimitExceededError where no job would be queued: before a table is read for it."""
        with self.database.read() as connection:
            if self.max_queued is not None:
                queries.refuse_if_full(connection, self.max_queued)
            if caller.owner is not None and caller.most_queued is not None:
                queries.refuse_if_owner_is_full(connection, caller.owner, caller.most_queued)
            caller.check_bytes(connection, 1)

    def _origin(self, reference: str, caller: Caller) -> dict[str, Any]:
        """Return the version to begin at. NotFoundError."""
        caller.check_model(reference.partition("@")[0])
        with self.database.read() as connection:
            version = catalog.resolve(connection, reference)
        return {"reference": version.reference, "artefact": version.artefact}

    def _read(self, request: IngestRequest) -> IngestResult:
        return ingest(request, seconds=self.read_seconds, memory=self.read_memory)

    def _submit(
        self,
        body: SpecBody,
        name: str,
        key: str | None,
        read: Callable[[IngestRequest], IngestResult],
        caller: Caller,
        origin: str | None,
    ) -> JobView:
        caller.check_model(body.model or name)
        options = ReadOptions(decimal=body.decimal, thousands=body.thousands, sheet=body.sheet)
        with stored_table(self.database, self.blobs, self.scratch) as table:
            result = read(
                IngestRequest(stored=table.path, limits=self.limits, spec=body, fit=table.fit_path, options=options)
            )
            if caller.has_byte_limit:  # before it is in the store
                with self.database.read() as connection:
                    caller.check_bytes(connection, table.path.stat().st_size)
        return self._queue(body, name, key, table, result, caller, origin)

    def _queue(
        self,
        body: SpecBody,
        name: str,
        key: str | None,
        table: StoredTable,
        result: IngestResult,
        caller: Caller,
        origin: str | None,
        *,
        dataset: str | None = None,
    ) -> JobView:
        model = body.model or name
        asked = {"spec": body.model_dump(mode="json"), "table": table.key, "rows": result.rows, "reference": origin}
        resolved: dict[str, Any] = {"fit": table.fit_key}
        if origin is not None:
            resolved["from"] = self._origin(origin, caller)
        needs = Resources(memory=result.memory, rows=result.rows)
        with self.database.write() as connection:
            caller.hold(connection)
            if dataset is not None:  # it may have been deleted, and swept away, while it was read
                datasets.get(connection, dataset, hold=True)
            job, created = queue.submit(
                connection,
                kind=KIND,
                model=model,
                payload=asked | resolved,
                priority=body.priority,
                idempotency_key=key,
                needs=needs,
                table=table.key,
                fit=table.fit_key or None,
                max_queued=self.max_queued,
                trace_context=trace_context.get(),
                owner=caller.owner,
                max_owned=caller.most_queued,
                table_bytes=table.size or None,
            )
            if not created:
                refuse_other_request(job, key, kind=KIND, model=model, asked=asked)
            else:
                caller.check_bytes(connection)
                caller.record(connection, AuditAction.TRAIN, model, job=job.id, rows=result.rows)
                log.info("%s is queued", job.id, extra={"job": job.id, "model": job.model})
            return view(connection, job)


def training_handler(blobs: BlobStore, *, threads: int, compute: Compute | None = None) -> Handler:
    """The child's side: does one training job on so many threads and returns what `publish` needs.

    compute: what does the sums over very many rows instead.
    """

    def run(task: Task, reporter: Reporter) -> dict[str, Any]:
        began = time.perf_counter()
        listener = _ProgressReporter(reporter, float((task.progress or {}).get("fraction") or 0.0))
        listener.report_phase("reading", 0.0)
        body = SpecBody.model_validate(task.payload["spec"])
        table = open_canonical(retry_while_unavailable(lambda: blobs.path(task.payload["table"])))
        fit = _fit(blobs, task, table, body)
        reading = time.perf_counter() - began + sum(fit.seconds.values())
        resume = None if task.checkpoint is None else Checkpoint.from_json(dict(task.checkpoint))
        start = _start(blobs, task)
        if fit.schema.other_targets is not None:
            reporter.milestone(1)
            told = Told(rows=task.payload["rows"], seconds={"reading": reading})
            several = train_targets(
                table, fit, body, told, listener, resume, workers=threads, compute=compute, start=start
            )
            listener.report_phase("publishing", _PUBLISH)
            return _stored(blobs, several.artefact, several.report | {"peak_memory_bytes": _peak_memory()})
        completed = complete_table(
            table,
            fit.schema,
            fit.training_rows,
            lambda schema, design_matrix: core_spec(body, schema.group_names, design_matrix.rows),
            workers=threads,
        )
        schema, design_matrix = completed.schema, completed.design_matrix
        if body.duplicates == "drop":
            design_matrix = without_copies(design_matrix)
        reading += completed.seconds["reading"]
        reporter.milestone(1)  # before the first checkpoint, which may be minutes away
        spec = core_spec(completed.affordable(body), schema.group_names, design_matrix.rows)
        dataset = dataset_of(design_matrix)
        unlearnt = completed.unlearnt()
        result = train(
            dataset,
            spec,
            listen=listener,
            resume=resume,
            workers=threads,
            compute=compute,
            unlearnt=unlearnt,
            warm=None if start is None else start.warm(schema, schema.target),
        )
        listener.report_phase("publishing", _PUBLISH)
        schema = place_unseen(schema, result.model, design_matrix.inputs)
        donors = None if unlearnt is None else unlearnt.donors_for(result.model)
        profile = profile_of(schema, design_matrix)
        report = build_report(
            schema,
            design_matrix,
            result,
            profile=profile,
            rows_uploaded=task.payload["rows"],
            seconds={**completed.seconds, "reading": reading},
            peak_memory=_peak_memory(),
        )
        if start is not None:
            report |= start.told(schema.target)
        if unlearnt is not None:
            report["missing"] = completed.report(unlearnt, result.model, spec.seed)
        model = build_artefact(body, schema, design_matrix, result, report, profile, donors)
        return _stored(blobs, model, report, _state_key(blobs, model, result, design_matrix))

    return run


def _start(blobs: BlobStore, task: Task) -> Start | None:
    origin = task.payload.get("from")
    return None if origin is None else retry_while_unavailable(lambda: read_start(blobs, origin))


def _state_key(blobs: BlobStore, model: ModelArtefact, result: TrainResult, design_matrix: DesignMatrix) -> str | None:
    """Keep the state of a training for updates of the model, which are of whole models of rows that stand alone."""
    if result.state is None or model.kind is not Artefact.FULL or design_matrix.row_groups is not None:
        return None
    data = training_state.save(result.state.numbered(design_matrix.rows))
    return retry_while_unavailable(lambda: blobs.put(training_state.STATES, ".safetensors", data))


def _stored(blobs: BlobStore, model: ModelArtefact, report: dict[str, Any], state: str | None = None) -> dict[str, Any]:
    """Store a model; return what `publish` needs."""
    data = artefact.save(model)
    key = retry_while_unavailable(lambda: blobs.put(MODELS, ".safetensors", data))
    return {"artefact": key, "size": len(data), "report": report, "state": state}


def _fit(blobs: BlobStore, task: Task, table: Table, body: SpecBody) -> TableFit:
    """Return the fit that was kept with the table; without one that is of use, such as a job's of an earlier version
    of this service, the table is fitted again.
    """
    options = table_options(body)
    if key := str(task.payload.get("fit") or ""):
        try:
            data = retry_while_unavailable(lambda: blobs.path(key)).read_bytes()
            fit = TableFit.from_bytes(data)
            if fit.is_of(table, options):
                return fit
            log.warning("the fit %s is of another table or other options: the table is fitted again", key)
        except (NotFoundError, MalformedError) as error:
            log.warning("the table is fitted again: %s", error)
    return TableFit.of(table, options)


def retry_while_unavailable(call: Callable[[], Result], *, seconds: float = RETRY_SECONDS) -> Result:
    """Return the result of `call`, tried again while the store is unavailable; UnavailableError after so long."""
    until, pause = time.monotonic() + seconds, 0.5
    while True:
        try:
            return call()
        except UnavailableError as error:
            if time.monotonic() + pause > until:
                raise
            log.warning("waiting for the store, again in %.1f s: %s", pause, error)
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


def publish(connection: Connection, job: Job, outcome: Mapping[str, Any]) -> dict[str, Any]:
    """The supervisor's side, inside the transaction that ends the job: a new version, and the job's result."""
    report = outcome["report"]
    version = catalog.publish(
        connection,
        model=job.model,
        artefact=outcome["artefact"],
        size=outcome["size"],
        job_id=job.id,
        owner=job.owner,
        summary=artefact.summary_of(report),
        state=outcome.get("state"),
    )
    return {"model": version.model, "version": version.version, "report": report}


class _ProgressReporter:
    """Events of `core` as the job's progress: a share of the whole that never goes back, and the seconds left.

    floor: how far an earlier try had come; the share waits there until this one is as far.
    """

    def __init__(self, reporter: Reporter, floor: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._reporter = reporter
        self._shown = floor
        self._clock = clock
        self._first: tuple[float, float] | None = None
        self._last: dict[str, Any] = {}

    def __call__(self, event: Progress | Checkpoint) -> None:
        if isinstance(event, Checkpoint):
            self._reporter.checkpoint(asdict(event))
            return
        share = _READ + (_PUBLISH - _READ) * min(max(event.fraction, 0.0), 1.0)
        if self._first is None:
            self._first = (self._clock(), share)
        self._last = {
            "round": event.round,
            "rounds": event.rounds,
            "basis_size": event.basis_size,
            "objective": event.objective,
        }
        self.report_phase(_PUBLIC_PHASES.get(event.phase, event.phase), share)

    def report_phase(self, phase: str, share: float) -> None:
        """Report a phase and a share of the whole."""
        self._shown = max(self._shown, share)
        left = self._left(share)
        news = {"phase": phase, "fraction": round(self._shown, 4), **self._last}
        self._reporter.progress(news | {"eta_s": left})

    def _left(self, share: float) -> float | None:
        """Seconds left, at the pace of this try; None while there is no pace."""
        if self._first is None:
            return None
        began, start = self._first
        passed = self._clock() - began
        if share - start < _PACE_SHARE or passed < _PACE_SECONDS:
            return None
        return round(passed / (share - start) * (1.0 - share), 1)


def _peak_memory() -> int:
    """The most memory this process has held, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
