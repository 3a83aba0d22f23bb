"""A store that is not the database's is noticed, whoever comes first."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.database import Database
from app.errors import UnavailableError, WrongStoreError
from app.storage.blobs import LocalBlobStore
from app.storage.bucket import BucketBlobStore
from app.storage.pairing import MARKS, check_pairing


def test_another_store_is_refused_and_a_copy_is_not(database: Database, tmp_path: Path) -> None:
    store = LocalBlobStore(tmp_path / "store")
    for _ in range(2):
        check_pairing(database, store)
    assert len(list(store.keys(MARKS))) == 1
    other = LocalBlobStore(tmp_path / "other")
    for _ in range(2):
        with pytest.raises(UnavailableError, match=r"does not belong to the database, whose mark marks/.* not mounted"):
            check_pairing(database, other)
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    check_pairing(database, LocalBlobStore(tmp_path / "copy"))


def test_the_marks_of_other_databases_are_no_marks(database: Database, tmp_path: Path) -> None:
    store = LocalBlobStore(tmp_path / "store")
    with Database(f"sqlite:///{tmp_path}/another.db") as another:
        another.migrate()
        check_pairing(another, LocalBlobStore(tmp_path / "anothers"))
        check_pairing(database, store)
        with pytest.raises(UnavailableError):
            check_pairing(another, store)


def test_what_belongs_to_one_database_is_not_taken_by_another(database: Database, tmp_path: Path) -> None:
    """Nor marked by it: its sweep would remove what the first one lives on."""
    store = LocalBlobStore(tmp_path / "store")
    check_pairing(database, store)
    with Database(f"sqlite:///{tmp_path}/another.db") as another:
        another.migrate()
        for _ in range(2):
            with pytest.raises(WrongStoreError, match=r"belongs to another database, whose mark marks/.* of its own"):
                check_pairing(another, store)
        check_pairing(database, store)
        check_pairing(another, LocalBlobStore(tmp_path / "its-own"))


def test_who_died_between_token_and_mark_is_followed_by_another(database: Database, tmp_path: Path) -> None:
    class Dying(LocalBlobStore):
        def put(self, prefix: str, suffix: str, source: Path | bytes) -> str:
            super().put(prefix, suffix, source)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check_pairing(database, Dying(tmp_path / "store"))
    store = LocalBlobStore(tmp_path / "store")
    check_pairing(database, store)
    assert len(list(store.keys(MARKS))) == 1


def test_many_that_are_first_agree(database: Database, tmp_path: Path) -> None:
    store = LocalBlobStore(tmp_path / "store")
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(check_pairing, database, store) for _ in range(8)]:
            done.result()
    check_pairing(database, store)


def test_a_bucket(database: Database, bucket: BucketBlobStore, tmp_path: Path) -> None:
    check_pairing(database, bucket)
    check_pairing(database, bucket)
    with pytest.raises(UnavailableError):
        check_pairing(database, LocalBlobStore(tmp_path / "store"))
