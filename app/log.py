"""Structured logging, set up once for a process: lines for people (`text`) or one JSON object a line (`json`).

The id of the request in progress is a context variable, and in every line.
Fields are given as `extra={"job": ...}`.
"""

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from textwrap import indent
from typing import TextIO

import orjson

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request this task answers; None outside of one."""

_fields_now: ContextVar[Mapping[str, object] | None] = ContextVar("log_fields", default=None)

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}

_CONTROLS = (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Characters that move the cursor, end a line or change the direction of writing."""

_ESCAPES = {code: ascii(chr(code))[1:-1] for code in _CONTROLS}
_ESCAPES_BUT_NEWLINE = {code: text for code, text in _ESCAPES.items() if code != ord("\n")}


@contextmanager
def log_fields(**fields: object) -> Iterator[None]:
    """Add these fields to all lines of this thread or task until the end of the block."""
    token = _fields_now.set({**(_fields_now.get() or {}), **fields})
    try:
        yield
    finally:
        _fields_now.reset(token)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, request_id, the extra fields, the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


class TextFormatter(logging.Formatter):
    """`12:00:00 info  app.jobs: message  key=value`, then the traceback, indented, if there is one.

    Control characters are escaped: text of a client can neither begin a line nor control the terminal.
    """

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        fields = "".join(f"  {name}={value}" for name, value in _fields(record).items())
        line = f"{time} {record.levelname.lower():<7} {record.name}: {record.getMessage()}{fields}".translate(_ESCAPES)
        if not record.exc_info:
            return line
        traceback = self.formatException(record.exc_info).translate(_ESCAPES_BUT_NEWLINE)
        return f"{line}\n{indent(traceback, '  ')}"


def set_up(*, style: str = "text", level: str = "info", stream: TextIO | None = None) -> None:
    """Send all logging of this process to `stream` (standard error), uvicorn's included.

    Start uvicorn with `log_config=None`, or it puts its own handlers back.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    logging.getLogger("uvicorn.access").disabled = True  # our own line has the request's id and the time it took
    logging.getLogger("alembic").setLevel(logging.WARNING)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields: dict[str, object] = dict(_fields_now.get() or {})
    fields |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
    current = request_id.get()
    if current is not None:
        fields.setdefault("request_id", current)
    return fields
