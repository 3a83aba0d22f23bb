"""The queue against a model of it: any order of submits, claims, deaths, lost leases, cancels and ends."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule
from sqlalchemy import Connection

from app.database import Database
from app.errors import LeaseLostError
from app.jobs import queue
from app.jobs.job import Job, JobState
from tests.app.jobs.helpers import claim, expire

ACTIONS: dict[str, Callable[[Connection, Job], object]] = {
    "renew": lambda connection, job: queue.renew(connection, job, lease_seconds=60),
    "checkpoint": lambda connection, job: queue.save_checkpoint(connection, job, {"number": job.fence}),
    "succeed": lambda connection, job: queue.succeed(connection, job, {}),
    "fail": lambda connection, job: queue.fail(connection, job, {"type": "t", "message": "m"}),
    "cancelled": queue.cancelled,
    "died": lambda connection, job: queue.died(connection, job, "killed"),
    "release": queue.release,
}


@dataclass
class Expected:
    """What the model says of one job."""

    number: int
    priority: int
    state: JobState = JobState.QUEUED
    fence: int = 0
    attempts: int = 0
    claims: int = 0
    wish: bool = False
    expired: bool = False
    checkpoint: int | None = None
    ends: list[str] = field(default_factory=list)

    def end(self, state: JobState) -> None:
        self.state, self.checkpoint, self.expired = state, None, False
        self.ends.append(state)

    def worn_out(self) -> bool:
        return self.attempts >= queue.MAX_ATTEMPTS or self.claims >= queue.MAX_CLAIMS

    def back(self) -> None:
        if self.wish:
            self.end(JobState.CANCELLED)
        else:
            self.state, self.expired = JobState.QUEUED, False


class QueueMachine(RuleBasedStateMachine):
    """Every rule is one transaction; every claim ever made may be used again, however old it is."""

    jobs = Bundle("jobs")
    held = Bundle("held")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.database = Database(f"sqlite:///{Path(self.folder.name)}/pursuit.db")
        self.database.migrate()
        self.model: dict[str, Expected] = {}
        self.keys: dict[str, str] = {}

    def teardown(self) -> None:
        self.database.close()
        self.folder.cleanup()

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

    @rule(target=held)
    def claim(self) -> Job | None:
        line = sorted(
            (item for item in self.model.items() if item[1].state == JobState.QUEUED or item[1].expired),
            key=lambda item: (-item[1].priority, item[1].number),
        )
        taken = None
        for job_id, expected in line:
            if expected.wish:
                expected.end(JobState.CANCELLED)
            elif expected.worn_out():
                expected.end(JobState.FAILED)
            else:
                expected.state, expected.expired = JobState.RUNNING, False
                expected.fence += 1
                expected.attempts += 1
                expected.claims += 1
                taken = job_id
                break
        job = claim(self.database)
        assert (job.id if job else None) == taken
        return job

    @rule(job=held, action=st.sampled_from(sorted(ACTIONS)))
    def write(self, job: Job | None, action: str) -> None:
        if job is None:
            return
        expected = self.model[job.id]
        ours = expected.state == JobState.RUNNING and expected.fence == job.fence
        if not ours:
            with pytest.raises(LeaseLostError), self.database.write() as connection:
                ACTIONS[action](connection, job)
            return
        with self.database.write() as connection:
            ACTIONS[action](connection, job)
        match action:
            case "renew":
                expected.expired = False
            case "checkpoint":
                expected.checkpoint, expected.attempts = job.fence, 0
            case "died":
                if expected.worn_out() and not expected.wish:
                    expected.end(JobState.FAILED)
                else:
                    expected.back()
            case "release":
                expected.attempts = max(expected.attempts - 1, 0)
                expected.claims -= 1
                expected.back()
            case _:
                expected.end({"succeed": JobState.SUCCEEDED, "fail": JobState.FAILED}.get(action, JobState.CANCELLED))

    @rule()
    def time_passes(self) -> None:
        expire(self.database)
        for expected in self.model.values():
            expected.expired = expected.state == JobState.RUNNING

    @rule(job_id=jobs)
    def cancel(self, job_id: str) -> None:
        expected = self.model[job_id]
        with self.database.write() as connection:
            job = queue.request_cancel(connection, job_id)
        if not expected.state.ended:
            expected.wish = True
            if expected.state == JobState.QUEUED or expected.expired:
                expected.end(JobState.CANCELLED)
        assert job.state == expected.state

    @invariant()
    def the_rows_are_as_the_model_says(self) -> None:
        with self.database.read() as connection:
            rows = {job.id: job for job in queue.list_jobs(connection, limit=500)[0]}
        assert rows.keys() == self.model.keys()
        for job_id, expected in self.model.items():
            job = rows[job_id]
            assert (job.state, job.fence, job.attempts, job.claims, job.cancel_requested) == (
                expected.state,
                expected.fence,
                expected.attempts,
                expected.claims,
                expected.wish,
            )
            assert len(expected.ends) == int(job.state.ended) == int(job.finished_at is not None)
            assert (job.checkpoint or {}).get("number") == expected.checkpoint


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(
    max_examples=15, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
