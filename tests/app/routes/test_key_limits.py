"""Limits of a key: 429 with Retry-After, and never more than the limit over two API processes."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from app.services.keys.budgets import SHARES
from app.storage.api_keys import KeyLimits
from tests.app.routes.keys import create
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import QUICK, Service, numbers, running
from tests.processes import wait_until

LIMIT = 60


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Service]]:
    """Two APIs on one database and one store, and a model."""
    folder = tmp_path_factory.mktemp("limits")
    shared = {"database_url": f"sqlite:///{folder}/pursuit.db", "artefact_url": f"{folder}/blobs"}
    with running(folder / "1", **shared) as first, running(folder / "2", **shared) as second:
        assert first.train(numbers(), model="numbers", **QUICK)["state"] == "succeeded"
        create(first, "admin")
        for service in (first, second):
            wait_until(lambda service=service: service.client.get("/models").status_code == 401)  # type: ignore[misc]
        yield first, second


def within_a_minute(seconds: float) -> None:
    """Wait for the next minute where this one is nearly over: limits begin anew with each."""
    left = 60.0 - time.time() % 60.0
    if left < seconds:
        time.sleep(left + 0.1)


def ask(service: Service, headers: dict[str, str], rows: int = 1) -> httpx.Response:
    return service.client.post("/predict", json={"model": "numbers", "rows": [[0.1, 0.2]] * rows}, headers=headers)


def test_two_processes_let_in_no_more_than_the_limit(pair: tuple[Service, Service]) -> None:
    headers = create(pair[0], "predict", limits=KeyLimits(requests_per_minute=LIMIT))
    within_a_minute(10.0)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda turn: ask(pair[turn % 2], headers), range(3 * LIMIT)))
    counted = Counter(answer.status_code for answer in answers)
    assert set(counted) == {200, 429}
    assert LIMIT - LIMIT // SHARES <= counted[200] <= LIMIT
    refused = [answer for answer in answers if answer.status_code == 429]
    problem = assert_problem(refused[0], 429, "60 requests a minute")
    assert problem["type"] == "/problems/too-many-requests"
    assert 1 <= int(refused[0].headers["retry-after"]) <= 60


def test_rows_are_counted_too(pair: tuple[Service, Service]) -> None:
    headers = create(pair[0], "predict", limits=KeyLimits(rows_per_minute=1000))
    within_a_minute(5.0)
    assert ask(pair[0], headers, 600).status_code == 200
    assert ask(pair[1], headers, 300).status_code == 200
    refused = ask(pair[0], headers, 300)
    assert_problem(refused, 429, "1,000 rows a minute")
    assert ask(pair[0], headers, 20).status_code == 200, "fewer rows are left, and given"
    assert_problem(ask(pair[1], headers, 1001), 413, "1,001 rows")
    tensors = {"inputs": [{"name": "rows", "shape": [300, 2], "datatype": "FP64", "data": [0.5] * 600}]}
    answer = pair[1].client.post("/v2/models/numbers/infer", json=tensors, headers=headers)
    assert answer.status_code == 429
    assert list(answer.json()) == ["error"]
    assert answer.headers["retry-after"]


def test_others_are_not_touched(pair: tuple[Service, Service]) -> None:
    limited = create(pair[0], "predict", limits=KeyLimits(requests_per_minute=1))
    free = create(pair[0], "predict")
    within_a_minute(5.0)
    assert [ask(pair[0], limited).status_code for _ in range(3)] == [200, 429, 429]
    assert {ask(pair[0], free).status_code for _ in range(3)} == {200}


def test_queued_jobs(pair: tuple[Service, Service]) -> None:
    headers = create(pair[0], "train", limits=KeyLimits(queued_jobs=3))
    with ThreadPoolExecutor(6) as pool:
        sent = list(
            pool.map(lambda turn: pair[turn % 2].post_file(numbers(seed=turn), QUICK, headers=headers), range(6))
        )
    assert sorted(answer.status_code for answer in sent) == [202] * 3 + [429] * 3
    (refused, *_) = [answer for answer in sent if answer.status_code == 429]
    assert_problem(refused, 429, "wait")
    assert int(refused.headers["retry-after"]) >= 1
    mine = pair[0].client.get("/jobs?state=queued", headers=headers).json()["jobs"]
    assert len(mine) == 3, "what was refused left no job"
    pair[0].client.delete(f"/jobs/{mine[0]['id']}", headers=headers)
    assert pair[0].post_file(numbers(), QUICK, headers=headers).status_code == 202


def test_stored_bytes(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        unlimited = create(service, "train", "admin")
        wait_until(lambda: service.client.get("/models").status_code == 401)
        form = {"file": ("t.csv", numbers())}
        first = service.client.post("/datasets", files=form, headers=unlimited).json()
        size = first["size_bytes"]
        headers = create(service, "train", "admin", limits=KeyLimits(stored_bytes=int(2.5 * size)))
        ids = [service.client.post("/datasets", files=form, headers=headers).json()["id"] for _ in range(2)]
        for answer in (
            service.client.post("/datasets", files=form, headers=headers),
            service.post_file(numbers(), QUICK, headers=headers),
        ):
            assert_problem(answer, 429, "bytes", "delete")
            assert answer.headers["retry-after"] == "60"
        assert service.client.delete(f"/datasets/{ids[0]}", headers=headers).status_code == 204
        job = service.post_file(numbers(), QUICK, headers=headers)
        assert job.status_code == 202, "its table counts until it has ended"
        assert service.post_file(numbers(), QUICK, headers=headers).status_code == 429
        service.work()
        found = service.client.get(job.headers["location"], headers=headers).json()
        assert found["state"] == "succeeded"
        kept = json.loads(service.client.get(f"/models/{found['model']}", headers=create(service, "predict")).text)
        small = create(service, "train", limits=KeyLimits(stored_bytes=1))
        assert service.post_file(numbers(), QUICK, headers=small).status_code == 429
        assert kept["versions"][0]["size_bytes"] > size, "its model counts from now on"
        assert service.client.post("/datasets", files=form, headers=headers).status_code == 429
