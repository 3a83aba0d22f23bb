"""What is simulated: machines, the steps of a training, what goes wrong, and what comes out."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np


class Kind(StrEnum):
    """What an activity is."""

    JOB = "the job's process"
    DISPATCH = "handing out"
    MESSAGE = "messages and answers"
    FILE = "reading and writing files"
    START = "loading the code"
    TASK = "tasks"
    STRAGGLER = "tasks that take longer"
    LOST = "work lost with a machine"
    DETECTION = "until its loss is known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """Machines of so many cores; bytes a second of each link, one way, and of the file server's disk; seconds of a
    message beside its bytes."""

    machines: int
    cores: int
    link: float
    disk: float
    latency: float = 0.0

    @property
    def processes(self) -> int:
        """Number of processes, one for each core."""
        return self.machines * self.cores


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Seconds on one core, bytes of each file that it reads, bytes written, and bytes of its answer."""

    seconds: float
    reads: Mapping[Hashable, float] = field(default_factory=dict)
    writes: float = 0.0
    answer: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Serial:
    """Work of the job's process; bytes that it writes to the file server."""

    name: str
    seconds: float
    writes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Tasks. shared: bytes sent with each; dispatch: seconds of handing one out; add: seconds of adding an answer.

    direct: the job's process hands out, and not the scheduler. ahead: tasks that a process has at once. fixed: a task
    goes to the same process in each such step, while that is there. start: seconds of a process before its first task
    of all. told: what each process is told once, with `tell` bytes and `telling` seconds more of handing out.
    """

    name: str
    tasks: Sequence[Task]
    shared: float = 0.0
    dispatch: float = 0.0
    add: float = 0.0
    direct: bool = False
    ahead: int = 2
    fixed: bool = False
    start: float = 0.0
    told: Hashable = None
    tell: float = 0.0
    telling: float = 0.0


Step = Serial | Spread


def work_of(step: Step) -> float:
    """Return the seconds of a step on one core."""
    return step.seconds if isinstance(step, Serial) else sum(task.seconds for task in step.tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stragglers:
    """A share of the tasks takes `least` times as long or more: least (1 - u)^(-1/tail), u uniform, at most `most`."""

    share: float
    least: float
    tail: float
    most: float

    def factors(self, seed: Sequence[int], count: int) -> list[float]:
        """Return how many times as long each of so many tasks takes."""
        slow, uniform = np.random.default_rng(seed).random((2, count))
        longer = np.minimum(self.least * (1.0 - uniform) ** (-1.0 / self.tail), self.most)
        factors: list[float] = np.where(slow < self.share, longer, 1.0).tolist()
        return factors


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A machine that is lost at this time, and the seconds until the others know."""

    machine: int
    at: float
    detection: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """seconds in all; begin and end of each step; share of the time for which each resource, or the busiest one of a
    kind, was busy; seconds of the critical path by step and kind; core seconds of tasks whose answers counted, as they
    would take without stragglers, and of all that was computed."""

    seconds: float
    steps: Sequence[tuple[float, float]]
    utilisation: Mapping[str, float]
    path: Mapping[tuple[int, Kind], float]
    useful: float
    computed: float
