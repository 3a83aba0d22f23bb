"""An API that is told to stop finishes what it has begun, for as long as it may, and takes nothing new."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.e2e.fleet import Fleet, fleet
from tests.e2e.processes import job_of, submit, surface, system
from tests.processes import wait_until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(150),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc"),
]

FORM = (
    b'--B\r\nContent-Disposition: form-data; name="file"; filename="t.csv"\r\n\r\n%b\r\n--B\r\n'
    b'Content-Disposition: form-data; name="spec"\r\n\r\n{"target": "y"}\r\n--B--\r\n' % surface(100).encode()
)
HEAD = (
    b"POST /train HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=B\r\n"
    b"Content-Length: %d\r\n\r\n" % len(FORM)
)


@contextmanager
def one_api(folder: Path, drain: float) -> Iterator[Fleet]:
    with fleet(folder, ["api-1"], PURSUIT_DRAIN_SECONDS=str(drain)) as made:
        yield made


def terminate(made: Fleet) -> None:
    """SIGTERM, and wait until it listens no more."""
    os.kill(made.processes["api-1"].pid, signal.SIGTERM)

    def refuses() -> bool:
        try:
            httpx.get(f"{made.url('api-1')}/health/live", timeout=5.0, trust_env=False)
        except httpx.TransportError:
            return True
        return False

    wait_until(refuses)


async def upload_around_the_end(made: Fleet, seconds: float, *, whole: bool) -> tuple[bytes, bytes]:
    """Half an upload, SIGTERM, so many seconds, the other half if `whole`; head and body of the answer."""
    url = urlsplit(made.url("api-1"))
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    writer.write(HEAD + FORM[:1000])
    await writer.drain()
    await asyncio.to_thread(wait_until, lambda: any((made.directory / "api-1" / "uploads").glob("*/*")))
    await asyncio.to_thread(terminate, made)
    await asyncio.sleep(seconds)
    if whole:
        writer.write(FORM[1000:])
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return head, body


def test_an_upload_that_has_begun_is_taken(tmp_path: Path) -> None:
    with one_api(tmp_path, drain=60.0) as made:
        head, body = asyncio.run(upload_around_the_end(made, 6.0, whole=True))
        assert head.startswith(b"HTTP/1.1 202 "), head
        job = json.loads(body)["id"]
        assert made.processes.pop("api-1").wait(30.0) == 0
        made.start("api-1")
        made.ready("api-1")
        assert httpx.get(f"{made.url('api-1')}/jobs/{job}", trust_env=False).json()["state"] == "queued"


def test_an_upload_that_takes_too_long_is_answered_503(tmp_path: Path) -> None:
    with one_api(tmp_path, drain=1.0) as made:
        head, body = asyncio.run(upload_around_the_end(made, 0.0, whole=False))
        assert head.startswith(b"HTTP/1.1 503 "), head
        assert b"retry-after: 1" in head.lower()
        assert b"application/problem+json" in head.lower()
        assert json.loads(body)["detail"] == "the server is stopping; send the request again"
        assert made.processes.pop("api-1").wait(30.0) == 0


def test_nobody_waits_for_those_who_follow_a_job(tmp_path: Path) -> None:
    with one_api(tmp_path, drain=600.0) as made, httpx.Client(base_url=made.url("api-1"), trust_env=False) as client:
        job = submit(client, surface(100))
        with client.stream("GET", f"/jobs/{job}/events", timeout=60.0) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("event:")
            os.kill(made.processes["api-1"].pid, signal.SIGTERM)
            list(lines)  # the stream ends as a stream should
        assert made.processes.pop("api-1").wait(60.0) == 0


LONG = {"basis_size": 500, "adapt": {"rounds": 50, "steps": 50}}
"""Minutes of work."""


@pytest.mark.parametrize("signals", [1, 2])
def test_a_worker_ends_its_job_before_it_ends_unless_it_is_told_twice(tmp_path: Path, signals: int) -> None:
    with system(tmp_path, environment={"PURSUIT_WORKER_DRAIN_SECONDS": "100"}) as made, made.start_api() as client:
        worker = made.start_worker()
        job = submit(client, surface(500), basis_size=50) if signals == 1 else submit(client, surface(20_000), **LONG)
        made.child()
        waiting = submit(client, surface(50))
        worker.send_signal(signal.SIGTERM)
        wait_until(lambda: "goes on for at most 100 s" in made.log())
        if signals == 2:
            worker.send_signal(signal.SIGTERM)
        assert worker.wait(100.0) == 0
        assert job_of(client, waiting)["state"] == "queued"
        found = job_of(client, job)
        assert found["state"] == ("succeeded" if signals == 1 else "queued"), found
        assert made.log().count(f"{job}: claim ") == 1
