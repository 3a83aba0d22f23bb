"""app/cli/protocol.py: an answer is written once, and every kind of answer comes whole and in its order."""

import asyncio
import json
import logging
import re
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from app.cli import protocol
from app.cli.protocol import OneWriteProtocol, OneWriteTransport

HEAD_ALIKE = b"HTTP/1.1 is text here\r\n\r\n"
LARGE = bytes(range(256)) * 40_000
seen = threading.Event()
"""The client has the head of a stream."""


async def small(_: Request) -> Response:
    return Response(b"hello")


async def large(_: Request) -> Response:
    return Response(LARGE)


async def empty(_: Request) -> Response:
    return Response(status_code=204)


async def reading(request: Request) -> Response:
    return Response(await request.body())


async def refusing(_: Request) -> Response:
    """Answers before the body has come."""
    return Response(b"too large", status_code=413)


async def late(_: Request) -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        while not seen.is_set():
            await asyncio.sleep(0.001)
        yield HEAD_ALIKE
        await asyncio.sleep(0.01)
        yield b"end"

    return StreamingResponse(pieces())


@pytest.fixture(scope="module", params=["asyncio", "uvloop"])
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    routes = [
        Route(f"/{endpoint.__name__}", endpoint, methods=["GET", "POST"])
        for endpoint in (small, large, empty, late, reading, refusing)
    ]
    config = uvicorn.Config(
        Starlette(routes=routes), port=0, log_config=None, http=OneWriteProtocol, lifespan="off", loop=request.param
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        thread.join(0.005)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join()


def ask(port: int, *requests: tuple[str, str], end: bool = True) -> bytes:
    """Send these requests at once over one connection; return all that comes back."""
    lines = [f"{method} {path} HTTP/1.1\r\nHost: x\r\n" for method, path in requests]
    with socket.create_connection(("127.0.0.1", port), timeout=10.0) as connection:
        connection.sendall(("\r\n".join(lines) + ("Connection: close\r\n" if end else "") + "\r\n").encode())
        pieces = []
        while piece := connection.recv(1 << 16):
            pieces.append(piece)
            if b"transfer-encoding" in piece:
                seen.set()
        return b"".join(pieces)


def test_a_small_answer(port: int) -> None:
    head, _, body = ask(port, ("GET", "/small")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert body == b"hello"


def test_a_large_answer(port: int) -> None:
    assert ask(port, ("GET", "/large")).partition(b"\r\n\r\n")[2] == LARGE


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/empty", b"204"), ("HEAD", "/small", b"200")])
def test_an_answer_without_a_body(port: int, method: str, path: str, status: bytes) -> None:
    received = ask(port, (method, path))
    assert received.split()[1] == status
    assert received.endswith(b"\r\n\r\n")


def test_answers_come_in_the_order_of_the_requests(port: int) -> None:
    received = ask(port, ("GET", "/small"), ("GET", "/empty"), ("GET", "/large"), ("GET", "/small"))
    assert re.findall(rb"HTTP/1\.1 (\d+)", received) == [b"200", b"204", b"200", b"200"]
    assert LARGE in received
    assert received.endswith(b"hello")


def test_the_head_of_a_stream_does_not_wait_for_its_body(port: int) -> None:
    seen.clear()
    received = ask(port, ("GET", "/late"))
    assert received.endswith(b"%x\r\n%b\r\n3\r\nend\r\n0\r\n\r\n" % (len(HEAD_ALIKE), HEAD_ALIKE))


class Recorded(asyncio.Transport):
    """Transport that records what is written, by call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed
        self.calls.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


def test_head_and_body_are_one_write() -> None:
    async def write() -> list[bytes]:
        below = Recorded()
        transport = OneWriteTransport(below, asyncio.get_running_loop())
        for data in (b"HTTP/1.1 200 OK\r\n\r\n", b"one", b"HTTP/1.1 204 No Content\r\n\r\n"):
            transport.write(data)
        await asyncio.sleep(0)
        transport.write(b"HTTP/1.1 200 OK\r\n\r\n")
        transport.close()
        transport.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.sleep(0)
        return below.calls

    assert asyncio.run(write()) == [
        b"HTTP/1.1 200 OK\r\n\r\none",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
    ]


@pytest.mark.parametrize("ending", ["Content-Length: 20000000", "Transfer-Encoding: chunked"])
def test_who_is_refused_before_the_body_has_come_can_send_it_and_read_why(port: int, ending: str) -> None:
    """A connection that is closed while bytes come is reset, and the answer lost with it."""
    head = f"POST /refusing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{ending}\r\n\r\n"
    chunked = "chunked" in ending
    body = b"1312d00\r\n" + bytes(20_000_000) + b"\r\n0\r\n\r\n" if chunked else bytes(20_000_000)
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", port), timeout=10.0) as connection:
            connection.sendall(head.encode())
            time.sleep(0.05)  # it is refused by now
            connection.sendall(body)
            pieces = []
            while piece := connection.recv(1 << 16):
                pieces.append(piece)
        assert b"".join(pieces).endswith(b"\r\n\r\ntoo large")


def test_who_never_sends_the_rest_is_not_waited_for_long(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.cli.protocol.LINGER_SECONDS", 0.2)
    head = b"POST /refusing HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 20000000\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=10.0) as connection:
        connection.sendall(head)
        answer = b""
        while piece := connection.recv(1 << 16):
            answer += piece
        assert answer.endswith(b"too large"), "the answer does not wait for the body"
        time.sleep(0.5)
        with pytest.raises(ConnectionError):
            connection.sendall(bytes(20_000_000))


@pytest.mark.parametrize(
    "head", [b"GET /small HTTP/1.1\r\nHost: x\r\nX-A: ", b"GET /small HTTP/1.1\r\nHost: x\r\n", b"GET /"]
)
def test_a_head_without_end_is_refused(port: int, head: bytes) -> None:
    """Once it was kept as long as it came: a hundred megabytes of one header were."""
    with socket.create_connection(("127.0.0.1", port), timeout=30.0) as connection:
        connection.sendall(head)
        received = b""
        sent = 0
        with suppress(ConnectionError):
            while not received and sent < 1 << 22:
                connection.sendall(b"a: b\r\n" * 2000 if head.endswith(b"Host: x\r\n") else b"a" * 12_000)
                sent += 12_000
                connection.settimeout(0.05)
                with suppress(TimeoutError):
                    received = connection.recv(1 << 16)
        assert_told(received, 431, "65536 bytes")
        assert sent < 400_000


def test_a_large_head_below_the_limit_is_taken(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=30.0) as connection:
        for _ in range(3):
            connection.sendall(b"GET /small HTTP/1.1\r\nHost: x\r\nX-A: " + b"a" * 60_000 + b"\r\n\r\n")
            answer = b""
            while not answer.endswith(b"hello"):
                answer += connection.recv(1 << 16)
            assert answer.startswith(b"HTTP/1.1 200 ")


def assert_told(received: bytes, status: int, words: str) -> str:
    """Assert that this is a whole answer with a problem document; return its request id."""
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    problem = json.loads(body)
    assert first.startswith(f"HTTP/1.1 {status} "), received[:100]
    assert headers["content-type"] == "application/problem+json"
    assert int(headers["content-length"]) == len(body)
    assert (problem["status"], set(problem)) == (status, {"type", "title", "status", "detail", "instance"})
    assert words in problem["detail"]
    return headers["x-request-id"]


@pytest.mark.parametrize(
    "sent", [b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\n: x\r\n\r\n", b"GET / HTTP/9\r\n\r\n"]
)
def test_what_is_no_request_is_told_so(port: int, sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.INFO, logger="app.access"),
        socket.create_connection(("127.0.0.1", port), timeout=10.0) as connection,
    ):
        connection.sendall(sent)
        received = b""
        while some := connection.recv(1 << 16):
            received += some
    name = assert_told(received, 400, "no HTTP request")
    assert name in [vars(record).get("request_id") for record in caplog.records], "the log finds it"


def test_a_head_that_does_not_come_to_its_end_is_not_waited_for(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.3)
    for sent in (b"", b"GET /sm", b"GET /small HTTP/1.1\r\nHost: x\r\n\r\nGET /sm"):
        with socket.create_connection(("127.0.0.1", port), timeout=10.0) as connection:
            connection.sendall(sent)
            received = b""
            while some := connection.recv(1 << 16):  # until the server closes; a time-out is an error
                received += some
        assert received.count(b"HTTP/1.1 200 ") == sent.count(b"\r\n\r\n")


def test_a_silent_body_is_refused(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "SILENT_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", port), timeout=10.0) as connection:
        connection.sendall(b"POST /reading HTTP/1.1\r\nHost: x\r\nX-Request-ID: mine\r\nContent-Length: 10\r\n\r\n")
        for _ in range(3):
            time.sleep(0.1)
            connection.sendall(b"x")
        assert assert_told(connection.recv(1 << 16), 408, "no byte") == "mine"


def test_silent_connections_make_room_for_new_ones(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest goes; one with a request in progress stays, and where all are busy the new one is refused."""
    monkeypatch.setattr(OneWriteProtocol, "max_connections", 3)
    silent = []
    try:
        for _ in range(3):
            silent.append(socket.create_connection(("127.0.0.1", port), timeout=10.0))
            time.sleep(0.02)  # uvloop counts milliseconds
        assert b"hello" in ask(port, ("GET", "/small"))
        assert silent[0].recv(1) == b"", "closed"
        request = b"POST /reading HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"
        for connection in silent[1:]:
            connection.sendall(request)
        time.sleep(0.1)
        third = socket.create_connection(("127.0.0.1", port), timeout=10.0)
        silent.append(third)
        third.sendall(request)
        time.sleep(0.1)
        crowded = ask(port, ("GET", "/small"))
        assert_told(crowded, 503, "PURSUIT_MAX_CONNECTIONS")
        assert b"\r\nretry-after: 1\r\n" in crowded
        silent[1].sendall(bytes(10))
        assert silent[1].recv(1 << 16).startswith(b"HTTP/1.1 200")
    finally:
        for connection in silent:
            connection.close()
