"""What Alembic runs: on the connection `upgrade` hands over, or on PURSUIT_DATABASE_URL when called by its command
line.
"""

import os

from alembic import context
from sqlalchemy import Connection

import app.jobs.queue
import app.jobs.roster
import app.storage.catalog
import app.storage.datasets
import app.storage.pairing  # noqa: F401  these imports fill `metadata` with their tables
from app.database import Database, metadata


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
