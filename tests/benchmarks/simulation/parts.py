"""Parts of a training as they were measured, on one core: what a simulation is made of."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Seconds of the job's process before the next thing that it gives away, or before its end, and their phase."""

    phase: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Parts of a table that were read: how many, their rows, those of the largest one; of one row seconds, bytes
    written and bytes of the answer beside the sample; bytes of a request."""

    parts: int
    rows: int
    largest: int
    seconds: float
    written: float
    answer: float
    request: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSum:
    """A sum over shards: what is summed, of the sample or of the rows beyond it; of each shard its rows, those that the
    cluster believes it to have, seconds and bytes of its file; basis or pool size; bytes of the input that all share
    and of an answer; seconds of adding two.

    spread: number of these rows among all that were spread. A process is told once of them: bytes and seconds a shard.
    """

    name: str
    phase: str
    shards: Sequence[str]
    beyond: bool
    rows: Sequence[int]
    believed: Sequence[int]
    seconds: Sequence[float]
    read: Sequence[float]
    size: int
    shared: float
    answer: float
    add: float
    spread: int
    told: float
    telling: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedWork:
    """Work of which each part is by itself: its name and phase; seconds, bytes of the request and of the answer of each
    part."""

    name: str
    phase: str
    seconds: Sequence[float]
    requests: Sequence[float]
    answers: Sequence[float]


Event = Gap | Reading | MeasuredSum | MappedWork


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """Processor seconds of a call of a process that sums, at the caller and there, and of a task that the scheduler
    hands out."""

    call: float
    called: float
    task: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What was measured: of a table of `rows` rows with `columns` columns and a basis of `size`, its events in order;
    bytes of its file for each row; rows of the sample; seconds and bytes written of the job's process for each row of a
    table; seconds of taking the table in before, for each row; messages;
    seconds that a process of the cluster takes to load the code, and after which its
    connections to a silent machine end (a setting)."""

    rows: int
    columns: int
    size: int
    events: Sequence[Event]
    sample: int
    file: float
    counted: float
    written: float
    taken_in: float
    messages: Messages
    imports: float
    detection: float

    @property
    def reading(self) -> Reading:
        """The reading of the table."""
        return next(event for event in self.events if isinstance(event, Reading))

    @property
    def gaps(self) -> list[Gap]:
        """Work of the job's process."""
        return [event for event in self.events if isinstance(event, Gap)]

    @property
    def mapped(self) -> list[MappedWork]:
        """Work of which each part is by itself."""
        return [event for event in self.events if isinstance(event, MappedWork)]

    @property
    def sums(self) -> list[MeasuredSum]:
        """Sums over shards."""
        return [event for event in self.events if isinstance(event, MeasuredSum)]
