"""A worker's surroundings; its jobs are tested where the queue and the services are."""

import subprocess
import sys
import threading
import time
from pathlib import Path

from app.settings import Settings
from app.worker import child_environment, run_worker
from tests.processes import wait_until


def test_the_child_has_the_stores_and_threads_in_its_environment(tmp_path: Path) -> None:
    environment = child_environment(Settings(data_dir=tmp_path, threads=3, log_format="json"))
    assert environment["PURSUIT_ARTEFACT_URL"] == str(tmp_path / "blobs")
    assert environment["PURSUIT_THREADS"] == "3"
    threads = {environment[name] for name in environment if name.endswith("_NUM_THREADS")}
    assert threads == {"1"}  # rows are shared out, not products
    assert environment["PURSUIT_LOG_FORMAT"] == "json"


def test_the_child_has_the_cluster_in_its_environment(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, compute="dask://host:8786", compute_patience_seconds=7)
    environment = child_environment(settings)
    assert environment["PURSUIT_COMPUTE"] == "dask://host:8786"
    assert environment["PURSUIT_SHARD_DIR"] == str(tmp_path / "shards")
    assert environment["PURSUIT_COMPUTE_PATIENCE_SECONDS"] == "7.0"


def test_an_idle_worker_stops_at_once(tmp_path: Path) -> None:
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    started = time.monotonic()
    run_worker(Settings(data_dir=tmp_path, database_url=f"sqlite:///{tmp_path}/p.db"), stop)
    assert time.monotonic() - started < 5.0


def test_a_worker_waits_for_a_database_that_comes_later(tmp_path: Path) -> None:
    place = tmp_path / "p.db"
    place.mkdir()
    stop = threading.Event()
    threading.Timer(0.3, place.rmdir).start()

    def end_once_it_is_there() -> None:
        try:
            wait_until(place.is_file, 10.0)
        finally:
            stop.set()

    ending = threading.Thread(target=end_once_it_is_there)
    ending.start()
    run_worker(Settings(data_dir=tmp_path, database_url=f"sqlite:///{place}"), stop)
    ending.join()
    assert place.is_file()


def test_the_module_says_how_it_is_used() -> None:
    found = subprocess.run([sys.executable, "-m", "app.worker"], capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert "pursuit worker" in found.stderr
