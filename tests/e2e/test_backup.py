"""A backup taken while jobs run and predictions go on, the loss of everything, and the restore, as deploy/README.md has
them: `pursuit backup` of SQLite, pg_dump between two copies of the bucket of PostgreSQL."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from obstore.store import S3Store

from tests.e2e.processes import ROWS, System, follow, job_of, submit, surface, system
from tests.postgres import MISSING, Server, postgres, programs
from tests.processes import wait_until
from tests.s3 import S3Server, s3_server

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(500),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc"),
]

TRUTH = [0.5, 3.0]
ROUNDS: dict[str, Any] = {"basis_size": 100, "adapt": {"rounds": 6, "steps": 6}}


@dataclass(slots=True, kw_only=True)
class Place:
    """A database and a store: the settings that name them, and the programs that copy them."""

    environment: dict[str, str]
    back_up: Callable[[Path], None]
    restore: Callable[[Path], None]


def pursuit(environment: dict[str, str], *words: str | Path, code: int = 0) -> Any:
    """Run a command with --json; its document."""
    done = subprocess.run(
        [sys.executable, "-m", "app.cli", *map(str, words), "--json"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


@contextmanager
def sqlite_place(folder: Path) -> Iterator[Place]:
    """SQLite and a folder."""
    environment = {"PURSUIT_DATA_DIR": str(folder / "data")}

    def back_up(to: Path) -> None:
        assert pursuit(environment, "backup", to)["missing"] == {}

    def restore(saved: Path) -> None:
        pursuit(environment, "restore", saved, "--check")
        assert pursuit(environment, "restore", saved)["missing"] == {}

    yield Place(environment=environment, back_up=back_up, restore=restore)
    shutil.rmtree(folder / "data")


@contextmanager
def postgres_place(folder: Path) -> Iterator[Place]:
    """PostgreSQL and a bucket: a server of their own each, which end, and all they have with them."""
    if programs() is None:
        pytest.skip(MISSING)
    with ExitStack() as stack:
        server, s3 = stack.enter_context(postgres()), stack.enter_context(s3_server())
        bucket = s3.make_bucket()
        environment = {
            "PURSUIT_DATA_DIR": str(folder / "data"),
            "PURSUIT_DATABASE_URL": server.url,
            "PURSUIT_ARTEFACT_URL": f"s3://{bucket}/pursuit",
        } | s3.environment()

        def back_up(to: Path) -> None:
            to.mkdir()
            download(s3, bucket, to / "store")
            run("pg_dump", server, "-Fc", "-f", to / "pursuit.dump", "postgres")
            download(s3, bucket, to / "store")

        def restore(saved: Path) -> None:
            for path in (saved / "store").rglob("*"):
                if path.is_file():
                    store(s3, bucket).put(str(path.relative_to(saved / "store")), path.read_bytes())
            run("pg_restore", server, "-d", "postgres", "--no-owner", saved / "pursuit.dump")

        yield Place(environment=environment, back_up=back_up, restore=restore)
    shutil.rmtree(folder / "data")


def run(program: str, server: Server, *words: str | Path) -> None:
    found = programs()
    assert found is not None
    address = ["-h", "127.0.0.1", "-p", str(server.port), "-U", "pursuit"]
    subprocess.run([found / program, *address, *words], check=True, timeout=120.0)


def store(s3: S3Server, bucket: str) -> S3Store:
    found = s3.environment()
    return S3Store(
        bucket,
        endpoint=found["AWS_ENDPOINT_URL"],
        access_key_id=found["AWS_ACCESS_KEY_ID"],
        secret_access_key=found["AWS_SECRET_ACCESS_KEY"],
        region=found["AWS_REGION"],
        client_options={"allow_http": True},
    )


def download(s3: S3Server, bucket: str, folder: Path) -> None:
    """Copy what is not there yet and remove nothing, as `aws s3 sync` does."""
    source = store(s3, bucket)
    for part in source.list():
        for entry in part:
            target = folder / entry["path"]
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(bytes(source.get(entry["path"]).bytes()))


@dataclass(slots=True)
class Crowd:
    """Clients that predict for as long as the block lasts."""

    client: httpx.Client
    answers: list[bytes] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def ask(self) -> None:
        while not self.stop.is_set():
            answer = self.client.post("/predict", json={"model": "surface@1", "rows": ROWS})
            assert answer.status_code == 200, answer.text
            self.answers.append(answer.content)


@contextmanager
def crowd(client: httpx.Client) -> Iterator[Crowd]:
    made = Crowd(client)
    thread = threading.Thread(target=made.ask)
    thread.start()
    try:
        yield made
    finally:
        made.stop.set()
        thread.join(60.0)


def keep_prediction(client: httpx.Client) -> str:
    body = {"model": "surface@1", "rows": ROWS, "keep_for_feedback": True}
    found: str = client.post("/predict", json=body).json()["prediction_id"]
    return found


def tell_truth(client: httpx.Client, prediction: str) -> int:
    return client.post("/feedback", json={"prediction_id": prediction, "truth": TRUTH}).status_code


def state_of(client: httpx.Client) -> dict[str, Any]:
    """What has to be as it was: models with their versions and aliases, datasets, keys and feedback."""
    pages = ["/models", "/models/surface", "/models/surface/versions/1", "/models/surface/versions/2", "/datasets"]
    found = {page: client.get(page).raise_for_status().json() for page in [*pages, "/keys"]}
    watched = client.get("/models/surface@1/monitoring").raise_for_status().json()
    return found | {"feedback": watched["feedback"], "answer": client.post("/predict", json=question()).json()}


def question() -> dict[str, Any]:
    return {"model": "surface@champion", "rows": ROWS, "interval": [0.5, 0.95]}


def in_hand(client: httpx.Client, job: str) -> bool:
    """True once it has a checkpoint to go on from."""
    found = job_of(client, job)
    return found["state"] == "running" and (found["progress"]["round"] or 0) >= 1


def prepare(client: httpx.Client) -> str:
    """Two versions, an alias, a dataset, a prediction whose truth came and one that waits for it; the latter's id."""
    for seed in (0, 1):
        spec = {"basis_size": 30, "adapt": False}
        assert follow(client, submit(client, surface(300, seed=seed), **spec))[-1]["state"] == "succeeded"
    client.put("/models/surface/aliases/champion", json={"version": 1}).raise_for_status()
    client.post("/datasets", files={"file": ("s.csv", surface(50))}).raise_for_status()
    assert tell_truth(client, keep_prediction(client)) == 200
    return keep_prediction(client)


def lose(made: System, place: Place, saved: Path, waiting: str) -> tuple[dict[str, Any], str, str]:
    """Back up with a job in hand and one that waits, under predictions; then end everything at once."""
    headers = {"authorization": f"Bearer {pursuit(place.environment, 'keys', 'create', '--scope', 'admin')['token']}"}
    with made.start_api() as client:
        client.headers.update(headers)
        made.start_worker()
        kept = prepare(client)
        running = submit(client, surface(2000), model="running", **ROUNDS)
        wait_until(lambda: in_hand(client, running), 100.0)
        child = made.child()
        os.kill(child, signal.SIGSTOP)  # it is running at the moment of the backup, however long that takes
        queued = submit(client, surface(100), model=waiting, basis_size=20, adapt=False)
        before = state_of(client)
        with crowd(client) as clients:
            wait_until(lambda: len(clients.answers) > 5)
            place.back_up(saved)
            seen = len(clients.answers)
            wait_until(lambda: len(clients.answers) > seen)
        assert len(set(clients.answers)) == 1
        assert tell_truth(client, kept) == 200
        os.kill(child, signal.SIGCONT)
        assert [follow(client, job)[-1]["state"] for job in (running, queued)] == ["succeeded"] * 2
        made.kill()
    return {"state": before, "kept": kept, "headers": headers}, running, queued


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_all_is_as_it_was_and_jobs_are_taken_up_again(tmp_path: Path, kind: str) -> None:
    places = {"sqlite": sqlite_place, "postgresql": postgres_place}[kind]
    saved = tmp_path / "saved"
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
    with places(tmp_path / "before") as place, system(tmp_path / "before", environment=place.environment) as made:
        before, running, queued = lose(made, place, saved, "waiting")
    with places(tmp_path / "after") as place, system(tmp_path / "after", environment=place.environment) as made:
        place.restore(saved)
        found = pursuit(place.environment, "doctor")
        assert {check["name"]: check["state"] for check in found["checks"]}["stored"] == "ok"
        with made.start_api() as client:
            assert client.get("/models").status_code == 401
            client.headers.update(before["headers"])
            assert state_of(client) == before["state"]
            assert [job_of(client, job)["state"] for job in (running, queued)] == ["running", "queued"]
            assert client.get("/models/running").status_code == 404
            assert tell_truth(client, before["kept"]) == 200, "its truth came after the backup, and may come again"
            made.start_worker()
            for job in (running, queued):
                assert follow(client, job)[-1]["state"] == "succeeded"
            assert f"{running}: claim 2 by" in made.log()
            assert state_of(client)["answer"] == before["state"]["answer"]
            assert client.get("/models/running").json()["versions"][0]["version"] == 1
