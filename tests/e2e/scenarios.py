"""What the service goes through with several processes of each kind; every scenario says what was sent and answered.

A scenario raises AssertionError where something was lost. The tests run short ones; `python -m tests.e2e` runs all.
"""

import asyncio
import os
import random
import resource
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest.mock import patch

import httpx

from app.database import Database
from app.jobs import queue
from app.jobs.job import JobState
from app.settings import Settings
from app.storage.blobs import BlobStore
from app.storage.stores import open_store
from core.sharding import FEWEST_SHARDS
from tests.app.cli.processes import eventually
from tests.app.compute.processes import DaskProcesses, dask_processes
from tests.e2e.audit import Findings, audit
from tests.e2e.fleet import LEASE_SECONDS, Fleet, fleet
from tests.e2e.front import PROGRAM, Front, nginx
from tests.e2e.load import Tally, predicting, promoting, training
from tests.e2e.postgres import Server, postgres
from tests.e2e.processes import ROWS, follow, job_of, many_rows, predict, submit, surface
from tests.s3 import S3Server, s3_server

COLUMNS = ("sent", "answered", "by nginx", "by client", "lost", "jobs", "succeeded", "failed", "versions")
HEADER = f"{'':26}" + "".join(f"{name:>10}" for name in COLUMNS)
"""`by nginx`, `by client`: asked again by them. Succeeded, failed and versions count from the start."""

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
    front_retried: int

    def row(self) -> str:
        """A line under HEADER. Lost: requests that were not answered, for all the patience of who asked."""
        tally, jobs = self.tally, self.findings.jobs
        lost = tally.sent - tally.answered
        numbers = (tally.sent, tally.answered, self.front_retried, tally.retried, lost)
        ended = (len(tally.jobs), jobs[JobState.SUCCEEDED], jobs[JobState.FAILED], self.findings.versions)
        return f"{self.name:26}" + "".join(f"{number:>10}" for number in (*numbers, *ended))


@dataclass(slots=True, kw_only=True)
class Stage:
    """Where scenarios take place: a fleet, nginx in front of it where there is one, its database (server: if it may be
    killed) and its store (s3: its server, if it may be frozen), and the Dask cluster where there is one.
    """

    fleet: Fleet
    database: Database
    blobs: BlobStore
    server: Server | None = None
    s3: S3Server | None = None
    front: Front | None = None
    cluster: DaskProcesses | None = None

    @property
    def url(self) -> str:
        """Where clients ask."""
        return self.fleet.url("api-1") if self.front is None else self.front.url

    def client(self) -> httpx.Client:
        """One that waits for its answers."""
        return httpx.Client(base_url=self.url, timeout=60.0, trust_env=False)

    def first_model(self) -> None:
        """So that there is something to predict with."""
        with self.client() as client:
            job = follow(client, submit(client, surface(300), basis_size=30, adapt=False))[-1]
            assert job["state"] == "succeeded", job

    def names(self, kind: str) -> list[str]:
        """Of the processes of a kind."""
        return sorted(name for name in self.fleet.processes if name.startswith(kind))


@contextmanager
def stage(folder: Path, database: str, store: str = "folder", *, with_cluster: bool = False) -> Iterator[Stage]:
    """Two APIs and two workers over `sqlite` or `postgresql`, a `folder` or a `bucket`, with a first model, and if
    wanted with a Dask scheduler and two Dask workers; gone at the end.
    """
    with ExitStack() as stack:
        server = stack.enter_context(postgres()) if database == "postgresql" else None
        url = f"sqlite:///{folder}/pursuit.db" if server is None else server.url
        s3 = stack.enter_context(s3_server()) if store == "bucket" else None
        place = f"file://{folder}/blobs" if s3 is None else f"s3://{s3.make_bucket()}/pursuit"
        shared = {"PURSUIT_DATABASE_URL": url, "PURSUIT_ARTEFACT_URL": place} | ({} if s3 is None else s3.environment())
        if s3 is not None:
            stack.enter_context(patch.dict(os.environ, s3.environment()))  # for the audit, which runs here
        cluster = None
        if with_cluster:
            (folder / "dask").mkdir()
            cluster = stack.enter_context(dask_processes(folder / "dask"))
            shared |= {
                "PURSUIT_COMPUTE": f"dask://127.0.0.1:{cluster.port}",
                "PURSUIT_COMPUTE_PATIENCE_SECONDS": "2",
                "PURSUIT_SHARD_DIR": str(folder / "shards"),
            }
        names = ["api-1", "api-2", "worker-1", "worker-2"]
        made = stack.enter_context(fleet(folder / "fleet", names, **shared))
        ports = [made.ports["api-1"], made.ports["api-2"]]
        front = stack.enter_context(nginx(folder / "nginx", ports)) if PROGRAM is not None else None
        opened = stack.enter_context(Database(url))
        blobs = open_store(Settings(data_dir=folder / "audit", artefact_url=place))
        built = Stage(fleet=made, database=opened, blobs=blobs, server=server, s3=s3, front=front, cluster=cluster)
        built.first_model()
        yield built


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


def frozen_worker(stage: Stage) -> Outcome:
    """A worker is stopped with a job in hand, past its lease; another does the job; awake, the first is refused."""
    tally = Tally(sent=1, answered=1)
    first, second = stage.names("worker")
    assert stage.fleet.stop(second) == 0
    with stage.client() as client:
        job = submit(client, surface(2000), **(ROUNDS | {"basis_size": 100}))
        eventually(lambda: (job_of(client, job)["progress"]["round"] or 0) >= 1, 120.0)
        zombie = stage.fleet.processes[first]
        zombie.send_signal(signal.SIGSTOP)
        time.sleep(LEASE_SECONDS)
        stage.fleet.start(second)
        eventually(lambda: job_of(client, job)["attempts"] == 2, 120.0)
        zombie.send_signal(signal.SIGCONT)
        eventually(lambda: f"{job}: given up" in stage.fleet.log(first), 60.0)
        tally.jobs[job] = follow(client, job)[-1]["state"]
    assert tally.jobs[job] == "succeeded"
    assert f"{job}: succeeded" not in stage.fleet.log(first)
    stage.fleet.ready(second)
    return _judged("a frozen worker", stage, tally)


def silent_database(stage: Stage, *, seconds: float) -> Outcome:
    """The database is killed with a job in hand, and stays away for longer than its lease."""
    assert stage.server is not None
    tally = Tally(sent=1, answered=1)
    with stage.client() as client:
        job = submit(client, surface(2000), **(ROUNDS | {"basis_size": 100}))
        eventually(lambda: (job_of(client, job)["progress"]["round"] or 0) >= 1, 120.0)
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
        eventually(lambda: client.get(f"/jobs/{job}").status_code == 200, 60.0)
        tally.jobs[job] = follow(client, job)[-1]["state"]
    assert tally.jobs[job] == "succeeded"
    return _judged("a database that is away", stage, tally)


def silent_store(stage: Stage, *, seconds: float) -> Outcome:
    """The bucket's server takes connections and says nothing while a job is at work and another waits."""
    assert stage.s3 is not None
    tally = Tally(sent=2, answered=2)
    with stage.client() as client:
        jobs = [submit(client, surface(2000), **(ROUNDS | {"basis_size": 100})) for _ in range(2)]
        eventually(lambda: job_of(client, jobs[0])["state"] == "running", 120.0)
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
    return _judged("a store that is away", stage, tally)


def lost_machines(stage: Stage) -> Outcome:
    """A machine of the cluster dies under a large job, then the cluster as a whole: the job ends, or waits and ends."""
    assert stage.cluster is not None
    tally = Tally(sent=2, answered=2)
    spec = {"model": "large", "basis_size": 200, "adapt": False, "method": "rand", "holdout": 0}
    shards = Path(stage.fleet.shared["PURSUIT_SHARD_DIR"])
    with stage.client() as client:
        job = submit(client, many_rows(), **spec)
        eventually(lambda: len(list(shards.glob("*.npy"))) >= FEWEST_SHARDS, 120.0)
        machine = stage.cluster.workers.pop()
        machine.kill()
        machine.wait()
        tally.jobs[job] = follow(client, job)[-1]["state"]
        stage.cluster.kill()
        job = submit(client, many_rows(), **spec)
        eventually(lambda: "the cluster at" in (job_of(client, job)["put_back"] or ""), 120.0)
        stage.cluster.start_scheduler()
        for _ in range(2):
            stage.cluster.start_worker()
        tally.jobs[job] = follow(client, job)[-1]["state"]
        found = [client.post("/predict", json={"model": f"large@{v}", "rows": [[0.1, 0.2]]}).json() for v in (1, 2)]
        assert [found[0][name] for name in ("mean", "std")] == [found[1][name] for name in ("mean", "std")]
    assert set(tally.jobs.values()) == {"succeeded"}
    return _judged("machines that are lost", stage, tally)


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
        scratch = [stage.fleet.directory / name / "uploads" for name in stage.names("api")]
        assert [path for folder in scratch for path in folder.iterdir()] == []
        for name in names:
            _limit_files(stage, name, resource.RLIM_INFINITY)
        tally.sent += 1
        job = follow(client, submit(client, surface(2000), **QUICK))[-1]
        tally.answered += 1
    tally.jobs[job["id"]] = job["state"]
    assert job["state"] == "succeeded"
    return _judged("a full disk", stage, tally)


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
    with stage.client() as client:
        for (model, version), bodies in tally.answers.items():
            body = {"model": f"{model}@{version}", "rows": ROWS, "interval": [0.5, 0.95], "include": ["latent_std"]}
            assert bodies == {client.post("/predict", json=body).content}, f"{model}@{version} said several things"
    eventually(lambda: not _unfinished(stage), 240.0)  # who asked without a key may not know of its first job
    findings = audit(stage.database, stage.blobs, tally.jobs)
    retried = 0 if stage.front is None else stage.front.retried()
    return Outcome(name=name, tally=tally, findings=findings, front_retried=retried)


def _unfinished(stage: Stage) -> bool:
    with stage.database.read() as connection:
        return bool(queue.unfinished(connection))


def _kill_child(stage: Stage, chance: random.Random) -> None:
    found = [child for name in stage.names("worker") for child in stage.fleet.children_of(name)]
    if found:
        with suppress(ProcessLookupError):  # it may have ended by itself
            os.kill(chance.choice(found), signal.SIGKILL)


def _kill(stage: Stage, name: str) -> None:
    stage.fleet.kill(name)
    stage.fleet.start(name)


def _limit_files(stage: Stage, name: str, size: int) -> None:
    pid = stage.fleet.processes[name].pid
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))


def _kill_database(stage: Stage) -> None:
    assert stage.server is not None
    stage.server.kill()
    stage.server.start()
