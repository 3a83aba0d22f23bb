"""A training job in its process: the stored table to a matrix, that to a model, this to an artefact and a report."""

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from app.errors import MalformedError, NotFoundError
from app.jobs.child import Handler, Reporter, Task
from app.posix import peak_memory
from app.services.core_spec import core_spec
from app.services.intake.large_table import LargeTables
from app.services.intake.stored_tables import open_table, table_at
from app.services.intake.training_checks import table_options
from app.services.specification import SpecBody
from app.services.train.assemble import (
    build_artefact,
    build_report,
    dataset_of,
    profile_of,
    with_copies_told,
    without_copies,
)
from app.services.train.missing import CompletedTable, complete_table
from app.services.train.origin import Start, read_start
from app.services.train.several import Told, train_targets
from app.services.train.store_retries import StoreRetries
from app.services.train.training_progress import PUBLISH, ProgressReporter
from app.services.train.unseen import place_unseen
from app.storage import artefact, training_state
from app.storage.artefact import ModelArtefact
from app.storage.blobs import MODELS, BlobStore
from app.tables import Table, TableFit
from core.numeric.shards import Compute
from core.spec import Artefact
from core.train.progress import Checkpoint
from core.train.run import train
from core.train.state import TrainingState

log = logging.getLogger(__name__)


def training_handler(
    blobs: BlobStore, *, threads: int, compute: Compute | None = None, large_tables: LargeTables | None = None
) -> Handler:
    """The child's side: does one training job on so many threads and returns what `publish` needs.

    compute: what does the sums over very many rows instead. large_tables: reads tables by parts; None: all are held in
    memory.
    """

    def run(task: Task, reporter: Reporter) -> dict[str, Any]:
        began = time.perf_counter()
        listener = ProgressReporter(reporter, float((task.progress or {}).get("fraction") or 0.0))
        retry = StoreRetries(listener.waiting)
        listener.report_phase("reading", 0.0)
        body = SpecBody.model_validate(task.payload["spec"])
        key = task.payload["table"]
        by_parts = large_tables is not None and task.payload["rows"] > large_tables.least
        table = None if by_parts else open_stored(blobs, key, retry)
        fit = _fit_of_parts(blobs, task, body, retry) if table is None else _fit(blobs, task, table, body, retry)
        reading = time.perf_counter() - began + sum(fit.seconds.values())
        start = _start(blobs, task, retry)
        if fit.schema.other_targets is not None:
            reporter.milestone(1)
            told = Told(rows=task.payload["rows"], seconds={"reading": reading})
            whole = table or open_stored(blobs, key, retry)
            resume = _checkpoint(task)
            several = train_targets(
                whole, fit, body, told, listener, resume, workers=threads, compute=compute, start=start
            )
            listener.report_phase("publishing", PUBLISH)
            state = _state_key(blobs, several.artefact, several.states, retry)
            return _stored(blobs, several.artefact, several.report | {"peak_memory_bytes": peak_memory()}, state, retry)
        large = None
        if large_tables is not None and by_parts:
            read = partial(large_tables.read, blobs.address(key), fit, body, workers=threads, tell=listener.reading)
            large = retry(read)
        completed = (
            _completed(table or open_stored(blobs, key, retry), fit, body, threads)
            if large is None
            else CompletedTable(
                schema=fit.schema,
                design_matrix=large.sample,
                original=large.sample,
                seconds={"reading": large.seconds},
            )
        )
        schema, design_matrix = completed.schema, completed.design_matrix
        if body.duplicates == "drop":
            design_matrix = with_copies_told(without_copies(design_matrix), schema.group_names)
            large = None if large is None else replace(large, sample=design_matrix)
        reading += completed.seconds["reading"]
        reporter.milestone(1)  # before the first checkpoint, which may be minutes away
        spec = core_spec(completed.affordable(body), schema.group_names, design_matrix.rows)
        dataset = dataset_of(design_matrix)
        unlearnt = completed.unlearnt()
        result = train(
            dataset,
            spec,
            listen=listener,
            resume=_checkpoint(task, rows=len(design_matrix.rows)),
            workers=threads,
            compute=compute,
            unlearnt=unlearnt,
            warm=None if start is None else start.warm(schema, schema.target),
            beyond=None if large is None else large.beyond,
        )
        listener.report_phase("publishing", PUBLISH)
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
            peak_memory=peak_memory(),
            large=large,
        )
        if start is not None:
            report |= start.told(schema.target)
        if unlearnt is not None:
            report["missing"] = completed.report(unlearnt, result.model, spec.seed)
        model = build_artefact(body, schema, design_matrix, result, report, profile, donors)
        alone = design_matrix.row_groups is None and not len(design_matrix.weights)
        own = result.state if alone else None
        state = _state_key(blobs, model, [own and own.numbered(design_matrix.rows)], retry)
        return _stored(blobs, model, report, state, retry)

    return run


def _checkpoint(task: Task, *, rows: int | None = None) -> Checkpoint | None:
    """Return the checkpoint to go on from: none that is of more rows than there are, by a worker that held the table in
    memory where this one reads it by parts."""
    found = None if task.checkpoint is None else Checkpoint.from_json(dict(task.checkpoint))
    if found is None or rows is None or max(found.indices, default=0) < rows:
        return found
    log.warning("the checkpoint is of more rows than the %d that are held: the training begins again", rows)
    return None


def _completed(table: Table, fit: TableFit, body: SpecBody, threads: int) -> CompletedTable:
    """Return all rows of a table in memory."""
    return complete_table(
        table,
        fit.schema,
        fit.training_rows,
        lambda schema, design_matrix: core_spec(body, schema.group_names, design_matrix.rows),
        workers=threads,
    )


def _start(blobs: BlobStore, task: Task, retry: StoreRetries) -> Start | None:
    origin = task.payload.get("from")
    return None if origin is None else retry(lambda: read_start(blobs, origin))


def _state_key(
    blobs: BlobStore, model: ModelArtefact, states: Sequence[TrainingState | None], retry: StoreRetries
) -> str | None:
    """Keep the states of the trainings of all targets, for updates, which are of whole models. states: None of rows
    that do not stand alone."""
    there = [state for state in states if state is not None]
    whole = all(each.kind is Artefact.FULL for each in (model, *(model.others or ())))
    if len(there) < len(states) or not whole:
        return None
    data = training_state.save(there)
    return retry(lambda: blobs.put(training_state.STATES, ".safetensors", data))


def _stored(
    blobs: BlobStore, model: ModelArtefact, report: dict[str, Any], state: str | None, retry: StoreRetries
) -> dict[str, Any]:
    """Store a model; return what `publish` needs."""
    data = artefact.save(model)
    key = retry(lambda: blobs.put(MODELS, ".safetensors", data))
    return {"artefact": key, "size": len(data), "report": report, "state": state}


def open_stored(blobs: BlobStore, key: str, retry: StoreRetries) -> Table:
    """Open a stored table, in a copy on this machine, but for the files of a location."""
    return open_table(retry(lambda: blobs.path(key)))


def _fit_of_parts(blobs: BlobStore, task: Task, body: SpecBody, retry: StoreRetries) -> TableFit:
    """Return the fit of a table of which this machine may hold no copy."""

    def opened() -> TableFit:
        with table_at(blobs.address(task.payload["table"])) as table:
            return _fit(blobs, task, table, body, retry)

    return retry(opened)


def _fit(blobs: BlobStore, task: Task, table: Table, body: SpecBody, retry: StoreRetries) -> TableFit:
    """Return the fit that was kept with the table; without one that is of use, such as a job's of an earlier version
    of this service, the table is fitted again.
    """
    options = table_options(body)
    if key := str(task.payload.get("fit") or ""):
        try:
            data = retry(lambda: blobs.path(key)).read_bytes()
            fit = TableFit.from_bytes(data)
            if fit.is_of(table, options):
                return fit
            log.warning("the fit %s is of another table or other options: the table is fitted again", key)
        except (NotFoundError, MalformedError) as error:
            log.warning("the table is fitted again: %s", error)
    return TableFit.of(table, options)
