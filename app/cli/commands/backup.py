"""`pursuit backup` and `pursuit restore`: an SQLite database with the files of its store, copied while all runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.client_errors import ClientError, FaultsError
from app.cli.environment import read_settings
from app.cli.options import AsJson, DataDir
from app.cli.output import note, print_json

if TYPE_CHECKING:
    from app.services.backup import Backup
    from app.settings import Settings
    from app.storage.blobs import BlobStore

TOLD_FILES = 20
"""Missing files that are named."""


def backup(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="A new folder, or that of an earlier backup, which gets what is new."),
    ],
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Back up the SQLite database and the files it refers to, while the service runs: models, datasets, keys, jobs,
    feedback. Exit code 1 where files are missing, fits apart, which are made again; the rest is backed up. PostgreSQL:
    see deploy/README.md."""
    settings = read_settings(data_dir=data_dir)
    with _sqlite(settings) as (path, blobs):
        if not path.exists():
            raise ClientError(f"there is no database at {path}")
        from app.database.engine import Database
        from app.services.backup import back_up

        with Database(settings.database) as database:
            made = back_up(database, blobs, folder)
    _tell(made, folder, f"backed up to {folder}", as_json, of="the store")


def restore(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder that `pursuit backup` wrote.")],
    check: Annotated[bool, typer.Option("--check", help="Read all of the backup, and restore nothing.")] = False,
    leave_out_damaged: Annotated[
        bool,
        typer.Option("--leave-out-damaged", help="Restore the rest where files of the backup are lost or damaged."),
    ] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Restore a backup where there is no database: files first, then the database, all checked against their sums.
    Exit code 1 where files are missing, which the store had lost before the backup or --leave-out-damaged left out; the
    rest is restored. Start the service then; jobs that ran are run again."""
    settings = read_settings(data_dir=data_dir)
    with _sqlite(settings) as (path, blobs):
        from app.services import backup as backups

        if check:
            made, _ = backups.check_backup(folder, leave_out_damaged=leave_out_damaged)
        else:
            made = backups.restore(folder, blobs, path, leave_out_damaged=leave_out_damaged)
    done = f"restored to {path}" if not check else "the rest is whole" if made.missing else "whole"
    _tell(made, folder, done, as_json, of="the backup")


@contextmanager
def _sqlite(settings: "Settings") -> Iterator[tuple[Path, "BlobStore"]]:
    """Open the store and yield it with the path of the database; print what goes wrong and end with code 1."""
    from app.database.engine import Database
    from app.errors import PursuitError
    from app.posix import make_files_private
    from app.storage.stores import open_store

    make_files_private()
    path = None
    try:
        if settings.database.startswith("sqlite"):  # another one's driver need not be there
            path = Database(settings.database).path
        store = open_store(settings)
    except (ImportError, ValueError) as error:
        raise ClientError(str(error)) from None
    if path is None:
        raise ClientError(
            "the database is PostgreSQL, which this does not copy: pg_dump and pg_restore with a copy of the store, in "
            "the order of deploy/README.md"
        )
    try:
        yield path, store
    except PursuitError as error:
        raise FaultsError(error.message, [asdict(fault) for fault in error.faults], error.total) from None


def _tell(made: "Backup", folder: Path, done: str, as_json: bool, *, of: str) -> None:
    """Print what was copied and what was missing in its source; end with code 1 where nothing makes that again."""
    from app.services.stored_files import files_in_words

    if as_json:
        print_json({"folder": str(folder), **made.to_json()})
    else:
        size = (made.size_bytes + made.database_bytes) / 1e6
        lost = made.lost
        missing = f"; {files_in_words(len(lost), verb=True)} missing" if lost else ""
        files = files_in_words(made.files)
        typer.echo(f"{done}: the database of {made.created_at} and {files}, {size:.1f} MB{missing}")
        for key, owner in list(lost.items())[:TOLD_FILES]:
            note(f"{of} did not have {owner} whole ({key})")
        for key, owner in [item for item in made.missing.items() if item[0] not in lost][:TOLD_FILES]:
            note(f"{of} did not have the fit of {owner} whole ({key}), which is made again when it is needed")
    if made.lost:
        raise typer.Exit(1)
