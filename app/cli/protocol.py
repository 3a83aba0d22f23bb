"""uvicorn's HTTP protocol with one system call for an answer instead of two, and answers that outlive a large body.

uvicorn writes the head of an answer at once and the body when it comes, in the same turn of the event loop for all
answers that are not streams: two packets, for which the kernel takes a tenth of what a prediction of one row takes.

A request may be refused before all of it has come. Were the connection then closed, the kernel would reset it at the
next byte, and the answer would be lost on the client, or on a proxy, which says 502. So it is closed for writing only,
and what still comes is read and dropped, until it ends or for LINGER_SECONDS.
"""

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, cast

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.routes.http.request_ids import chosen_request_id

log = logging.getLogger("app.access")

LINGER_SECONDS = 30.0
MAX_HEAD_BYTES = 1 << 16
"""Limit of a request's line and headers; the parser keeps them in memory until the last has come."""
HEAD_SECONDS = 60.0
"""Limit of the time until the request line and headers are complete."""

SILENT_SECONDS = 60.0
"""Limit of the time without a byte of a body that is to come."""
SHED_SHARE = 16
"""One in so many silent connections is closed where there is one too many: looking for them takes a while."""

_REFUSALS = {
    HTTPStatus.BAD_REQUEST: "what has come is no HTTP request",
    HTTPStatus.REQUEST_TIMEOUT: "no byte of the body has come for {silent:g} seconds",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "the request line and the headers have more than {head} bytes",
    HTTPStatus.SERVICE_UNAVAILABLE: "there are too many connections (PURSUIT_MAX_CONNECTIONS)",
}
"""Details of the answers that this module gives by itself."""


class OneWriteTransport(asyncio.Transport):
    """Transport that holds back the head of an answer until the next write, or the event loop's next turn.

    body_expected: returns True while more of a request's body is to come.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        body_expected: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._body_expected = body_expected
        self._head: bytes | None = None
        self.lingers = False
        for name in ("get_extra_info", "is_closing", "pause_reading", "resume_reading", "set_protocol"):
            setattr(self, name, getattr(transport, name))

    def write(self, data: Any) -> None:
        """Write, or hold back what looks like the head of an answer; the order of bytes stays."""
        if self._head is not None:
            head, self._head = self._head, None
            self._transport.writelines((head, data))
        elif data[:5] == b"HTTP/" and data[-4:] == b"\r\n\r\n":
            self._head = data
            self._loop.call_soon(self._flush)
        else:
            self._transport.write(data)

    def close(self) -> None:
        """Close after what was written; while a body comes, the first call closes the writing side only."""
        self._flush()
        if self.lingers or self._transport.is_closing() or not self._body_expected():
            self._transport.close()
            return
        self.lingers = True
        self._transport.write_eof()
        self._loop.call_later(LINGER_SECONDS, self._transport.close)

    def abort(self) -> None:
        """Close at once, without what is held back."""
        self._head = None
        self._transport.abort()

    def _flush(self) -> None:
        head, self._head = self._head, None
        if head is not None and not self._transport.is_closing():
            self._transport.write(head)


class OneWriteProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol on a OneWriteTransport, with limits of the request head in bytes and in seconds, of the
    silence of a body, and of the number of connections: a new one takes the place of those silent for longest.
    """

    max_connections: int | None = None
    _busy_at = 0.0
    _body_timer: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _in_head = True
    _refused = False
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wrap the transport, and start the clock of the first request head."""
        made = cast(asyncio.Transport, transport)  # uvloop has a class of its own
        super().connection_made(OneWriteTransport(made, self.loop, self._expects_body))
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)
        self._busy_at = self.loop.time()
        if self.max_connections is not None and len(self.connections) > self.max_connections:
            self._shed()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks of the request head and of the body."""
        self._cancel_head_timer()
        if self._body_timer is not None:
            self._body_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what has come; answer 431 to a head that is too large."""
        if self._refused:
            return
        super().data_received(data)
        if not self._in_head:
            if self._body_timer is not None:
                self._busy_at = self.loop.time()
            elif self.cycle is not None and self.cycle.more_body:
                self._busy_at = self.loop.time()
                self._body_timer = self.loop.call_later(SILENT_SECONDS, self._check_silence)
            return
        if self.transport.is_closing():
            return
        self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def on_message_begin(self) -> None:
        """Begin to count the bytes of a request head."""
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        """Stop the clock of the request head."""
        self._in_head = False
        self._cancel_head_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Close a connection that only waited for the rest of a refused body."""
        super().on_message_complete()
        if cast(OneWriteTransport, self.transport).lingers:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Answer to what is no HTTP request, which uvicorn calls for."""
        self._refuse(HTTPStatus.BAD_REQUEST, reason=msg)

    def _refuse(self, status: HTTPStatus, *, given: list[tuple[bytes, bytes]] | None = None, reason: str = "") -> None:
        """Answer for the application, which never hears of it, as a problem document with a request id, and close.

        given: headers of the request, if all of them have come; reason: for the log.
        """
        name = chosen_request_id(dict(reversed(given or [])))
        detail = _REFUSALS[status].format(silent=SILENT_SECONDS, head=MAX_HEAD_BYTES)
        title = status.phrase.capitalize()
        kind = f"/problems/{title.lower().replace(' ', '-')}"
        body = orjson.dumps({"type": kind, "title": title, "status": status, "detail": detail, "instance": ""})
        head = [
            f"HTTP/1.1 {status.value} {status.phrase}",
            "content-type: application/problem+json",
            f"content-length: {len(body)}",
            f"x-request-id: {name.decode()}",
            *(["retry-after: 1"] if status == HTTPStatus.SERVICE_UNAVAILABLE else []),
            "connection: close",
        ]
        self.transport.write("\r\n".join(head).encode() + b"\r\n\r\n")
        self.transport.write(body)
        self._refused = True
        log.info(
            "refused before it was a request: %s",
            reason or detail,
            extra={"status": status.value, "request_id": name.decode()},
        )
        self.transport.close()

    def _check_silence(self) -> None:
        """Refuse a body of which nothing has come for too long, though it was read as it came."""
        self._body_timer = None
        if self.transport.is_closing() or self.cycle is None or not self.cycle.more_body:
            return
        left = self._busy_at + SILENT_SECONDS - self.loop.time()
        if left > 0 or self.flow.read_paused:
            self._body_timer = self.loop.call_later(max(left, 1.0), self._check_silence)
            return
        started = self.cycle.response_started
        self.cycle.disconnected = True
        self.cycle.message_event.set()
        if started:
            self.transport.close()
        else:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, given=self.headers)

    def _shed(self) -> None:
        """Close those connections that have been silent for longest; this one where none is silent."""
        others = (cast(OneWriteProtocol, one) for one in self.connections if one is not self)
        silent = sorted((one for one in others if one.is_silent()), key=lambda one: one._busy_at)
        for one in silent[: len(silent) // SHED_SHARE + 1]:
            one.transport.close()
        if not silent:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)

    def is_silent(self) -> bool:
        """True while no request is in progress."""
        return (self.cycle is None or self.cycle.response_complete) and not self.transport.is_closing()

    def _cancel_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _expects_body(self) -> bool:
        return self._refused or (self.cycle is not None and self.cycle.more_body)
