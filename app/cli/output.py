"""Output of commands: text for a person on standard output, or with `--json` one JSON document and nothing else.

With `--json` progress and notes go to standard error, and a refusal is a document too: `error_document`.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape

FLAG = "--json"
_as_json: ContextVar[bool] = ContextVar("as_json", default=False)


@contextmanager
def json_output(words: Sequence[str]) -> Iterator[None]:
    """Take from a command line whether it asks for JSON, for the length of the block; it may be one with mistakes."""
    token = _as_json.set(FLAG in words)
    try:
        yield
    finally:
        _as_json.reset(token)


def wants_json() -> bool:
    """Return whether this command prints JSON."""
    return _as_json.get()


def console() -> Console:
    """Return where a person reads: standard output, or standard error beside a JSON document."""
    return Console(stderr=wants_json())


def print_json(document: Any) -> None:
    """Print the document of this command."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def note(text: str) -> None:
    """Print one line for a person on standard error."""
    Console(file=sys.stderr, soft_wrap=True, highlight=False).print(f"[yellow]note:[/] {escape(text)}")


def error_document(message: str, *, status: int | None = None, errors: Sequence[Any] = (), total: int = 0) -> Any:
    """Return the document of a command that failed. status: of the server's answer, if it was that which refused;
    errors: the first of `total` faults, each with its row (from 0), line (from 1), column, value and message."""
    return {"error": {"message": message, "status": status, "errors": list(errors), "error_count": total}}
