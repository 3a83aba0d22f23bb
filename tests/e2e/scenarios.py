"""What the service goes through with several processes of each kind; every scenario says what was sent and answered.

A scenario raises AssertionError where something was lost. The tests run short ones; `python -m tests.e2e` runs all.
"""

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import httpx

from app.database import Database
from app.storage.blobs import LocalBlobStore
from tests.e2e.audit import Findings, audit
from tests.e2e.fleet import Fleet
from tests.e2e.load import Tally, predicting, promoting, training
from tests.e2e.postgres import Server
from tests.e2e.processes import ROWS, follow, submit, surface

MODEL = "surface"
QUICK = {"model": MODEL, "target": "y", "basis_size": 10, "adapt": False}
"""A job of a second."""
ROUNDS = {"model": MODEL, "target": "y", "basis_size": 40, "adapt": {"rounds": 4, "steps": 4}}
"""A job of a few seconds that keeps checkpoints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a scenario: what the clients saw, and what was then in the database and the store."""

    name: str
    tally: Tally
    findings: Findings


@dataclass(slots=True, kw_only=True)
class Stage:
    """Where scenarios take place: a fleet behind `url`, its database (server: if it may be killed), its store."""

    fleet: Fleet
    url: str
    database: Database
    blobs: LocalBlobStore
    server: Server | None = None

    def first_model(self) -> None:
        """So that there is something to predict with."""
        with httpx.Client(base_url=self.url, timeout=60.0, trust_env=False) as client:
            job = follow(client, submit(client, surface(300), basis_size=30, adapt=False))[-1]
            assert job["state"] == "succeeded", job

    def names(self, kind: str) -> list[str]:
        """Of the processes of a kind."""
        return sorted(name for name in self.fleet.processes if name.startswith(kind))


def rolling_restart(stage: Stage, *, clients: int, trainers: int, rounds: int = 1, pause: float = 0.02) -> Outcome:
    """Every API and worker is restarted in turn while models are retrained, promoted and asked: no request fails."""
    tally = Tally()

    async def restart() -> None:
        for _ in range(rounds):
            for name in [*stage.names("api"), *stage.names("worker")]:
                await asyncio.to_thread(stage.fleet.restart, name)

    _under_load(stage, tally, restart, clients=clients, trainers=trainers, spec=QUICK, pause=pause)
    assert not tally.failures, tally.failures
    assert set(tally.jobs.values()) == {"succeeded"}
    return _judged("rolling restart", stage, tally)


def random_kills(stage: Stage, *, kills: int, chance: random.Random, clients: int = 2, trainers: int = 3) -> Outcome:
    """Kill -9 for a child, a worker, an API or the database, again and again; clients ask until they are answered."""
    tally = Tally(patience=90.0)
    victims: list[Callable[[], None]] = [lambda: _kill_child(stage, chance)] * 3
    victims += [partial(_kill, stage, name) for name in [*stage.names("api"), *stage.names("worker")]]
    if stage.server is not None:
        victims.append(lambda: _kill_database(stage))

    async def kill() -> None:
        for _ in range(kills):
            await asyncio.sleep(chance.uniform(0.1, 1.5))
            await asyncio.to_thread(chance.choice(victims))

    _under_load(stage, tally, kill, clients=clients, trainers=trainers, spec=ROUNDS, pause=0.1)
    assert not tally.failures, tally.failures
    return _judged(f"{kills} random kills", stage, tally)


def _under_load(
    stage: Stage,
    tally: Tally,
    disturb: Callable[[], Awaitable[None]],
    *,
    clients: int,
    trainers: int,
    spec: dict[str, object],
    pause: float,
) -> None:
    """Disturb while clients predict, train and promote; then let every job come to its end."""
    references = [MODEL, f"{MODEL}@latest", f"{MODEL}@1"]

    async def run() -> None:
        over = asyncio.Event()
        crowd = [predicting(stage.url, references, tally, over.is_set, pause) for _ in range(clients)]
        crowd += [training(stage.url, spec, tally, over.is_set, keyed=place % 2 == 0) for place in range(trainers)]
        crowd += [promoting(stage.url, MODEL, tally, over.is_set)]
        tasks = [asyncio.create_task(one) for one in crowd]
        await asyncio.sleep(1.0)
        try:
            await disturb()
        finally:
            over.set()
        await asyncio.wait_for(asyncio.gather(*tasks), 240.0)

    asyncio.run(run())


def _judged(name: str, stage: Stage, tally: Tally) -> Outcome:
    """Every answer was whole and of the version that it named; then the audit."""
    with httpx.Client(base_url=stage.url, timeout=60.0, trust_env=False) as client:
        for (model, version), bodies in tally.answers.items():
            body = {"model": f"{model}@{version}", "rows": ROWS, "interval": [0.5, 0.95], "include": ["latent_std"]}
            assert bodies == {client.post("/predict", json=body).content}, f"{model}@{version} said several things"
    return Outcome(name=name, tally=tally, findings=audit(stage.database, stage.blobs, tally.jobs))


def _kill_child(stage: Stage, chance: random.Random) -> None:
    found = [child for name in stage.names("worker") for child in stage.fleet.children_of(name)]
    if found:
        os.kill(chance.choice(found), signal.SIGKILL)


def _kill(stage: Stage, name: str) -> None:
    stage.fleet.kill(name)
    stage.fleet.start(name)


def _kill_database(stage: Stage) -> None:
    assert stage.server is not None
    stage.server.kill()
    stage.server.start()
