"""The whole service as processes: train, predict, follow, cancel, and every way to die in between."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.processes import System, follow, job_of, predict, submit, surface, system, terminate
from tests.ports import free_port
from tests.processes import alive, children, wait_until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(150),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc"),
]

ROUNDS: dict[str, Any] = {"basis_size": 100, "adapt": {"rounds": 6, "steps": 6}, "calibrate": "loo"}
"""A few seconds in several rounds."""


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[System, httpx.Client]]:
    with system(tmp_path) as made, made.start_api() as client:
        made.start_worker()
        yield made, client


def check_progress(events: list[dict[str, Any]]) -> None:
    """Check that progress only grows, and that times are plausible."""
    progress = [event["progress"] for event in events]
    for name in ("fraction", "elapsed_s"):
        values = [news[name] for news in progress]
        assert values == sorted(values), name
    assert all(0 <= news["fraction"] <= 1 for news in progress)
    assert all(news["eta_s"] is None or 0 <= news["eta_s"] < 600 for news in progress)


def ended_well(job: dict[str, Any]) -> None:
    assert job["state"] == "succeeded", job["error"]
    assert job["progress"]["fraction"] == 1.0
    assert job["progress"]["eta_s"] == 0.0


def test_train_follow_predict_and_a_restart_of_everything(running: tuple[System, httpx.Client]) -> None:
    made, client = running
    events = follow(client, submit(client, surface(800), **ROUNDS))
    check_progress(events)
    ended_well(events[-1])
    assert len({event["progress"]["fraction"] for event in events}) > 3
    report = events[-1]["result"]["report"]
    assert report["holdout"]["nmse"] < 0.2
    assert report["holdout"]["coverage"]["0.95"] > 0.85
    before = predict(client)
    made.kill()
    with made.start_api() as again:
        assert predict(again) == before
        assert predict(again, "surface@1") == before
        assert job_of(again, events[-1]["id"]) == events[-1]


def test_killed_child_killed_supervisor_killed_everything(running: tuple[System, httpx.Client]) -> None:
    made, client = running
    job = submit(client, surface(2000), **ROUNDS)
    seen: list[dict[str, Any]] = []

    def look(client: httpx.Client) -> dict[str, Any]:
        seen.append(job_of(client, job))
        check_progress(seen)
        return seen[-1]

    def in_hand(client: httpx.Client, *, claims: int) -> None:
        """Claimed so often, and with a round behind it: what an earlier worker said stays until the next one claims."""
        wait_until(lambda: look(client)["attempts"] == claims and (seen[-1]["progress"]["round"] or 0) >= 1)
        assert seen[-1]["state"] == "running"

    in_hand(client, claims=1)
    os.kill(made.child(), signal.SIGKILL)
    in_hand(client, claims=2)
    supervisor = made.workers.pop()
    supervisor.kill()
    supervisor.wait()
    made.start_worker()
    in_hand(client, claims=3)
    made.kill()
    with made.start_api() as again:
        made.start_worker()
        wait_until(lambda: look(again)["state"] not in ("queued", "running"), 60.0)
        ended_well(seen[-1])
        assert seen[-1]["attempts"] == 4
        assert [version["version"] for version in again.get("/models/surface").json()["versions"]] == [1]
        assert made.log().count(f"{job}: succeeded") == 1
        undisturbed = follow(again, submit(again, surface(2000), model="undisturbed", **ROUNDS))[-1]
        assert seen[-1]["result"]["report"]["objectives"] == undisturbed["result"]["report"]["objectives"]


def test_cancelling_inside_a_round(running: tuple[System, httpx.Client]) -> None:
    made, client = running
    job = submit(client, surface(3_000), basis_size=400, adapt={"rounds": 50, "steps": 50})
    wait_until(lambda: job_of(client, job)["progress"]["phase"] in {"selecting", "adapting"}, 60.0)
    child = made.child()
    started = time.monotonic()
    assert client.delete(f"/jobs/{job}").json()["id"] == job
    wait_until(lambda: job_of(client, job)["state"] == "cancelled", 5.0)
    wait_until(lambda: not alive(child), 5.0)
    assert time.monotonic() - started < 2.0
    assert client.get("/models").json()["models"] == []
    ended_well(follow(client, submit(client, surface(100), basis_size=10, adapt=False))[-1])


def test_a_stopped_worker_requeues_its_job(running: tuple[System, httpx.Client]) -> None:
    made, client = running
    job = submit(client, surface(2000), **ROUNDS)
    wait_until(lambda: (job_of(client, job)["progress"]["round"] or 0) >= 1)
    before = job_of(client, job)
    worker = made.workers.pop()
    assert terminate(worker) == 0
    waiting = job_of(client, job)
    assert waiting["state"] == "queued"
    assert waiting["progress"]["fraction"] >= before["progress"]["fraction"]
    made.start_worker()
    events = follow(client, job)
    check_progress([before, waiting, *events])
    ended_well(events[-1])
    assert events[-1]["attempts"] == 1
    assert terminate(made.workers.pop()) == 0


def test_a_stopping_api_does_not_wait_for_event_streams(running: tuple[System, httpx.Client]) -> None:
    made, client = running
    terminate(made.workers.pop())
    job = submit(client, surface(100))
    with client.stream("GET", f"/jobs/{job}/events") as stream:
        assert next(stream.iter_lines()).startswith("event:")
        assert made.api is not None
        assert terminate(made.api) == 0
    assert not children(made.api.pid)


def test_a_command_that_follows_a_job_outlives_the_api(tmp_path: Path) -> None:
    with system(tmp_path, environment={"PURSUIT_PORT": str(free_port())}) as made, made.start_api() as client:
        job = submit(client, surface(200), basis_size=20, adapt=False)
        words = ("jobs", job, "--url", made.url)
        told, said = tmp_path / "told", tmp_path / "said"
        with told.open("wb") as errors, said.open("wb") as output:
            following = subprocess.Popen([sys.executable, "-m", "app.cli", *words], stdout=output, stderr=errors)
        wait_until(lambda: "queued" in said.read_text() + told.read_text(), 60.0)  # it follows
        assert made.api is not None
        made.api.kill()
        made.api.wait()
        time.sleep(2.0)
        assert following.poll() is None
        with made.start_api():
            made.start_worker()
            following.wait(timeout=90)
        assert following.returncode == 0, told.read_text()
        assert "surface" in said.read_text()
        assert re.search("the job goes on|trying again", told.read_text())  # where the stream broke, or what asked next
