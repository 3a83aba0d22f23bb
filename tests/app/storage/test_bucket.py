"""The blob store in a bucket: unavailable, damaged, written and swept from two machines at once."""

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import S3Store

from app.errors import ConflictError, InvalidRequestError, NotFoundError, UnavailableError
from app.settings import Settings
from app.storage import bucket as bucket_module
from app.storage.blobs import BlobStore, LocalBlobStore
from app.storage.bucket import BucketBlobStore
from app.storage.cache import FileCache
from app.storage.locations import Locations, open_unchanged
from app.storage.stores import open_address, open_store
from tests.s3 import Relay, S3Server, s3_server

DATA = b"weights" * 1000


@pytest.fixture
def relay(s3: S3Server) -> Iterator[Relay]:
    found = Relay(s3.port)
    yield found
    found.release.set()
    found.close()


def raw(bucket: str) -> S3Store:
    """The bucket's objects as they are."""
    return S3Store(bucket, client_options={"allow_http": True})


def beside(tmp_path: Path, name: str, bucket: str) -> BucketBlobStore:
    """The same bucket as another machine sees it."""
    return BucketBlobStore(bucket, "", FileCache(tmp_path / name, 1 << 30))


def test_the_settings_say_which_store_it_is(s3: S3Server, tmp_path: Path) -> None:
    name = s3.make_bucket()
    store = open_store(Settings(data_dir=tmp_path, artefact_url=f"s3://{name}/a/b"))
    key = store.put("models", ".m", DATA)
    assert obstore.get(raw(name), f"a/b/{key}").bytes().to_bytes() == DATA
    assert isinstance(open_store(Settings(data_dir=tmp_path)), LocalBlobStore)


def test_machines_share_it(s3: S3Server, tmp_path: Path) -> None:
    name = s3.make_bucket()
    here, there = beside(tmp_path, "here", name), beside(tmp_path, "there", name)
    key = here.put("models", ".m", DATA)
    assert there.read(key) == DATA
    assert there.path(key).is_relative_to(tmp_path / "there")
    assert here.delete(key)
    with pytest.raises(NotFoundError):
        there.read(key)
    assert list(here.keys("tmp")) == []


@pytest.mark.slow
def test_a_file_of_many_parts_goes_through_little_memory(s3: S3Server, tmp_path: Path) -> None:
    source = tmp_path / "source"
    digest = hashlib.sha256()
    with source.open("wb") as stream:
        for _ in range(20):
            part = os.urandom(bucket_module.PART_BYTES)
            digest.update(part)
            stream.write(part)
        stream.write(b"the end")
        digest.update(b"the end")
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from app.settings import Settings; from app.storage.stores import open_store\n"
        "store = open_store(Settings(data_dir=Path(sys.argv[1]), artefact_url=sys.argv[2]))\n"
        "store.check()\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "key = store.put('tables', '.parquet', Path(sys.argv[3]))\n"
        "assert store.path(key).stat().st_size == Path(sys.argv[3]).stat().st_size\n"
        "print(key, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path), f"s3://{s3.make_bucket()}", str(source)]
    key, grown = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
    assert key == f"tables/{digest.hexdigest()}.parquet"
    assert int(grown) < 8 * bucket_module.PART_BYTES, "and not 20, which is what it holds"


def test_damage_is_noticed_and_mended(s3: S3Server, tmp_path: Path) -> None:
    name = s3.make_bucket()
    store = beside(tmp_path, "cache", name)
    key = store.put("models", ".m", DATA)
    obstore.put(raw(name), key, b"W" + DATA[1:])
    for ask in (store.read, store.path, store.open):
        with pytest.raises(UnavailableError, match="damaged"):
            ask(key)
    store.put("models", ".m", DATA)
    assert store.read(key) == store.path(key).read_bytes() == DATA


def test_what_is_put_while_a_sweep_is_about_to_remove_it_stays(s3: S3Server, relay: Relay, tmp_path: Path) -> None:
    """The deletion of an old blob is on its way when the same bytes are put again; it arrives after them."""
    name = s3.make_bucket()
    writer = beside(tmp_path, "writer", name)
    key = writer.put("models", ".m", DATA)
    os.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{relay.port}"  # the fixture puts it back
    sweeper = beside(tmp_path, "sweeper", name)
    relay.held = f"POST /{name}?delete".encode()
    sweeping = threading.Thread(target=sweeper.delete, args=(key,))
    sweeping.start()
    assert relay.waiting.wait(30.0)
    writing = threading.Thread(target=writer.put, args=("models", ".m", DATA))
    writing.start()
    writing.join(1.0)
    assert writing.is_alive(), "it waits for the deletion that it saw"
    relay.release.set()
    sweeping.join(30.0)
    writing.join(30.0)
    assert writer.read(key) == DATA


def test_a_sweep_that_died_delays_writers_for_a_while_only(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_module, "DELETION_MARKER_SECONDS", 1.0)
    name = s3.make_bucket()
    store = beside(tmp_path, "cache", name)
    key = store.put("models", ".m", DATA)
    obstore.put(raw(name), f"tmp/{key}/0123", b"")
    assert store.put("models", ".m", DATA) == key
    assert list(obstore.list(raw(name), "tmp")) == []


def test_markers_are_cleaned_when_old(s3: S3Server, tmp_path: Path) -> None:
    name = s3.make_bucket()
    store = beside(tmp_path, "cache", name)
    obstore.put(raw(name), f"tmp/models/{'a' * 64}/0123", b"")
    assert store.clean(older_than=600) == 0
    assert store.clean(older_than=0) == 1
    store.check()
    assert store.clean(older_than=0) == 0  # the object of `check` stays


def calls(store: BlobStore, key: str) -> dict[str, Callable[[], object]]:
    """Return all methods of a store, ready to be called."""
    return {
        "put": lambda: store.put("models", ".m", DATA),
        "read": lambda: store.read(key),
        "open": lambda: store.open(key),
        "path": lambda: store.path(key),
        "keys": lambda: list(store.keys("models")),
        "delete": lambda: store.delete(key),
        "clean": lambda: store.clean(older_than=0),
        "check": store.check,
    }


def test_folders_that_are_named_by_values_are_of_a_location(s3: S3Server) -> None:
    """And no others, however deep; a name that a URL would change is refused, not left out."""
    bucket = s3.make_bucket()
    for key in ("a.parquet", "day=2/b.parquet", "day=10/hour=1/c.parquet", "plain/d.parquet", "day=1/plain/e.parquet"):
        s3.put(bucket, f"rows/{key}", b"xy")
    s3.put(bucket, "rows-not/day=1/f.parquet", b"x")
    locations = Locations([f"s3://{bucket}/rows"])
    found = locations.files(f"s3://{bucket}/rows/")
    assert [(file.address.removeprefix(f"s3://{bucket}/"), file.name, file.partition) for file in found] == [
        ("rows/a.parquet", "a.parquet", ()),
        ("rows/day=10/hour=1/c.parquet", "day=10/hour=1/c.parquet", (("day", "10"), ("hour", "1"))),
        ("rows/day=2/b.parquet", "day=2/b.parquet", (("day", "2"),)),
    ]
    assert [file.partition for file in locations.files(f"s3://{bucket}/rows/day=10")] == [(("hour", "1"),)]
    with open_unchanged(found[2]) as file:
        assert file.read() == b"xy"
    for name, told in (("day=1", "column=value are left out"), ("a.parquet", "name its folder"), ("none", "value")):
        with pytest.raises(InvalidRequestError, match=rf"no Parquet files .*{told}$"):
            locations.files(f"s3://{bucket}/rows/{name}")
    s3.put(bucket, "rows/day=a@b/g.parquet", b"x")
    with pytest.raises(InvalidRequestError, match="'rows/day=a@b/g"):
        locations.files(f"s3://{bucket}/rows")


@pytest.mark.usefixtures("s3")
def test_a_bucket_that_is_not_there(tmp_path: Path) -> None:
    store = beside(tmp_path, "cache", "no-such-bucket")
    for name in ("put", "keys", "delete", "clean", "check"):
        with pytest.raises(UnavailableError, match="in the store"):
            calls(store, f"models/{'a' * 64}.m")[name]()


def test_a_server_that_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        bucket = server.make_bucket()
        store = beside(tmp_path, "cache", bucket)
        key = store.put("models", ".m", DATA)
        cached = store.put("tables", ".t", DATA)
        assert store.path(cached).read_bytes() == DATA
    for ask in calls(store, key).values():
        with pytest.raises(UnavailableError, match="the bucket does not answer"):
            ask()
    assert store.path(cached).read_bytes() == DATA, "it is in the cache"


@pytest.mark.slow
def test_a_server_that_accepts_connections_and_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call ends by its time-out, and the store works again once the server answers."""
    with s3_server() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        store = beside(tmp_path, "cache", server.make_bucket())
        key = store.put("models", ".m", DATA)
        server.freeze()
        with ThreadPoolExecutor() as threads:  # at once: each waits for as long as it may
            asked = [threads.submit(ask) for ask in calls(store, key).values()]
        errors = [future.exception() for future in asked]
        for error in errors:
            assert isinstance(error, UnavailableError)
            assert "the bucket does not answer" in str(error)
        server.thaw()
        assert store.read(key) == DATA
        store.check()


@pytest.mark.parametrize("address", ["127.0.0.1:9000", "localhost:9000", "minio"])
def test_an_endpoint_without_a_scheme_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, address: str
) -> None:
    """The library panics at the first request to it."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", address)
    with pytest.raises(ValueError, match=r"AWS_ENDPOINT_URL: expected http://"):
        open_store(Settings(data_dir=tmp_path, artefact_url="s3://bucket"))


def test_a_table_is_read_by_ranges_and_not_whole(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its address, on a machine that has no copy: two of the twenty row groups of a file of 6 MB."""
    store = beside(tmp_path, "here", s3.make_bucket())
    numbers = np.random.default_rng(0).integers(0, 2**62, 800_000)
    file = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": numbers}), file, row_group_size=40_000, compression="none", use_dictionary=False)
    key = store.put("tables", ".parquet", file)
    fetched, get_range = list[int](), obstore.get_range

    def counting(place: S3Store, path: str, *, start: int, length: int) -> object:
        fetched.append(length)
        return get_range(place, path, start=start, length=length)

    monkeypatch.setattr(obstore, "get_range", counting)
    with open_address(store.address(key)) as there:
        found = pq.ParquetFile(there).read_row_groups([3, 17])
    assert found.column("a").to_pylist() == [*numbers[120_000:160_000], *numbers[680_000:720_000]]
    assert sum(fetched) < 1_000_000 < file.stat().st_size / 6
    assert not (tmp_path / "here").exists()


def test_a_file_that_changes_while_it_is_read_is_refused(s3: S3Server) -> None:
    """Also where it keeps its size: parts of two files are no file."""
    bucket = s3.make_bucket()
    store = raw(bucket)
    obstore.put(store, "rows/a.parquet", b"1" * 300_000)
    file = Locations([f"s3://{bucket}/rows"]).files(f"s3://{bucket}/rows")[0]
    with open_unchanged(file) as opened:
        assert opened.read(10) == b"1" * 10
        obstore.put(store, "rows/a.parquet", b"2" * 300_000)
        with pytest.raises(ConflictError, match=r"'a\.parquet' of the dataset's location has changed"):
            opened.read(200_000)
    with pytest.raises(ConflictError, match="has changed"):
        open_unchanged(file)
    obstore.delete(store, "rows/a.parquet")
    with pytest.raises(ConflictError, match="not there any more"):
        open_unchanged(file)


def test_an_address_that_leads_nowhere(s3: S3Server, tmp_path: Path) -> None:
    store = beside(tmp_path, "here", s3.make_bucket())
    key = store.put("tables", ".parquet", b"something")
    with open_address(store.address(key)) as file:
        assert file.read() == b"something"
        file.seek(-5, os.SEEK_END)
        assert (file.tell(), file.read(2), file.read(), file.read()) == (4, b"th", b"ing", b"")
    assert store.delete(key)
    with pytest.raises(NotFoundError, match="the store has no"):
        open_address(store.address(key))
    with pytest.raises(NotFoundError, match="does not see"):
        open_address(str(tmp_path / "absent"))
    local = LocalBlobStore(tmp_path / "folder")
    with open_address(local.address(local.put("tables", ".parquet", DATA))) as file:
        assert file.read() == DATA
