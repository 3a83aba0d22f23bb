"""The queue against a model of it: any order of submits, claims, deaths, lost leases, cancels and ends, by two workers.

On PostgreSQL the only clock is the database's. It cannot be set, so that time passes by moving all leases back; they
are so long that the time which the test itself takes is nothing beside them. On SQLite it is that of whoever looks on.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy import Connection, delete, update

from app.database.engine import Database
from app.database.tables import jobs
from app.errors import LeaseLostError
from app.jobs import deaths, queries, queue
from app.jobs.job import Job, JobState
from tests.app.jobs.helpers import CLOCK, claim

LEASE = 10_000.0
"""Seconds, of a claim or a renewal."""

ACTIONS: dict[str, Callable[[Connection, Job], object]] = {
    "renew": lambda connection, job: queue.renew(connection, job, lease_seconds=LEASE),
    "checkpoint": lambda connection, job: queue.save_checkpoint(connection, job, {"number": job.fence}),
    "succeed": lambda connection, job: queue.succeed(connection, job, {}),
    "fail": lambda connection, job: queue.fail(connection, job, {"type": "t", "message": "m"}),
    "cancel": queue.cancel,
    "requeue_after_death": lambda connection, job: queue.requeue_after_death(connection, job, "killed"),
    "release": queue.release,
}


@dataclass
class Expected:
    """State of one job in the model."""

    number: int
    priority: int
    state: JobState = JobState.QUEUED
    fence: int = 0
    attempts: int = 0
    claims: int = 0
    cancel_requested: bool = False
    worker: str | None = None
    left: float = 0.0
    checkpoint: int | None = None
    ends: list[str] = field(default_factory=list)

    @property
    def expired(self) -> bool:
        return self.state == JobState.RUNNING and self.left <= 0.0

    def end(self, state: JobState) -> None:
        self.state, self.checkpoint, self.worker = state, None, None
        self.ends.append(state)

    def tries(self) -> int:
        """Attempts without the one whose worker is lost."""
        return max(self.attempts - 1, 0) if self.expired else self.attempts

    def worn_out(self) -> bool:
        return self.tries() >= deaths.MAX_ATTEMPTS or self.claims >= deaths.MAX_CLAIMS

    def back(self) -> None:
        if self.cancel_requested:
            self.end(JobState.CANCELLED)
        else:
            self.state, self.worker = JobState.QUEUED, None


class QueueMachine(RuleBasedStateMachine):
    """Every rule is one transaction; every claim ever made may be used again, however old it is."""

    jobs = Bundle("jobs")
    held = Bundle("held")

    def __init__(self, database: Database) -> None:
        super().__init__()
        self.database = database
        with database.write() as connection:
            connection.execute(delete(jobs))
        self.model: dict[str, Expected] = {}
        self.keys: dict[str, str] = {}

    @rule(target=jobs, priority=st.integers(-1, 1), key=st.sampled_from([None, None, "k1", "k2"]))
    def submit(self, priority: int, key: str | None) -> str:
        with self.database.write() as connection:
            job, created = queue.submit(
                connection, kind="k", model="m", payload={}, priority=priority, idempotency_key=key
            )
        assert created == (key not in self.keys)
        if created:
            self.model[job.id] = Expected(number=len(self.model), priority=priority)
        if key is not None:
            assert self.keys.setdefault(key, job.id) == job.id
        return job.id

    @rule(target=held, worker=st.sampled_from(["one", "two"]))
    def claim(self, worker: str) -> Job | None:
        line = sorted(
            (item for item in self.model.items() if item[1].state == JobState.QUEUED or item[1].expired),
            key=lambda item: (-item[1].priority, item[1].number),
        )
        taken = None
        for job_id, expected in line:
            if expected.cancel_requested:
                expected.end(JobState.CANCELLED)
            elif expected.worn_out():
                expected.attempts = expected.tries()
                expected.end(JobState.FAILED)
            else:
                expected.attempts = expected.tries()
                expected.state, expected.worker, expected.left = JobState.RUNNING, worker, LEASE
                expected.fence += 1
                expected.attempts += 1
                expected.claims += 1
                taken = job_id
                break
        job = claim(self.database, worker, LEASE)
        CLOCK.look(self.database)
        assert (job.id if job else None) == taken
        return job

    @rule(job=held, action=st.sampled_from(sorted(ACTIONS)))
    def write(self, job: Job | None, action: str) -> None:
        if job is None:
            return
        expected = self.model[job.id]
        ours = expected.state == JobState.RUNNING and expected.fence == job.fence  # also late, while nobody else has it
        if not ours:
            with pytest.raises(LeaseLostError), self.database.write() as connection:
                ACTIONS[action](connection, job)
            return
        with self.database.write() as connection:
            ACTIONS[action](connection, job)
        CLOCK.look(self.database)
        match action:
            case "renew":
                expected.left = LEASE
            case "checkpoint":
                expected.checkpoint, expected.attempts = job.fence, 0
            case "requeue_after_death":
                if expected.worn_out() and not expected.cancel_requested:
                    expected.end(JobState.FAILED)
                else:
                    expected.back()
            case "release":
                expected.attempts = max(expected.attempts - 1, 0)
                expected.claims -= 1
                expected.back()
            case _:
                expected.end({"succeed": JobState.SUCCEEDED, "fail": JobState.FAILED}.get(action, JobState.CANCELLED))

    @rule(seconds=st.sampled_from([0.4 * LEASE, 0.7 * LEASE, 1.1 * LEASE]))
    def time_passes(self, seconds: float) -> None:
        c = jobs.c
        CLOCK.now += seconds
        if not self.database.is_sqlite:
            with self.database.write() as connection:
                connection.execute(update(jobs).values(lease_until=c.lease_until - seconds))
        for expected in self.model.values():
            expected.left -= seconds

    @rule(job_id=jobs)
    def cancel(self, job_id: str) -> None:
        expected = self.model[job_id]
        with self.database.write() as connection:
            job = queue.request_cancel(connection, job_id)
        if not expected.state.ended:
            expected.cancel_requested = True
            by_the_clock = expected.expired and not self.database.is_sqlite  # where the test moves that of the watch
            if expected.state == JobState.QUEUED or by_the_clock:
                expected.end(JobState.CANCELLED)
        assert job.state == expected.state

    @invariant()
    def rows_equal_the_model(self) -> None:
        with self.database.read() as connection:
            rows = {job.id: job for job in queries.list_jobs(connection, limit=500)[0]}
        assert rows.keys() == self.model.keys()
        for job_id, expected in self.model.items():
            job = rows[job_id]
            assert (job.state, job.worker, job.fence, job.attempts, job.claims, job.cancel_requested) == (
                expected.state,
                expected.worker,
                expected.fence,
                expected.attempts,
                expected.claims,
                expected.cancel_requested,
            )
            assert len(expected.ends) == int(job.state.ended) == int(job.finished_at is not None)
            assert (job.checkpoint or {}).get("number") == expected.checkpoint
            assert job.attempts <= deaths.MAX_ATTEMPTS
            assert job.claims <= deaths.MAX_CLAIMS


def test_the_queue_behaves_as_its_model(database: Database) -> None:
    runs = 0

    class Machine(QueueMachine):
        def __init__(self) -> None:
            nonlocal runs
            runs += 1
            super().__init__(database)

    patient = settings(
        max_examples=15, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    run_state_machine_as_test(Machine, settings=patient)
    assert runs >= patient.max_examples, "each held the invariant after every step"
