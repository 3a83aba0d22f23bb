"""A migrated database for each test: SQLite always, PostgreSQL where PURSUIT_TEST_POSTGRES_URL names a server.

The URL's user must be allowed to create databases; each test gets one of its own, dropped at its end.
"""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from app.database import Database

POSTGRES = "PURSUIT_TEST_POSTGRES_URL"


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database of the test's own, still empty."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/pursuit.db"
        return
    if POSTGRES not in os.environ:
        pytest.skip(f"{POSTGRES} is not set: no PostgreSQL server to test on")
    server = make_url(os.environ[POSTGRES]).set(drivername="postgresql+psycopg")
    name = f"pursuit_test_{secrets.token_hex(6)}"
    admin = create_engine(server, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    try:
        yield server.set(drivername="postgresql", database=name).render_as_string(hide_password=False)
    finally:
        with admin.connect() as connection:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
        admin.dispose()


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A migrated database of the test's own."""
    opened = Database(database_url)
    opened.migrate()
    yield opened
    opened.close()
