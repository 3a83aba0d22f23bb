"""Steps of a training of a table of any size on any cluster, from parts that were measured on one core.

What the job's process does stays as it is, and for each row more that the table has than the measured one it takes so
much longer. Reading and the sum over the rows beyond the sample are as many tasks as the table has parts; sums over the
sample are what they were. Sums are divided as `app.compute.members` does, between processes of one thread each.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from app.compute.members import AHEAD, PIECE_WORK
from tests.benchmarks.simulation.parts import Gap, MappedWork, MeasuredSum, Parts, Reading
from tests.benchmarks.simulation.steps import Hardware, Serial, Spread, Step, Task

TABLE_PART = "reading the table"
BEYOND = "sum over all rows"
ROWS_OF_TABLE = "what grows with the table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A table of so many rows, in parts as large as the measured ones, as these say that it takes. piece_work:
    multiply-adds of a piece of a long sum."""

    parts: Parts
    rows: int
    piece_work: float = PIECE_WORK

    @property
    def part(self) -> int:
        """Rows of a part."""
        return self.parts.reading.largest

    @property
    def count(self) -> int:
        """Number of parts."""
        return -(-self.rows // self.part)

    def steps(self, hardware: Hardware) -> list[Step]:
        """Return the steps of its training, in order."""
        return list(self._steps(hardware))

    def _steps(self, hardware: Hardware) -> Iterator[Step]:
        last = len(self.parts.events) - 1
        for place, event in enumerate(self.parts.events):
            if isinstance(event, Gap):
                yield Serial(name=f"{event.phase}: the job's process", seconds=event.seconds)
            elif isinstance(event, Reading):
                yield self._reading(event)
            elif isinstance(event, MappedWork):
                yield self._mapped(event)
            elif event.beyond:
                yield self._beyond(event)
            else:
                yield self._of_sample(event, hardware)
            if place == last:
                more = self.rows - self.parts.rows
                yield Serial(
                    name=ROWS_OF_TABLE,
                    seconds=max(self.parts.counted * more, 0.0),
                    writes=max(self.parts.written * more, 0.0),
                )

    def _reading(self, read: Reading) -> Spread:
        tasks = [
            Task(
                seconds=read.seconds * rows,
                reads={("table", place): self.parts.file * rows},
                writes=read.written * rows,
                answer=read.answer * rows + 8.0 * (self.parts.columns + 2) * self.parts.sample * rows / self.rows,
            )
            for place, rows in enumerate(self._rows_of_parts())
        ]
        return Spread(
            name=TABLE_PART,
            tasks=tasks,
            shared=read.request,
            dispatch=self.parts.messages.task,
            start=self.parts.imports,
            ahead=AHEAD,
        )

    def _mapped(self, found: MappedWork) -> Spread:
        """Each part has a request of its own, as many bytes on the average."""
        tasks = [
            Task(seconds=seconds, answer=answer) for seconds, answer in zip(found.seconds, found.answers, strict=True)
        ]
        shared = sum(found.requests) / len(found.requests)
        name = f"{found.phase}: parts by themselves"
        return Spread(name=name, tasks=tasks, shared=shared, dispatch=self.parts.messages.task, ahead=AHEAD)

    def _beyond(self, found: MeasuredSum) -> Spread:
        each, rows = sum(found.seconds) / sum(found.rows), self._rows_of_parts()
        size = self.count
        length = piece_length([max(found.believed)] * size, found.size, self.piece_work)
        tasks = [
            Task(
                seconds=each * sum(rows[begin : begin + length]) + found.add * (len(rows[begin : begin + length]) - 1),
                reads={
                    ("shard", place): 8.0 * (self.parts.columns + 1) * rows[place]
                    for place in range(begin, min(begin + length, size))
                },
                answer=found.answer,
            )
            for begin in range(0, size, length)
        ]
        return self._summed(BEYOND, found, tasks, size, fixed=False)

    def _of_sample(self, found: MeasuredSum, hardware: Hardware) -> Spread:
        tasks = []
        for places in runs(len(found.shards), hardware.processes):
            seconds = sum(found.seconds[place] for place in places) + found.add * (len(places) - 1)
            reads: dict[Hashable, float] = {found.shards[place]: found.read[place] for place in places}
            tasks.append(Task(seconds=seconds, reads=reads, answer=found.answer))
        name = f"{found.phase}: sums over the sample"
        return self._summed(name, found, tasks, len(found.shards), fixed=True)

    def _summed(self, name: str, found: MeasuredSum, tasks: Sequence[Task], shards: int, *, fixed: bool) -> Spread:
        messages = self.parts.messages
        return Spread(
            name=name,
            tasks=[
                Task(seconds=task.seconds + messages.called, reads=task.reads, answer=task.answer) for task in tasks
            ],
            shared=found.shared,
            dispatch=messages.call,
            add=found.add,
            direct=True,
            ahead=AHEAD,
            fixed=fixed,
            told=found.spread,
            tell=found.told * shards,
            telling=found.telling * shards,
        )

    def _rows_of_parts(self) -> list[int]:
        return [min(self.part, self.rows - begin) for begin in range(0, self.rows, self.part)]


def runs(shards: int, processes: int) -> list[range]:
    """Return the run of neighbouring shards of each process that has one, even ones, as `Members` divides a short sum
    between processes of one speed."""
    ends = [round(shards * place / processes) for place in range(processes + 1)]
    return [range(begin, end) for begin, end in pairwise(ends) if begin < end]


def piece_length(rows: Sequence[int], size: int, work: float = PIECE_WORK) -> int:
    """Return the shards of a piece of a long sum, a power of two: so many multiply-adds, as `Members` cuts it."""
    total, length = float(sum(rows)) * size**2, 1
    while length < len(rows) and total * 2 * length <= work * len(rows):
        length *= 2
    return length
