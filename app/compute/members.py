"""The processes of a Dask cluster that add up for one training, and the division of a sum among them.

Each process has an actor (`app.compute.actor`), which is called directly. A sum that is one of hundreds, the objective
of some ten thousand rows, takes a quarter of a second: a graph of two tasks cost 45 ms of processor time in
scheduler, client and workers, two calls of actors cost 15 ms (`tests/benchmarks/results/large.md`).

Each sum is divided, and candidates (two descents of a round) are not computed side by side: few evaluations have
another beside them, and divided ones cost two processes together no more than one.

A short sum is one run of neighbouring shards for each process, by how fast it was before, and the same run each time:
so it finds there what the last pass has left. A long one, of more than LONG_WORK for each thread, is cut into pieces of
PIECE_WORK, which go to whoever is free, unless its processes keep what they have made of their run.
"""

import asyncio
import time
import uuid
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

from distributed import Actor, Client
from distributed import Future as DaskFuture

from app.compute.actor import ProcessSums
from app.compute.shards import PartialSum, Shard
from app.errors import TooLargeError
from core.numeric.shards import Node, halves_joined

START_SECONDS = 30.0
"""Seconds that a process may take to make its actor: the first one imports the package."""
START_POLL_SECONDS = 0.05
POLL_SECONDS = 2.0
"""Seconds after which the scheduler is asked again which processes there are."""
LONG_WORK, PIECE_WORK = 4e10, 1e10
"""Multiply-adds of a long sum and of a piece of it, for each thread. A piece is some tenths of a second, which are lost
with a process; larger ones are waited for longer in the end (`tests/benchmarks/results/large.md`)."""
AHEAD = 2
"""Pieces that a process has at once, so that it never waits for the next one."""
MOST_LOST = 3
"""Processes that may die of one piece."""
NEW_SHARE, UNEVEN = 0.3, 1.1
"""Share of the last sum in what is known of a process's speed; how much longer an old division may take than a new
one."""
LOST_ERRORS = (OSError, asyncio.CancelledError, CancelledError, KeyError, RuntimeError)
"""Errors of a call whose process or actor is lost: those of the sum itself come in its result."""


Nodes = dict[range, Sequence[Node[Any]]]
"""The known parts of a sum: nodes by run of its items."""


class SchedulerLostError(Exception):
    """The connection to the scheduler is lost."""


class NoProcessesError(Exception):
    """There were none for too long."""


@dataclass(slots=True, eq=False)
class Member:
    """A process of the cluster, its actor, and what it is known to do: threads, multiply-adds a second; known: by the
    names of spread rows and partitions, those partitions that it was told."""

    address: str
    threads: int
    actor: Actor
    future: DaskFuture[Any]
    speed: float = 0.0
    known: dict[str, set[int]] = field(default_factory=dict)


class Summed(Protocol):
    """A sum that is divided into runs of its items."""

    @property
    def name(self) -> str:
        """Name of the items."""
        ...

    @property
    def count(self) -> int:
        """Number of the items."""
        ...

    @property
    def stays(self) -> bool:
        """Return whether processes keep what they make of an item, so that each has its run however long it takes."""
        ...

    def cost(self, places: range) -> float:
        """Return about how many multiply-adds a run takes."""
        ...

    def call(self, known: dict[str, set[int]], places: range, threads: int) -> tuple[str, tuple[Any, ...]]:
        """Return the method of a process's actor that does a run, and its arguments. known: what the process was told,
        to which is added what it is told now."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sum:
    """A sum over shards: their name, themselves, the rows of each, and `total`'s arguments."""

    name: str
    shards: Sequence[Shard]
    rows: Sequence[int]
    work: Callable[..., Any]
    size: int
    least: int

    @property
    def count(self) -> int:
        """Number of shards."""
        return len(self.shards)

    @property
    def stays(self) -> bool:
        """Return False: any process may read any shard."""
        return False

    def cost(self, places: range) -> float:
        """Return about how many multiply-adds a run of shards takes."""
        return float(sum(self.rows[place] for place in places)) * self.size**2

    def call(self, known: dict[str, set[int]], places: range, threads: int) -> tuple[str, tuple[Any, ...]]:
        """Return `ShardSums.total` and its arguments."""
        shards = None if self.name in known else self.shards
        known.setdefault(self.name, set())
        return "total", (self.name, shards, places, self.work, self.size, self.least, threads)


class Members:
    """The processes of the cluster that a client is connected to."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._members: dict[str, Member] = {}
        self._starting: dict[str, tuple[int, DaskFuture[Any]]] = {}
        self._asked_at = -POLL_SECONDS
        self._divisions: dict[str, tuple[tuple[str, ...], list[range]]] = {}

    def any(self) -> bool:
        """Return whether there is a process, or one that starts. SchedulerLostError."""
        self._refresh()
        return bool(self._members or self._starting)

    def forget(self, name: str) -> None:
        """Let the processes give back what they keep under a name; nobody waits for that."""
        self._divisions.pop(name, None)
        for member in self._members.values():
            if member.known.pop(name, None) is not None:
                with suppress(RuntimeError):  # the loop has ended
                    asyncio.run_coroutine_threadsafe(_forget(member.actor, name), self._client.loop.asyncio_loop)

    def total(self, asked: Summed, done: Nodes, patience: float) -> None:
        """Add what is missing to `done`, nodes by run of shards, so that it covers all of them. Memory: what two nodes
        of each level of the tree take, and those beside runs that are waited for.

        SchedulerLostError, which leaves the finished runs in `done`; NoProcessesError where there are none for
        `patience` seconds; TooLargeError where several died of one run; whatever the work raises.
        """
        self._find()
        running: dict[Future[PartialSum], tuple[Member, range]] = {}
        own = {} if done else self._own_runs(asked)
        waiting = [places for _, places in own.items()] or self._pieces(asked, done)
        lost: dict[range, int] = {}
        seen = time.monotonic()
        try:
            while waiting or running:
                self._hand_out(asked, waiting, own, running)
                ended, _ = wait(running, POLL_SECONDS, FIRST_COMPLETED) if running else (set(), None)
                if not running:
                    time.sleep(START_POLL_SECONDS)
                for future in ended:
                    member, places = running.pop(future)
                    found = self._result(future, member)
                    if found is None:
                        lost[places] = lost.get(places, 0) + 1
                        if lost[places] > MOST_LOST:
                            raise TooLargeError(
                                f"several workers of the cluster died of parts {places.start} to {places.stop} of "
                                f"{asked.count}: they probably do not fit their memory"
                            )
                        waiting.insert(0, places)
                        own = {}
                    elif found.error is not None:
                        raise found.error
                    else:
                        _keep(done, places, found.nodes)
                        self._learn(member, asked.cost(places), found.seconds)
                self._refresh()
                if ended or self._members or self._starting:
                    seen = time.monotonic()
                if time.monotonic() - seen > patience:
                    raise NoProcessesError
        finally:
            for future in running:
                future.cancel()

    def _hand_out(
        self,
        asked: Summed,
        waiting: list[range],
        own: dict[str, range],
        running: dict[Future[PartialSum], tuple[Member, range]],
    ) -> None:
        """Give each process what it is to do next."""
        for count in range(1, AHEAD + 1):
            for member in self._members.values():
                if not waiting or sum(each is member for each, _ in running.values()) >= count:
                    continue
                places = own.get(member.address)
                if own and places not in waiting:
                    continue
                places = waiting[0] if places is None else places
                waiting.remove(places)
                running[self._call(member, asked, places)] = member, places

    def _call(self, member: Member, asked: Summed, places: range) -> "Future[PartialSum]":
        method, arguments = asked.call(member.known, places, member.threads)

        async def called() -> PartialSum:
            found: PartialSum = await getattr(member.actor, method)(*arguments)
            return found

        return self._in_loop(called())

    def _in_loop(self, coroutine: Coroutine[Any, Any, PartialSum]) -> "Future[PartialSum]":
        return asyncio.run_coroutine_threadsafe(coroutine, self._client.loop.asyncio_loop)

    def _result(self, future: "Future[PartialSum]", member: Member) -> PartialSum | None:
        """Return what a process has answered; None where it is lost."""
        try:
            return future.result()
        except LOST_ERRORS:
            self._members.pop(member.address, None)
            self._asked_at = -POLL_SECONDS
            return None

    def _learn(self, member: Member, cost: float, seconds: float) -> None:
        speed = cost / max(seconds, 1e-6)
        member.speed = speed if member.speed == 0.0 else (1.0 - NEW_SHARE) * member.speed + NEW_SHARE * speed

    def _own_runs(self, asked: Summed) -> dict[str, range]:
        """Return the run of each process in a short sum, or in one whose processes keep things; none for a long one, or
        without a process."""
        everything = range(asked.count)
        threads = sum(member.threads for member in self._members.values())
        if not threads or (asked.cost(everything) > LONG_WORK * threads and not asked.stays):
            return {}
        members = list(self._members.values())
        addresses = tuple(member.address for member in members)
        speeds = _speeds(members)
        new = _divided(asked, speeds)
        known = self._divisions.get(asked.name)
        if known is not None and known[0] == addresses:
            old = known[1]
            if _longest(asked, old, speeds) <= UNEVEN * _longest(asked, new, speeds):
                new = old
        self._divisions[asked.name] = addresses, new
        return {address: places for address, places in zip(addresses, new, strict=True) if len(places)}

    def _pieces(self, asked: Summed, done: Nodes) -> list[range]:
        """Return the runs of a long sum that are not done: a power of two of shards, each two to their threads."""
        threads = max((member.threads for member in self._members.values()), default=1)
        count, length = asked.count, 1
        gaps, at = [], 0
        for places in sorted(done, key=lambda each: each.start):
            gaps.append(range(at, places.start))
            at = places.stop
        gaps.append(range(at, count))
        total = asked.cost(range(count))
        while length < count and (length < threads or total * 2 * length <= PIECE_WORK * threads * count):
            length *= 2
        return [
            range(max(gap.start, start), min(gap.stop, start + length))
            for gap in gaps
            for start in range(gap.start - gap.start % length, gap.stop, length)
        ]

    def _find(self) -> None:
        """Know the processes before the first sum: all that there are, as far as they start in time."""
        deadline = time.monotonic() + START_SECONDS
        self._refresh()
        while not self._members and self._starting and time.monotonic() < deadline:
            while self._starting and time.monotonic() < deadline:
                time.sleep(START_POLL_SECONDS)
                self._refresh()

    def _refresh(self) -> None:
        """Ask the scheduler, if it is time, which processes there are, and make actors in new ones."""
        if self._client.status != "running":
            raise SchedulerLostError(f"the connection is {self._client.status}")
        if time.monotonic() - self._asked_at >= POLL_SECONDS:
            try:
                threads = self._client.nthreads()
            except (*LOST_ERRORS, AttributeError) as error:  # a client that is closed has no scheduler
                raise SchedulerLostError(f"{type(error).__name__}: {error}") from None
            self._asked_at = time.monotonic()
            self._members = {address: member for address, member in self._members.items() if address in threads}
            self._starting = {address: one for address, one in self._starting.items() if address in threads}
            for address in threads.keys() - self._members.keys() - self._starting.keys():
                key = f"sums-{uuid.uuid4().hex}"
                future = self._client.submit(ProcessSums, actor=True, workers=[address], key=key)
                self._starting[address] = threads[address], future
        for address, (count, future) in list(self._starting.items()):
            if future.done():
                del self._starting[address]
                future.result()
                with self._client.as_current():  # an actor belongs to the client that is current when it is made
                    actor = Actor(ProcessSums, address, future.key)
                self._members[address] = Member(address, count, actor, future)


def _keep(done: Nodes, places: range, nodes: Sequence[Node[Any]]) -> None:
    """Add a run to those that are done, joined with those beside it: a long sum of large results is never held in as
    many of them as it has pieces."""
    before = next((run for run in done if run.stop == places.start), range(places.start, places.start))
    after = next((run for run in done if run.start == places.stop), range(places.stop, places.stop))
    found = [*done.pop(before, ()), *nodes, *done.pop(after, ())]
    done[range(before.start, after.stop)] = halves_joined(found)


async def _forget(actor: Actor, name: str) -> None:
    with suppress(*LOST_ERRORS):
        await actor.forget_partitions(name)


def _speeds(members: Sequence[Member]) -> list[float]:
    """Return speeds of processes, those not known yet by their threads."""
    known = [member for member in members if member.speed > 0.0]
    of_a_thread = sum(member.speed for member in known) / sum(member.threads for member in known) if known else 1.0
    return [member.speed or of_a_thread * member.threads for member in members]


def _divided(asked: Summed, speeds: Sequence[float]) -> list[range]:
    """Return a run of shards for each process, by their speeds."""
    count, total, ends, passed = asked.count, sum(speeds), [0], 0.0
    for speed in speeds:
        passed += speed
        ends.append(round(count * passed / total))
    return [range(begin, end) for begin, end in pairwise(ends)]


def _longest(asked: Summed, division: Sequence[range], speeds: Sequence[float]) -> float:
    return max(asked.cost(places) / speed for places, speed in zip(division, speeds, strict=True))
