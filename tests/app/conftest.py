"""A migrated database for each test: SQLite always, PostgreSQL where PURSUIT_TEST_POSTGRES_URL names a server.

The URL's user must be allowed to create databases; each test gets one of its own, dropped at its end. And a bucket for
each test, on one S3 server for all.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.database.engine import Database
from app.storage.bucket import BucketBlobStore
from app.storage.cache import FileCache
from tests.postgres import SERVER_VARIABLE, new_database
from tests.s3 import S3Server, s3_server
from tests.sqlite import make_migrated


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """URL of an empty database of the test's own."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/pursuit.db"
        return
    if SERVER_VARIABLE not in os.environ:
        pytest.skip(f"{SERVER_VARIABLE} is not set: no PostgreSQL server to test on")
    with new_database(os.environ[SERVER_VARIABLE]) as url:
        yield url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A migrated database of the test's own."""
    opened = Database(database_url)
    if opened.path is None:
        opened.migrate()
    else:
        make_migrated(opened.path)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def shared_s3() -> Iterator[S3Server]:
    """One S3 server, for all tests that leave it as it is."""
    with s3_server() as server:
        yield server


@pytest.fixture
def s3(shared_s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The S3 server, with the environment of its clients."""
    for name, value in shared_s3.environment().items():
        monkeypatch.setenv(name, value)
    return shared_s3


@pytest.fixture
def bucket(s3: S3Server, tmp_path: Path) -> BucketBlobStore:
    """A blob store in a bucket of the test's own."""
    return BucketBlobStore(s3.make_bucket(), "some/prefix", FileCache(tmp_path / "cache", 1 << 30))
