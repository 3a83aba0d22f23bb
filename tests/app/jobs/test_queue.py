"""The queue's promises, one by one, on each database. Leases are ended by hand, so nothing here waits."""

import threading
from collections.abc import Callable

import pytest
from sqlalchemy import Connection, text, update
from sqlalchemy.exc import IntegrityError

from app.database.clock import now
from app.database.engine import Database
from app.database.tables import jobs as jobs_table
from app.errors import InvalidRequestError, LeaseLostError, NotFoundError
from app.jobs import deaths, queries, queue, retention
from app.jobs.job import Job, JobState
from tests.app.jobs.helpers import CLOCK, claim, claimed, expire, read, submit_echo


def test_submit_then_read(database: Database) -> None:
    job = submit_echo(database, "train", payload={"rows": 3}, priority=2)
    assert read(database, job) == job
    assert (job.state, job.kind, job.model, job.payload) == (JobState.QUEUED, "train", "cars", {"rows": 3})
    assert (job.attempts, job.claims, job.fence, job.revision, job.priority) == (0, 0, 0, 1, 2)
    assert job.created_at == job.updated_at
    assert [job.started_at, job.finished_at, job.lease_until, job.progress, job.error, job.worker] == [None] * 6


def test_unknown_jobs(database: Database) -> None:
    with database.write() as connection:
        for job_id in ("job_nope", "job_" + "0" * 32, "", "\0", "\ud800", "job_" + "0" * 32 + "\n"):
            with pytest.raises(NotFoundError):
                queries.get(connection, job_id)
            with pytest.raises(NotFoundError):
                queue.request_cancel(connection, job_id)


def test_the_same_key_is_the_same_job(database: Database) -> None:
    with database.write() as connection:
        first, created = queue.submit(connection, kind="a", model="m", payload={"n": 1}, idempotency_key="k")
        again, created_again = queue.submit(connection, kind="b", model="x", payload={"n": 2}, idempotency_key="k")
        other, created_other = queue.submit(connection, kind="a", model="m", payload={"n": 1})
    assert (created, created_again, created_other) == (True, False, True)
    assert again == first
    assert other.id != first.id


def test_submitting_one_key_from_many_threads_makes_one_job(database: Database) -> None:
    answers: list[tuple[str, bool]] = []
    barrier = threading.Barrier(8)

    def submit() -> None:
        barrier.wait()
        with database.write() as connection:
            job, created = queue.submit(connection, kind="a", model="m", payload={}, idempotency_key="same")
        answers.append((job.id, created))

    threads = [threading.Thread(target=submit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8
    assert len({job_id for job_id, _ in answers}) == 1
    assert sum(created for _, created in answers) == 1


@pytest.mark.parametrize("fields", [{"idempotency_key": ""}, {"idempotency_key": "k" * 256}, {"idempotency_key": "\0"}])
def test_keys_that_cannot_be_kept(database: Database, fields: dict[str, str]) -> None:
    with pytest.raises(InvalidRequestError, match="Idempotency-Key"):
        submit_echo(database, **fields)
    with pytest.raises(InvalidRequestError, match="priority"):
        submit_echo(database, priority=2**40)
    for model in ("", "m" * 65, "\0"):
        with pytest.raises(InvalidRequestError, match="model"):
            submit_echo(database, model=model)


def test_order_is_priority_then_age(database: Database) -> None:
    jobs = [submit_echo(database, priority=priority) for priority in (0, 5, 0, 5, -1)]
    expected = [jobs[i] for i in (1, 3, 0, 2, 4)]
    with database.read() as connection:
        places = queries.positions(connection, jobs)
    assert [places[job.id] for job in expected] == [0, 1, 2, 3, 4]
    assert [taken.id for _ in jobs if (taken := claim(database)) is not None] == [job.id for job in expected]
    assert claim(database) is None
    with database.read() as connection:
        assert set(queries.positions(connection, jobs).values()) == {0}
        assert queries.positions(connection, []) == {}


def test_lists_are_newest_first_in_pages(database: Database) -> None:
    jobs = [submit_echo(database, model="ab"[number % 2]) for number in range(7)]
    seen: list[str] = []
    cursor = None
    for expected in (3, 3, 1):
        with database.read() as connection:
            page, cursor = queries.list_jobs(connection, limit=3, cursor=cursor)
        assert len(page) == expected
        seen += [job.id for job in page]
    assert cursor is None
    assert seen == [job.id for job in reversed(jobs)]
    taken = claim(database)
    with database.read() as connection:
        assert [job.id for job in queries.list_jobs(connection, model="b")[0]] == [jobs[i].id for i in (5, 3, 1)]
        assert queries.list_jobs(connection, state=JobState.RUNNING) == ([taken], None)
        assert queries.list_jobs(connection, state=JobState.QUEUED, model="a", limit=3)[1] is None
        assert queries.list_jobs(connection, model="\0") == ([], None)
        assert queries.has_unfinished(connection)
        counted = queries.counts(connection)
        assert counted == dict.fromkeys(JobState, 0) | {JobState.QUEUED: 6, JobState.RUNNING: 1}
        for limit in (0, 501):
            with pytest.raises(InvalidRequestError, match="limit"):
                queries.list_jobs(connection, limit=limit)
        with pytest.raises(InvalidRequestError, match="cursor"):
            queries.list_jobs(connection, cursor="x")


def test_a_claim_is_a_lease_by_the_database_clock(database: Database) -> None:
    job = claimed(database)
    assert (job.state, job.attempts, job.claims, job.fence, job.worker) == (JobState.RUNNING, 1, 1, 1, "w")
    assert job.lease_until is not None
    assert job.lease_until - job.updated_at == pytest.approx(60.0, abs=0.01)
    assert job.started_at == job.updated_at
    with database.read() as connection:
        assert not queue.has_work(connection)
    assert claim(database) is None


def test_a_lease_that_is_over_is_claimed_by_another(database: Database) -> None:
    job = claimed(database)
    with database.write() as connection:
        queue.renew(connection, job, lease_seconds=60, progress={"fraction": 0.5})
        queue.save_checkpoint(connection, job, {"round": 2})
    expire(database)
    with database.read() as connection:
        assert queue.has_work(connection, watch=CLOCK.watch)
    second = claim(database, "other")
    assert second is not None
    assert (second.id, second.fence, second.worker, second.claims, second.attempts) == (job.id, 2, "other", 2, 1)
    assert (second.checkpoint, second.progress) == ({"round": 2}, {"fraction": 0.5})
    assert second.started_at == job.started_at


WRITES: dict[str, Callable[[Connection, Job], object]] = {
    "renew": lambda connection, job: queue.renew(connection, job, lease_seconds=60),
    "is_cancel_requested": queue.is_cancel_requested,
    "save_checkpoint": lambda connection, job: queue.save_checkpoint(connection, job, {"x": 1}),
    "save_milestone": lambda connection, job: queue.save_milestone(connection, job, 1),
    "succeed": lambda connection, job: queue.succeed(connection, job, {"x": 1}),
    "fail": lambda connection, job: queue.fail(connection, job, {"type": "x", "message": "y"}),
    "cancel": queue.cancel,
    "requeue_after_death": lambda connection, job: queue.requeue_after_death(connection, job, "why"),
    "release": queue.release,
}


@pytest.mark.parametrize("name", WRITES)
def test_a_worker_that_lost_its_lease_writes_nothing(database: Database, name: str) -> None:
    old = claimed(database)
    expire(database)
    new = claim(database, "other")
    assert new is not None
    with pytest.raises(LeaseLostError, match=old.id), database.write() as connection:
        WRITES[name](connection, old)
    assert read(database, old) == new
    with database.write() as connection:
        ended = queue.succeed(connection, new, {"by": "other"})
    for late in (old, new):
        with pytest.raises(LeaseLostError), database.write() as connection:
            WRITES[name](connection, late)
    assert read(database, old) == ended


def test_a_late_worker_that_nobody_replaced_still_holds_the_job(database: Database) -> None:
    job = claimed(database)
    expire(database)
    with database.write() as connection:
        assert not queue.renew(connection, job, lease_seconds=60)
    assert claim(database) is None


def test_ends(database: Database) -> None:
    job = claimed(database)
    with database.write() as connection:
        queue.save_checkpoint(connection, job, {"round": 1})
        ended = queue.succeed(connection, job, {"version": 3})
    assert (ended.state, ended.result, ended.checkpoint, ended.lease_until, ended.worker) == (
        JobState.SUCCEEDED,
        {"version": 3},
        None,
        None,
        None,
    )
    assert ended.finished_at == ended.updated_at
    second = claimed(database)
    with database.write() as connection:
        broken = queue.fail(connection, second, {"type": "t", "message": "m"})
    assert (broken.state, broken.error, broken.result) == (JobState.FAILED, {"type": "t", "message": "m"}, None)
    assert claim(database) is None


def test_a_job_that_kills_its_child_fails_after_three(database: Database) -> None:
    submit_echo(database)
    for attempt in (1, 2, 3):
        job = claim(database)
        assert job is not None
        assert job.attempts == attempt
        with database.write() as connection:
            after = queue.requeue_after_death(connection, job, f"killed {attempt}")
    assert after.state == JobState.FAILED
    assert after.error == {
        "type": "worker-died",
        "message": "worker died 3 times without finishing; the last time: killed 3",
    }
    assert claim(database) is None


def test_lost_workers_do_not_count_against_a_job_but_not_for_ever(database: Database) -> None:
    """Killed from outside, their nodes drained: without a checkpoint between them."""
    job = submit_echo(database)
    for number in range(deaths.MAX_CLAIMS):
        taken = claim(database)
        assert taken is not None
        assert (taken.attempts, taken.claims) == (1, number + 1)
        expire(database)
    assert claim(database) is None
    ended = read(database, job)
    assert (ended.state, ended.claims) == (JobState.FAILED, deaths.MAX_CLAIMS)
    assert ended.error is not None
    assert "worker died 20 times" in ended.error["message"]


def test_a_death_from_outside_does_not_count(database: Database) -> None:
    submit_echo(database)
    for number in range(5):
        job = claim(database)
        assert job is not None
        assert (job.attempts, job.claims) == (1, number + 1)
        with database.write() as connection:
            after = queue.requeue_after_death(connection, job, "killed by signal 15", counts=False)
    assert (after.state, after.attempts, after.requeue_reason) == (JobState.QUEUED, 0, "killed by signal 15")


def test_deaths_before_and_after_a_milestone_count_apart(database: Database) -> None:
    """Each milestone is reached once: a job that dies behind it again and again still ends."""
    submit_echo(database)
    attempts = []
    while (job := claim(database)) is not None:
        attempts.append(job.attempts)
        with database.write() as connection:
            if len(attempts) > 2:
                queue.save_milestone(connection, job, 1)
            after = queue.requeue_after_death(connection, job, "killed")
    assert attempts == [1, 2, 3, 1, 2, 3]
    assert (after.state, after.milestone) == (JobState.FAILED, 1)


def test_progress_resets_the_count_but_not_for_ever(database: Database) -> None:
    job = submit_echo(database)
    for number in range(deaths.MAX_CLAIMS):
        taken = claim(database)
        assert taken is not None, number
        with database.write() as connection:
            queue.save_checkpoint(connection, taken, {"round": number})
            after = queue.requeue_after_death(connection, taken, "killed")
    assert after.state == JobState.FAILED
    assert after.error is not None
    assert "worker died 20 times" in after.error["message"]
    assert read(database, job).claims == 20


def test_a_release_does_not_count(database: Database) -> None:
    submit_echo(database)
    for _ in range(5):
        job = claim(database)
        assert job is not None
        assert (job.attempts, job.claims) == (1, 1)
        with database.write() as connection:
            after = queue.release(connection, job)
        assert (after.state, after.attempts, after.claims, after.worker) == (JobState.QUEUED, 0, 0, None)
    job = claim(database)
    assert job is not None
    assert job.fence == 6
    with database.write() as connection:
        queue.save_checkpoint(connection, job, {})
        assert queue.release(connection, job).attempts == 0


def test_every_change_that_people_see_raises_the_revision(database: Database) -> None:
    job = claimed(database)
    with database.write() as connection:
        queue.renew(connection, job, lease_seconds=60)
    assert read(database, job).revision == job.revision
    with database.write() as connection:
        queue.renew(connection, job, lease_seconds=60, progress={"fraction": 0.1})
    assert read(database, job).revision == job.revision + 1


def test_claims_from_many_threads_take_different_jobs(database: Database) -> None:
    wanted = {submit_echo(database).id for _ in range(24)}
    taken: list[str] = []

    def work(name: str) -> None:
        while (job := claim(database, name)) is not None:
            taken.append(job.id)
            with database.write() as connection:
                queue.succeed(connection, job, {})

    threads = [threading.Thread(target=work, args=(f"w{number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == sorted(wanted)


def test_a_row_that_somebody_holds_does_not_stop_the_queue(database: Database) -> None:
    """A worker frozen inside a transaction on the first job: the others take the second."""
    if database.is_sqlite:
        pytest.skip("SQLite has one writer: there are no rows to hold")
    first, second = submit_echo(database), submit_echo(database)
    with database.write() as frozen, database.write() as connection:
        frozen.execute(jobs_table.select().where(jobs_table.c.id == first.id).with_for_update())
        connection.execute(text("SET LOCAL lock_timeout = '3s'"))
        taken = queue.claim(connection, worker="w", lease_seconds=60)
        assert taken is not None
        assert taken.id == second.id
        assert queue.claim(connection, worker="w", lease_seconds=60) is None


def test_the_database_itself_refuses_a_state_that_cannot_be(database: Database) -> None:
    submit_echo(database)
    for wrong in ({"state": "lost"}, {"state": "running"}, {"lease_until": 1.0}):
        with pytest.raises(IntegrityError), database.write() as connection:
            connection.execute(update(jobs_table).values(wrong))


def test_a_worker_may_leave_a_job_to_others(database: Database) -> None:
    first, second = submit_echo(database), submit_echo(database)
    with database.write() as connection:
        assert queue.has_work(connection, excluding=[first.id])
        taken = queue.claim(connection, worker="w", lease_seconds=60.0, excluding=[first.id])
        assert taken is not None
        assert taken.id == second.id
        assert not queue.has_work(connection, excluding=[first.id])
        assert queue.claim(connection, worker="w", lease_seconds=60.0, excluding=[first.id]) is None
    other = claim(database)
    assert other is not None
    assert other.id == first.id


def test_positions_in_a_long_queue_are_those_of_the_order_of_claims(database: Database) -> None:
    """More jobs than one statement counts, with priorities between which there are others, and equal ages."""
    with database.write() as connection:
        for number in range(260):
            queue.submit(connection, kind="echo", model="m", payload={}, priority=number % 5 - 2)
        connection.execute(update(jobs_table).values(created_at=1000.0 + jobs_table.c.priority * 0))
    with database.read() as connection:
        listed = queries.list_jobs(connection, limit=500)[0]
        order = {
            job.id: n for n, job in enumerate(sorted(listed, key=lambda job: (-job.priority, job.created_at, job.id)))
        }
        assert queries.positions(connection, listed) == order
        for some in (listed[::7], listed[:3], [job for job in listed if job.priority in (2, -2)]):
            assert queries.positions(connection, some) == {job.id: order[job.id] for job in some}
    first = claim(database)
    assert first is not None
    assert order[first.id] == 0


def test_tables_and_fits_of_jobs_that_may_run_are_in_use(database: Database) -> None:
    """Also of a job that a release wrote which has no columns for them."""
    submit_echo(database, table="tables/a", fit="fits/a", payload={"table": "tables/a", "fit": "fits/a"})
    submit_echo(database, payload={"table": "tables/b", "fit": "fits/b"})
    ended = claim(database)
    assert ended is not None
    with database.write() as connection:
        queue.succeed(connection, ended, {})
    submit_echo(database, table="tables/c", payload={"table": "tables/c"})
    assert claim(database) is not None
    with database.read() as connection:
        assert queries.tables_in_use(connection, [f"tables/{name}" for name in "abcd"]) == {"tables/b", "tables/c"}
        assert queries.fits_in_use(connection, ["fits/a", "fits/b", "fits/c"]) == {"fits/b"}
        assert queries.tables_in_use(connection, []) == set()


def test_ended_jobs_of_an_age_are_removed_a_few_at_once(database: Database) -> None:
    jobs = [submit_echo(database, idempotency_key=f"k{number}") for number in range(6)]
    with database.write() as connection:
        for number, job in enumerate(jobs[:4]):
            ended = {"state": ("succeeded", "failed", "cancelled")[number % 3], "finished_at": now() - 100.0 * number}
            connection.execute(update(jobs_table).where(jobs_table.c.id == job.id).values(ended))
        assert retention.remove_ended(connection, older_than=150.0, limit=1) == 1
        assert retention.remove_ended(connection, older_than=150.0) == 1
        assert retention.remove_ended(connection, older_than=150.0) == 0
    with database.read() as connection:
        left, _ = queries.list_jobs(connection)
    assert {job.id for job in left} == {jobs[i].id for i in (0, 1, 4, 5)}
    assert submit_echo(database, idempotency_key="k3").id != jobs[3].id, "its key is free again"
