"""Discrete-event simulation of a training that is spread over machines: tasks, messages, files, stragglers and a loss.

A training is a list of steps, one after another: work of the job's process, or tasks handed out to the processes of the
cluster, one for each core. A task goes through

    handing out    by the scheduler or by the job's process, in the order of requests
    message        from the job's machine, with the input that all tasks of the step share
    its core       held while the task reads the files that its process has not read yet, computes and writes
    answer         to the job's machine, whose process adds it to the others

A transfer holds all links on its way (each machine has one each way, so have the job's and the file server, which has a
disk) for bytes / the slowest of their rates, in the order of requests: contention is first come, first served. A lost
machine takes with it what it computes and what it has read; after `Loss.detection` its tasks are handed out again. Slow
tasks are not started a second time elsewhere, nor taken from the queue of a slow process.

Every activity knows which other one it waited for, so the way back from the last one is the critical path, and what its
parts took adds up to the whole time. Events of one time happen in the order in which they were made and each task's
slowness has a seed of its own, so equal seeds give equal runs.
"""

import heapq
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from tests.benchmarks.simulation.steps import Hardware, Kind, Loss, Serial, Simulated, Spread, Step, Stragglers


def simulate(
    steps: Sequence[Step],
    hardware: Hardware,
    *,
    stragglers: Stragglers | None = None,
    loss: Loss | None = None,
    seed: int = 0,
) -> Simulated:
    """Return the run of these steps. ValueError where the only machine is lost. O(tasks log tasks)."""
    return _Run(hardware, stragglers, loss, seed).of(steps)


@dataclass(slots=True, eq=False)
class _Activity:
    """Something that takes time, the step that it belongs to, and what it waited for."""

    kind: Kind
    step: int
    begin: float
    end: float
    cause: "_Activity | None"


@dataclass(slots=True, eq=False)
class _Server:
    """Serves one request after another. rate: bytes a second."""

    rate: float = np.inf
    free: float = 0.0
    busy: float = 0.0
    last: _Activity | None = None


@dataclass(slots=True, eq=False)
class _Machine:
    up: _Server
    down: _Server
    lost: bool = False
    known: bool = False


@dataclass(slots=True, eq=False)
class _Process:
    machine: _Machine
    waiting: "deque[_Attempt]" = field(default_factory=deque)
    attempts: "list[_Attempt]" = field(default_factory=list)
    busy: bool = False
    files: set[Hashable] = field(default_factory=set)
    told: set[Hashable] = field(default_factory=set)
    started: bool = False


@dataclass(slots=True, eq=False)
class _Attempt:
    place: int
    number: int
    process: _Process
    cancelled: bool = False


class _Run:
    """One simulation."""

    def __init__(self, hardware: Hardware, stragglers: Stragglers | None, loss: Loss | None, seed: int) -> None:
        self._hardware, self._stragglers, self._loss, self._seed = hardware, stragglers, loss, seed
        self._job, self._dispatcher = _Server(), _Server()
        self._up, self._down = _Server(hardware.link), _Server(hardware.link)
        self._store_up, self._store_down = _Server(hardware.link), _Server(hardware.link)
        self._disk = _Server(hardware.disk)
        self._machines = [_Machine(_Server(hardware.link), _Server(hardware.link)) for _ in range(hardware.machines)]
        self._processes = [_Process(self._machines[n % hardware.machines]) for n in range(hardware.processes)]
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._order, self._number = count(), 0
        self._last = _Activity(Kind.JOB, 0, 0.0, 0.0, None)
        self._useful = self._computed = 0.0
        self._missing, self._again = set[int](), list[int]()
        if loss is not None:
            if hardware.machines < 2:
                raise ValueError("the only machine is lost")
            self._at(loss.at, self._lose)
            self._at(loss.at + loss.detection, self._know)

    def of(self, steps: Sequence[Step]) -> Simulated:
        spans = []
        for self._number, step in enumerate(steps):
            begin = self._last.end
            if isinstance(step, Serial):
                self._last = self._use([self._job], Kind.JOB, step.seconds, begin, self._last)
                if step.writes:
                    way = [self._up, self._store_down, self._disk]
                    self._last = self._transfer(way, Kind.FILE, step.writes, self._last.end, self._last)
            else:
                self._spread(step)
            spans.append((begin, self._last.end))
        seconds = self._last.end
        return Simulated(
            seconds=seconds,
            steps=spans,
            utilisation={name: busy / seconds if seconds else 0.0 for name, busy in self._busy()},
            path=self._path(),
            useful=self._useful,
            computed=self._computed,
        )

    def _spread(self, step: Spread) -> None:
        """Do all tasks of a step."""
        while self._events and self._events[0][0] <= self._last.end:  # what happened while the job's process worked
            now, _, call = heapq.heappop(self._events)
            call(now)
        tasks = len(step.tasks)
        self._step, self._begun, self._missing, self._tries = step, self._last, set(range(tasks)), [0] * tasks
        self._factors = list[float]()
        self._again = []  # places given to the machine that is lost, until that is known
        self._waiting = deque(range(tasks))
        if step.fixed:
            self._hand_out_fixed(self._last)
        self._hand_out(self._last.end, self._last)
        while self._missing:
            now, _, call = heapq.heappop(self._events)
            call(now)

    def _hand_out_fixed(self, cause: _Activity) -> None:
        tasks, processes, left = len(self._step.tasks), len(self._processes), list[int]()
        for place in self._waiting:
            process = self._processes[(2 * place + 1) * processes // (2 * tasks)]
            if process.machine.known:
                left.append(place)
            else:
                self._give(process, place, cause.end, cause)
        self._waiting = deque(left)

    def _hand_out(self, now: float, cause: _Activity) -> None:
        """Give each process what it is to do next, the first of each before the second of any."""
        for most in range(1, self._step.ahead + 1):
            for process in self._processes:
                if not self._waiting:
                    return
                if not process.machine.known and len(process.attempts) < most:
                    self._give(process, self._waiting.popleft(), now, cause)

    def _give(self, process: _Process, place: int, now: float, cause: _Activity) -> None:
        attempt = _Attempt(place, self._tries[place], process)
        self._tries[place] += 1
        process.attempts.append(attempt)
        by = self._job if self._step.direct else self._dispatcher
        seconds = self._step.dispatch + (0.0 if self._is_told(process) else self._step.telling)
        given = self._use([by], Kind.DISPATCH, seconds, now, cause)
        self._then(given, attempt, self._send)

    def _send(self, attempt: _Attempt, cause: _Activity) -> None:
        process, size = attempt.process, self._step.shared
        if not self._is_told(process):
            size += self._step.tell
            process.told.add(self._step.told)
        way = [self._up, process.machine.down]
        self._then(self._transfer(way, Kind.MESSAGE, size, cause.end, cause), attempt, self._arrived)

    def _is_told(self, process: _Process) -> bool:
        return self._step.told is None or self._step.told in process.told

    def _arrived(self, attempt: _Attempt, cause: _Activity) -> None:
        attempt.process.waiting.append(attempt)
        if not attempt.process.busy:
            self._start(attempt.process, cause)

    def _start(self, process: _Process, cause: _Activity) -> None:
        """Begin with the next task of a process, whose core is free since `cause`."""
        process.busy = False
        if not process.waiting:
            return
        attempt = process.waiting.popleft()
        process.busy = True
        reads = self._step.tasks[attempt.place].reads
        size = sum(size for name, size in reads.items() if name not in process.files)
        if size:
            way = [self._disk, self._store_up, process.machine.down]
            cause = self._transfer(way, Kind.FILE, size, cause.end, cause)
        self._then(cause, attempt, self._compute)

    def _compute(self, attempt: _Attempt, cause: _Activity) -> None:
        task = self._step.tasks[attempt.place]
        attempt.process.files.update(task.reads)
        if self._step.start and not attempt.process.started:
            cause = _Activity(Kind.START, self._number, cause.end, cause.end + self._step.start, cause)
        attempt.process.started = True
        done = _Activity(Kind.TASK, self._number, cause.end, cause.end + task.seconds, cause)
        if self._stragglers is not None:
            longer = (self._slowness(self._stragglers, attempt) - 1.0) * task.seconds
            if longer:
                done = _Activity(Kind.STRAGGLER, self._number, done.end, done.end + longer, done)
        self._computed += done.end - cause.end
        self._then(done, attempt, self._write)

    def _slowness(self, stragglers: Stragglers, attempt: _Attempt) -> float:
        """Return how many times as long this attempt takes; the same in each run with this seed."""
        if attempt.number:
            return stragglers.factors((self._seed, self._number, attempt.number, attempt.place), 1)[0]
        if not self._factors:
            self._factors = stragglers.factors((self._seed, self._number), len(self._step.tasks))
        return self._factors[attempt.place]

    def _write(self, attempt: _Attempt, cause: _Activity) -> None:
        machine, size = attempt.process.machine, self._step.tasks[attempt.place].writes
        if size:
            cause = self._transfer([machine.up, self._store_down, self._disk], Kind.FILE, size, cause.end, cause)
        self._then(cause, attempt, self._answer)

    def _answer(self, attempt: _Attempt, cause: _Activity) -> None:
        process, size = attempt.process, self._step.tasks[attempt.place].answer
        self._start(process, cause)
        answer = self._transfer([process.machine.up, self._down], Kind.MESSAGE, size, cause.end, cause)
        self._then(answer, attempt, self._received)

    def _received(self, attempt: _Attempt, cause: _Activity) -> None:
        process = attempt.process
        process.attempts.remove(attempt)
        self._missing.remove(attempt.place)
        self._useful += self._step.tasks[attempt.place].seconds
        self._last = self._use([self._job], Kind.JOB, self._step.add, cause.end, cause)
        if self._waiting and not process.machine.known:
            self._give(process, self._waiting.popleft(), cause.end, cause)

    def _lose(self, _: float) -> None:
        machine = self._lost_machine()
        machine.lost = True
        if self._missing:
            for process in self._of(machine):
                for attempt in process.attempts:
                    self._drop(attempt)
                process.attempts = []
                process.waiting.clear()

    def _know(self, now: float) -> None:
        self._lost_machine().known = True
        self._redo(now)

    def _redo(self, now: float) -> None:
        if not self._again:
            return
        assert self._loss is not None
        begun = self._begun
        lost = _Activity(Kind.LOST, self._number, begun.end, max(begun.end, self._loss.at), begun)
        known = _Activity(Kind.DETECTION, self._number, lost.end, now, lost)
        self._waiting.extendleft(reversed(self._again))
        self._again = []
        self._hand_out(now, known)

    def _drop(self, attempt: _Attempt) -> None:
        attempt.cancelled = True
        self._again.append(attempt.place)

    def _lost_machine(self) -> _Machine:
        assert self._loss is not None
        return self._machines[self._loss.machine]

    def _of(self, machine: _Machine) -> Iterable[_Process]:
        return (process for process in self._processes if process.machine is machine)

    def _then(self, activity: _Activity, attempt: _Attempt, call: Callable[[_Attempt, _Activity], None]) -> None:
        """Go on with a task when an activity has ended, unless its machine is lost by then."""

        def go_on(now: float) -> None:
            if attempt.cancelled:
                return
            if attempt.process.machine.lost:
                self._drop(attempt)
                if attempt.process.machine.known:
                    self._redo(now)
                return
            call(attempt, activity)

        self._at(activity.end, go_on)

    def _at(self, time: float, call: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (time, next(self._order), call))

    def _transfer(self, way: Sequence[_Server], kind: Kind, size: float, now: float, cause: _Activity) -> _Activity:
        rate = min(server.rate for server in way)
        return self._use(way, kind, size / rate, now, cause, self._hardware.latency)

    def _use(
        self,
        servers: Sequence[_Server],
        kind: Kind,
        seconds: float,
        now: float,
        cause: _Activity,
        latency: float = 0.0,
    ) -> _Activity:
        """Hold servers for so many seconds as soon as all are free; the activity ends `latency` later."""
        begin = now
        for server in servers:
            if server.last is not None and server.free > begin:
                begin, cause = server.free, server.last
        activity = _Activity(kind, self._number, begin, begin + seconds + latency, cause)
        for server in servers:
            server.free, server.last = begin + seconds, activity
            server.busy += seconds
        return activity

    def _busy(self) -> Iterable[tuple[str, float]]:
        """Yield names of resources and seconds for which they were busy, of machines the busiest one."""
        yield "cores of the cluster", self._computed / self._hardware.processes
        yield "the job's process", self._job.busy
        yield "handing out tasks", self._dispatcher.busy
        yield "link of the job's machine, out", self._up.busy
        yield "link of the job's machine, in", self._down.busy
        yield "link of the file server, out", self._store_up.busy
        yield "link of the file server, in", self._store_down.busy
        yield "disk of the file server", self._disk.busy
        yield "link of the busiest machine, out", max(machine.up.busy for machine in self._machines)
        yield "link of the busiest machine, in", max(machine.down.busy for machine in self._machines)

    def _path(self) -> dict[tuple[int, Kind], float]:
        """Return the seconds of each step and kind on the way back from the last activity."""
        found: dict[tuple[int, Kind], float] = {}
        chain, end = [self._last], self._last.end
        while (cause := chain[-1].cause) is not None:
            chain.append(cause)
        for activity in chain:
            key = activity.step, activity.kind
            found[key] = found.get(key, 0.0) + end - activity.begin
            end = activity.begin
        return found
