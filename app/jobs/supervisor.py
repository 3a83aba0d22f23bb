"""A worker: takes one job at a time, has a child process do it, and is the only one to write about it.

The child computes; this process holds the lease. So a loop in C cannot delay a heartbeat, the kernel's out-of-memory
killer takes the child only, and cancelling is a kill. The supervisor never runs numerics and knows nothing
of what jobs are: the child's command and `publish` come from outside.

When the database does not answer the child works on until the lease is over by this machine's monotonic clock,
counted from before the last renewal, and is then killed. An outcome in hand is kept and offered for longer: the
fence decides whether it may still be written.
"""

import logging
import math
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from app.database import Database
from app.errors import LeaseLostError, PursuitError, UnavailableError
from app.jobs import queue, roster
from app.jobs.bell import Bell
from app.jobs.child import describe
from app.jobs.job import JSON, Job
from app.jobs.process import ChildProcess
from app.jobs.roster import LONGEST_WORKER, Size

log = logging.getLogger(__name__)

Publish = Callable[[Connection, Job, JSON], JSON]
"""(connection, job, what the handler returned) -> the job's result; its rows are written in the same
transaction.
"""

PROGRESS_SECONDS = 0.25
WATCH_SECONDS = 0.4
LONGEST_PAUSE = 5.0
WAITING_SECONDS = 10.0
"""A job whose store or cluster did not answer is left to others, or waits, so long; other jobs are done meanwhile."""


@dataclass(slots=True)
class _Held:
    """What the supervisor knows of the job it holds; times are of the monotonic clock."""

    job: Job
    child: ChildProcess
    renewed: float
    watched: float
    progress: JSON | None = None
    checkpoint: JSON | None = None
    outcome: dict[str, Any] = field(default_factory=dict)
    pause: float = 0.0
    wait_until: float = 0.0


class Supervisor:
    """See the module. `environment` is added to this process's own for the child; `worker` names it in the
    rows; `most` is the largest job that it takes; `may_work` raises UnavailableError where it
    should take none now.

    The thread that calls `run` must live as long as the child: on Linux the child dies with that thread.
    """

    def __init__(
        self,
        *,
        database: Database,
        command: Sequence[str],
        environment: Mapping[str, str],
        publish: Publish,
        worker: str,
        lease_seconds: float = 60.0,
        poll_seconds: float = 0.5,
        most: Size = queue.ANY,
        may_work: Callable[[], None] = lambda: None,
    ) -> None:
        self._database = database
        self._command = tuple(command)
        self._environment = dict(environment)
        self._publish = publish
        self._worker = worker[:LONGEST_WORKER]
        self._lease = lease_seconds
        self._poll = poll_seconds
        self._most = most
        self._may_work = may_work
        self._bell = Bell(database)
        self._signed = -math.inf
        self._waiting: dict[str, float] = {}

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set; then the running job goes back to the queue, without this try counting."""
        pause = self._poll
        while not stop.is_set():
            try:
                worked = self.run_one(stop)
                pause = self._poll
            except UnavailableError as error:
                pause = min(2 * pause, LONGEST_PAUSE)
                log.warning("no job could be taken, again in %.1f s: %s", pause, error)
                worked = False
            if not worked:
                self._bell.wait(pause * random.uniform(0.75, 1.25), stop)
        self._bell.close()

    def run_one(self, stop: threading.Event) -> bool:
        """Take the next job and see it to its end; False if there is none. UnavailableError if none can be
        taken.
        """
        if self._must_sign():
            with self._database.write() as connection:
                self._sign(connection)
        now = time.monotonic()
        self._waiting = {job: until for job, until in self._waiting.items() if until > now}
        with self._database.read() as connection:
            if not queue.has_work(connection, most=self._most, without=self._waiting):
                return False
        self._may_work()
        began = time.monotonic()
        with self._database.write() as connection:
            job = queue.claim(
                connection, worker=self._worker, lease_seconds=self._lease, most=self._most, without=self._waiting
            )
        if job is None:
            return False
        log.info("%s: claim %d by %s (%s of %s)", job.id, job.fence, self._worker, job.kind, job.model)
        try:
            self._attend(job, began, stop)
        except LeaseLostError as error:
            log.warning("%s: given up: %s", job.id, error)
        except Exception:
            log.exception("%s: the supervisor broke", job.id)
            self._end(job, stop, lambda connection: queue.died(connection, job, "the supervisor broke, see its log"))
        return True

    def _attend(self, job: Job, began: float, stop: threading.Event) -> None:
        try:
            child = ChildProcess(self._command, self._environment, job, deadline=began + self._lease)
        except OSError as error:
            reason = f"the child could not be started: {error}"
            self._end(job, stop, lambda connection: queue.died(connection, job, reason))
            return
        held = _Held(job=job, child=child, renewed=began, watched=time.monotonic())
        try:
            end = self._listen(held, stop)
        finally:
            child.close()
        self._end(job, stop, end)

    def _listen(self, held: _Held, stop: threading.Event) -> Callable[[Connection], Job]:
        """Stay with the child until there is something to end with; what to write then. LeaseLostError."""
        job, child = held.job, held.child
        while True:
            if stop.is_set():
                return lambda connection: queue.release(connection, job)
            over = child.is_over()
            message = child.receive(0.0 if over else PROGRESS_SECONDS / 2)
            if message is not None:
                self._hear(held, message)
            elif over:
                reason = child.reason()
                log.warning("%s: the child %s", job.id, reason)
                return lambda connection: queue.died(connection, job, reason)
            if time.monotonic() >= held.wait_until and self._tell(held):
                return lambda connection: queue.cancelled(connection, job)
            if held.outcome:
                return self._outcome(held)

    def _hear(self, held: _Held, message: dict[str, Any]) -> None:
        ((kind, body),) = message.items()
        if kind == "progress":
            held.progress = body
        elif kind == "checkpoint":
            held.checkpoint = body
        elif kind in {"done", "failed", "postponed"}:
            held.outcome = message
        else:
            held.outcome = {"failed": {"type": "internal", "message": f"the child sent {kind!r}"}}

    def _tell(self, held: _Held) -> bool:
        """Write or look if it is time; True if the job is to be cancelled. A silent database is tried again
        later.
        """
        began = time.monotonic()
        since = began - held.renewed
        write = (
            held.checkpoint is not None
            or since >= self._lease / 3
            or (held.progress is not None and since >= PROGRESS_SECONDS)
        )
        if not write and began - held.watched < WATCH_SECONDS:
            return False
        try:
            wish = self._renew(held) if write else self._watch(held)
        except UnavailableError as error:
            held.pause = min(max(2 * held.pause, 0.1), LONGEST_PAUSE, self._lease / 10)
            held.wait_until = time.monotonic() + held.pause
            log.warning("%s: the heartbeat failed, again in %.1f s: %s", held.job.id, held.pause, error)
            return False
        held.pause = 0.0
        held.watched = began
        return wish

    def _renew(self, held: _Held) -> bool:
        began = time.monotonic()
        with self._database.write() as connection:
            if self._must_sign():
                self._sign(connection)
            if held.checkpoint is not None:
                queue.save_checkpoint(connection, held.job, held.checkpoint)
            wish = queue.renew(connection, held.job, lease_seconds=self._lease, progress=held.progress)
        held.renewed = began
        held.child.deadline = began + self._lease
        held.checkpoint = held.progress = None
        return wish

    def _must_sign(self) -> bool:
        return time.monotonic() - self._signed >= self._lease / 3

    def _sign(self, connection: Connection) -> None:
        """Say that this worker is here, and end what is too large for all that are."""
        roster.sign(connection, self._worker, self._most)
        for job in queue.fail_unfit(connection):
            log.warning("%s: %s", job.id, (job.error or {}).get("message"))
        self._signed = time.monotonic()

    def _watch(self, held: _Held) -> bool:
        with self._database.read() as connection:
            return queue.watch(connection, held.job)

    def _outcome(self, held: _Held) -> Callable[[Connection], Job]:
        """What the end of a child's work writes, unless the job was cancelled meanwhile."""

        job, outcome = held.job, held.outcome
        if "postponed" in outcome:
            log.warning("%s: back to the queue: %s", job.id, outcome["postponed"].get("message"))
            self._waiting[job.id] = time.monotonic() + WAITING_SECONDS

        def end(connection: Connection) -> Job:
            if queue.renew(connection, job, lease_seconds=self._lease, progress=held.progress):
                return queue.cancelled(connection, job)
            if "failed" in outcome:
                return queue.fail(connection, job, outcome["failed"])
            if "postponed" in outcome:
                return queue.postpone(connection, job, outcome["postponed"])
            return queue.succeed(connection, job, self._publish(connection, job, outcome["done"]))

        return end

    def _end(self, job: Job, stop: threading.Event, end: Callable[[Connection], Job]) -> None:
        """Write the end in one transaction, for as long as it takes; LeaseLostError if it is not ours to write.

        When publishing is refused or broken, the job fails with that.
        """
        pause = 0.1
        failing = False
        while True:
            try:
                with self._database.write() as connection:
                    ended = end(connection)
                log.info("%s: %s", job.id, ended.state)
                return
            except LeaseLostError:
                raise
            except UnavailableError as error:
                log.warning("%s: its end could not be written, again in %.1f s: %s", job.id, pause, error)
                if stop.wait(pause):
                    log.warning("%s: stopped before its end was written; the lease will run out", job.id)
                    return
                pause = min(2 * pause, LONGEST_PAUSE)
            except Exception as error:
                if failing:
                    raise
                failing = True
                end = self._failure(job, self._explain(job, error))

    @staticmethod
    def _explain(job: Job, error: Exception) -> dict[str, Any]:
        if isinstance(error, PursuitError):
            return describe(error)
        log.error("%s: publishing broke", job.id, exc_info=error)
        return {"type": "internal", "message": f"an internal error; the worker's log has it under {job.id}"}

    @staticmethod
    def _failure(job: Job, error: dict[str, Any]) -> Callable[[Connection], Job]:
        return lambda connection: queue.fail(connection, job, error)
