"""A real server in a thread of the test's process, and a worker that works when it is told to."""

import json
import math
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from app.database.engine import Database
from app.errors import PursuitError
from app.jobs import queue
from app.jobs.child import Reporter, Task, describe
from app.jobs.job import JSON, Job
from app.main import create_app
from app.settings import Settings
from app.storage.blobs import BlobStore
from app.storage.stores import open_store
from app.worker import job_handlers, publish
from core.errors import CoreError
from tests.app.routes.openapi_check import openapi_checker
from tests.sqlite import make_migrated

QUICK: dict[str, Any] = {"adapt": False, "basis_size": 20, "method": "rand", "calibrate": "loo"}
"""A specification that trains in no time: without the fits of a cross-fit, too."""


JSON_BODY = {"content-type": "application/json"}
CSV_BODY = {"content-type": "text/csv"}
"""Headers of bodies that the client does not encode itself."""


class Recorder(Reporter):
    """Keeps what a handler reports."""

    def __init__(self) -> None:
        self.progressed: list[JSON] = []
        self.checkpoints: list[JSON] = []
        self.milestones: list[int] = []

    def progress(self, news: JSON) -> None:
        self.progressed.append(news)

    def checkpoint(self, state: JSON) -> None:
        self.checkpoints.append(state)

    def milestone(self, number: int) -> None:
        self.milestones.append(number)


@dataclass(slots=True)
class Service:
    """A running server: its client, and what it stands on."""

    client: httpx.Client
    settings: Settings
    database: Database
    blobs: BlobStore
    recorders: list[Recorder] = field(default_factory=list)

    def train(self, csv: str | bytes, *, filename: str = "table.csv", **spec: Any) -> dict[str, Any]:
        """Upload, work, and give the job as it ended."""
        answer = self.post_file(csv, spec, filename=filename)
        assert answer.status_code == 202, answer.text
        self.work()
        job: dict[str, Any] = self.client.get(answer.headers["location"]).json()
        return job

    def post_file(
        self,
        csv: str | bytes,
        spec: Mapping[str, Any] | None = None,
        *,
        filename: str = "table.csv",
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """POST /train as a form."""
        data = {} if spec is None else {"spec": json.dumps(spec)}
        return self.client.post("/train", files={"file": (filename, csv)}, data=data, headers=headers)

    def ask(self, model: str, rows: list[Any], **more: Any) -> dict[str, Any]:
        """POST /predict as JSON: the answer."""
        answer = self.client.post("/predict", json={"model": model, "rows": rows, **more})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def work(self) -> int:
        """Do all queued jobs here and now, as a worker would; how many."""
        done = 0
        while (job := self.claim()) is not None:
            self.finish(job)
            done += 1
        return done

    def claim(self) -> Job | None:
        with self.database.write() as connection:
            return queue.claim(connection, worker="test", lease_seconds=60.0)

    def finish(self, job: Job) -> None:
        """Run a claimed job to its end."""
        task = Task(
            id=job.id,
            kind=job.kind,
            payload=job.payload,
            checkpoint=job.checkpoint,
            attempts=job.attempts,
            progress=job.progress,
        )
        recorder = Recorder()
        self.recorders.append(recorder)
        try:
            outcome = job_handlers(self.blobs, threads=1)[task.kind](task, recorder)
        except (CoreError, PursuitError) as error:
            with self.database.write() as connection:
                queue.fail(connection, job, describe(error))
            return
        with self.database.write() as connection:
            queue.renew(connection, job, lease_seconds=60.0, progress=recorder.progressed[-1])
            queue.succeed(connection, job, publish(connection, job, outcome))


def curve(
    rows: int, noise: Callable[[random.Random, float], float], *, bend: Callable[[float], float] = float, seed: int = 0
) -> str:
    """A table x, y with y = bend(sin x + noise), x from 0 to 6."""
    chance = random.Random(seed)
    lines = ["x,y"]
    for _ in range(rows):
        x = chance.uniform(0, 6)
        lines.append(f"{x!r},{bend(math.sin(x) + noise(chance, x))!r}")
    return "\n".join(lines) + "\n"


def cells(table: str) -> list[list[float]]:
    """The columns of a table of numbers."""
    return [list(column) for column in zip(*(map(float, line.split(",")) for line in table.split()[1:]), strict=True)]


def even(chance: random.Random, _: float) -> float:
    """The same noise everywhere."""
    return chance.gauss(0, 0.1)


def louder(chance: random.Random, x: float) -> float:
    """Twelve times as much noise in the right half."""
    return chance.gauss(0, 0.05 if x < 3 else 0.6)


@cache
def check_described() -> Callable[[httpx.Response], None]:
    """Check of an answer against the OpenAPI document, which is the same for every setting."""
    return openapi_checker(create_app(Settings()).openapi())


@contextmanager
def running(directory: Path, **settings: Any) -> Iterator[Service]:
    """A service over `directory`, until the end of the block."""
    here: dict[str, Any] = {
        "data_dir": directory,
        "database_url": f"sqlite:///{directory}/pursuit.db",
        "artefact_url": f"{directory}/blobs",
    }
    chosen = Settings(**here | settings)
    if chosen.database == here["database_url"] and not (directory / "pursuit.db").exists():
        make_migrated(directory / "pursuit.db")
    config = uvicorn.Config(create_app(chosen), port=0, log_config=None, access_log=False, lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="server")
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            thread.join(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        database = Database(chosen.database)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60.0, trust_env=False) as client:
            client.event_hooks["response"].append(check_described())
            yield Service(client, chosen, database, open_store(chosen))
        database.close()
    finally:
        server.should_exit = True
        thread.join()


def waves(rows: int = 120, *, seed: int = 0) -> str:
    """A table with a number, a category and a target that follows both."""
    chance = random.Random(seed)
    lines = ["x,kind,y"]
    for _ in range(rows):
        x, kind = chance.uniform(0, 6), chance.choice(["low", "high"])
        lines.append(f"{x!r},{kind},{math.sin(x) + (2.0 if kind == 'high' else 0.0) + chance.gauss(0, 0.05)!r}")
    return "\n".join(lines) + "\n"


def numbers(rows: int = 120, *, seed: int = 0) -> str:
    """A table of numbers alone: a, b, y."""
    chance = random.Random(seed)
    lines = ["a,b,y"]
    for _ in range(rows):
        a, b = chance.uniform(-1, 1), chance.uniform(-1, 1)
        lines.append(f"{a!r},{b!r},{math.sin(3 * a) * b + chance.gauss(0, 0.01)!r}")
    return "\n".join(lines) + "\n"
