"""The script that Alembic runs: on the connection of `upgrade`, or on PURSUIT_DATABASE_URL from its command line."""

import os

from alembic import context
from sqlalchemy import Connection

from app.database.engine import Database
from app.database.tables import metadata


def _run(connection: Connection) -> None:
    context.configure(connection=connection, target_metadata=metadata, transactional_ddl=True)
    with context.begin_transaction():
        context.run_migrations()


given: Connection | None = context.config.attributes.get("connection")
if given is not None:
    _run(given)
else:
    with Database(os.environ["PURSUIT_DATABASE_URL"]).write() as opened:
        _run(opened)
