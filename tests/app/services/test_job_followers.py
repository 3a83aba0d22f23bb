"""Many followers of many jobs: one look at the database for all of them, and each gets every change of its own."""

import asyncio
import threading
from pathlib import Path

import pytest
from sqlalchemy import event

from app.database.engine import Database
from app.jobs import queue
from app.jobs.job import JobState
from app.services import job_followers
from app.services.job_followers import JobFollowers
from app.services.jobs import Jobs, JobView
from tests.app.jobs.helpers import submit_echo

JOBS, FOLLOWERS = 20, 200


def test_followers_share_their_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_followers, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(job_followers, "MAX_SHARE", 1.0)
    with Database(f"sqlite:///{tmp_path}/jobs.db") as database:
        database.migrate()
        submitted = [submit_echo(database) for _ in range(JOBS)]
        jobs = Jobs(database)
        looks: list[int] = []
        changes = jobs.changes

        def counted(known: dict[str, tuple[int, int]]) -> list[JobView]:
            looks.append(len(known))
            return changes(known)

        monkeypatch.setattr(jobs, "changes", counted)
        statements: list[str] = []
        event.listen(database.engine, "before_cursor_execute", lambda _, __, text, *___: statements.append(text))

        async def follow(followers: JobFollowers, view: JobView) -> list[JobState]:
            return [one.job.state async for one in followers.follow(view, 10.0) if one is not None]

        def work() -> None:
            with database.write() as connection:
                while (job := queue.claim(connection, worker="w", lease_seconds=60.0)) is not None:
                    queue.succeed(connection, job, {})

        async def all_of_them() -> list[list[JobState]]:
            followers = JobFollowers(jobs, threading.Event())
            views = [jobs.get(job.id) for job in submitted]
            statements.clear()
            tasks = [asyncio.create_task(follow(followers, views[i % JOBS])) for i in range(FOLLOWERS)]
            await asyncio.sleep(0.2)
            await asyncio.to_thread(work)
            return await asyncio.gather(*tasks)

        seen = asyncio.run(all_of_them())
    assert [states[-1] for states in seen] == [JobState.SUCCEEDED] * FOLLOWERS
    assert looks
    assert set(looks) == {JOBS}  # of each job once, however many follow it
    selects = [text for text in statements if text.startswith("SELECT") and "jobs" in text]
    assert len(selects) < 12 * len(looks) + 5 * JOBS + 10  # those of claims among them, and none a follower
