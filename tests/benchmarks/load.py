"""A load generator: raw requests over keep-alive connections, in a process of its own.

python -m tests.benchmarks.load HOST PORT SECONDS CORE < GROUPS

GROUPS is a JSON list of {"name", "connections", "request" (base64), "pause" (seconds between two)}; it prints one JSON
object of {"name": {"count", "bad", "p50_ms", "p99_ms"}} and "seconds". bad: answers whose status was not 200.
"""

import asyncio
import base64
import json
import os
import sys
import time
from dataclasses import dataclass, field
from typing import Any, cast

import uvloop


@dataclass(slots=True)
class Group:
    """Connections that all send the same request, and what they have seen."""

    request: bytes
    connections: int
    pause: float
    seconds: list[float] = field(default_factory=list)
    bad: int = 0


class Connection(asyncio.Protocol):
    """Sends a request as soon as the answer to the last one is there."""

    def __init__(self, group: Group, until: float) -> None:
        self._group = group
        self._until = until
        self._pieces: list[bytes] = []
        self._missing = 0
        self._sent = 0.0
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own class
        self._send()

    def data_received(self, data: bytes) -> None:
        """Once the whole answer has come, note the time and go on."""
        if self._missing:
            self._missing -= len(data)
        else:
            self._pieces.append(data)
            joined = b"".join(self._pieces)
            head, separator, body = joined.partition(b"\r\n\r\n")
            if not separator:
                return
            self._pieces.clear()
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            self._missing = length - len(body)
            self._group.bad += not head.startswith(b"HTTP/1.1 200")
        if self._missing == 0:
            now = time.monotonic()
            self._group.seconds.append(now - self._sent)
            if now >= self._until:
                self._transport.close()
            elif self._group.pause:
                asyncio.get_running_loop().call_later(self._group.pause, self._send)
            else:
                self._send()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- asyncio's signature
        """The end."""
        if not self.ended.done():
            self.ended.set_result(None)

    def _send(self) -> None:
        self._sent = time.monotonic()
        self._transport.write(self._group.request)


async def run(host: str, port: int, seconds: float, groups: dict[str, Group]) -> dict[str, Any]:
    """All groups at once for so long."""
    loop = asyncio.get_running_loop()
    began = time.monotonic()
    made = []
    for group in groups.values():
        for _ in range(group.connections):
            _, connection = await loop.create_connection(
                lambda group=group: Connection(group, began + seconds),  # type: ignore[misc]  # mypy: default in a lambda
                host,
                port,
            )
            made.append(connection.ended)
    await asyncio.gather(*made)
    return {"seconds": time.monotonic() - began, **{name: _figures(group) for name, group in groups.items()}}


def _figures(group: Group) -> dict[str, float]:
    waits = sorted(group.seconds) or [float("nan")]
    p50, p99 = (1e3 * waits[min(len(waits) - 1, int(share * len(waits)))] for share in (0.5, 0.99))
    return {"count": len(group.seconds), "bad": group.bad, "p50_ms": p50, "p99_ms": p99}


def main(host: str, port: str, seconds: str, core: str) -> None:
    """Run the benchmark that the module describes."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core)})
    groups = {
        group["name"]: Group(base64.b64decode(group["request"]), group["connections"], group.get("pause", 0.0))
        for group in json.load(sys.stdin)
    }
    print(json.dumps(uvloop.run(run(host, int(port), float(seconds), groups))))


if __name__ == "__main__":
    main(*sys.argv[1:])
