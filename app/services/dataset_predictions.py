"""Predictions for the rows of a dataset, as a job that leaves a Parquet file.

submit   reference and dataset are resolved, so that neither may change its meaning, and the job is queued
run      the stored table, part by part, through the stored model; the file of predictions goes into the store
publish  the file's key, in the transaction that ends the job: it is kept for as long as the job is listed; and the
         numbers of the rows, where they wait for their truth
"""

import time
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import Connection

from app.database.engine import Database
from app.errors import ConflictError, InvalidRequestError, NotFoundError
from app.identifiers import new_prediction_id
from app.jobs import queries, queue
from app.jobs.child import Handler, Reporter, Task
from app.jobs.job import Job, JobState
from app.jobs.workers import Resources
from app.services.intake.stored_tables import open_table, stored_parts
from app.services.jobs import JobView, refuse_other_request, view
from app.services.keys.caller import ANYBODY, Caller
from app.services.monitoring.kept_predictions import RowNumbers, interval_options, lacks_interval
from app.services.predict.answer_files import ParquetFile
from app.services.predict.loaded_model import LoadedModel, load_model
from app.services.predict.options import Keep, OnError, PredictOptions, predict_options
from app.services.predict.row_notes import RowNotes
from app.services.predict.run import answer_arrays, interval_bases, named_arrays, shown_arrays
from app.services.predict.table_parts import PART_ROWS, PartOptions, TablePart, parts_of
from app.storage import catalog, datasets, kept_predictions
from app.storage.audit import AuditAction
from app.storage.blobs import BlobStore
from app.storage.kept_predictions import KeptPrediction
from app.telemetry.tracing import trace_context
from core.arrays import FloatArray
from core.errors import MeanOnlyError

KIND = "predict"
"""The kind of these jobs in the queue."""
PREDICTIONS = "predictions"
"""Prefix of their files in the store."""

FEEDBACK, KEPT = "keep_for_feedback", "kept"
"""Field of the payload, and of the outcome with the numbers."""

PROCESS_BYTES = 300 << 20
"""Bytes that a process holds beside the model and the part of the table in hand."""
CELL_BYTES = 200
"""Bytes that a cell of that part takes as text and number, about."""
_PREDICTED = 0.97
"""Share of the whole at which all rows are predicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetPredictions:
    """The API's side. max_queued: most jobs that wait."""

    database: Database
    blobs: BlobStore
    max_queued: int | None = None

    def submit(
        self,
        reference: str,
        dataset: str,
        options: PredictOptions,
        keep: Keep,
        *,
        keep_for_feedback: bool = False,
        key: str | None = None,
        caller: Caller = ANYBODY,
    ) -> JobView:
        """Queue the predictions of a dataset. NotFoundError for a model or a dataset that is not there.

        keep_for_feedback: the numbers of its rows wait for their truth then, as `check_kept` must have allowed.
        """
        caller.check_model(reference.partition("@")[0])
        with self.database.write() as connection:
            caller.hold(connection)
            version = catalog.resolve(connection, reference)
            found = datasets.get(connection, dataset, hold=True)
            asked = {
                "reference": reference,
                "dataset": found.id,
                "options": _options_json(options),
                "keep": keep.value,
                FEEDBACK: keep_for_feedback,
            }
            resolved = {
                "version": version.version,
                "artefact": version.artefact,
                "table": found.table,
                "rows": found.rows,
            }
            columns = len(found.profile["columns"])
            needs = Resources(memory=PROCESS_BYTES + 4 * version.size + CELL_BYTES * PART_ROWS * columns)
            job, created = queue.submit(
                connection,
                kind=KIND,
                model=version.model,
                payload=asked | resolved,
                idempotency_key=key,
                needs=needs,
                table=found.table,
                max_queued=self.max_queued,
                trace_context=trace_context.get(),
                owner=caller.owner,
                max_owned=caller.most_queued,
            )
            if not created:
                refuse_other_request(job, key, kind=KIND, model=version.model, asked=asked)
            else:
                caller.record(connection, AuditAction.PREDICT, version.reference, job=job.id, dataset=found.id)
            return view(connection, job)

    def file(self, job_id: str, *, caller: Caller = ANYBODY) -> tuple[Job, Path]:
        """Return the job and the file that it left. NotFoundError for other kinds, ConflictError before its end."""
        with self.database.read() as connection:
            job = queries.get(connection, job_id)
            caller.check_model(job.model)
            key = queries.output(connection, job_id)
        if job.kind != KIND:
            raise NotFoundError(f"job {job.id} is of kind {job.kind!r}: it leaves no predictions")
        if job.state is not JobState.SUCCEEDED or key is None:
            raise ConflictError(f"job {job.id} is {job.state.value}: it has left no predictions")
        return job, self.blobs.path(key)


def prediction_handler(blobs: BlobStore) -> Handler:
    """The child's side: predicts a dataset and stores the file; returns what `publish` needs."""

    def run(task: Task, reporter: Reporter) -> dict[str, Any]:
        began, asked = time.monotonic(), task.payload
        options, keep = _options(asked["options"]), Keep(asked["keep"])
        reporter.progress({"phase": "reading", "fraction": 0.0})
        model = load_model(_read_model(blobs, task))
        if model.predictor.mean_only and options.needs_variance:
            raise MeanOnlyError
        part_options = PartOptions(on_error=options.on_error, keep=keep, typed=True)
        notes, done, total = RowNotes(), 0, max(int(asked["rows"]), 1)
        table = blobs.path(asked["table"])
        read = partial(stored_parts, table, rows=PART_ROWS)
        waiting: list[RowNumbers] | None = [] if asked.get(FEEDBACK) else None
        with TemporaryDirectory() as folder:
            path = Path(folder, "predictions.parquet")
            with path.open("wb") as sink, ParquetFile(sink, rows=total, note=asked_reference(task)) as file:
                for part in parts_of(model, open_table(table).names, read, part_options):
                    found = answer_arrays(model, part.decoded.inputs, options, first_row=part.first_row)
                    arrays = part.decoded.spread(found)
                    if waiting is not None:
                        waiting.append(_with_interval(model, part, found, options))
                    tolerated = options.on_error is OnError.NULL
                    notes.add(arrays, first_row=part.first_row, reason=part.decoded.reason, tolerated=tolerated)
                    shown = shown_arrays(arrays, options, imputed=model.integrated is not None)
                    file.write(named_arrays(model, shown), part.kept)
                    done += part.decoded.rows
                    pace = (time.monotonic() - began) / done
                    fraction = round(_PREDICTED * done / total, 4)
                    eta = round(pace * (total - done), 1)
                    reporter.progress({"phase": "predicting", "fraction": fraction, "eta_s": eta})
                file.close(notes.sentence())
            reporter.progress({"phase": "publishing", "fraction": _PREDICTED})
            size = path.stat().st_size
            key = blobs.put(PREDICTIONS, ".parquet", path)
        return {
            "output": key,
            "size_bytes": size,
            "rows": done,
            "failed_rows": notes.failed.count,
            "interval_basis": _bases(model, options),
            "warnings": notes.to_json(),
            **({} if waiting is None else {KEPT: _packed(waiting)}),
        }

    return run


def publish(connection: Connection, job: Job, outcome: Mapping[str, Any]) -> dict[str, Any]:
    """The supervisor's side, inside the transaction that ends the job: its file, the numbers that wait for their truth,
    and its result."""
    queue.keep_output(connection, job, outcome["output"])
    shown = {name: value for name, value in outcome.items() if name not in {"output", KEPT}}
    if (packed := outcome.get(KEPT)) is not None:
        one = KeptPrediction(
            id=new_prediction_id(),
            model=job.model,
            version=job.payload["version"],
            rows=outcome["rows"],
            numbers=b64decode(packed),
        )
        kept_predictions.add(connection, [one])
        shown["prediction_id"] = one.id
    address = f"/jobs/{job.id}/predictions"
    return {"model": job.model, "version": job.payload["version"], "predictions": address} | shown


def asked_reference(task: Task) -> str:
    """Return the dataset and the version that a job is about."""
    return f"{task.payload['dataset']} by version {task.payload['version']}"


def _with_interval(
    model: LoadedModel, part: TablePart, found: dict[str, FloatArray], options: PredictOptions
) -> RowNumbers:
    if lacks_interval(model, options):
        found = answer_arrays(model, part.decoded.inputs, interval_options(options), first_row=part.first_row)
    return RowNumbers.of(model, part.decoded.spread(found))


def _packed(parts: Sequence[RowNumbers]) -> str:
    """Numbers of all rows as text, for the line of JSON that a child ends with."""
    return b64encode(RowNumbers.concatenate(parts).pack()).decode() if parts else ""


def _bases(model: LoadedModel, options: PredictOptions) -> Any:
    """Basis of each interval, of several targets by target; none without intervals."""

    def of(one: LoadedModel) -> list[str]:
        return [] if one.predictor.mean_only or options.mean_only else list(interval_bases(one, options))

    return of(model) if model.others is None else {each.schema.target: of(each) for each in model.every_target}


def _read_model(blobs: BlobStore, task: Task) -> bytes:
    try:
        return blobs.read(task.payload["artefact"])
    except NotFoundError as error:
        raise InvalidRequestError(f"the model of {asked_reference(task)} was deleted while the job waited") from error


def _options_json(options: PredictOptions) -> dict[str, Any]:
    return {
        "levels": None if options.levels is None else list(options.levels),
        "quantiles": list(options.quantiles),
        "include": sorted(options.include),
        "mean_only": options.mean_only,
        "one_interval": options.one_interval,
        "on_error": options.on_error.value,
    }


def _options(document: Mapping[str, Any]) -> PredictOptions:
    levels = document["levels"]
    return predict_options(
        None if levels is None else tuple(levels),
        tuple(document["quantiles"]),
        frozenset(document["include"]),
        document["mean_only"],
        document["one_interval"],
        OnError(document["on_error"]),
    )
