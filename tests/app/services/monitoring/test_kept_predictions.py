"""Kept predictions: those that are written are answered, whatever becomes of the trim."""

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Connection

from app.database.engine import Database
from app.errors import UnavailableError
from app.services.monitoring.kept_predictions import PredictionKeeper, RowNumbers
from app.services.predict.loaded_model import load_model
from app.services.predict.registry import ResolvedModel
from app.storage.kept_predictions import hold, total_bytes
from tests.app.routes.service import QUICK, running, waves


class Gated(Database):
    """A database whose reads wait for `gate`; writes do not."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.gate = threading.Event()


class Unreadable(Gated):
    """There is no answer to a read."""

    @contextmanager
    def read(self) -> Iterator[Connection]:
        self.gate.wait(5.0)
        raise UnavailableError("the database does not answer")
        yield


class Paused(Gated):
    """A read is answered before it waits."""

    @contextmanager
    def read(self) -> Iterator[Connection]:
        with super().read() as connection:
            yield connection
        self.gate.wait(5.0)


@pytest.fixture
def resolved(tmp_path: Path, database_url: str) -> ResolvedModel:
    """A model of a table of its own."""
    with running(tmp_path, database_url=database_url) as service:
        assert service.train(waves(60), model="waves", **QUICK)["state"] == "succeeded"
        data = service.client.get("/models/waves/versions/1/artefact").content
    return ResolvedModel(name="waves", version=1, model=load_model(data))


NUMBERS = RowNumbers(np.ones((1, 3), np.bool_), *np.zeros((3, 1, 3)))


def test_what_is_stored_is_answered_before_the_trim_and_without_it(
    resolved: ResolvedModel, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def keep(keeper: PredictionKeeper, gate: threading.Event) -> list[str | None]:
        found = [await keeper.keep_rows(resolved, NUMBERS) for _ in range(2)]  # the second while the trim waits
        assert not gate.is_set()
        gate.set()
        async with asyncio.timeout(5.0):
            while not caplog.records:
                await asyncio.sleep(0.01)
        return found

    caplog.set_level(logging.WARNING, "app.services.monitoring")
    with Unreadable(database_url) as unreadable:
        found = asyncio.run(keep(PredictionKeeper(unreadable, most_bytes=10), unreadable.gate))
        with unreadable.write() as connection:
            assert [hold(connection, str(one)).rows for one in found] == [3, 3]
    assert "old kept predictions are not removed now" in caplog.text


def test_what_is_stored_while_a_trim_ends_is_trimmed_too(resolved: ResolvedModel, database_url: str) -> None:
    async def keep(database: Paused) -> None:
        keeper = PredictionKeeper(database, most_bytes=10)
        for _ in range(3):  # the first begins a trim, which has looked before the others are stored
            await keeper.keep_rows(resolved, NUMBERS)
        database.gate.set()
        async with asyncio.timeout(5.0):
            while await asyncio.to_thread(total, database):
                await asyncio.sleep(0.01)

    def total(database: Database) -> int:
        with database.read() as connection:
            return total_bytes(connection)

    with Paused(database_url) as paused:
        asyncio.run(keep(paused))
