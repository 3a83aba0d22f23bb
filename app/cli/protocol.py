"""uvicorn's HTTP protocol with one system call for an answer instead of two, and answers that outlive a large body.

uvicorn writes the head of an answer at once and the body when it comes, in the same turn of the event loop for all
answers that are not streams: two packets, for which the kernel takes a tenth of what a prediction of one row takes.

A request may be refused before all of it has come. Were the connection then closed, the kernel would reset it at the
next byte, and the answer would be lost on the client, or on a proxy, which says 502. So it is closed for writing only,
and what still comes is read and dropped, until it ends or for LINGER_SECONDS.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LINGER_SECONDS = 30.0
MOST_HEAD_BYTES = 1 << 16
"""Of a request's line and headers; the parser keeps them in memory until the last has come."""
HEAD_SECONDS = 60.0
"""So long they may take."""

_HEAD_TOO_LARGE = (
    b'{"type":"/problems/too-large","title":"Too large","status":431,'
    b'"detail":"the request line and the headers have more than %d bytes","instance":""}' % MOST_HEAD_BYTES
)


class OneWriteTransport(asyncio.Transport):
    """Keeps the head of an answer for what is written next, at most until the event loop's next turn; see the module.

    awaits: whether more of a request's body is to come.
    """

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, awaits: Callable[[], bool] = lambda: False
    ) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._awaits = awaits
        self._head: bytes | None = None
        self.lingers = False
        for name in ("get_extra_info", "is_closing", "pause_reading", "resume_reading", "set_protocol"):
            setattr(self, name, getattr(transport, name))

    def write(self, data: Any) -> None:
        """As a transport's. What looks like a head and is none waits no longer than one, and stays in its place."""
        if self._head is not None:
            head, self._head = self._head, None
            self._transport.writelines((head, data))
        elif data[:5] == b"HTTP/" and data[-4:] == b"\r\n\r\n":
            self._head = data
            self._loop.call_soon(self._flush)
        else:
            self._transport.write(data)

    def close(self) -> None:
        """As a transport's, after what was written; for writing only while a body comes, the second time for good."""
        self._flush()
        if self.lingers or self._transport.is_closing() or not self._awaits():
            self._transport.close()
            return
        self.lingers = True
        self._transport.write_eof()
        self._loop.call_later(LINGER_SECONDS, self._transport.close)

    def abort(self) -> None:
        """As a transport's."""
        self._head = None
        self._transport.abort()

    def _flush(self) -> None:
        head, self._head = self._head, None
        if head is not None and not self._transport.is_closing():
            self._transport.write(head)


class OneWriteProtocol(HttpToolsProtocol):
    """uvicorn's own over such a transport, with a limit of what comes before a body: in bytes, and in seconds."""

    _head_bytes = 0
    _in_head = True
    _refused = False
    _hurry: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As asyncio calls it."""
        made = cast(asyncio.Transport, transport)  # uvloop has a class of its own
        super().connection_made(OneWriteTransport(made, self.loop, self._awaits_body))
        self._hurry = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """As asyncio calls it."""
        self._calm_down()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """As asyncio calls it."""
        if self._refused:
            return
        super().data_received(data)
        if not self._in_head or self.transport.is_closing():
            return
        self._head_bytes += len(data)
        if self._head_bytes > MOST_HEAD_BYTES:
            head = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/problem+json\r\n"
            self.transport.write(b"%scontent-length: %d\r\nconnection: close\r\n\r\n" % (head, len(_HEAD_TOO_LARGE)))
            self.transport.write(_HEAD_TOO_LARGE)
            self._refused = True
            self.transport.close()
        elif self._hurry is None:
            self._hurry = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def on_message_begin(self) -> None:
        """As the parser calls it."""
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        """As the parser calls it."""
        self._in_head = False
        self._calm_down()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """As the parser calls it."""
        super().on_message_complete()
        if cast(OneWriteTransport, self.transport).lingers:
            self.transport.close()

    def _calm_down(self) -> None:
        if self._hurry is not None:
            self._hurry.cancel()
            self._hurry = None

    def _awaits_body(self) -> bool:
        return self._refused or (self.cycle is not None and self.cycle.more_body)
