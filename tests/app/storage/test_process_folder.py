"""Folders of processes that were killed go when the next process starts; those of running ones stay."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.storage.process_folder import ProcessFolder

HOLDER = """
import sys, time
from pathlib import Path
from app.storage.process_folder import ProcessFolder
made = ProcessFolder(Path(sys.argv[1]))
made.open()
(made.path / "upload").write_bytes(b"half a table")
print(made.path, flush=True)
time.sleep(600)
"""


@contextmanager
def holders(place: Path, count: int) -> Iterator[list[tuple[subprocess.Popen[str], Path]]]:
    """Processes that start at the same time, each with its folder."""
    started = [
        subprocess.Popen([sys.executable, "-c", HOLDER, str(place)], stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    try:
        yield [(process, Path(process.stdout.readline().strip())) for process in started if process.stdout is not None]
    finally:
        for process in started:
            process.kill()
            process.communicate()


def folders(place: Path) -> set[Path]:
    return {path for path in place.iterdir() if path.is_dir()}


def test_a_folder_is_there_from_open_to_close(tmp_path: Path) -> None:
    place = tmp_path / "data" / "uploads"
    own = ProcessFolder(place)
    own.open()
    (own.path / "folder").mkdir()
    (own.path / "folder" / "file").write_bytes(b"x")
    own.close()
    own.close()
    assert folders(place) == set()
    assert list(place.glob("*.lock")) == []
    own.open()
    assert folders(place) == {own.path}
    own.close()


def test_running_processes_keep_their_folders_and_dead_ones_do_not(tmp_path: Path) -> None:
    with holders(tmp_path, 4) as found:
        assert folders(tmp_path) == {path for _, path in found}
        assert all((path / "upload").exists() for _, path in found), "they started together, and none removed another's"
        for process, _ in found[:2]:
            process.kill()
            process.wait()
        own = ProcessFolder(tmp_path)
        own.open()
        assert folders(tmp_path) == {own.path, *(path for _, path in found[2:])}
        assert len(list(tmp_path.glob("*.lock"))) == 3
        own.close()


def test_files_of_an_older_release_go_after_a_day(tmp_path: Path) -> None:
    """It had no folders of its own, and may be running beside this one during an upgrade."""
    young, old, folder = tmp_path / "upload-1.part", tmp_path / "upload-2.part", tmp_path / "tmpabc"
    folder.mkdir()
    for path in (young, old):
        path.write_bytes(b"a,b\n")
    for path in (old, folder):
        os.utime(path, (time.time() - 90_000,) * 2)
    own = ProcessFolder(tmp_path)
    own.open()
    assert young.exists()
    assert not old.exists()
    assert folders(tmp_path) == {own.path}
    own.close()
