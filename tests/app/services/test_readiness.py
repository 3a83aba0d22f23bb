"""A probe looks again, but never waits long for a look."""

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.database.engine import Database
from app.errors import UnavailableError
from app.services import readiness
from app.services.readiness import Readiness
from app.storage.blobs import LocalBlobStore


class SlowStore(LocalBlobStore):
    """A store on a disk that hangs while `running` is not set, and fails while `broken`."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.running = threading.Event()
        self.running.set()
        self.broken = False

    def check(self) -> None:
        self.running.wait()
        if self.broken:
            raise UnavailableError("no space left")
        super().check()


@pytest.fixture
def store(tmp_path: Path) -> SlowStore:
    return SlowStore(tmp_path / "artefacts")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database(f"sqlite:///{tmp_path / 'pursuit.db'}") as made:
        made.migrate()
        yield made


def test_a_slow_look_leaves_the_last_word(
    database: Database, store: SlowStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "GOOD_SECONDS", 0.0)
    monkeypatch.setattr(readiness, "OLD_SECONDS", 1.0)

    async def story() -> None:
        ready = Readiness(database, store)
        await ready.check()
        store.running.clear()
        began = time.monotonic()
        await asyncio.gather(*(ready.check() for _ in range(20)))
        assert time.monotonic() - began < 0.9  # PATIENCE_SECONDS, once for all of them
        await asyncio.sleep(1.0)
        with pytest.raises(TimeoutError):  # the last word is too old now: this one waits for the look
            await asyncio.wait_for(ready.check(), 0.5)
        store.running.set()
        await ready.check()

    asyncio.run(story())


def test_a_watched_service_answers_its_first_probe_in_a_while(
    database: Database, store: SlowStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "GOOD_SECONDS", 0.0)
    monkeypatch.setattr(readiness, "WATCH_SECONDS", 0.1)
    monkeypatch.setattr(readiness, "OLD_SECONDS", 1.0)

    async def story() -> None:
        ready = Readiness(database, store)
        watching = asyncio.create_task(ready.watch())
        await asyncio.sleep(1.3)  # nobody asks
        store.running.clear()  # a new look would take for ever
        await asyncio.wait_for(ready.check(), 1.0)
        assert not watching.done()
        store.running.set()
        watching.cancel()
        await asyncio.wait({watching})

    asyncio.run(story())


def test_a_fault_is_told_until_a_look_is_good(database: Database, store: SlowStore) -> None:
    async def story() -> None:
        ready = Readiness(database, store)
        store.broken = True
        for _ in range(2):
            with pytest.raises(UnavailableError, match="no space left"):
                await ready.check()
        store.broken = False
        await ready.check()

    asyncio.run(story())


def test_the_first_probe_waits_for_its_look(database: Database, store: SlowStore) -> None:
    async def story() -> None:
        ready = Readiness(database, store)
        store.running.clear()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ready.check(), 0.5)
        store.running.set()
        await ready.check()

    asyncio.run(story())
