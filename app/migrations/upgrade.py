"""Alembic without its command line: the revision of a database, and the upgrade to the newest.

A new revision: change the tables, `alembic revision --autogenerate -m "what changes"` with PURSUIT_DATABASE_URL set
to a migrated database, then read what it wrote. `tests/app/database/test_migrations.py`
compares the tables with the migrations.

A revision must leave the release before it working: during a rolling restart both run. So it only adds; a column that
is no longer used is dropped in a later release.
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
    """Return the revision the database is at, None if it was never migrated."""
    return MigrationContext.configure(connection).get_current_revision()


def is_ahead(connection: Connection) -> bool:
    """True if the database is at a revision that this code does not know: a newer version has migrated it."""
    revision = current(connection)
    return revision is not None and revision not in _known()


@cache
def _known() -> frozenset[str]:
    return frozenset(script.revision for script in scripts().walk_revisions())


@cache
def newest() -> str:
    """Return the newest revision that this code knows."""
    head = scripts().get_current_head()
    if head is None:
        raise RuntimeError("the package holds no migrations: it was built without app/migrations/versions")
    return head


def scripts() -> ScriptDirectory:
    """Return the revisions in the package."""
    return ScriptDirectory.from_config(_config())


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Run the missing migrations on this connection, in its transaction (the caller holds the lock)."""
    config = _config()
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, revision)
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
