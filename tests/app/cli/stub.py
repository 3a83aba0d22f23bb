"""A server with fixed answers, which remembers the requests that it had."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

Json = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Answer:
    """status, type, body and more headers of one answer; `cut` closes the connection before the body is complete."""

    body: Json | list[Any] | bytes
    status: int = 200
    type: str = "application/json"
    cut: bool = False
    location: str | None = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Stub:
    """answers: by method and path; the last of a list is repeated. requests: (method, path and query, body); headers:
    of each of them, names in small letters."""

    url: str
    answers: dict[tuple[str, str], list[Answer]]
    requests: list[tuple[str, str, bytes]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def bodies(self, method: str, path: str) -> list[bytes]:
        """Bodies of the requests with this method and path."""
        return [body for m, p, body in self.requests if m == method and urlsplit(p).path == path]


@contextmanager
def stub(answers: dict[tuple[str, str], list[Answer]], *, port: int = 0) -> Iterator[Stub]:
    """Serve the answers on a free port of this machine, or on this one, for the length of the block."""
    server_stub = Stub(url="", answers=answers)

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            server_stub.requests.append((self.command, self.path, body))
            server_stub.headers.append({name.lower(): value for name, value in self.headers.items()})
            left = server_stub.answers.get((self.command, urlsplit(self.path).path))
            if not left:
                self.send_error(404)
                return
            chosen = left.pop(0) if len(left) > 1 else left[0]
            raw = chosen.body if isinstance(chosen.body, bytes) else json.dumps(chosen.body).encode()
            self.send_response(chosen.status)
            self.send_header("content-type", chosen.type)
            for name, value in chosen.headers.items():
                self.send_header(name, value)
            if chosen.location is not None:
                self.send_header("location", chosen.location)
            self.send_header("content-length", str(len(raw) + chosen.cut))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 -- the names http.server looks for

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        server_stub.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server_stub
        finally:
            server.shutdown()
            thread.join()


def problem(status: int, detail: str, **more: Any) -> Answer:
    """A refusal as the service words it."""
    body = {"type": "/problems/x", "title": "Invalid", "status": status, "detail": detail, **more}
    return Answer(body=body, status=status, type="application/problem+json")


def job(state: str, **more: Any) -> Json:
    """A job in a state."""
    created = "2026-01-01T00:00:00.000Z"
    base = {"id": "job_1", "kind": "train", "model": "cars", "created_at": created, "progress": None}
    return {**base, "state": state, **more}


def events(*jobs: Json, cut: bool = False) -> Answer:
    """Server-sent events, with the comments that keep a connection open."""
    lines = "".join(f"event: job\ndata: {json.dumps(item)}\n\n: still here\n\n" for item in jobs)
    return Answer(body=lines.encode(), type="text/event-stream", cut=cut)
