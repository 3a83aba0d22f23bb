"""Calls that are shared begin after everybody who shares them has asked."""

import asyncio

import pytest

from app.services.predict.coalescing import Coalescer


class Counter:
    """Work whose result is the number of the call, and which lasts until it is let go."""

    def __init__(self) -> None:
        self.begun = 0
        self.go = asyncio.Event()

    async def work(self, key: str) -> str:
        self.begun += 1
        mine = f"{key}{self.begun}"
        await self.go.wait()
        return mine


async def _turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_two_calls_serve_all_who_ask() -> None:
    async def ask() -> None:
        counter = Counter()
        shared = Coalescer(counter.work)
        first = [asyncio.create_task(shared.get("a")) for _ in range(10)]
        await _turns()
        late = [asyncio.create_task(shared.get("a")) for _ in range(10)]
        other = asyncio.create_task(shared.get("b"))
        await _turns()
        assert counter.begun == 2  # the second call for `a` waits until the first has ended
        counter.go.set()
        assert set(await asyncio.gather(*first)) == {"a1"}
        assert set(await asyncio.gather(*late)) == {"a3"}
        assert await other == "b2"

    asyncio.run(ask())


def test_who_goes_away_takes_nobody_along() -> None:
    async def ask() -> None:
        counter = Counter()
        shared = Coalescer(counter.work)
        impatient, patient = (asyncio.create_task(shared.get("a")) for _ in range(2))
        await _turns()
        impatient.cancel()
        counter.go.set()
        assert await patient == "a1"
        with pytest.raises(asyncio.CancelledError):
            await impatient

    asyncio.run(ask())


def test_an_error_is_for_those_who_asked_before_it() -> None:
    failing = True

    async def work(_: None) -> int:
        if failing:
            raise ValueError("no")
        return 1

    async def ask() -> None:
        nonlocal failing
        shared = Coalescer(work)
        for found in await asyncio.gather(shared.get(None), shared.get(None), return_exceptions=True):
            assert isinstance(found, ValueError)
        failing = False
        assert await shared.get(None) == 1

    asyncio.run(ask())
