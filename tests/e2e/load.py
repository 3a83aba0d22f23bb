"""Clients of a service that is restarted or killed: the requests they sent, and the answers.

Each client has one connection. Without patience it never asks twice.
"""

import asyncio
import json
import random
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.processes import ROWS, surface

ENDED = {"succeeded", "failed", "cancelled"}


@dataclass(slots=True)
class Answer:
    """A status, the names and values of its headers, and a body."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)


class Connection:
    """One HTTP/1.1 connection, opened when it is needed; closed after an error."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname, parts.port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None, seconds: float = 60.0
    ) -> Answer:
        """One request; OSError, EOFError or TimeoutError if no whole answer comes."""
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = {"Host": "pursuit", "Content-Length": str(len(data)), "Content-Type": "application/json"}
        head = "".join(f"{name}: {value}\r\n" for name, value in (lines | (headers or {})).items())
        try:
            async with asyncio.timeout(seconds):
                if self._streams is None:
                    self._streams = await asyncio.open_connection(self._host, self._port)
                reader, writer = self._streams
                writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + data)
                return await self._read(reader)
        except (OSError, EOFError, TimeoutError):
            self.close()
            raise

    async def _read(self, reader: asyncio.StreamReader) -> Answer:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(await reader.readline(), 16):
                body += (await reader.readexactly(size + 2))[:-2]
            await reader.readline()
        else:
            body = await reader.readexactly(int(headers.get("content-length", 0)))
        if headers.get("connection", "").lower() == "close":
            self.close()
        return Answer(int(first.split()[1]), headers, body)

    def close(self) -> None:
        """Close the connection, if it is open."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


@dataclass(slots=True)
class Tally:
    """Results of the clients. patience: seconds for which they ask again; retried: how often they did; failures:
    requests that got no answer, or a wrong one, within them.

    answers: bodies by model and version; jobs: the last known state of each that was accepted, by id.
    """

    patience: float = 0.0
    sent: int = 0
    answered: int = 0
    retried: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    answers: dict[tuple[str, int], set[bytes]] = field(default_factory=lambda: defaultdict(set))
    jobs: dict[str, str] = field(default_factory=dict)

    async def ask(self, connection: Connection, method: str, path: str, expected: int, **more: Any) -> Answer | None:
        """A request that is counted once; None if it did not get the expected answer."""
        self.sent += 1
        end = time.monotonic() + self.patience
        while True:
            try:
                answer = await connection.ask(method, path, **more)
                if answer.status == expected:
                    self.answered += 1
                    return answer
                problem, passing = f"{answer.status} {answer.body[:200]!r}", answer.status in (502, 503, 504)
            except (OSError, EOFError, TimeoutError) as error:
                problem, passing = f"{type(error).__name__} {error}", True
            if not passing or time.monotonic() >= end:
                self.failures[f"{method} {path.partition('?')[0]}: {problem}"] += 1
                return None
            self.retried += 1
            await asyncio.sleep(0.2)


def columns(table: str) -> dict[str, list[Any]]:
    """A CSV table as columns of JSON."""
    names, *rows = (line.split(",") for line in table.splitlines())
    cells = zip(*rows, strict=True)
    return {
        name: list(column) if name == "site" else list(map(float, column))
        for name, column in zip(names, cells, strict=True)
    }


Until = Callable[[], bool]


async def predicting(url: str, references: list[str], tally: Tally, over: Until, pause: float = 0.0) -> None:
    """Ask for the same rows until it is over; keep what each version said."""
    connection = Connection(url)
    chance = random.Random(secrets.token_bytes(4))
    while not over():
        body = {"model": chance.choice(references), "rows": ROWS, "interval": [0.5, 0.95], "include": ["latent_std"]}
        answer = await tally.ask(connection, "POST", "/predict", 200, body=body)
        if answer is not None:
            said = answer.json()
            tally.answers[said["model"], said["version"]].add(answer.body)
        await asyncio.sleep(pause)
    connection.close()


async def training(url: str, spec: dict[str, Any], tally: Tally, over: Until, keyed: bool = True) -> None:
    """Train on a table of one's own again and again, and follow each job to its end, also past the end of it all."""
    connection = Connection(url)
    chance = random.Random(secrets.token_bytes(4))
    while not over():
        table = columns(surface(100, seed=chance.getrandbits(32)))
        headers = {"Idempotency-Key": secrets.token_hex(8)} if keyed else {}
        answer = await tally.ask(
            connection, "POST", "/train", 202, body={"columns": table, "spec": spec}, headers=headers
        )
        if answer is not None:
            job = answer.json()
            while job["state"] not in ENDED:
                tally.jobs[job["id"]] = job["state"]
                await asyncio.sleep(0.3)
                answer = await tally.ask(connection, "GET", f"/jobs/{job['id']}", 200)
                job = job if answer is None else answer.json()
            tally.jobs[job["id"]] = job["state"]
        await asyncio.sleep(0.2)
    connection.close()


async def promoting(url: str, model: str, tally: Tally, over: Until, pause: float = 0.3) -> None:
    """Point the model's champion at one version after the other."""
    connection = Connection(url)
    chance = random.Random(secrets.token_bytes(4))
    while not over():
        answer = await tally.ask(connection, "GET", f"/models/{model}", 200)
        if answer is not None:
            version = chance.choice([item["version"] for item in answer.json()["versions"]])
            path = f"/models/{model}/aliases/champion"
            await tally.ask(connection, "PUT", path, 200, body={"version": version})
        await asyncio.sleep(pause)
    connection.close()
