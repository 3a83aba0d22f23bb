"""The stage of the scenarios: several processes of each kind over one database and one store, and their outcome."""

import os
import random
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import httpx

from app.database.engine import Database
from app.jobs import queries
from app.jobs.job import JobState
from app.settings import Settings
from app.storage.blobs import BlobStore
from app.storage.stores import open_store
from tests.app.compute.processes import DaskProcesses, dask_processes
from tests.e2e.audit import Findings, audit
from tests.e2e.fleet import Fleet, fleet
from tests.e2e.front import PROGRAM, Front, nginx
from tests.e2e.load import Tally
from tests.e2e.processes import ROWS, follow, submit, surface
from tests.postgres import Server, postgres
from tests.processes import wait_until
from tests.s3 import S3Server, s3_server

COLUMNS = ("sent", "answered", "by nginx", "by client", "lost", "jobs", "succeeded", "failed", "versions")
HEADER = f"{'':26}" + "".join(f"{name:>10}" for name in COLUMNS)
"""`by nginx`, `by client`: asked again by them. Succeeded, failed and versions count from the start."""

MODEL = "surface"
"""The model that clients predict with and train again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Outcome of a scenario: the results of the clients, and the audit of database and store."""

    name: str
    tally: Tally
    findings: Findings
    front_retried: int

    def row(self) -> str:
        """A line under HEADER. Lost: requests without an answer within the patience of the client."""
        tally, jobs = self.tally, self.findings.jobs
        lost = tally.sent - tally.answered
        numbers = (tally.sent, tally.answered, self.front_retried, tally.retried, lost)
        ended = (len(tally.jobs), jobs[JobState.SUCCEEDED], jobs[JobState.FAILED], self.findings.versions)
        return f"{self.name:26}" + "".join(f"{number:>10}" for number in (*numbers, *ended))


@dataclass(slots=True, kw_only=True)
class Stage:
    """All processes of a scenario: a fleet, nginx in front of it where there is one, its database (server: if it may be
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
        """URL that the clients ask."""
        return self.fleet.url("api-1") if self.front is None else self.front.url

    def client(self) -> httpx.Client:
        """Return an HTTP client."""
        return httpx.Client(base_url=self.url, timeout=60.0, trust_env=False)

    def first_model(self) -> None:
        """Train a first model to predict with."""
        with self.client() as client:
            job = follow(client, submit(client, surface(300), basis_size=30, adapt=False, calibrate="loo"))[-1]
            assert job["state"] == "succeeded", job

    def names(self, kind: str) -> list[str]:
        """Return the names of the processes of a kind."""
        return sorted(name for name in self.fleet.processes if name.startswith(kind))

    def judged(self, name: str, tally: Tally) -> Outcome:
        """Check that each answer was whole and of the version that it named, then audit; return the outcome."""
        with self.client() as client:
            for (model, version), bodies in tally.answers.items():
                body = {"model": f"{model}@{version}", "rows": ROWS, "interval": [0.5, 0.95], "include": ["latent_std"]}
                assert bodies == {client.post("/predict", json=body).content}, f"{model}@{version} said several things"
        wait_until(lambda: not self.unfinished(), 240.0)  # who asked without a key may not know of its first job
        findings = audit(self.database, self.blobs, tally.jobs)
        retried = 0 if self.front is None else self.front.retried()
        return Outcome(name=name, tally=tally, findings=findings, front_retried=retried)

    def unfinished(self) -> bool:
        """True if a job has not ended."""
        with self.database.read() as connection:
            return queries.has_unfinished(connection)

    def kill(self, name: str) -> None:
        """Kill an API or a worker (SIGKILL) and start another in its place."""
        self.fleet.kill(name)
        self.fleet.start(name)

    def kill_child(self, chance: random.Random) -> None:
        """Kill a process that computes (SIGKILL), if there is one."""
        found = [child for name in self.names("worker") for child in self.fleet.children_of(name)]
        if found:
            with suppress(ProcessLookupError):  # it may have ended by itself
                os.kill(chance.choice(found), signal.SIGKILL)

    def kill_database(self) -> None:
        """Kill PostgreSQL (SIGKILL) and start it again."""
        assert self.server is not None
        self.server.kill()
        self.server.start()


@contextmanager
def staged(folder: Path, database: str, store: str = "folder", *, with_cluster: bool = False) -> Iterator[Stage]:
    """Two APIs and two workers over `sqlite` or `postgresql`, a `folder` or a `bucket`, with a first model, and if
    requested with a Dask scheduler and two Dask workers; all are stopped at the end.
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
