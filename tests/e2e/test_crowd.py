"""Two hundred clients that each ask for one row, over and over, while a job trains."""

import asyncio
import json
import time
from pathlib import Path

import pytest

from tests.e2e.processes import ROWS, follow, job_of, submit, surface, system
from tests.processes import wait_until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc"),
]

CLIENTS = 200
SECONDS = 10.0


async def ask(host: str, port: int, request: bytes, until: float, pause: float = 0.0) -> list[tuple[int, float, bytes]]:
    """One connection that sends the same request again and again: status, seconds and body of each answer."""
    reader, writer = await asyncio.open_connection(host, port)
    answers = []
    while time.monotonic() < until:
        started = time.monotonic()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split()[0])
        body = await reader.readexactly(length)
        answers.append((int(head.split()[1]), time.monotonic() - started, body))
        await asyncio.sleep(pause)
    writer.close()
    return answers


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def test_no_error_and_quick_health(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with system(tmp_path) as made, made.start_api() as client:
        made.start_worker()
        assert follow(client, submit(client, surface(1000), basis_size=200, adapt=False))[-1]["state"] == "succeeded"
        busy = submit(client, surface(20_000), model="busy", basis_size=500, adapt={"rounds": 50, "steps": 50})
        wait_until(lambda: job_of(client, busy)["state"] == "running")
        host, _, port = made.url.removeprefix("http://").partition(":")
        body = json.dumps({"model": "surface", "rows": ROWS[:1]}).encode()
        predict = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
        request = predict % (len(body), body)

        async def crowd() -> tuple[list[list[tuple[int, float, bytes]]], list[list[tuple[int, float, bytes]]]]:
            until = time.monotonic() + SECONDS
            clients = [ask(host, int(port), request, until) for _ in range(CLIENTS)]
            probes = [
                ask(host, int(port), b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path, until, 0.05)
                for path in (b"/health/live", b"/health/ready")
            ]
            answers = await asyncio.gather(*clients, *probes)
            return answers[:CLIENTS], answers[CLIENTS:]

        predictions, health = asyncio.run(crowd())
        asked = [answer for client_answers in predictions for answer in client_answers]
        probed = [answer for probe in health for answer in probe]
        assert {status for status, _, _ in asked} == {200}
        assert {status for status, _, _ in probed} == {200}
        assert len({body for _, _, body in asked}) == 1
        assert min(map(len, predictions)) > 0
        assert min(map(len, health)) > 1
        slow = quantile([seconds for _, seconds, _ in probed], 0.99)
        with capsys.disabled():
            waits = [seconds for _, seconds, _ in asked]
            print(
                f"\n{len(asked) / SECONDS:.0f} predictions/s, p50 {1e3 * quantile(waits, 0.5):.0f} ms, "
                f"p99 {1e3 * quantile(waits, 0.99):.0f} ms; health p99 {1e3 * slow:.0f} ms"
            )
        assert slow < 1.0
        assert job_of(client, busy)["state"] == "running"
        client.delete(f"/jobs/{busy}")
