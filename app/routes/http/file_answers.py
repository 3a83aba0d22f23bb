"""An answer that lies on the disk, in a file without a name: sent a piece at a time, and gone when it is closed."""

import os
from collections.abc import Mapping
from typing import IO

from anyio import to_thread
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

PIECE_BYTES = 1 << 18


class FileAnswer(Response):
    """A finished body in a file, which is closed when it was sent."""

    def __init__(self, file: IO[bytes], media_type: str, headers: Mapping[str, str] | None = None) -> None:
        self._file = file
        file.seek(0, os.SEEK_END)
        length = {"content-length": str(file.tell())}
        file.seek(0)
        super().__init__(None, 200, {**(headers or {}), **length}, media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        del scope, receive
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            more = True
            while more:
                piece = await to_thread.run_sync(self._file.read, PIECE_BYTES)
                more = len(piece) == PIECE_BYTES
                await send({"type": "http.response.body", "body": piece, "more_body": more})
        finally:
            self._file.close()
