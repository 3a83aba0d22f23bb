"""Processes: two APIs and two workers, and a model that is trained again and again while it is asked."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e.processes import ROWS, submit, surface
from tests.e2e.stage import MODEL, Stage, staged
from tests.postgres import MISSING, programs

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

ROUNDS = 5
SPEC = {"basis_size": 20, "adapt": False, "method": "rand"}


@pytest.fixture(params=["sqlite", "postgresql"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    if request.param == "postgresql" and programs() is None:
        pytest.skip(MISSING)
    with staged(tmp_path, request.param) as made:
        yield made


def test_no_process_answers_with_less_than_what_anybody_saw(stage: Stage) -> None:
    seen = 1
    stop = threading.Event()
    wrong: list[str] = []
    answers = dict.fromkeys(("api-1", "api-2"), 0)

    def asks(name: str) -> None:
        with httpx.Client(base_url=stage.fleet.url(name), timeout=60.0, trust_env=False) as client:
            body = {"model": MODEL, "rows": ROWS, "interval": False}
            while not stop.is_set():
                known = seen
                answer = client.post("/predict", json=body)
                if answer.status_code != 200 or answer.json()["version"] < known:
                    wrong.append(f"{name} after version {known}: {answer.text}")
                answers[name] += 1

    with stage.client() as client:
        askers = [threading.Thread(target=asks, args=(name,)) for name in answers]
        for asker in askers:
            asker.start()
        for _ in range(ROUNDS):
            waiting = {submit(client, surface(60), **SPEC) for _ in range(2)}
            while waiting:
                for job in sorted(waiting):
                    found = client.get(f"/jobs/{job}").json()
                    assert found["state"] in ("queued", "running", "succeeded"), found
                    if found["state"] == "succeeded":
                        seen = max(seen, found["result"]["version"])
                        waiting.discard(job)
                time.sleep(0.005)
        stop.set()
        for asker in askers:
            asker.join()
    assert not wrong
    assert seen == 1 + 2 * ROUNDS
    assert min(answers.values()) > ROUNDS
