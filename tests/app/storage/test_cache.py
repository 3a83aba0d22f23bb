"""Files of a bucket on the local disk: whole, what their key says, and not more of them than asked for."""

import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.errors import UnavailableError
from app.storage.cache import CACHE_IN_USE_SECONDS, FileCache


def key_of(data: bytes) -> str:
    return f"tables/{hashlib.sha256(data).hexdigest()}.parquet"


def nothing() -> Iterator[bytes]:
    raise AssertionError("it was fetched again")
    yield b""


def set_last_use(path: Path, seconds: float) -> None:
    """Set back the time of its last use."""
    then = time.time() - seconds
    os.utime(path, (then, then))


def get(cache: FileCache, data: bytes) -> Path:
    return cache.get(key_of(data), lambda: iter([data[:3], data[3:]]))


def test_it_is_fetched_once(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, 100)
    path = get(cache, b"0123456789")
    assert path.read_bytes() == b"0123456789"
    assert cache.get(key_of(b"0123456789"), nothing) == path
    cache.drop(key_of(b"0123456789"))
    assert not path.exists()
    cache.drop(key_of(b"0123456789"))
    assert list((tmp_path / "tmp").iterdir()) == []


def test_the_least_recently_used_file_goes_first(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, 25)
    first, second = get(cache, b"first....."), get(cache, b"second....")
    set_last_use(first, 2 * CACHE_IN_USE_SECONDS)
    set_last_use(second, 3 * CACHE_IN_USE_SECONDS)
    assert cache.get(key_of(b"second...."), nothing) == second, "used just now"
    third = get(cache, b"third.....")
    assert (first.exists(), second.exists(), third.exists()) == (False, True, True)


def test_files_in_use_stay(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, 5)
    paths = [get(cache, data) for data in (b"first.....", b"second....")]
    assert all(path.exists() for path in paths), "each is larger than the cache, and new"
    for path in paths:
        set_last_use(path, 2 * CACHE_IN_USE_SECONDS)
    get(cache, b"third.....")
    assert not any(path.exists() for path in paths)


def test_a_damaged_copy_is_fetched_again(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, 100)
    path = get(cache, b"0123456789")
    path.write_bytes(b"012345678X")
    assert get(cache, b"0123456789").read_bytes() == b"0123456789"


def test_bytes_must_match_the_key(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, 100)
    with pytest.raises(UnavailableError, match="damaged"):
        cache.get(key_of(b"this"), lambda: iter([b"that"]))
    assert not list(tmp_path.glob("tables/*"))
    assert list((tmp_path / "tmp").iterdir()) == []


def test_files_of_dead_writers_are_removed(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, 100)
    get(cache, b"0123456789")
    (tmp_path / "tmp" / "half").write_bytes(b"0123")
    assert cache.clean(older_than=100) == 0
    set_last_use(tmp_path / "tmp" / "half", 200)
    assert cache.clean(older_than=100) == 1


def test_a_disk_that_refuses(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(UnavailableError, match="disk cannot be written"):
        get(FileCache(tmp_path / "cache", 100), b"0123456789")
