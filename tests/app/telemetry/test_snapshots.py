"""Sums over real processes, which come, end and are killed."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.telemetry import snapshots
from app.telemetry.measures import Measures
from app.telemetry.snapshots import Series, SnapshotFolder

TRIES, LOADED, SECONDS = "pursuit_job_tries", "pursuit_models_loaded", "pursuit_http_request_seconds"


@contextmanager
def measuring(place: Path, number: int) -> Iterator[subprocess.Popen[str]]:
    """A process that has counted to this number."""
    command = [sys.executable, "-m", "tests.app.telemetry.measuring_process", str(place), str(number)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        try:
            yield process
        finally:
            process.kill()


def tries(total: Series) -> float:
    return total[TRIES, ("succeeded",)][0]


def test_sums_over_processes_keep_the_counts_of_the_dead_and_not_their_gauges(tmp_path: Path) -> None:
    measures = Measures()
    folder = SnapshotFolder(tmp_path, measures)
    folder.open()
    measures.job_tries.add(("succeeded",), 1.0)
    measures.models_loaded.set(1.0)
    with measuring(tmp_path, 10) as killed, measuring(tmp_path, 100) as ended:
        total = folder.total()
        assert (tries(total), total[LOADED, ()][0]) == (111.0, 111.0)
        assert sum(total[SECONDS, ("/jobs",)][:-1]) == 2.0
        killed.kill()
        killed.wait()
        total = folder.total()
        assert (tries(total), total[LOADED, ()][0]) == (111.0, 101.0)
        ended.communicate("")
    for _ in range(2):  # what was added once is not added again
        total = folder.total()
        assert (tries(total), total[LOADED, ()][0]) == (111.0, 1.0)
    assert len(list(tmp_path.glob("*.lock"))) == 1, "the files of the dead do not pile up"
    folder.close()
    later = SnapshotFolder(tmp_path, Measures())
    later.open()
    assert tries(later.total()) == 111.0
    later.close()


def test_a_death_between_adding_and_removing_counts_nothing_twice(tmp_path: Path) -> None:
    first = Measures()
    folder = SnapshotFolder(tmp_path, first)
    folder.open()
    first.job_tries.add(("succeeded",), 5.0)
    folder.close()
    (lock,) = tmp_path.glob("*.lock")
    left = {path: path.read_bytes() for path in (lock, lock.with_suffix(".json"))}
    second = SnapshotFolder(tmp_path, Measures())
    second.open()
    assert tries(second.total()) == 5.0
    for path, content in left.items():
        path.write_bytes(content)
    assert tries(second.total()) == 5.0
    assert tries(second.total()) == 5.0
    assert not lock.exists()
    second.close()


def test_numbers_of_another_release_or_cut_short_are_left_out(tmp_path: Path) -> None:
    folder = SnapshotFolder(tmp_path, Measures())
    folder.open()
    (tmp_path / "1-a.lock").touch()
    (tmp_path / "1-a.json").write_text('{"families": {"pursuit_job_tries": {"labels": ["end"], "series": [')
    (tmp_path / "2-b.lock").touch()
    other = '{"labels": ["end", "more"], "bounds": [], "series": [[["succeeded", "x"], [7.0]]]}'
    (tmp_path / "2-b.json").write_text(f'{{"families": {{"pursuit_job_tries": {other}, "pursuit_gone": {other}}}}}')
    assert folder.total() == {}
    folder.close()


def test_a_folder_that_cannot_be_written_leaves_the_own_numbers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    measures = Measures()
    folder = SnapshotFolder(tmp_path / "file" / "metrics", measures)
    folder.open()
    measures.job_tries.add(("succeeded",))
    for _ in range(2):
        assert tries(folder.total()) == 1.0
    folder.close()
    assert caplog.text.count("measures of other processes are not shown") == 1


def test_it_writes_without_being_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker answers nobody: an API shows its numbers."""
    monkeypatch.setattr(snapshots, "WRITE_SECONDS", 0.05)
    writer, reader = Measures(), SnapshotFolder(tmp_path, Measures())
    folder = SnapshotFolder(tmp_path, writer)
    folder.open()
    reader.open()
    writer.job_tries.add(("failed",))
    for _ in range(100):
        if (TRIES, ("failed",)) in reader.total():
            break
        folder._stop.wait(0.05)
    assert reader.total()[TRIES, ("failed",)] == [1.0]
    folder.close()
    reader.close()
