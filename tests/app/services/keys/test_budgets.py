"""Limits a minute: few writes, never more than the limit, and each process for itself without the database."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection

from app.database.engine import Database
from app.errors import LimitExceededError, TooLargeError, UnavailableError
from app.services.keys import usage
from app.services.keys.budgets import SHARES, Budgets
from app.services.keys.caller import ANYBODY
from app.services.keys.keys import KeyRequest, Keys
from app.services.keys.usage import PREDICT, UsageCounter
from app.storage import key_usage
from app.storage.api_keys import ApiKey, KeyLimits

LIMIT = 1000


class CountingDatabase(Database):
    """Counts its writing transactions; takes none of them while it is `away`."""

    writes = 0
    away = False

    @contextmanager
    def write(self) -> Iterator[Connection]:
        self.writes += 1
        if self.away:
            raise UnavailableError("the database does not answer")
        with super().write() as connection:
            yield connection


@pytest.fixture
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CountingDatabase]:
    with CountingDatabase(f"sqlite:///{tmp_path_factory.mktemp('budgets')}/pursuit.db") as opened:
        opened.migrate()
        yield opened


def key_of(base: Database) -> ApiKey:
    limits = KeyLimits(requests_per_minute=LIMIT, rows_per_minute=LIMIT)
    key, _ = Keys(base).create(KeyRequest(scopes=["predict"], limits=limits), ANYBODY)
    left = 60.0 - time.time() % 60.0
    if left < 3.0:
        time.sleep(left + 0.1)
    return key


async def taken(budgets: Budgets, key: ApiKey, times: int) -> int:
    """Send so many requests, some at once; return how many were let in."""

    async def one() -> bool:
        try:
            await budgets.take_request(key)
        except LimitExceededError as error:
            waits.append(error.retry_seconds)
            return False
        return True

    waits: list[int] = []
    let_in = sum(await asyncio.gather(*(one() for _ in range(times))))
    assert all(1 <= seconds <= 60 for seconds in waits)
    return let_in


def test_a_share_for_many_requests_is_one_write(base: CountingDatabase) -> None:
    key, budgets = key_of(base), Budgets(base)

    async def ask() -> None:
        base.writes = 0
        assert await taken(budgets, key, LIMIT // 2) == LIMIT // 2
        assert base.writes == SHARES // 2
        assert await taken(budgets, key, LIMIT) == LIMIT - LIMIT // 2
        writes = base.writes
        assert writes <= SHARES + 1
        assert await taken(budgets, key, LIMIT) == 0
        assert base.writes == writes, "who has nothing left costs the database nothing"

    asyncio.run(ask())


def test_several_processes_share_one_limit(base: CountingDatabase) -> None:
    key = key_of(base)

    async def ask() -> list[int]:
        many = [Budgets(base) for _ in range(4)]
        return [await taken(many[turn % 4], key, 30) for turn in range(60)]

    let_in = sum(asyncio.run(ask()))
    assert LIMIT - 3 * LIMIT // SHARES <= let_in <= LIMIT


def test_a_large_request_takes_what_it_needs(base: CountingDatabase) -> None:
    key, budgets = key_of(base), Budgets(base)

    async def ask() -> None:
        await budgets.take_rows(key, 900)
        with pytest.raises(LimitExceededError, match="1,000 rows a minute"):
            await budgets.take_rows(key, 101)
        await budgets.take_rows(key, 100)
        with pytest.raises(LimitExceededError):
            await budgets.take_rows(key, 1)
        with pytest.raises(TooLargeError, match="1,001 rows"):
            await budgets.take_rows(key, 1001)
        await budgets.take_rows(None, 10**9)

    asyncio.run(ask())


def test_without_the_database_each_process_counts_for_itself(base: CountingDatabase) -> None:
    key, budgets = key_of(base), Budgets(base)
    base.away = True
    assert asyncio.run(taken(budgets, key, LIMIT + 100)) == LIMIT
    assert base.writes <= 3, "a database that is away is not asked again for each request"


def test_counts_wait_for_the_database(base: CountingDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "FLUSH_SECONDS", 0.05)
    key = key_of(base)

    async def count() -> None:
        counter = UsageCounter(base)
        base.writes, base.away = 0, True
        for _ in range(100):
            counter.count(key, PREDICT, "cars", 2)
        await asyncio.sleep(0.2)
        assert base.writes >= 2
        base.away = False
        counter.count(key, PREDICT, "cars", 3)
        counter.count(None, PREDICT, "cars", 3)
        await counter.close()

    asyncio.run(count())
    with base.read() as connection:
        found, _ = key_usage.page(connection, limit=10, cursor=None)
    assert (sum(one.requests for one in found), sum(one.rows for one in found)) == (101, 203)
