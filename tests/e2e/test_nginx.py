"""The deployed nginx configuration in front of two real APIs: what it passes on, what it asks again."""

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import uvicorn

from app.settings import Settings
from tests.e2e.fleet import Fleet, fleet
from tests.e2e.front import CONFIGURATION, MISSING, PROGRAM, Front, check, nginx, rendered
from tests.e2e.processes import ROWS, follow, submit, surface
from tests.ports import free_port
from tests.processes import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300), pytest.mark.skipif(PROGRAM is None, reason=MISSING)]

SIZES = {"PURSUIT_MAX_UPLOAD_BYTES": str(20 << 20), "PURSUIT_MAX_BODY_BYTES": str(4 << 20)}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fleet, Front, httpx.Client]]:
    """Two APIs and a worker, a model, and nginx in front."""
    folder = tmp_path_factory.mktemp("nginx")
    shared = {
        "PURSUIT_DATABASE_URL": f"sqlite:///{folder}/pursuit.db",
        "PURSUIT_ARTEFACT_URL": f"file://{folder}/blobs",
        "PURSUIT_LOG_LEVEL": "debug",
    }
    with (
        fleet(folder / "fleet", ["api-1", "api-2", "worker-1"], **shared, **SIZES) as made,
        nginx(folder / "nginx", [made.ports["api-1"], made.ports["api-2"]]) as front,
        httpx.Client(base_url=front.url, timeout=60.0, trust_env=False) as client,
    ):
        assert follow(client, submit(client, surface(300), basis_size=20, adapt=False))[-1]["state"] == "succeeded"
        yield made, front, client


def test_it_is_accepted_and_agrees_with_the_settings(tmp_path: Path) -> None:
    assert "test is successful" in check(tmp_path, rendered(tmp_path, 8080, [1, 2]))
    text = CONFIGURATION.read_text(encoding="utf-8")

    def seconds(name: str) -> list[int]:
        return [int(value) for value in re.findall(rf"\b{name} (\d+)s;", text)]

    defaults = Settings.model_fields
    idle = uvicorn.Config("app").timeout_keep_alive
    assert all(value < idle for value in seconds("keepalive_timeout")[:1])
    assert max(seconds("proxy_read_timeout")) > defaults["max_read_seconds"].default
    assert "worker_shutdown_timeout 1h" in text
    assert defaults["max_upload_seconds"].default <= 3600
    assert "client_max_body_size 0;" in text


def test_ids_and_addresses_are_passed_on(running: tuple[Fleet, Front, httpx.Client]) -> None:
    made, front, client = running
    assert client.get("/health/live", headers={"X-Request-ID": "mine"}).headers["x-request-id"] == "mine"
    given = client.get("/health/live", headers={"X-Request-ID": 'no "word'}).headers["x-request-id"]
    assert re.fullmatch("[0-9a-f]{32}", given)
    wait_until(lambda: given in (front.folder / "access.log").read_text())
    lines = [json.loads(line) for line in (front.folder / "access.log").read_text().splitlines()]
    (line,) = [line for line in lines if line["request_id"] == given]
    assert (line["client"], line["status"]) == ("127.0.0.1", 200)
    wait_until(lambda: given in made.log("api-1") + made.log("api-2"))  # one id finds both lines


def test_refusals_are_the_services_own(running: tuple[Fleet, Front, httpx.Client]) -> None:
    _, _, client = running
    for path, size, limit in (("/train", 30 << 20, "PURSUIT_MAX_UPLOAD_BYTES"), ("/predict", 5 << 20, "MAX_BODY")):
        form = {"files": {"file": ("t.csv", b"x" * size)}} if path == "/train" else {"content": b" " * size}
        kind = {} if path == "/train" else {"Content-Type": "application/json"}
        answer = client.post(path, headers=kind, **form)
        assert answer.status_code == 413
        assert answer.headers["content-type"] == "application/problem+json"
        assert limit in answer.json()["detail"]
    assert client.get("/nowhere").json()["title"] == "Not found"


def raw(front: Front, sent: bytes) -> httpx.Response:
    """Send bytes that are no request of a client library; return what comes back."""
    with socket.create_connection(("127.0.0.1", int(front.url.rpartition(":")[2])), timeout=30.0) as connection:
        connection.sendall(sent)
        received = b""
        while piece := connection.recv(1 << 16):
            received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = [tuple(line.split(": ", 1)) for line in lines]
    return httpx.Response(int(first.split()[1]), headers=headers, content=body)  # type: ignore[arg-type]


def test_refusals_of_nginx_look_alike(running: tuple[Fleet, Front, httpx.Client], tmp_path: Path) -> None:
    """What no API hears of: no request at all, headers and addresses that are too long, and no API there."""
    _, front, client = running
    close = b"Host: x\r\nConnection: close\r\n\r\n"
    answers = {
        400: raw(front, b"\x16\x03\x01\x02\x00\r\n\r\n"),
        404: client.get("/metrics"),
        414: raw(front, b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\n" + close),
        431: raw(front, b"GET / HTTP/1.1\r\nX-A: " + b"a" * 40_000 + b"\r\n" + close),
    }
    with nginx(tmp_path / "alone", [free_port(), free_port()]) as alone:
        answers[502] = httpx.get(f"{alone.url}/models", headers={"X-Request-ID": "mine"}, trust_env=False)
    for status, answer in answers.items():
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert re.fullmatch("[0-9a-f]{32}|mine", answer.headers["x-request-id"])
        problem = answer.json()
        assert (problem["status"], set(problem)) == (status, {"type", "title", "status", "detail", "instance"})
    assert (answers[502].headers["x-request-id"], answers[502].headers["retry-after"]) == ("mine", "1")


def test_tables_of_all_sizes_and_of_unknown_size_arrive(running: tuple[Fleet, Front, httpx.Client]) -> None:
    _, front, client = running
    large = surface(100_000)
    assert len(large) > 8_000_000
    boundary = {"Content-Type": "multipart/form-data; boundary=B"}

    def pieces(table: str) -> Iterator[bytes]:
        yield b'--B\r\nContent-Disposition: form-data; name="file"; filename="chunked.csv"\r\n\r\n'
        yield table.encode()
        yield b"\r\n--B--\r\n"

    answers = [
        client.post("/train", files={"file": ("small.csv", surface(50))}),
        client.post("/train", files={"file": ("large.csv", large)}),
        client.post("/train", content=pieces(surface(50)), headers=boundary),
        client.post("/datasets?target=y", files={"file": ("large.csv", large)}),
    ]
    assert [answer.status_code for answer in answers] == [202, 202, 202, 201], [a.text[:200] for a in answers]
    assert [answer.json().get("model") for answer in answers[:3]] == ["small", "large", "chunked"]
    assert answers[3].json()["target"] == "y", "the query is passed on with a large table too"
    for answer in answers[:3]:
        client.delete(answer.headers["location"])
    stored = [line for line in front.log().splitlines() if "a client request body is buffered" in line]
    assert not [line for line in stored if "large" in line], "large tables do not go by way of nginx's disk"


def test_the_same_work_is_done_once_and_other_work_again(running: tuple[Fleet, Front, httpx.Client]) -> None:
    _, _, client = running
    body = {"columns": {"x": [0.0, 1.0, 2.0], "y": [0.0, 1.0, 4.0]}, "spec": {"model": "keyed"}}
    keyed = [client.post("/train", json=body, headers={"Idempotency-Key": "k"}).json()["id"] for _ in range(2)]
    plain = [client.post("/train", json=body).json()["id"] for _ in range(2)]
    assert keyed[0] == keyed[1]
    assert len({*keyed, *plain}) == 3


def test_events_come_as_they_happen(running: tuple[Fleet, Front, httpx.Client]) -> None:
    _, _, client = running
    job = submit(client, surface(2000), model="followed", basis_size=60, adapt={"rounds": 4, "steps": 4})
    with client.stream("GET", f"/jobs/{job}/events", timeout=60.0) as stream:
        lines = (line for line in stream.iter_lines() if line.startswith("data:"))
        states = [(json.loads(line[5:])["state"], time.monotonic()) for line in lines]
    assert states[-1][0] == "succeeded"
    assert len({moment for _, moment in states}) == len(states) > 2, "not all at once at the end"


def test_one_api_is_enough_and_a_reload_breaks_nothing(running: tuple[Fleet, Front, httpx.Client]) -> None:
    made, front, _ = running
    answers: list[int] = []
    closed: list[httpx.Client] = []
    over = threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=front.url, timeout=30.0, trust_env=False) as own:
            while not over.is_set():
                try:
                    answers.append(own.post("/predict", json={"model": "surface", "rows": ROWS}).status_code)
                except (httpx.RemoteProtocolError, httpx.ReadError):
                    closed.append(own)  # at a reload nginx closes connections on which nothing is asked just then

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        made.kill("api-1")
        wait_until(lambda: len(answers) > 200)
        front.reload()
        before = len(answers)
        wait_until(lambda: len(answers) > before + 200)
        made.start("api-1")
        made.ready("api-1")
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert set(answers) == {200}
    assert len(closed) <= len(threads), "once for each connection, at the reload"
    assert front.retried() > 0
