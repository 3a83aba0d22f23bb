"""The keys that one process knows: few looks at the database, shared by all who wait, and none a request."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection

from app.database.engine import Database
from app.errors import UnauthenticatedError, UnavailableError
from app.services.keys import key_ring
from app.services.keys.caller import ANYBODY
from app.services.keys.key_ring import KeyRing
from app.services.keys.keys import KeyRequest, Keys

UNKNOWN = b"Bearer pk_0123456789abcdef_" + b"0" * 64


class CountingDatabase(Database):
    """Counts its reading transactions, which take so many seconds; answers none of them while it is `away`."""

    looks = 0
    away = False
    seconds = 0.0

    @contextmanager
    def read(self) -> Iterator[Connection]:
        self.looks += 1
        time.sleep(self.seconds)
        if self.away:
            raise UnavailableError("the database does not answer")
        with super().read() as connection:
            yield connection


@pytest.fixture
def base(database_url: str) -> Iterator[CountingDatabase]:
    with CountingDatabase(database_url) as opened:
        opened.migrate()
        yield opened


def create(base: Database) -> bytes:
    _, token = Keys(base).create(KeyRequest(scopes=["predict"]), ANYBODY)
    return f"Bearer {token}".encode()


def test_a_thousand_requests_are_one_look(base: CountingDatabase) -> None:
    header = create(base)
    ring = KeyRing(base)

    async def ask() -> None:
        base.looks = 0
        await asyncio.gather(*(ring.identify(header) for _ in range(500)))
        for _ in range(500):
            assert await ring.identify(header) is not None

    asyncio.run(ask())
    assert base.looks == 1


def test_guesses_cost_few_looks(base: CountingDatabase) -> None:
    create(base)
    ring = KeyRing(base)

    async def guess() -> None:
        with pytest.raises(UnauthenticatedError):
            await ring.identify(UNKNOWN)

    async def ask() -> float:
        began = time.monotonic()
        for _ in range(3):
            await asyncio.gather(*(guess() for _ in range(200)))
        return time.monotonic() - began

    seconds = asyncio.run(ask())
    assert base.looks <= 2 + seconds / key_ring.UNKNOWN_SECONDS


def test_guesses_that_come_all_the_time_cost_few_looks(base: CountingDatabase) -> None:
    """Also those that come while a look is under way, or are waiting when it ends."""
    create(base)
    ring = KeyRing(base)

    async def guess(after: float) -> None:
        await asyncio.sleep(after)
        with pytest.raises(UnauthenticatedError):
            await ring.identify(UNKNOWN)

    async def ask() -> float:
        began = time.monotonic()
        await asyncio.gather(*(guess(0.005 * number) for number in range(200)))
        return time.monotonic() - began

    base.looks, base.seconds = 0, 0.02
    seconds = asyncio.run(ask())
    assert base.looks <= 2 + seconds / key_ring.UNKNOWN_SECONDS


def test_a_known_id_with_another_secret_is_refused_without_a_look(base: CountingDatabase) -> None:
    header = create(base)
    ring = KeyRing(base)

    async def ask() -> None:
        await ring.identify(header)
        base.looks = 0
        for _ in range(100):
            with pytest.raises(UnauthenticatedError):
                await ring.identify(header[:-64] + b"0" * 64)

    asyncio.run(ask())
    assert base.looks == 0


def test_a_new_key_is_known_at_once(base: CountingDatabase) -> None:
    first = create(base)
    ring = KeyRing(base)

    async def ask() -> None:
        await ring.identify(first)
        for _ in range(3):
            assert await ring.identify(await asyncio.to_thread(create, base)) is not None

    asyncio.run(ask())


def test_without_the_database_what_is_known_holds_for_a_while(
    base: CountingDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = create(base)
    ring = KeyRing(base)
    monkeypatch.setattr(key_ring, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(key_ring, "REVOKED_SECONDS", 0.1)

    async def ask() -> None:
        assert await ring.identify(header) is not None
        base.away = True
        await asyncio.sleep(0.2)
        assert await ring.identify(header) is not None
        with pytest.raises(UnauthenticatedError):
            await ring.identify(b"")
        monkeypatch.setattr(key_ring, "STALE_SECONDS", 0.1)
        with pytest.raises(UnavailableError):
            await ring.identify(header)
        monkeypatch.setattr(key_ring, "STALE_SECONDS", 600.0)  # a look may take long where much else is done
        base.away = False
        await asyncio.sleep(0.1)
        assert await ring.identify(header) is not None

    asyncio.run(ask())


def test_nobody_is_let_in_before_the_keys_are_known(base: CountingDatabase) -> None:
    base.away = True

    async def ask() -> None:
        for ring in (KeyRing(base), KeyRing(base, private=False)):
            with pytest.raises(UnavailableError):
                await ring.identify(b"")

    asyncio.run(ask())
