"""A migrated database for each test: SQLite always, PostgreSQL where PURSUIT_TEST_POSTGRES_URL names a server.

The URL's user must be allowed to create databases; each test gets one of its own, dropped at its end. And a bucket for
each test, on one S3 server for all.
"""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from app.database import Database
from app.storage.bucket import BucketBlobStore
from app.storage.cache import FileCache
from tests.s3 import S3Server, s3_server

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


@pytest.fixture(scope="session")
def shared_s3() -> Iterator[S3Server]:
    """One S3 server, for all who leave it as it is."""
    with s3_server() as server:
        yield server


@pytest.fixture
def s3(shared_s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The same, with an environment that leads to it."""
    for name, value in shared_s3.environment().items():
        monkeypatch.setenv(name, value)
    return shared_s3


@pytest.fixture
def bucket(s3: S3Server, tmp_path: Path) -> BucketBlobStore:
    """A blob store in a bucket of the test's own."""
    return BucketBlobStore(s3.make_bucket(), "some/prefix", FileCache(tmp_path / "cache", 1 << 30))
