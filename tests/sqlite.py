"""Migrated SQLite files, by copies of one: the migrations take longer than most tests."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from app.database.engine import Database


def make_migrated(path: Path) -> None:
    """Make an empty database at its newest revision, as `Database.migrate` does, and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_migrated())


@cache
def _migrated() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "pursuit.db"
        with Database(f"sqlite:///{path}") as database:
            database.migrate()
        return path.read_bytes()
