"""The blob store in a folder and in a bucket: content under its hash, whole or not at all, swept only when old and
unreferenced. What only a disk can do to it is at the end; what only a bucket can, in `test_bucket`.
"""

import errno
import hashlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.errors import NotFoundError, UnavailableError
from app.storage.blobs import BlobStore, LocalBlobStore, sweep

DATA = b"weights" * 1000


OLD = 1.0
"""Seconds after which these tests take a blob for old."""


@pytest.fixture(params=["folder", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    if request.param == "folder":
        return LocalBlobStore(tmp_path / "blobs")
    bucket: BlobStore = request.getfixturevalue("bucket")
    return bucket


@pytest.fixture
def local(tmp_path: Path) -> LocalBlobStore:
    return LocalBlobStore(tmp_path / "blobs")


def age(store: BlobStore, *keys: str) -> None:
    """Make them old: in a folder by its clock, in a bucket by waiting."""
    if not isinstance(store, LocalBlobStore):
        time.sleep(OLD + 1.1)  # its clock counts whole seconds
        return
    then = time.time() - OLD - 2.0
    for key in keys:
        os.utime(store.path(key), (then, then))


def leftovers(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "blobs" / "tmp").glob("*"))


def test_bytes_and_files_go_under_their_hash(store: BlobStore, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(DATA)
    key = store.put("models", ".safetensors", DATA)
    assert key == f"models/{hashlib.sha256(DATA).hexdigest()}.safetensors"
    assert store.put("models", ".safetensors", source) == key
    assert store.read(key) == store.path(key).read_bytes() == DATA
    with store.open(key) as stream:
        assert stream.read(7) == b"weights"
    assert source.read_bytes() == DATA, "the caller's file is the caller's"
    assert [(blob.key, blob.size) for blob in store.keys("models")] == [(key, len(DATA))]
    assert list(store.keys("elsewhere")) == []
    assert leftovers(tmp_path) == []


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=100), many=st.booleans())
def test_any_bytes_come_back(store: BlobStore, data: bytes, many: bool) -> None:
    whole = data * 30_000 if many else data  # more than one chunk
    assert store.read(store.put("data", ".arrow", whole)) == whole


@pytest.mark.parametrize(
    "key",
    [
        "models/../../etc/passwd",
        "../" + "a" * 64,
        "/etc/passwd",
        "models/" + "a" * 63,
        "models/" + "A" * 64,
        "models/" + "a" * 64 + "/x",
        "models/" + "a" * 64 + ".\n",
        "",
        "\0",
    ],
)
def test_only_keys_are_keys(store: BlobStore, key: str) -> None:
    for ask in (store.read, store.open, store.path, store.delete):
        with pytest.raises(NotFoundError):
            ask(key)


def test_a_bad_prefix_writes_nothing(store: BlobStore, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        store.put("../outside", ".x", DATA)
    assert not (tmp_path / "outside").exists()
    assert leftovers(tmp_path) == []


def test_missing_and_deleted(store: BlobStore) -> None:
    key = store.put("models", "", DATA)
    assert store.delete(key)
    assert not store.delete(key)
    for ask in (store.read, store.open, store.path):
        with pytest.raises(NotFoundError, match="has no models/"):
            ask(key)


def test_a_source_that_is_not_there(store: BlobStore, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        store.put("models", "", tmp_path / "nothing")
    assert leftovers(tmp_path) == []


def test_sweep_removes_old_unreferenced_blobs(store: BlobStore) -> None:
    kept, old, other = (store.put("models", ".m", name) for name in (b"kept", b"old", b"other"))
    elsewhere = store.put("data", ".d", b"old")
    age(store, kept, old, other, elsewhere)
    young = store.put("models", ".m", b"young")
    assert sorted(sweep(store, "models", lambda _: {kept}, older_than=OLD)) == sorted([old, other])
    assert sorted(blob.key for blob in store.keys("models")) == sorted([kept, young])
    assert store.read(elsewhere) == b"old"
    assert sweep(store, "models", lambda _: pytest.fail("asked"), older_than=5000) == [], (
        "nothing is old, so nobody is asked"
    )


def test_a_blob_put_again_during_a_sweep_stays(store: BlobStore, tmp_path: Path) -> None:
    key = store.put("models", ".m", DATA)
    age(store, key)

    def referenced(_: list[str]) -> set[str]:
        store.put("models", ".m", DATA)  # the same model, trained again just now
        return set()

    assert sweep(store, "models", referenced, older_than=OLD) == []
    assert store.read(key) == DATA
    assert leftovers(tmp_path) == []


def test_young_blobs_are_not_deleted(store: BlobStore) -> None:
    key = store.put("models", ".m", DATA)
    age(store, key)
    (blob,) = store.keys("models")
    assert OLD < blob.age < 600
    assert not store.delete(key, older_than=600)
    assert store.delete(key, older_than=OLD)


def test_files_of_dead_writers_are_swept(local: LocalBlobStore, tmp_path: Path) -> None:
    key = local.put("models", ".m", DATA)
    dead = tmp_path / "blobs" / "tmp" / "half"
    dead.write_bytes(b"x")
    os.utime(dead, (0, 0))
    (tmp_path / "blobs" / "models" / "README").write_text("not ours")
    assert sweep(local, "models", set, older_than=500) == []
    assert [blob.key for blob in local.keys("models")] == [key]
    assert leftovers(tmp_path) == []


def test_damage_is_noticed(local: LocalBlobStore) -> None:
    key = local.put("models", ".safetensors", DATA)
    with local.path(key).open("r+b") as stream:
        stream.write(b"W")
    with pytest.raises(UnavailableError, match="damaged"):
        local.read(key)
    local.put("models", ".safetensors", DATA)
    assert local.read(key) == DATA, "putting it again mends it"


@pytest.mark.parametrize(
    ("number", "message"),
    [(errno.ENOSPC, "no space is left"), (errno.EDQUOT, "no space is left"), (errno.EIO, "error")],
)
def test_a_full_disk_leaves_nothing_behind(
    local: LocalBlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, message: str
) -> None:
    kept = local.put("models", ".a", b"kept")

    def fail(_descriptor: int, _data: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(UnavailableError, match=message):
        local.put("models", ".a", DATA)
    with pytest.raises(UnavailableError, match=message):
        local.check()
    monkeypatch.undo()
    assert [blob.key for blob in local.keys("models")] == [kept]
    assert leftovers(tmp_path) == []


def test_a_write_that_the_kernel_cuts_short(tmp_path: Path) -> None:
    """A limit on the size of files: 1,000 bytes are taken, then the kernel itself refuses."""
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from app.errors import UnavailableError; from app.storage.blobs import LocalBlobStore\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "store = LocalBlobStore(Path(sys.argv[1]))\n"
        "try:\n    store.put('models', '.a', b'x' * 5000)\n"
        "except UnavailableError as error:\n    print(error)\n"
    )
    answer = subprocess.run([sys.executable, "-c", code, str(tmp_path / "blobs")], capture_output=True, check=True)
    assert answer.stdout.startswith(b"nothing can be written in the store: File too large")
    assert leftovers(tmp_path) == []


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("a file")
    for refused in (
        LocalBlobStore(tmp_path / "blobs").check,
        lambda: LocalBlobStore(tmp_path / "blobs").put("a", "", b""),
    ):
        with pytest.raises(UnavailableError, match="nothing can be written"):
            refused()


def test_writers_of_the_same_bytes_do_not_disturb_each_other(local: LocalBlobStore, tmp_path: Path) -> None:
    # the S3 server of the tests breaks when one key is written and read at once
    data = os.urandom(3 << 20)
    keys: list[str] = []
    broken: list[object] = []
    done = threading.Event()
    first = local.put("models", ".b", data)

    def read() -> None:
        while not done.is_set():
            if len(local.read(first)) != len(data):
                broken.append(1)

    def write() -> None:
        keys.extend(local.put("models", ".b", data) for _ in range(5))

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write) for _ in range(4)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert (set(keys), len(keys), broken) == ({first}, 20, [])
    assert leftovers(tmp_path) == []
