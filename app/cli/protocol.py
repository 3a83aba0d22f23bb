"""uvicorn's HTTP protocol with one system call for an answer instead of two, and answers that outlive a large body.

uvicorn writes the head of an answer at once and the body when it comes, in the same turn of the event loop for all
answers that are not streams: two packets, for which the kernel takes a tenth of what a prediction of one row takes.

A request may be refused before its body has come. Were the connection then closed, the kernel would reset it at the
next byte, and the answer would be lost on the client, or on a proxy, which says 502. So it is closed for writing only,
and what still comes is read and dropped, until it ends or for LINGER_SECONDS.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LINGER_SECONDS = 30.0


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
    """uvicorn's own over such a transport."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As asyncio calls it."""
        made = cast(asyncio.Transport, transport)  # uvloop has a class of its own
        super().connection_made(OneWriteTransport(made, self.loop, self._awaits_body))

    def on_message_complete(self) -> None:
        """As the parser calls it."""
        super().on_message_complete()
        if cast(OneWriteTransport, self.transport).lingers:
            self.transport.close()

    def _awaits_body(self) -> bool:
        return self.cycle is not None and self.cycle.more_body
