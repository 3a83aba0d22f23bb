"""Clients that have seen a change of the catalogue are answered by it: every process, every kind of change."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from anyio import to_thread
from sqlalchemy import text

from app.database.engine import Database
from app.database.tables import catalogue
from app.errors import NotFoundError
from app.services.models import Models
from app.services.predict import registry
from app.services.predict.generations import Generations, generations_of
from app.services.predict.registry import ModelRegistry
from app.storage import catalog
from app.storage.blobs import LocalBlobStore
from tests import postgres
from tests.app.services.predict.test_registry import stored

END_THE_OTHERS = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


@pytest.fixture
def blobs(tmp_path: Path) -> LocalBlobStore:
    return LocalBlobStore(tmp_path / "blobs")


@pytest.fixture
def artefact(blobs: LocalBlobStore) -> str:
    return blobs.put("models", ".safetensors", stored(0))


@pytest.fixture
def other(database_url: str) -> Iterator[Database]:
    """The same database from another process."""
    with Database(database_url) as opened:
        yield opened


def publish(database: Database, artefact: str, name: str = "m") -> int:
    with database.write() as connection:
        return catalog.publish(connection, model=name, artefact=artefact, size=1, job_id=None, summary={}).version


@contextmanager
def apis(blobs: LocalBlobStore, *databases: Database) -> Iterator[list[ModelRegistry]]:
    """Answers as of many processes; inside of the event loop that they share here."""
    made = [ModelRegistry(one, blobs, most_models=8, most_bytes=1 << 30) for one in databases]
    try:
        yield made
    finally:
        for one in made:
            one.close()


def test_every_process_knows_what_was_published(
    database: Database, other: Database, blobs: LocalBlobStore, artefact: str
) -> None:
    async def ask() -> None:
        with apis(blobs, database, other) as processes:
            for number in range(1, 11):
                published = await to_thread.run_sync(publish, (database, other)[number % 2], artefact)
                assert published == number
                assert [(await one.resolve("m")).version for one in processes] == [number, number]

    asyncio.run(ask())


def test_every_process_knows_of_moved_aliases_and_of_deletions(
    database: Database, other: Database, blobs: LocalBlobStore, artefact: str
) -> None:
    models = Models(other, blobs)
    for _ in range(4):
        publish(database, artefact)

    async def ask() -> None:
        with apis(blobs, database, other) as processes:

            async def versions(reference: str) -> set[int]:
                return {(await one.resolve(reference)).version for one in processes}

            async def gone(reference: str) -> None:
                for one in processes:
                    with pytest.raises(NotFoundError):
                        await one.resolve(reference)

            assert await versions("m") == {4}
            for version in (2, 3, 1):
                models.put_alias("m", "champion", version)
                assert await versions("m") == await versions("m@champion") == {version}
            assert await versions("m@4") == {4}
            models.delete_alias("m", "champion")
            await gone("m@champion")
            assert await versions("m") == {4}
            models.delete_version("m", 4, force=False)
            await gone("m@4")
            assert await versions("m") == {3}
            models.delete_model("m", force=False)
            for reference in ("m", "m@3", "m@latest"):
                await gone(reference)

    asyncio.run(ask())


def test_no_answer_is_older_than_what_was_seen_before_the_question(
    database: Database, other: Database, blobs: LocalBlobStore, artefact: str
) -> None:
    seen = publish(database, artefact)

    def retrain() -> None:
        nonlocal seen
        for _ in range(40):
            seen = publish(other, artefact)

    async def ask() -> None:
        with apis(blobs, database, database) as processes:

            async def client(process: ModelRegistry) -> int:
                questions = 0
                while worker.is_alive():
                    known = seen
                    await asyncio.sleep(0)  # what comes through a socket is heard when the loop goes round
                    assert (await process.resolve("m")).version >= known
                    questions += 1
                return questions

            worker = threading.Thread(target=retrain)
            worker.start()
            questions = await asyncio.gather(*(client(process) for process in processes for _ in range(8)))
            worker.join()
            assert min(questions) > 0

    asyncio.run(ask())
    assert seen == 41


def test_a_change_counts_from_its_commit(database: Database) -> None:
    async def ask() -> None:
        made: Generations[None] = generations_of(database)
        with closing(made) as generations:
            with database.write() as connection:
                for _ in range(2):
                    catalog.publish(connection, model="m", artefact="a", size=1, job_id=None, summary={})
                    assert (await generations.read()).generation == 0
            await asyncio.sleep(0)  # the next time that the loop goes round
            assert (await generations.read()).generation == 2

    asyncio.run(ask())


def test_a_connection_that_broke_costs_no_answer(database: Database, blobs: LocalBlobStore, artefact: str) -> None:
    async def ask() -> None:
        with apis(blobs, database) as [process]:
            for number in range(1, 5):
                publish(database, artefact)
                assert (await process.resolve("m")).version == number
                if not database.is_sqlite:
                    with database.read() as connection:
                        connection.execute(END_THE_OTHERS)
                else:
                    process._generations.close()

    asyncio.run(ask())


def test_a_worker_of_an_older_release_is_heard_of_in_half_a_second(
    database: Database, blobs: LocalBlobStore, artefact: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "FRESH_SECONDS", 0.1)

    async def ask() -> None:
        with apis(blobs, database) as [process]:
            publish(database, artefact)
            assert (await process.resolve("m")).version == 1
            with database.write() as connection:
                catalog.publish(connection, model="m", artefact=artefact, size=1, job_id=None, summary={})
                connection.execute(catalogue.update().values(generation=1))
            await asyncio.sleep(0.15)
            assert (await process.resolve("m")).version == 2
            assert (await process.resolve("m@1")).version == 1

    asyncio.run(ask())


@pytest.mark.slow
@pytest.mark.skipif(postgres.programs() is None, reason=postgres.MISSING)
@pytest.mark.parametrize("waiting", [False, True])
def test_a_killed_server_keeps_nobody_waiting(waiting: bool) -> None:
    """Processes end without a word, so the connection is lost before any message tells so."""

    async def ask(server: postgres.Server, database: Database) -> None:
        generations: Generations[object] = generations_of(database)
        assert (await generations.read()).generation == 0
        reading = asyncio.create_task(generations.read()) if waiting else None
        server.kill()
        for _ in range(5):
            lost = await asyncio.wait_for(generations.read() if reading is None else reading, 30.0)
            assert waiting or lost.generation is None
            reading = None
            await asyncio.sleep(0.2)
        server.start()
        while (await asyncio.wait_for(generations.read(), 30.0)).generation is None:
            await asyncio.sleep(0.1)
        generations.close()

    with postgres.postgres() as server, Database(server.url) as database:
        database.migrate()
        asyncio.run(ask(server, database))
