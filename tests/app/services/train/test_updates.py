"""Updates that meet: two at once, one while another is published, one after many other jobs."""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from app.errors import ConflictError
from app.jobs import queue
from app.services.keys.caller import ANYBODY, Caller
from app.services.train.updates import Updates
from app.storage.audit import AuditAction
from app.storage.blobs import LocalBlobStore
from app.tables import Limits
from tests.app.routes.service import QUICK, Service, curve, even, running

ROWS = [{"x": 1.0, "y": 0.8}, {"x": 2.0, "y": 0.9}]


class Pausing(LocalBlobStore):
    """A store that does something when a table was written."""

    def __init__(self, root: Path, pause: Callable[[], object]) -> None:
        super().__init__(root)
        self._pause = pause

    def put(self, prefix: str, suffix: str, source: Path | bytes) -> str:
        key = super().put(prefix, suffix, source)
        self._pause()
        return key


@pytest.fixture
def trained(tmp_path: Path, database_url: str) -> Iterator[Service]:
    with running(tmp_path, database_url=database_url) as service:
        assert service.train(curve(60, even), model="plain", **QUICK)["state"] == "succeeded"
        yield service


def updates(service: Service, folder: Path, pause: Callable[[], object] = lambda: None) -> Updates:
    blobs = Pausing(folder / "blobs", pause)
    return Updates(database=service.database, blobs=blobs, limits=Limits(), scratch=folder)


class Lingering(Caller):
    """A caller whose transaction stays open until another one's is as far, or for half a second."""

    others = threading.Barrier(2, timeout=0.5)

    def record(self, connection: Connection, action: AuditAction, subject: str, **detail: object) -> None:
        super().record(connection, action, subject, **detail)
        with suppress(threading.BrokenBarrierError):
            self.others.wait()


def submit(through: Updates, rows: list[dict[str, Any]], caller: Caller = ANYBODY) -> str:
    """Submit an update: "queued", or what the refusal says."""
    try:
        return through.submit_rows("plain", rows, spec={}, key=None, caller=caller).job.state.value
    except ConflictError as error:
        return str(error)


def test_of_two_updates_at_once_one_is_queued(trained: Service, tmp_path: Path) -> None:
    """Both have read their rows before either is in the queue, and the second looks before the first is committed."""
    both = threading.Barrier(2, timeout=30.0)
    through, found = updates(trained, tmp_path, both.wait), list[str]()

    def ask(place: int) -> None:
        found.append(submit(through, ROWS[place:], Lingering()))

    threads = [threading.Thread(target=ask, args=(place,)) for place in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer == "queued" for answer in found) == [False, True]
    assert any("updates 'plain' already" in answer for answer in found)


def test_an_update_that_another_one_overtakes_is_refused(trained: Service, tmp_path: Path) -> None:
    """The other's version is published while its own rows are read: it would be without them."""
    assert submit(updates(trained, tmp_path), ROWS) == "queued"
    said = submit(updates(trained, tmp_path, trained.work), ROWS[:1])
    assert "plain means version 2" in said
    assert submit(updates(trained, tmp_path), ROWS[:1]) == "queued"


def test_many_newer_jobs_hide_no_update(trained: Service, tmp_path: Path) -> None:
    through = updates(trained, tmp_path)
    assert submit(through, ROWS) == "queued"
    with trained.database.write() as connection:
        for _ in range(101):
            queue.submit(connection, kind="predict", model="plain", payload={})
    assert "updates 'plain' already" in submit(through, ROWS[:1])
