"""The supervisor in a thread of the test, with real children; each way a job can end."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from app.database.engine import Database
from app.database.tables import jobs
from app.errors import ConflictError, UnavailableError
from app.jobs import deaths, queries, queue
from app.jobs.job import JSON, Job, JobState
from app.jobs.supervisor import Supervisor
from app.jobs.workers import Resources
from tests.app.jobs.helpers import CHILD, claim, expire, lines, read, submit_echo, wait_for_end
from tests.processes import alive, wait_until


def publish(connection: Connection, job: Job, outcome: JSON) -> JSON:  # noqa: ARG001  the shape of Publish
    return {"published": dict(outcome)}


def build(database: Database, **fields: Any) -> Supervisor:
    values: dict[str, Any] = {
        "command": CHILD,
        "environment": {},
        "publish": publish,
        "worker": "tester",
        "lease_seconds": 2.0,
        "poll_seconds": 0.05,
    }
    return Supervisor(database=database, **(values | fields))


def run_one(database: Database, **fields: Any) -> None:
    """Claim a job and run it in this thread."""
    assert build(database, **fields).run_one(threading.Event())


@contextmanager
def running(database: Database, **fields: Any) -> Iterator[threading.Event]:
    """Run a supervisor in a thread; it is stopped at the end of the block."""
    stop = threading.Event()
    thread = threading.Thread(target=build(database, **fields).run, args=(stop,))
    thread.start()
    try:
        yield stop
    finally:
        stop.set()
        thread.join(10)
        assert not thread.is_alive()


def test_a_job_from_queue_to_result(database: Database) -> None:
    job = submit_echo(database, payload={"x": 1.5})
    run_one(database)
    after = read(database, job)
    assert (after.state, after.progress) == (JobState.SUCCEEDED, {"fraction": 1.0})
    assert after.result == {"published": {"payload": {"x": 1.5}, "checkpoint": None, "attempts": 1}}
    assert not build(database).run_one(threading.Event()), "there is nothing left to do"


def test_a_worker_that_is_not_ready_claims_nothing(database: Database) -> None:
    """The lease counts from after the check: a store that answers late does not kill the child."""
    job = submit_echo(database, payload={"x": 1.5})

    def refuse() -> None:
        raise UnavailableError("another store")

    with pytest.raises(UnavailableError, match="another store"):
        build(database, check_ready=refuse).run_one(threading.Event())
    assert (read(database, job).state, read(database, job).claims) == (JobState.QUEUED, 0)
    run_one(database, lease_seconds=1.5, check_ready=lambda: time.sleep(1.6))
    assert (read(database, job).state, read(database, job).claims) == (JobState.SUCCEEDED, 1)


def test_a_refusal_is_final(database: Database) -> None:
    job = submit_echo(database, "refuse", payload={"error": "request"})
    run_one(database)
    after = read(database, job)
    assert (after.state, after.claims) == (JobState.FAILED, 1)
    assert after.error is not None
    assert (after.error["type"], after.error["errors"][0]["row"]) == ("invalid-request", 3)


def test_a_job_whose_store_is_unavailable_goes_back_to_the_queue(database: Database) -> None:
    job = submit_echo(database, "refuse", payload={"error": "store"})
    run_one(database)
    after = read(database, job)
    assert (after.state, after.attempts, after.claims) == (JobState.QUEUED, 0, 0)
    assert after.requeue_reason == "the bucket does not answer"
    with database.write() as connection:
        connection.execute(jobs.update().values(claims=deaths.MAX_CLAIMS - 1))
    run_one(database)
    assert read(database, job).state == JobState.QUEUED  # however long the store is unavailable


@pytest.mark.parametrize(
    ("kind", "payload", "reason"),
    [
        ("die", {"signal": 9}, "killed by signal 9 (out of memory?)"),
        ("die", {"signal": 11}, "killed by signal 11 (Segmentation fault)"),
        ("die", {"exit": 3}, "ended with exit code 3 and no result; last line of stderr: some library's last words"),
        ("garbage", {}, "sent a line that is not in the protocol: b'\\xff not json\\n'"),
    ],
)
def test_a_dead_child_is_tried_again_at_once_and_three_times(
    database: Database, tmp_path: Path, kind: str, payload: dict[str, Any], reason: str
) -> None:
    job = submit_echo(database, kind, payload=payload | {"log": str(tmp_path / "log")})
    with running(database, lease_seconds=60.0):
        wait_for_end(database, job)
    after = read(database, job)
    assert (after.state, after.claims) == (JobState.FAILED, 3)
    assert after.requeue_reason is not None
    assert after.requeue_reason.startswith(reason)
    assert after.error == {
        "type": "worker-died",
        "message": f"worker died 3 times without finishing; the last time: {after.requeue_reason}",
    }


def test_a_process_that_the_child_leaves_behind_delays_nobody(database: Database) -> None:
    job = submit_echo(database, "detach")
    began = time.monotonic()
    run_one(database, lease_seconds=60.0)
    assert time.monotonic() - began < 10.0
    assert str(read(database, job).requeue_reason).startswith("ended with exit code 4")


def test_an_answer_that_comes_after_the_end_is_heard(database: Database) -> None:
    """The child is gone before its last line is read."""
    job = submit_echo(database)
    run_one(database, command=("sh", "-c", """read task; (sleep 0.5; echo '{"done": {"late": 1}}') & exit 0"""))
    assert read(database, job).result == {"published": {"late": 1}}


def test_a_command_that_cannot_be_started_is_the_workers_fault(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """Other workers may do the job; this one pauses instead of claiming it again and again."""
    job = submit_echo(database)
    broken = build(database, command=("/no/such/program",))
    assert broken.run_one(threading.Event())
    assert not broken.run_one(threading.Event())
    after = read(database, job)
    assert (after.state, after.attempts, after.claims) == (JobState.QUEUED, 0, 1)
    assert "could not be started" in str(after.requeue_reason)
    assert "this worker pauses for 10 s" in caplog.text
    run_one(database)
    assert read(database, job).state == JobState.SUCCEEDED


def test_checkpoints_carry_a_job_over_a_death(database: Database, tmp_path: Path) -> None:
    """Dies at step 2 of 4, each time: two steps of progress, then three tries without any."""
    log = tmp_path / "log"
    job = submit_echo(database, "steps", payload={"steps": 4, "seconds": 0.01, "log": str(log), "die_at": 2})
    with running(database):
        wait_for_end(database, job)
    steps = [line.split()[0] for line in lines(log)]
    assert steps[:3] == ["0", "1", "2"]
    assert set(steps[3:]) == {"2"}, "steps 0 and 1 are never done again"
    assert read(database, job).claims in {3, 4}  # 3 if the last checkpoint came with the first death


def test_the_lease_of_a_silent_child_is_kept(database: Database, tmp_path: Path) -> None:
    job = submit_echo(database, "steps", payload={"steps": 1, "seconds": 1.4, "log": str(tmp_path / "log")})
    run_one(database, lease_seconds=1.0)
    after = read(database, job)
    assert (after.state, after.claims, after.requeue_reason) == (JobState.SUCCEEDED, 1, None)


def test_progress_is_written_while_it_runs(database: Database, tmp_path: Path) -> None:
    job = submit_echo(database, "steps", payload={"steps": 5, "seconds": 0.2, "log": str(tmp_path / "log")})
    seen: set[float] = set()
    with running(database, lease_seconds=60.0):
        while not (now := read(database, job)).state.ended:
            if now.progress:
                seen.add(now.progress["fraction"])
            time.sleep(0.05)
    after = read(database, job)
    assert (after.state, after.claims, after.fence) == (JobState.SUCCEEDED, 1, 1)
    assert len(seen) >= 3


def test_cancel_kills_a_loop_in_c_at_once(database: Database, tmp_path: Path) -> None:
    log = tmp_path / "log"
    job = submit_echo(database, "spin", payload={"log": str(log)})
    with running(database, lease_seconds=60.0):
        wait_until(lambda: read(database, job).progress is not None)  # from now on it is silent: nothing is written
        pid = int(lines(log)[0])
        with database.write() as connection:
            assert queue.request_cancel(connection, job.id).state == JobState.RUNNING
        assert wait_for_end(database, job) < 2.0
        assert not alive(pid)
    assert read(database, job).state == JobState.CANCELLED


def test_stopping_gives_the_job_back(database: Database, tmp_path: Path) -> None:
    log = tmp_path / "log"
    job = submit_echo(database, "spin", payload={"log": str(log)})
    with running(database, lease_seconds=60.0) as stop:
        wait_until(lambda: bool(lines(log)))
        began = time.monotonic()
        stop.set()
        wait_until(lambda: read(database, job).state == JobState.QUEUED)
        assert time.monotonic() - began < 2.0
    after = read(database, job)
    assert (after.attempts, after.claims, after.worker) == (0, 0, None)
    assert not alive(int(lines(log)[0]))


@pytest.mark.parametrize(("seconds", "state"), [(0.0, JobState.FAILED), (100.0, JobState.QUEUED)])
def test_a_job_waits_for_a_larger_worker_for_as_long_as_is_set(
    database: Database, seconds: float, state: JobState
) -> None:
    job = submit_echo(database, needs=Resources(memory=10))
    worker = build(database, limits=Resources(memory=5), larger_worker_seconds=seconds)
    assert not worker.run_one(threading.Event())
    assert read(database, job).state == state


def test_a_drained_worker_ends_its_job_and_claims_no_other(database: Database, tmp_path: Path) -> None:
    payload = {"steps": 4, "seconds": 0.3, "log": str(tmp_path / "log")}
    first, second = (submit_echo(database, "steps", payload=payload) for _ in range(2))
    stop, give_back = threading.Event(), threading.Event()
    thread = threading.Thread(target=build(database).run, args=(stop, give_back))
    thread.start()
    wait_until(lambda: (read(database, first).checkpoint or {}).get("step", 0) >= 1)
    stop.set()
    thread.join(20)
    assert not thread.is_alive()
    assert (read(database, first).state, read(database, first).claims) == (JobState.SUCCEEDED, 1)
    assert (read(database, second).state, read(database, second).claims) == (JobState.QUEUED, 0)


def test_a_drained_worker_gives_back_what_takes_too_long(database: Database, tmp_path: Path) -> None:
    log = tmp_path / "log"
    job = submit_echo(database, "spin", payload={"log": str(log)})
    stop, give_back = threading.Event(), threading.Event()
    thread = threading.Thread(target=build(database).run, args=(stop, give_back))
    thread.start()
    wait_until(lambda: bool(lines(log)))
    stop.set()
    time.sleep(3.0)
    assert read(database, job).state == JobState.RUNNING, "beyond its lease, which is renewed"
    assert alive(int(lines(log)[0]))
    give_back.set()
    thread.join(20)
    after = read(database, job)
    assert (after.state, after.attempts, after.claims) == (JobState.QUEUED, 0, 0)


def test_a_lost_lease_kills_the_child_and_publishes_nothing(database: Database, tmp_path: Path) -> None:
    log = tmp_path / "log"
    job = submit_echo(database, "spin", payload={"log": str(log)})
    with running(database, lease_seconds=60.0) as stop:
        wait_until(lambda: read(database, job).progress is not None)
        expire(database)
        other = claim(database, "other")
        assert other is not None
        wait_until(lambda: not alive(int(lines(log)[0])), 2.0)
        stop.set()
    assert read(database, job) == other


def test_a_silent_database_kills_the_child_when_the_lease_expires(
    database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Another writer holds the job's row for longer than the lease: the heartbeat hangs, the deadline does not."""
    log = tmp_path / "log"
    job = submit_echo(database, "spin", payload={"log": str(log)})
    with running(database, lease_seconds=1.0):
        wait_until(lambda: bool(lines(log)))
        with database.write() as connection:
            connection.execute(jobs.select().with_for_update())
            waited = wait_until(lambda: not alive(int(lines(log)[0])), 5.0)
        assert waited < 2.5
        wait_until(lambda: "its lease expired" in str(read(database, job).requeue_reason), 5.0)
        with database.write() as connection:
            queue.request_cancel(connection, job.id)
        wait_for_end(database, job)
    assert "the lease has expired, its process is killed" in caplog.text


@pytest.mark.parametrize("error", [ConflictError("the name is taken"), RuntimeError("a bug")])
def test_what_publish_raises_fails_the_job_and_keeps_none_of_its_rows(database: Database, error: Exception) -> None:
    job = submit_echo(database)

    def refuse(connection: Connection, job: Job, outcome: JSON) -> JSON:  # noqa: ARG001  the shape of Publish
        queue.submit(connection, kind="left", model="behind", payload={})
        raise error

    run_one(database, publish=refuse)
    after = read(database, job)
    assert after.state == JobState.FAILED
    assert after.error is not None
    assert after.error["type"] == ("conflict" if isinstance(error, ConflictError) else "internal")
    with database.read() as connection:
        assert queries.list_jobs(connection) == ([after], None)


def test_an_outcome_waits_for_the_database_and_is_published_once(database: Database) -> None:
    job = submit_echo(database)
    calls: list[int] = []

    def flaky(connection: Connection, job: Job, outcome: JSON) -> JSON:  # noqa: ARG001  the shape of Publish
        calls.append(1)
        if len(calls) < 3:
            raise UnavailableError("the database sleeps")
        return {"try": len(calls)}

    run_one(database, publish=flaky)
    assert read(database, job).result == {"try": 3}


def test_a_job_cancelled_while_it_is_published_is_not(database: Database) -> None:
    """The request is committed after the child's answer and before the end is written."""
    job = submit_echo(database)
    calls: list[int] = []

    def late(connection: Connection, job: Job, outcome: JSON) -> JSON:  # noqa: ARG001  the shape of Publish
        calls.append(1)
        if database.is_sqlite:  # its one writer would wait for this very transaction
            connection.rollback()
        threading.Thread(target=request, args=(job,)).start() if not database.is_sqlite else request(job)
        time.sleep(0.3)
        raise UnavailableError("try again")

    def request(job: Job) -> None:
        with database.write() as connection:
            queue.request_cancel(connection, job.id)

    run_one(database, publish=late)
    after = read(database, job)
    assert (after.state, after.result, len(calls)) == (JobState.CANCELLED, None, 1)


def test_a_job_whose_cluster_is_unavailable_lets_others_go_first(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt does not count, and its checkpoint stays."""
    monkeypatch.setattr("app.jobs.supervisor.POSTPONED_JOB_SECONDS", 1.5)
    there = tmp_path / "there"
    waiting = submit_echo(database, "unavailable", payload={"there": str(there)})
    other = submit_echo(database)
    supervisor = build(database)
    assert supervisor.run_one(threading.Event())
    after = read(database, waiting)
    assert (after.state, after.attempts, after.claims, after.checkpoint) == (JobState.QUEUED, 0, 0, {"step": 1})
    assert supervisor.run_one(threading.Event())
    assert read(database, other).state == JobState.SUCCEEDED
    assert not supervisor.run_one(threading.Event())
    there.touch()
    with running(database):
        wait_for_end(database, waiting)
    assert read(database, waiting).result == {"published": {"checkpoint": {"step": 1}}}


def test_a_waiting_job_can_be_cancelled(database: Database, tmp_path: Path) -> None:
    job = submit_echo(database, "unavailable", payload={"there": str(tmp_path / "never")})
    run_one(database)
    with database.write() as connection:
        assert queue.request_cancel(connection, job.id).state == JobState.CANCELLED
