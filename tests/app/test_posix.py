"""Settings that processes ask of their system."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import ctypes, sys, threading
from app.posix import limit_heaps
if sys.argv[1] == "limited":
    limit_heaps()
barrier = threading.Barrier(8)
def work():
    barrier.wait()
    kept = [ctypes.create_string_buffer(2000) for _ in range(2000)]
    barrier.wait()
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
libc.malloc_info(0, ctypes.c_void_p(libc.fdopen(1, b"w")))
libc.fflush(None)
"""


def test_a_new_data_directory_is_the_users_own(tmp_path: Path) -> None:
    """The first command makes it, under a umask that would let everybody read."""
    folder = tmp_path / "data"
    subprocess.run(
        [sys.executable, "-m", "app.cli", "migrate", "--data-dir", str(folder)],
        check=True,
        umask=0,
        env={name: value for name, value in os.environ.items() if not name.startswith("PURSUIT_")},
    )
    assert folder.stat().st_mode & 0o777 == 0o700
    database = folder / "pursuit.db"
    assert database.stat().st_mode & 0o777 == 0o600
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.rglob("*"))


def heaps(how: str, **environment: str) -> int:
    """Return the number of heaps of a process whose eight threads allocate at once."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, how], capture_output=True, text=True, check=True, env={"PATH": "", **environment}
    )
    if "<heap" not in done.stdout:
        pytest.skip("another C library")
    return done.stdout.count("<heap nr=")


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's heaps")
def test_threads_share_one_heap() -> None:
    assert heaps("not") > 1
    assert heaps("limited") == 1
    assert heaps("limited", MALLOC_ARENA_MAX="4") == 4


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's heaps")
@pytest.mark.parametrize(("said", "used"), [({}, "system"), ({"ARROW_DEFAULT_MEMORY_POOL": "jemalloc"}, "jemalloc")])
def test_arrow_allocates_in_that_heap(said: dict[str, str], used: str) -> None:
    code = (
        "from app.posix import limit_heaps; limit_heaps(); import pyarrow; "
        "print(pyarrow.default_memory_pool().backend_name)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"} | said
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == [used]


FAULTS = """
import resource, sys, threading
import numpy as np
from app.posix import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
found = []
def work():
    for _ in range(3):  # the first time every page is new
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(20):
            np.ones(1 << 19)
        found.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(found[-1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's thresholds")
def test_freed_memory_is_kept_in_a_process_that_sums() -> None:
    """Under what Dask's nanny tells its workers, in a thread as theirs: 20 arrays of 4 MiB are 20,480 pages."""
    environment = {"PATH": "", "MALLOC_TRIM_THRESHOLD_": "65536"}
    given_back, kept = (
        int(
            subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, check=True, env=environment).stdout
        )
        for how in ("not", "keep")
    )
    if given_back < 10_000:
        pytest.skip("another C library")
    assert kept < 1_000


LIMITS = """
import resource, sys
from app.posix import limit_resources, raise_open_files
if sys.argv[1] == "files":
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 512))
    print(raise_open_files(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
elif sys.argv[1] == "processor":
    limit_resources(memory=None, processor_seconds=1)
    while True:
        pass
else:
    limit_resources(memory=64 << 20, processor_seconds=None)
    kept = bytearray(16 << 20)
    try:
        bytearray(256 << 20)
    except MemoryError:
        print("refused", len(kept))
"""


def limited(what: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", LIMITS, what], capture_output=True, text=True, timeout=60, check=False)


def test_the_peak_of_a_process_is_not_that_of_the_one_that_started_it() -> None:
    child = "from app.posix import peak_memory; print(peak_memory())"
    parent = (
        "import subprocess, sys; from app.posix import peak_memory; held = b'1' * (300 << 20); "
        f"print(peak_memory(), flush=True); subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    )
    found = subprocess.run([sys.executable, "-c", parent], capture_output=True, check=True, text=True).stdout
    of_parent, of_child = map(int, found.split())
    assert 0 < of_child < 100 << 20 < 300 << 20 < of_parent


def test_open_files_are_raised_as_far_as_allowed() -> None:
    assert limited("files").stdout.split() == ["512", "512"]


def test_a_process_has_so_much_processor_time_and_memory_and_no_more() -> None:
    assert limited("processor").returncode in {-signal.SIGXCPU, -signal.SIGKILL}
    assert limited("memory").stdout.split() == ["refused", str(16 << 20)]
