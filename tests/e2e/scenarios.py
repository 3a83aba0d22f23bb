"""Scenarios: restarts, deaths and failures with several processes of each kind; each counts what was sent and answered.

A scenario raises AssertionError where something was lost. The tests run short ones; `python -m tests.e2e` runs all.
"""

import asyncio
import random
import resource
import signal
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import httpx

from core.numeric.shards import FEWEST_SHARDS
from tests.e2e.fleet import LEASE_SECONDS
from tests.e2e.load import Tally, predicting, promoting, training
from tests.e2e.processes import follow, job_of, many_rows, predict, submit, surface
from tests.e2e.stage import MODEL, Outcome, Stage
from tests.freezing import freeze
from tests.processes import wait_until

QUICK = {"model": MODEL, "target": "y", "basis_size": 10, "adapt": False}
"""A job of a second."""
ROUNDS = {"model": MODEL, "target": "y", "basis_size": 40, "adapt": {"rounds": 4, "steps": 4}}
"""A job of a few seconds that keeps checkpoints."""


def rolling_restart(stage: Stage, *, clients: int, trainers: int, rounds: int = 1, pause: float = 0.02) -> Outcome:
    """Every API and worker is restarted in turn while models are retrained, promoted and asked: no request fails."""
    tally = Tally()

    async def restart() -> None:
        for _ in range(rounds):
            for name in [*stage.names("api"), *stage.names("worker")]:
                await asyncio.to_thread(stage.fleet.restart, name)
        for _ in range(300):  # on a slow machine trainings outlast the restarts
            if len(tally.answers) > 1:
                break
            await asyncio.sleep(0.2)

    _under_load(stage, tally, restart, clients=clients, trainers=trainers, spec=QUICK, pause=pause)
    assert not tally.failures, tally.failures
    assert set(tally.jobs.values()) == {"succeeded"}
    return stage.judged("rolling restart", tally)


def random_kills(stage: Stage, *, kills: int, chance: random.Random, clients: int = 2, trainers: int = 3) -> Outcome:
    """Kill -9 for a child, a worker, an API or the database, again and again; clients ask until they are answered."""
    tally = Tally(patience=90.0)
    victims: list[Callable[[], None]] = [partial(stage.kill_child, chance)] * 3
    victims += [partial(stage.kill, name) for name in [*stage.names("api"), *stage.names("worker")]]
    if stage.server is not None:
        victims.append(stage.kill_database)

    async def kill() -> None:
        for _ in range(kills):
            await asyncio.sleep(chance.uniform(0.1, 1.5))
            await asyncio.to_thread(chance.choice(victims))

    _under_load(stage, tally, kill, clients=clients, trainers=trainers, spec=ROUNDS, pause=0.1)
    assert not tally.failures, tally.failures
    return stage.judged(f"{kills} random kills", tally)


def frozen_worker(stage: Stage) -> Outcome:
    """A worker is stopped with a job in hand, past its lease; another does the job; awake, the first is refused."""
    tally = Tally(sent=1, answered=1)
    first, second = stage.names("worker")
    assert stage.fleet.stop(second) == 0
    with stage.client() as client:
        job = submit(client, surface(2000), **(ROUNDS | {"basis_size": 100}))
        wait_until(lambda: (job_of(client, job)["progress"]["round"] or 0) >= 1, 120.0)
        zombie = stage.fleet.processes[first]
        freeze(zombie.pid, stage.database)
        time.sleep(LEASE_SECONDS)
        stage.fleet.start(second)
        wait_until(lambda: job_of(client, job)["attempts"] == 2, 120.0)
        zombie.send_signal(signal.SIGCONT)
        wait_until(lambda: f"{job}: lease lost" in stage.fleet.log(first), 60.0)
        tally.jobs[job] = follow(client, job)[-1]["state"]
    assert tally.jobs[job] == "succeeded"
    assert f"{job}: succeeded" not in stage.fleet.log(first)
    stage.fleet.ready(second)
    return stage.judged("a frozen worker", tally)


def silent_database(stage: Stage, *, seconds: float) -> Outcome:
    """The database is killed with a job in hand, and is unavailable for longer than its lease."""
    assert stage.server is not None
    tally = Tally(sent=1, answered=1)
    with stage.client() as client:
        job = submit(client, surface(2000), **(ROUNDS | {"basis_size": 100}))
        wait_until(lambda: (job_of(client, job)["progress"]["round"] or 0) >= 1, 120.0)
        before = predict(client)
        for name in stage.names("api"):
            with httpx.Client(base_url=stage.fleet.url(name), timeout=60.0, trust_env=False) as direct:
                assert predict(direct) == before, "each has the model loaded"
        stage.server.kill()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            tally.sent += 1
            assert predict(client) == before, "what is loaded is served without the database"
            tally.answered += 1
            time.sleep(0.2)
        refusal = client.get(f"/jobs/{job}")
        assert (refusal.status_code, refusal.headers["retry-after"]) == (503, "1")
        stage.server.start()
        wait_until(lambda: client.get(f"/jobs/{job}").status_code == 200, 60.0)
        tally.jobs[job] = follow(client, job)[-1]["state"]
    assert tally.jobs[job] == "succeeded"
    return stage.judged("an unavailable database", tally)


def silent_store(stage: Stage, *, seconds: float) -> Outcome:
    """The bucket's server accepts connections and does not answer while a job is at work and another waits."""
    assert stage.s3 is not None
    tally = Tally(sent=2, answered=2)
    with stage.client() as client:
        jobs = [submit(client, surface(2000), **(ROUNDS | {"basis_size": 100})) for _ in range(2)]
        wait_until(lambda: job_of(client, jobs[0])["state"] == "running", 120.0)
        before = predict(client, "surface@1")
        for name in stage.names("api"):
            with httpx.Client(base_url=stage.fleet.url(name), timeout=60.0, trust_env=False) as direct:
                assert predict(direct, "surface@1") == before, "each has the model loaded"
        stage.s3.freeze()
        try:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                tally.sent += 1
                assert predict(client, "surface@1") == before, "what is loaded is served without the store"
                tally.answered += 1
                time.sleep(0.2)
            assert client.post("/train", files={"file": ("t.csv", surface(100))}).status_code == 503
        finally:
            stage.s3.thaw()
        tally.jobs |= {job: follow(client, job)[-1]["state"] for job in jobs}
    assert set(tally.jobs.values()) == {"succeeded"}
    return stage.judged("an unavailable store", tally)


def lost_machines(stage: Stage) -> Outcome:
    """A machine of the cluster dies under a large job, then the cluster as a whole: the job ends, or waits and ends."""
    assert stage.cluster is not None
    tally = Tally(sent=2, answered=2)
    spec = {"model": "large", "basis_size": 200, "adapt": False, "method": "rand", "holdout": 0}
    shards = Path(stage.fleet.shared["PURSUIT_SHARD_DIR"])
    with stage.client() as client:
        job = submit(client, many_rows(), **spec)
        wait_until(lambda: len(list(shards.glob("*.npy"))) >= FEWEST_SHARDS, 120.0)
        machine = stage.cluster.workers.pop()
        machine.kill()
        machine.wait()
        tally.jobs[job] = follow(client, job)[-1]["state"]
        stage.cluster.kill()
        job = submit(client, many_rows(), **spec)
        wait_until(lambda: "the cluster at" in (job_of(client, job)["requeue_reason"] or ""), 120.0)
        stage.cluster.start_scheduler()
        for _ in range(2):
            stage.cluster.start_worker()
        tally.jobs[job] = follow(client, job)[-1]["state"]
        found = [client.post("/predict", json={"model": f"large@{v}", "rows": [[0.1, 0.2]]}).json() for v in (1, 2)]
        assert [found[0][name] for name in ("mean", "std")] == [found[1][name] for name in ("mean", "std")]
    assert set(tally.jobs.values()) == {"succeeded"}
    return stage.judged("lost machines", tally)


def full_disk(stage: Stage) -> Outcome:
    """No file of an API or a worker may grow past 64 kB: refusals say why, predictions go on, nothing half stays."""
    tally = Tally()
    names = [*stage.names("api"), *stage.names("worker")]
    with stage.client() as client:
        before = predict(client)
        for name in names:
            _limit_files(stage, name, 1 << 16)
        for _ in range(4):
            tally.sent += 1
            answer = client.post("/train", files={"file": ("t.csv", surface(20_000))})
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1"), answer.text
            assert "cannot be written" in answer.json()["detail"]
            tally.answered += 1
        assert predict(client) == before
        uploads = [stage.fleet.directory / name / "uploads" for name in stage.names("api")]
        assert [path for folder in uploads for path in folder.glob("*/*")] == []
        for name in names:
            _limit_files(stage, name, resource.RLIM_INFINITY)
        tally.sent += 1
        job = follow(client, submit(client, surface(2000), **QUICK))[-1]
        tally.answered += 1
    tally.jobs[job["id"]] = job["state"]
    assert job["state"] == "succeeded"
    return stage.judged("a full disk", tally)


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


def _limit_files(stage: Stage, name: str, size: int) -> None:
    pid = stage.fleet.processes[name].pid
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))
