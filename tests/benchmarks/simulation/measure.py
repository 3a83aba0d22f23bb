"""Costs of the parts of a training, measured on one core of this machine in processor seconds.

A real job (`app.worker.job_handlers`) trains on a table of MEASURED_ROWS rows, with a `Recorder` as its cluster. Its
sample is the one of a table of any size, so the search, the choice of the basis and the calibration are those of the
planned table; reading and the pass over the other rows count by the row. Two more jobs, which learn next to nothing
from the same sample, count what the job's process does for each row of a table, by the difference of their sizes.
"""

import gzip
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pyarrow as pa
from dask.utils import parse_timedelta
from distributed import Client, LocalCluster

from app.compute.cluster import Cluster
from app.compute.shards import Shard
from app.jobs.child import Task
from app.services.intake.ingest import IngestRequest, ingest
from app.services.intake.large_table import LargeTables, read_part, sample_rows
from app.services.intake.table_store import FITS, TABLES
from app.services.specification import SpecBody
from app.storage.blobs import LocalBlobStore
from app.tables import Column, Limits, open_canonical, write_table
from app.worker import job_handlers
from core.numeric.shards import ShardedRows
from tests.benchmarks.sets import FOLDER
from tests.benchmarks.simulation.parts import Gap, Messages, Parts
from tests.benchmarks.simulation.trace import Recorder

SET = "flights_delay_2m"
MEASURED_ROWS = 600_000
COUNTED_ROWS = 1_000_000, 16_000_000
"""Rows of the two tables whose difference says what the job's process does for each row."""
CHEAP: dict[str, Any] = {
    "model": "m",
    "adapt": False,
    "method": "rand",
    "basis_size": 20,
    "noise": "constant",
    "calibrate": False,
}
"""A specification that learns next to nothing."""
CALLS, TASKS, FEW_ROWS = 40, 400, 64


def measure(
    folder: Path,
    planned: int,
    *,
    rows: int = MEASURED_ROWS,
    counted: tuple[int, int] = COUNTED_ROWS,
    size: int = 300,
    **spec: Any,
) -> Parts:
    """Measure, in a folder for what is written.

    planned: rows of the table that is simulated. rows: of the one that is trained on; counted: of those of which
    only the rows are counted. spec: more of the specification than the basis size. Raises FileNotFoundError where the
    set is not there.
    """
    blobs, body = LocalBlobStore(folder / "blobs"), SpecBody.model_validate({"model": "m", "basis_size": size, **spec})
    upload, stored, fit = folder / "rows.csv", folder / "table.parquet", folder / "fit.json"
    columns = _write_rows(upload, rows)
    begin = _seconds_used()
    ingest(IngestRequest(upload=upload, stored=stored, limits=Limits(), spec=body, fit=fit), seconds=600.0)
    taken_in = (_seconds_used() - begin) / rows
    recorder = Recorder(folder / "shards", share=sample_rows(planned, columns) / planned)
    _train(blobs, stored, fit, body, recorder, rows)
    seconds, written = _counted(blobs, folder, stored, fit, recorder, counted)
    return Parts(
        rows=rows,
        columns=columns,
        size=size,
        events=tuple(recorder.events),
        sample=sum(len(part.rows) for part in recorder.read),
        file=stored.stat().st_size / rows,
        counted=seconds,
        written=written,
        taken_in=taken_in,
        messages=_messages(recorder),
        imports=_imports(),
        detection=float(parse_timedelta(dask.config.get("distributed.comm.timeouts.tcp"))),
    )


def _write_rows(file: Path, rows: int) -> int:
    """Write some rows of the set at random as CSV; return how many columns of inputs it has."""
    with gzip.open(FOLDER / f"{SET}.csv.gz", "rb") as stream:
        header, *lines = stream.read().splitlines()
    some = np.random.default_rng(0).permutation(len(lines))[:rows]
    file.write_bytes(b"\n".join((header, *(lines[place] for place in some), b"")))
    return header.count(b",")


def _train(blobs: LocalBlobStore, stored: Path, fit: Path, body: SpecBody, recorder: Recorder, rows: int) -> int:
    """Do a training job; return how many bytes it leaves."""
    payload = {
        "table": blobs.put(TABLES, ".parquet", stored),
        "fit": blobs.put(FITS, ".json", fit),
        "spec": body.model_dump(mode="json"),
        "rows": rows,
    }
    task = Task(id="job", kind="train", payload=payload, checkpoint=None, attempts=1)
    large = LargeTables(folder=recorder.folder, least=rows // 2, cluster=recorder)
    handlers = job_handlers(blobs, threads=1, compute=recorder, large_tables=large)
    recorder.continue_gap()
    found = handlers["train"](task, recorder.listener)
    recorder.close_gap()
    return sum(blobs.path(str(found[kind])).stat().st_size for kind in ("artefact", "state") if found[kind])


def _counted(
    blobs: LocalBlobStore, folder: Path, stored: Path, fit: Path, recorder: Recorder, counted: tuple[int, int]
) -> tuple[float, float]:
    """Return seconds of the job's process, and bytes that it writes, for each row of a table."""
    seconds, written = [], []
    body = SpecBody.model_validate(CHEAP)
    for rows in counted:
        table = open_canonical(stored)
        name = table.names[0]
        texts = pa.chunked_array([pa.repeat(pa.scalar("1"), rows)])
        file, its_fit = folder / f"{rows}.parquet", folder / f"{rows}.json"
        write_table(file, replace(table, names=(name,), columns={name: Column(texts=texts)}, rows=rows))
        document = json.loads(fit.read_bytes()) | {"table_rows": rows, "rows_kept": None}
        its_fit.write_text(json.dumps(document), encoding="utf-8")
        replayed = _Replayed(recorder.folder, share=0.0, rows_of_table=rows, given=recorder.read)
        written.append(_train(blobs, file, its_fit, body, replayed, rows))
        seconds.append(sum(event.seconds for event in replayed.events if isinstance(event, Gap)))
    difference = counted[1] - counted[0]
    return (seconds[1] - seconds[0]) / difference, (written[1] - written[0]) / difference


@dataclass(eq=False)
class _Replayed(Recorder):
    """A cluster that reads nothing: a table of so many rows has the sample that was read before, and of the others it
    sums few."""

    rows_of_table: int = 0
    given: Sequence[Any] = ()

    def map(
        self, _: Callable[[Any], Any], items: Sequence[Any], tell: Callable[[float], None] = lambda _: None
    ) -> list[Any]:
        """Return parts as they would be of the items."""
        self.close_gap()
        inputs = np.concatenate([part.inputs for part in self.given])
        targets = np.concatenate([part.targets for part in self.given])
        cuts = np.arange(len(items) + 1) * len(targets) // len(items)
        ends = [*(item.rows.start for item in items[1:]), self.rows_of_table]
        stored = [part for part in self.given if part.stored is not None]
        found = [
            replace(
                stored[place % len(stored)],
                inputs=inputs[cuts[place] : cuts[place + 1]],
                targets=targets[cuts[place] : cuts[place + 1]],
                rows=item.rows.start + np.arange(cuts[place + 1] - cuts[place]),
                count=int(end - item.rows.start - cuts[place + 1] + cuts[place]),
            )
            for place, (item, end) in enumerate(zip(items, ends, strict=True))
        ]
        self.continue_gap()
        tell(1.0)
        return found

    def sums(self, shards: Sequence[Shard], rows: Sequence[int]) -> ShardedRows:
        """Return the sums of the first shards."""
        return super().sums(shards[:2], rows[:2])


def _messages(recorder: Recorder) -> Messages:
    """Measure sums over next to no rows by a process of a real cluster, and tasks that do nothing."""
    assert recorder.asked is not None
    assert recorder.scattered is not None
    work, size, least = recorder.asked
    dataset, numbers, unit = recorder.scattered
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0") as workers:
        cluster = Cluster(workers.scheduler_address, recorder.folder)
        spread = cluster.scatter(dataset, numbers[:FEW_ROWS], unit).spread
        rows = cluster.sums(spread.shards[:1], spread.rows[:1])
        rows.total(work, size, least)
        with Client(workers) as client:
            begin, others = time.process_time(), _seconds_of(client)
            for _ in range(CALLS):
                rows.total(work, size, least)
            call, called = time.process_time() - begin, _seconds_of(client) - others
        cluster.map(_nothing, range(TASKS))
        begin = time.process_time()
        cluster.map(_nothing, range(TASKS))
        task = time.process_time() - begin
        cluster.close()
    return Messages(call=call / CALLS, called=called / CALLS, task=task / TASKS)


def _seconds_of(client: Client) -> float:
    """Return the processor time of the processes of a cluster."""
    return float(sum(client.run(time.process_time).values()))


def _nothing(number: int) -> int:
    return number


def _imports() -> float:
    """Return the processor seconds of a process that loads what reads a part and sums."""
    begin = _seconds_used()
    subprocess.run([sys.executable, "-c", f"import {read_part.__module__}"], check=True)
    return _seconds_used() - begin


def _seconds_used() -> float:
    """Return the processor seconds of this process and of those that it started and that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)
