"""app/compute/folder.py: arrays by content, whole or not at all."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from app.compute.folder import DamagedShardError, ShardFolder
from app.errors import UnavailableError


def test_an_array_comes_back_to_the_bit_and_is_written_once(tmp_path: Path) -> None:
    folder = ShardFolder(tmp_path / "made" / "here")
    table = np.random.default_rng(0).standard_normal((50, 3))
    name = folder.put(table)
    written = (tmp_path / "made" / "here" / name).stat().st_ino
    assert folder.put(table.copy()) == name
    assert (tmp_path / "made" / "here" / name).stat().st_ino == written
    assert folder.put(table + 1.0) != name
    np.testing.assert_array_equal(folder.read(name), table)
    assert folder.read(folder.put(np.array([True, False]))).dtype == np.bool_


def test_a_missing_or_damaged_file_is_refused(tmp_path: Path) -> None:
    folder = ShardFolder(tmp_path)
    name = folder.put(np.arange(5.0))
    (tmp_path / name).write_bytes(b"\x93NUMPY")
    with pytest.raises(DamagedShardError, match=name):
        folder.read(name)
    assert folder.put(np.arange(5.0)) == name  # it is not of the right length: written again
    np.testing.assert_array_equal(folder.read(name), np.arange(5.0))
    spoilt = bytearray((tmp_path / name).read_bytes())
    spoilt[-1] ^= 1
    (tmp_path / name).write_bytes(spoilt)
    folder.put(np.arange(5.0), rewrite=True)
    np.testing.assert_array_equal(folder.read(name), np.arange(5.0))
    (tmp_path / name).unlink()
    with pytest.raises(FileNotFoundError):
        folder.read(name)


def test_an_array_of_objects_is_neither_written_nor_read(tmp_path: Path) -> None:
    """They would be pickles."""
    with pytest.raises(ValueError, match="pickle"):
        ShardFolder(tmp_path).put(np.array([{}], object))
    assert list(tmp_path.iterdir()) == []


def test_old_files_go_and_kept_ones_stay(tmp_path: Path) -> None:
    folder = ShardFolder(tmp_path)
    assert ShardFolder(tmp_path / "nothing").sweep() == 0
    old, kept = folder.put(np.arange(1.0)), folder.put(np.arange(2.0))
    for name in (old, kept):
        os.utime(tmp_path / name, (time.time() - 100, time.time() - 100))
    assert folder.touch([kept])
    assert not folder.touch(["0" * 64 + ".npy", kept])
    assert folder.sweep(older_than=50) == 1
    assert [file.name for file in tmp_path.iterdir()] == [kept]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        UnavailableError, match=r"the folder of the shards \(PURSUIT_SHARD_DIR, here .*\) cannot be written"
    ):
        ShardFolder(tmp_path / "file" / "shards").put(np.arange(3.0))
