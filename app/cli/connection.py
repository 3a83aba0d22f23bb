"""The server that a command asks: one that runs, or a private one over the data directory."""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.markup import escape

from app.cli import display
from app.cli.client import Client, ClientError
from app.cli.environment import read_settings
from app.cli.service import local_service

PATIENCE_VARIABLE = "PURSUIT_PATIENCE"
PATIENCE_SECONDS = 10.0


@contextmanager
def connect(url: str, key: str | None, *, local: bool, data_dir: Path | None, workers: int = 0) -> Iterator[Client]:
    """Open a client of the server at `url`, or of a private one over the data directory; print what goes wrong.

    Without workers nothing is trained, so there have to be data in the directory.
    """
    try:
        if local:
            settings = read_settings(data_dir=data_dir)
            embedded = Path(settings.database.removeprefix("sqlite:///"))
            if not workers and settings.database_url is None and not embedded.exists():
                raise ClientError(
                    f"there is no data in {settings.data_dir} (no {embedded.name}): name the directory with --data-dir "
                    "or PURSUIT_DATA_DIR, or make it by `pursuit train FILE --local`"
                )
            with local_service(settings.data_dir, workers=workers) as client:
                yield client
        else:
            with Client(url, key=key, patience=patience(), tell=_tell) as client:
                yield client
    except ClientError as error:
        raise display.fail(error, hint=not local) from None


def patience() -> float:
    """Return for how many seconds a command asks a server again that is busy or away. ClientError."""
    text = os.environ.get(PATIENCE_VARIABLE, "").strip()
    if not text:
        return PATIENCE_SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0.0 <= seconds < math.inf:
        raise ClientError(f"{PATIENCE_VARIABLE}: expected seconds, 0 or more, got {text!r}")
    return seconds


def _tell(sentence: str) -> None:
    display.errors().print(escape(sentence))
