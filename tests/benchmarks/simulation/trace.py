"""Trace of a training: what its process does itself, and what it gives to a cluster, in the order in which it happens.

A `Recorder` is the cluster of a real training. It does all tasks at once in this process, one after another, and writes
down how much processor time each takes and how many bytes go to and fro. What is between them is the job's own.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from distributed.protocol import serialize_bytelist

from app.compute.cluster import Cluster, SpreadShards
from app.compute.shards import Shard
from app.jobs.child import Reporter
from app.jobs.job import JSON
from app.services.intake.large_table import read_part
from core.arrays import IntArray
from core.data import Dataset, Standardization
from core.numeric.shards import Part, Partitions, ShardedRows, tree_total
from core.process.rows import Rows, on_shard
from tests.benchmarks.simulation.parts import Event, Gap, MappedWork, MeasuredSum, Reading

NOWHERE = "tcp://nowhere:1"
"""Address of a cluster that only writes shards."""
LISTED_SHARDS = 1_500
"""Shards of the list that processes are told of a very large table: what one takes depends on how many there are."""
MEASURED_PARTS = 10
"""Parts of a table that are read once more, with the share of sampled rows that the planned table has."""


class Listener(Reporter):
    """Hears in which phase a job is."""

    def __init__(self) -> None:
        self.phase = "reading"

    def progress(self, progress: JSON) -> None:
        """Keep the phase."""
        self.phase = str(progress["phase"])

    def _send(self, message: JSON) -> None:
        """Keep nothing else."""


@dataclass(eq=False)
class Recorder:
    """A cluster, as a training sees it, that writes down what it is asked. share: of the planned table's rows, the
    sample. folder: of the shards. read: parts of the table. asked and
    scattered: arguments of the last sum with a basis, and rows that were spread."""

    folder: Path
    share: float
    events: list[Event] = field(default_factory=list)
    read: list[Any] = field(default_factory=list)
    listener: Listener = field(default_factory=Listener)
    asked: tuple[Any, int, int] | None = None
    scattered: tuple[Dataset, IntArray, Standardization] | None = None
    spreads: int = 0
    _kept: dict[str, Rows] = field(default_factory=dict)
    _begun: float = field(default_factory=time.process_time)

    def map(
        self, work: Callable[[Any], Any], items: Sequence[Any], tell: Callable[[float], None] = lambda _: None
    ) -> list[Any]:
        """Return work(item) of each; see `app.services.intake.large_table.Cluster`."""
        found = self._read(work, items) if work is read_part else self._mapped(work, items)
        tell(1.0)
        return found

    def _mapped(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        self.close_gap()
        seconds, found = list[float](), []
        for item in items:
            begin = time.process_time()
            found.append(work(item))
            seconds.append(time.process_time() - begin)
        self.events.append(
            MappedWork(
                name=_name(work),
                phase=self.listener.phase,
                seconds=seconds,
                requests=[bytes_of((work, item)) for item in items],
                answers=list(map(bytes_of, found)),
            )
        )
        self.continue_gap()
        return found

    def _read(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        self.close_gap()
        self.read = found = [work(item) for item in items]
        rows_of = [part.count + len(part.rows) for part in found]
        begin = time.process_time()
        planned = [work(replace(item, share=self.share)) for item in items[:MEASURED_PARTS]]
        seconds, rows = time.process_time() - begin, sum(part.count + len(part.rows) for part in planned)
        written = sum((self.folder / part.stored).stat().st_size for part in planned if part.stored is not None)
        sampled = sum(len(part.rows) for part in planned)
        per_row = 8.0 * (planned[0].inputs.shape[1] + 2)
        answer = sum(map(bytes_of, planned)) - per_row * sampled
        self.events.append(
            Reading(
                parts=len(items),
                rows=sum(rows_of),
                largest=max(rows_of),
                seconds=seconds / rows,
                written=written / rows,
                answer=answer / rows,
                request=bytes_of((work, items[0])),
            )
        )
        self.continue_gap()
        return found

    def scatter(self, dataset: Dataset, numbers: IntArray, unit: Standardization) -> ShardedRows:
        """Write the shards of these rows; see `core.numeric.shards.Compute`."""
        self.scattered = dataset, numbers, unit
        return _Sums(self, Cluster(NOWHERE, self.folder).scatter(dataset, numbers, unit).spread, beyond=False)

    def sums(self, shards: Sequence[Shard], rows: Sequence[int]) -> ShardedRows:
        """Return the sums of shards beyond the sample; see `app.compute.stored_rows.SpreadsShards`."""
        return _Sums(self, Cluster(NOWHERE, self.folder).sums(shards, rows), beyond=True)

    def partitions(self, common: Any, partitions: Sequence[Any], cost: float, here: Partitions) -> Partitions:
        """Return what the job's process does itself: a simulated table has too many rows for a mean on all of them."""
        del common, partitions, cost
        return here

    def rows(self, shard: Shard) -> Rows:
        """Return a shard's rows, read once."""
        if shard.name not in self._kept:
            self._kept[shard.name] = shard.read()
        return self._kept[shard.name]

    def close_gap(self) -> None:
        """Write down what the job's process did since the last time."""
        self.events.append(Gap(phase=self.listener.phase, seconds=time.process_time() - self._begun))

    def continue_gap(self) -> None:
        """Go on with the job's process."""
        self._begun = time.process_time()


@dataclass(slots=True, eq=False)
class _Sums:
    recorder: Recorder
    spread: SpreadShards
    beyond: bool
    number: int = field(init=False)

    def __post_init__(self) -> None:
        self.number = self.recorder.spreads
        self.recorder.spreads += 1

    def total(self, work: Callable[[Any, Sequence[slice]], Part], size: int, least: int) -> Part:
        """See `core.numeric.shards.ShardedRows`."""
        recorder, shards = self.recorder, self.spread.shards
        seconds, answers, rows = list[float](), list[float](), list[int]()
        recorder.close_gap()

        def timed(shard: Shard) -> Part:
            begin = time.process_time()
            held = recorder.rows(shard)
            part = on_shard(held, work, size, least)
            seconds.append(time.process_time() - begin)
            rows.append(len(held))
            answers.append(bytes_of(part))
            weighing = time.process_time() - begin - seconds[-1]
            beside.append(weighing)
            return part

        beside, begin = list[float](), time.process_time()
        part = tree_total(timed, shards, 1)
        adding = time.process_time() - begin - sum(seconds) - sum(beside)
        told, telling = told_of(shards if not self.beyond else listed(shards, LISTED_SHARDS))
        if not self.beyond:
            recorder.asked = work, size, least
        names = [[shard.part] if shard.mask is None else [shard.part, shard.mask] for shard in shards]
        recorder.events.append(
            MeasuredSum(
                name=_name(work),
                phase=recorder.listener.phase,
                shards=[shard.name for shard in shards],
                beyond=self.beyond,
                rows=rows,
                believed=self.spread.rows,
                seconds=seconds,
                read=[float(sum((recorder.folder / each).stat().st_size for each in files)) for files in names],
                size=size,
                shared=bytes_of(work),
                answer=sum(answers) / len(answers),
                add=adding / max(len(shards) - 1, 1),
                spread=self.number,
                told=told,
                telling=telling,
            )
        )
        recorder.continue_gap()
        return part


def listed(shards: Sequence[Shard], count: int) -> list[Shard]:
    """Return a list of so many shards like these."""
    return [replace(shards[place % len(shards)], part=f"{place:064x}.npy") for place in range(count)]


def told_of(shards: Sequence[Shard]) -> tuple[float, float]:
    """Return bytes and seconds of a list of shards, as a process is told it, for each of them."""
    begin = time.process_time()
    told = bytes_of(shards)
    return told / len(shards), (time.process_time() - begin) / len(shards)


def bytes_of(message: Any) -> float:
    """Return how many bytes a message between processes of the cluster has."""
    return float(sum(memoryview(frame).nbytes for frame in serialize_bytelist(message)))


def _name(work: Callable[..., Any]) -> str:
    """Return the name of the function that each shard runs."""
    inner = work.args[-1] if isinstance(work, partial) and work.args else work
    return str(inner.func.__name__ if isinstance(inner, partial) else getattr(inner, "__name__", "?"))
