"""A store that is not the database's is noticed, whichever process comes first."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.database.engine import Database
from app.errors import UnavailableError, WrongStoreError
from app.storage.blobs import LocalBlobStore
from app.storage.bucket import BucketBlobStore
from app.storage.store_identity import IDENTITY_PREFIX, check_store_identity


def test_another_store_is_refused_and_a_copy_is_not(database: Database, tmp_path: Path) -> None:
    store = LocalBlobStore(tmp_path / "store")
    for _ in range(2):
        check_store_identity(database, store)
    assert len(list(store.keys(IDENTITY_PREFIX))) == 1
    other = LocalBlobStore(tmp_path / "other")
    for _ in range(2):
        with pytest.raises(UnavailableError, match=r"not belong to the database, whose identity marks/.* not mounted"):
            check_store_identity(database, other)
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    check_store_identity(database, LocalBlobStore(tmp_path / "copy"))


def test_identities_of_other_databases_do_not_count(database: Database, tmp_path: Path) -> None:
    store = LocalBlobStore(tmp_path / "store")
    with Database(f"sqlite:///{tmp_path}/another.db") as another:
        another.migrate()
        check_store_identity(another, LocalBlobStore(tmp_path / "anothers"))
        check_store_identity(database, store)
        with pytest.raises(UnavailableError):
            check_store_identity(another, store)


def test_what_belongs_to_one_database_is_not_taken_by_another(database: Database, tmp_path: Path) -> None:
    """Its sweep would remove what the first one refers to."""
    store = LocalBlobStore(tmp_path / "store")
    check_store_identity(database, store)
    with Database(f"sqlite:///{tmp_path}/another.db") as another:
        another.migrate()
        for _ in range(2):
            with pytest.raises(WrongStoreError, match=r"to another database, whose identity marks/.* of its own"):
                check_store_identity(another, store)
        check_store_identity(database, store)
        check_store_identity(another, LocalBlobStore(tmp_path / "its-own"))


def test_a_process_that_died_half_way_is_followed_by_another(database: Database, tmp_path: Path) -> None:
    class Dying(LocalBlobStore):
        def put(self, prefix: str, suffix: str, source: Path | bytes) -> str:
            super().put(prefix, suffix, source)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check_store_identity(database, Dying(tmp_path / "store"))
    store = LocalBlobStore(tmp_path / "store")
    check_store_identity(database, store)
    assert len(list(store.keys(IDENTITY_PREFIX))) == 1


def test_processes_that_are_first_at_once_agree(database: Database, tmp_path: Path) -> None:
    store = LocalBlobStore(tmp_path / "store")
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(check_store_identity, database, store) for _ in range(8)]:
            done.result()
    assert len(list(store.keys(IDENTITY_PREFIX))) == 1
    check_store_identity(database, store)


def test_a_bucket(database: Database, bucket: BucketBlobStore, tmp_path: Path) -> None:
    check_store_identity(database, bucket)
    check_store_identity(database, bucket)
    with pytest.raises(UnavailableError):
        check_store_identity(database, LocalBlobStore(tmp_path / "store"))
