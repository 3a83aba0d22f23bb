"""The server that a command asks: one that runs, or a private one over the data directory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.cli import display
from app.cli.client import Client, ClientError
from app.cli.environment import read_settings
from app.cli.service import local_service


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
            with Client(url, key=key) as client:
                yield client
    except ClientError as error:
        raise display.fail(error, hint=not local) from None
