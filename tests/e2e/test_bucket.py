"""API and worker that share nothing but a database and a bucket; and a bucket that is unavailable for a while."""

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.app.conftest import database_url
from tests.e2e.processes import System, job_of, predict, submit, surface, system
from tests.processes import wait_until
from tests.s3 import S3Server, s3_server

__all__ = ["database_url"]  # a fixture

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

AWAY_SECONDS = 8.0


@pytest.fixture
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def running(tmp_path: Path, database_url: str, s3: S3Server) -> Iterator[tuple[System, httpx.Client]]:
    settings = s3.environment() | {
        "PURSUIT_DATABASE_URL": database_url,
        "PURSUIT_ARTEFACT_URL": f"s3://{s3.make_bucket()}/pursuit",
    }
    with system(tmp_path, environment=settings, apart=True) as made, made.start_api() as client:
        yield made, client


def succeeded(client: httpx.Client, job: str) -> None:
    wait_until(lambda: job_of(client, job)["state"] in {"succeeded", "failed", "cancelled"}, 200.0)
    found = job_of(client, job)
    assert found["state"] == "succeeded", found["error"]


def test_nothing_but_database_and_bucket_is_shared(running: tuple[System, httpx.Client]) -> None:
    made, client = running
    made.start_worker()
    succeeded(client, submit(client, surface(200), basis_size=20, adapt=False))
    uploaded = client.post("/datasets", files={"file": ("surface.csv", surface(200, seed=1))})
    assert uploaded.status_code == 201, uploaded.text
    spec = {"model": "second", "target": "y", "basis_size": 20, "adapt": False}
    job = client.post("/train", json={"dataset": uploaded.json()["id"], "spec": spec}).json()["id"]
    succeeded(client, job)
    assert len(predict(client)["mean"]) == len(predict(client, "second")["mean"]) == 2
    assert not list(made.directory.glob("data-*/blobs")), "nothing is kept outside of the bucket"
    assert not (made.directory / "data-api").samefile(made.directory / "data-worker")


def test_an_unavailable_bucket_is_waited_for(running: tuple[System, httpx.Client], s3: S3Server) -> None:
    """It is frozen before the worker can read the table: the job waits and succeeds; loaded models go on predicting."""
    made, client = running
    made.start_worker()
    succeeded(client, submit(client, surface(200), basis_size=20, adapt=False))
    before = predict(client)
    table = surface(200, seed=1)
    made.workers[-1].terminate()
    made.workers.pop().wait(30.0)
    job = submit(client, table, model="second", basis_size=20, adapt=False)
    s3.freeze()
    made.start_worker()
    wait_until(lambda: job_of(client, job)["state"] == "running", 60.0)
    until = time.monotonic() + AWAY_SECONDS
    while time.monotonic() < until:
        assert predict(client) == before
        time.sleep(0.5)
    wait_until(lambda: "waiting for the store" in made.log(), 60.0)
    refused = client.post("/predict", json={"model": "surface@1", "rows": [[0.0, 0.0, 0.0, 0.0, "north"]]})
    assert refused.status_code == 200, "that version is loaded under another name"
    assert job_of(client, job)["state"] == "running"
    answer = client.post("/train", files={"file": ("t.csv", table)}, timeout=200.0)
    assert answer.status_code == 503, answer.text
    s3.thaw()
    succeeded(client, job)
    assert len(predict(client, "second")["mean"]) == 2
