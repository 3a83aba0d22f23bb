"""The supervisor of a worker: claims one job at a time, runs it in a child process, and alone writes about it.

The child computes; this process holds the lease. So a loop in C cannot delay a heartbeat, the kernel's out-of-memory
killer takes the child only, and cancelling is a kill. The supervisor never runs numerics and knows nothing
of what jobs are: the child's command and `publish` come from outside.

When the database does not answer, the child works on until the lease expires by this machine's monotonic clock,
counted from before the last renewal, and is then killed. A result that is there is kept and written later: the fence
decides whether it still may be.
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

from app.database.engine import Database
from app.database.tables import WORKER_NAME_LENGTH
from app.errors import LeaseLostError, PursuitError, UnavailableError
from app.jobs import queue
from app.jobs.child import describe
from app.jobs.early_deaths import EARLY_DEATH_SECONDS, EarlyDeaths
from app.jobs.job import JSON, Job
from app.jobs.notify import JobListener
from app.jobs.observer import JobObserver
from app.jobs.process import ChildProcess
from app.jobs.watch import Watch
from app.jobs.workers import UNLIMITED, WORKER_TIMEOUT_SECONDS, Resources, record_heartbeat
from app.log import log_fields

log = logging.getLogger(__name__)

Publish = Callable[[Connection, Job, JSON], JSON]
"""Function (connection, job, what the handler returned) -> the job's result; it writes in the transaction that ends
the job.
"""

PROGRESS_INTERVAL_SECONDS = 0.25
CANCEL_CHECK_SECONDS = 0.4
MAX_RETRY_SECONDS = 5.0
"""The longest pause between two tries to reach the database."""
POSTPONED_JOB_SECONDS = 10.0
"""Seconds for which this worker leaves a job whose store or cluster was unavailable to others."""
STOP_PATIENCE_SECONDS = 1.0
"""Seconds in which this process hears of a signal that its child was ended by too, as a service manager sends it to
all."""


@dataclass(slots=True)
class _RunningJob:
    """The job in hand with its process; times are of the monotonic clock."""

    job: Job
    child: ChildProcess
    renewed_at: float
    checked_at: float
    began_at: float
    progress: JSON | None = None
    checkpoint: JSON | None = None
    milestone: int | None = None
    reached_something: bool = False
    outcome: dict[str, Any] = field(default_factory=dict)
    retry_pause: float = 0.0
    retry_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """End of a try: the function that writes it, and why the job goes back to the queue if it does, in one word."""

    write: Callable[[Connection], Job]
    requeued: str = ""


class Supervisor:
    """Loop of one worker: claim, run, write the end.

    `environment` is added to this process's own for the child; `worker` is its name in the database; `limits` are those
    of the jobs that it takes; `check_ready` raises UnavailableError where it should take none now; `observer` is told
    of all jobs; one that is too large for all workers fails after `larger_worker_seconds`.

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
        limits: Resources = UNLIMITED,
        check_ready: Callable[[], None] = lambda: None,
        observer: JobObserver | None = None,
        larger_worker_seconds: float = WORKER_TIMEOUT_SECONDS,
    ) -> None:
        self._database = database
        self._command = tuple(command)
        self._environment = dict(environment)
        self._publish = publish
        self._worker = worker[:WORKER_NAME_LENGTH]
        self._lease = lease_seconds
        self._poll = poll_seconds
        self._limits = limits
        self._check_ready = check_ready
        self._observer = observer or JobObserver()
        self._larger_worker = larger_worker_seconds
        self._watch = Watch(lease_seconds)
        self._deaths = EarlyDeaths()
        self._listener = JobListener(database)
        self._heartbeat_at = -math.inf
        self._postponed: dict[str, float] = {}

    def run(self, stop: threading.Event, give_back: threading.Event | None = None) -> None:
        """Claim jobs until `stop` is set, and finish the running one unless `give_back` is set too: then it returns to
        the queue, and this attempt does not count. Without `give_back` it returns at once.
        """
        pause = self._poll
        while not stop.is_set():
            try:
                worked = self.run_one(give_back or stop)
                pause = self._poll
            except UnavailableError as error:
                pause = min(2 * pause, MAX_RETRY_SECONDS)
                log.warning("no job could be claimed, next try in %.1f s: %s", pause, error)
                worked = False
            if not worked:
                self._listener.wait(pause * random.uniform(0.75, 1.25), stop)
        self._listener.close()

    def run_one(self, stop: threading.Event) -> bool:
        """Claim the next job and run it to its end, or until `stop` is set; False if there is none. UnavailableError if
        none can be claimed.
        """
        if self._heartbeat_is_due():
            with self._database.write() as connection:
                self._record_heartbeat(connection)
        now = time.monotonic()
        self._postponed = {job: until for job, until in self._postponed.items() if until > now}
        if self._deaths.is_paused:
            return False
        with self._database.read() as connection:
            if not queue.has_work(connection, limits=self._limits, excluding=self._postponed, watch=self._watch):
                return False
        self._check_ready()
        began = time.monotonic()
        job = self._claim()
        if job is None:
            return False
        with log_fields(job=job.id, model=job.model):
            log.info("%s: claim %d by %s (%s of %s)", job.id, job.fence, self._worker, job.kind, job.model)
            self._observer.started(job)
            try:
                end = self._run_child(job, began, stop)
            except LeaseLostError as error:
                log.warning("%s: lease lost: %s", job.id, error)
                end = "lease-lost"
            except Exception:
                log.exception("%s: unexpected error of the supervisor", job.id)
                reason = "an unexpected error of the supervisor, see its log"
                end = self._finish(job, stop, self._death(job, reason))
            self._observer.ended(end)
        return True

    def _claim(self) -> Job | None:
        """Claim the next job; one that has just died here only where there is no other."""
        with self._database.write() as connection:
            for excluding in ({*self._postponed, *self._deaths.suspects}, set(self._postponed)):
                job = queue.claim(
                    connection,
                    worker=self._worker,
                    lease_seconds=self._lease,
                    limits=self._limits,
                    excluding=excluding,
                    watch=self._watch,
                )
                if job is not None or not self._deaths.suspects:
                    return job
        return None

    def _run_child(self, job: Job, began: float, stop: threading.Event) -> str:
        """Run the job in a child; return how the try ended. LeaseLostError."""
        try:
            child = ChildProcess(self._command, self._environment, job, deadline=began + self._lease)
        except OSError as error:
            reason = f"the child process could not be started: {error}"
            log.error("%s: %s; this worker pauses for %.0f s", job.id, reason, self._pause())
            return self._finish(job, stop, self._death(job, reason, counts=False))
        started = time.monotonic()
        running = _RunningJob(job=job, child=child, renewed_at=began, checked_at=started, began_at=started)
        try:
            end = self._wait_for_end(running, stop)
        finally:
            child.close()
        how = self._finish(job, stop, end)
        if end.requeued == "died" and child.job_is_at_fault:
            self._weigh_death(running)
        elif running.outcome or running.reached_something:
            self._deaths.healthy()
        return how

    def _weigh_death(self, running: _RunningJob) -> None:
        """Tell a job that dies from a worker on which all do: then their deaths do not count, and it pauses."""
        if running.reached_something or time.monotonic() - running.began_at > EARLY_DEATH_SECONDS:
            self._deaths.healthy()
            return
        self._deaths.add(running.job.id)
        if not self._deaths.worker_is_at_fault():
            return
        forgiven = self._deaths.forgive()
        log.error(
            "this worker pauses for %.0f s: the processes of %d jobs in a row died in their first seconds, so it is "
            "taken to be at fault and not they (%s)",
            self._pause(),
            len(self._deaths.suspects),
            running.child.death_reason(),
        )
        try:
            with self._database.write() as connection:
                queue.forgive_deaths(connection, forgiven)
        except UnavailableError as error:
            log.warning("deaths of jobs go on to count against them: %s", error)

    def _pause(self) -> float:
        self._observer.paused()
        return self._deaths.pause()

    def _wait_for_end(self, running: _RunningJob, stop: threading.Event) -> _End:
        """Handle the child's messages until the job ends; return how. LeaseLostError."""
        job, child = running.job, running.child
        while True:
            if stop.is_set():
                return _End(write=lambda connection: queue.release(connection, job), requeued="stopped")
            ended = child.has_ended()
            message = child.receive(0.0 if ended else PROGRESS_INTERVAL_SECONDS / 2)
            if message is not None:
                self._handle(running, message)
            elif ended:
                if child.was_terminated and stop.wait(STOP_PATIENCE_SECONDS):
                    continue
                reason = child.death_reason()
                log.warning("%s: its process %s", job.id, reason)
                return self._death(job, reason, counts=child.job_is_at_fault)
            if time.monotonic() >= running.retry_at and self._renew_or_check(running):
                return _End(write=lambda connection: queue.cancel(connection, job))
            if running.outcome:
                return self._outcome_writer(running)

    def _handle(self, running: _RunningJob, message: dict[str, Any]) -> None:
        ((kind, body),) = message.items()
        if kind == "progress":
            running.progress = body
            if phase := body.get("phase"):
                self._observer.phase(str(phase))
        elif kind == "checkpoint":
            running.checkpoint = body
            running.reached_something = True
        elif kind == "milestone":
            running.milestone = int(body["number"])
            running.reached_something = True
        elif kind in {"done", "failed", "postponed"}:
            running.outcome = message
        else:
            running.outcome = {"failed": {"type": "internal", "message": f"the child process sent {kind!r}"}}

    def _renew_or_check(self, running: _RunningJob) -> bool:
        """Renew the lease or check for a cancellation if it is time; True if the job is to be cancelled.

        A database that does not answer is tried again later.
        """
        began = time.monotonic()
        since = began - running.renewed_at
        write = (
            running.checkpoint is not None
            or running.milestone is not None
            or since >= self._lease / 3
            or (running.progress is not None and since >= PROGRESS_INTERVAL_SECONDS)
        )
        if not write and began - running.checked_at < CANCEL_CHECK_SECONDS:
            return False
        try:
            cancel = self._renew(running) if write else self._is_cancel_requested(running)
        except UnavailableError as error:
            running.retry_pause = min(max(2 * running.retry_pause, 0.1), MAX_RETRY_SECONDS, self._lease / 10)
            running.retry_at = time.monotonic() + running.retry_pause
            log.warning("%s: the heartbeat failed, next try in %.1f s: %s", running.job.id, running.retry_pause, error)
            return False
        running.retry_pause = 0.0
        running.checked_at = began
        return cancel

    def _renew(self, running: _RunningJob) -> bool:
        began = time.monotonic()
        with self._database.write() as connection:
            if self._heartbeat_is_due():
                self._record_heartbeat(connection)
            if running.milestone is not None:
                queue.save_milestone(connection, running.job, running.milestone)
            if running.checkpoint is not None:
                queue.save_checkpoint(connection, running.job, running.checkpoint)
            cancel = queue.renew(connection, running.job, lease_seconds=self._lease, progress=running.progress)
        running.renewed_at = began
        running.child.deadline = began + self._lease
        running.checkpoint = running.progress = running.milestone = None
        return cancel

    def _heartbeat_is_due(self) -> bool:
        return time.monotonic() - self._heartbeat_at >= self._lease / 3

    def _record_heartbeat(self, connection: Connection) -> None:
        """Record that this worker runs, and fail the jobs that are too large for all workers that do."""
        record_heartbeat(connection, self._worker, self._limits)
        for job in queue.fail_oversized(connection, timeout=self._larger_worker, watch=self._watch):
            log.warning("%s: %s", job.id, (job.error or {}).get("message"))
        self._heartbeat_at = time.monotonic()

    def _is_cancel_requested(self, running: _RunningJob) -> bool:
        with self._database.read() as connection:
            return queue.is_cancel_requested(connection, running.job)

    @staticmethod
    def _death(job: Job, reason: str, *, counts: bool = True) -> _End:
        return _End(
            write=lambda connection: queue.requeue_after_death(connection, job, reason, counts=counts), requeued="died"
        )

    def _outcome_writer(self, running: _RunningJob) -> _End:
        """Return the end that the child's outcome is, or the cancellation that was requested meanwhile."""
        job, outcome = running.job, running.outcome
        if "postponed" in outcome:
            log.warning("%s: back to the queue: %s", job.id, outcome["postponed"].get("message"))
            self._postponed[job.id] = time.monotonic() + POSTPONED_JOB_SECONDS

        def end(connection: Connection) -> Job:
            if queue.renew(connection, job, lease_seconds=self._lease, progress=running.progress):
                return queue.cancel(connection, job)
            if "failed" in outcome:
                return queue.fail(connection, job, outcome["failed"])
            if "postponed" in outcome:
                return queue.postpone(connection, job, outcome["postponed"])
            return queue.succeed(connection, job, self._publish(connection, job, outcome["done"]))

        return _End(write=end, requeued="unavailable")

    def _finish(self, job: Job, stop: threading.Event, end: _End) -> str:
        """Write the end in one transaction, for as long as it takes; return it in one word. LeaseLostError if the lease
        is lost.

        An error of `publish` fails the job.
        """
        pause = 0.1
        failing = False
        while True:
            try:
                with self._database.write() as connection:
                    ended = end.write(connection)
                log.info("%s: %s", job.id, ended.state)
                return ended.state.value if ended.state.ended else end.requeued
            except LeaseLostError:
                raise
            except UnavailableError as error:
                log.warning("%s: its end could not be written, next try in %.1f s: %s", job.id, pause, error)
                if stop.wait(pause):
                    log.warning("%s: stopped before its end was written; the lease will expire", job.id)
                    return "stopped"
                pause = min(2 * pause, MAX_RETRY_SECONDS)
            except Exception as error:
                if failing:
                    raise
                failing = True
                end = self._failure(job, self._describe(job, error))

    @staticmethod
    def _describe(job: Job, error: Exception) -> dict[str, Any]:
        if isinstance(error, PursuitError):
            return describe(error)
        log.error("%s: unexpected error in publish", job.id, exc_info=error)
        return {"type": "internal", "message": f"an internal error; the worker's log has it under {job.id}"}

    @staticmethod
    def _failure(job: Job, error: dict[str, Any]) -> _End:
        return _End(write=lambda connection: queue.fail(connection, job, error))
