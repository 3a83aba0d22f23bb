"""Alembic without its command line: which revision a database is at, and how to bring it to the newest.

A new revision: change the tables, `alembic revision --autogenerate -m "what changes"` with PURSUIT_DATABASE_URL set
to a migrated database, then read what it wrote. `tests/app/test_database.py` compares the tables with the
migrations.

A revision must leave the version before it working: while an upgrade goes from process to process both run. So it adds;
what nobody needs any more goes in a later release.
"""

from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection

from app.errors import UnavailableError


def current(connection: Connection) -> str | None:
    """The revision the database is at, None if it was never migrated."""
    return MigrationContext.configure(connection).get_current_revision()


def is_ahead(connection: Connection) -> bool:
    """True if the database is at a revision that this code does not know: a newer version has migrated it."""
    revision = current(connection)
    return revision is not None and revision not in _known()


@cache
def _known() -> frozenset[str]:
    return frozenset(script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions())


@cache
def newest() -> str:
    """The newest revision that this code knows."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    if head is None:
        raise RuntimeError("the package holds no migrations: it was built without app/migrations/versions")
    return head


def upgrade(connection: Connection) -> None:
    """Run the missing migrations on this connection, in its transaction (the caller holds the lock)."""
    config = _config()
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise UnavailableError(
            f"the database is at revision {current(connection)!r}, which this version of Pursuit does not know; "
            "it was probably migrated by a newer one"
        ) from error


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
