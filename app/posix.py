"""Requirements of the service on its system: importing this fails, in one sentence, where they are not met. And what
processes ask of it: to end with their parent, limits, enough open files, files that nobody else reads.

The service runs on POSIX systems; the commands that ask a server, and `core`, run everywhere.
"""

import ctypes
import os
import re
import signal
import sys
from pathlib import Path

try:
    import fcntl  # noqa: F401  locks of SQLite and of folders
    import resource  # limits and peaks of memory
except ModuleNotFoundError as error:
    raise ImportError(
        "the server and its workers need Linux, macOS or another POSIX system (on Windows: WSL or a container); the "
        "commands that ask a server, such as `pursuit train FILE --url URL`, work here"
    ) from error

_PR_SET_PDEATHSIG = 1
_M_ARENA_MAX, _M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD = -8, -3, -1
KEPT_ARRAY_BYTES, KEPT_BYTES = 32 << 20, 256 << 20
"""Size of arrays whose memory a process that sums keeps when they are freed (no C library takes a larger one), and how
much of it."""
_MOST_FILES = 1 << 16
"""Open files that are enough: some systems count all that there might be when a process starts another."""


def end_with_parent(parent: int | None = None) -> None:
    """Ask Linux to kill this process when the thread ends that started it; at once if `parent` has ended already."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def limit_resources(*, memory: int | None, processor_seconds: int | None) -> None:
    """Limit this process: more than `memory` bytes beyond what it has raise MemoryError (on Linux), and the kernel ends
    what computes longer."""
    statm = Path("/proc/self/statm")
    if memory is not None:
        memory = memory + int(statm.read_text().split()[0]) * resource.getpagesize() if statm.exists() else None
    for kind, limit in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, processor_seconds)):
        if limit is not None:
            _, hard = resource.getrlimit(kind)
            most = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.setrlimit(kind, (most, hard))


def make_files_private() -> None:
    """Take from others what this process and those that it starts will create: folders are 0700 and files 0600."""
    os.umask(os.umask(0o077) | 0o077)


def limit_heaps() -> None:
    """Give the threads of this process one heap, where glibc would make up to eight a core: memory that one thread has
    freed is then there for all. Arrow allocates there too, if it is not imported yet: its own pool has a heap for each
    thread. For processes that hold the interpreter while they allocate. MALLOC_ARENA_MAX and ARROW_DEFAULT_MEMORY_POOL
    of the environment go before it."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if sys.platform != "linux" or "MALLOC_ARENA_MAX" in os.environ:
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none, and need none
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)


def keep_freed_memory() -> None:
    """Keep the memory of freed arrays for the next ones: fresh pages cost more than what is written into them. Dask
    tells its workers to give all of it back, by which glibc also ceases to learn how large arrays are."""
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, KEPT_ARRAY_BYTES)
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)


def peak_memory() -> int:
    """Return the most memory that this process has held, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # `ru_maxrss` begins with what the process held that started this one
        found = re.search(r"^VmHWM:\s+(\d+) kB$", status.read_text(encoding="ascii"), re.MULTILINE)
        if found is not None:
            return 1024 * int(found[1])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def raise_open_files() -> int:
    """Raise the limit of open files as far as this process may; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        except (OSError, ValueError):  # macOS has a limit of its own below the hard one
            return soft
        return most
    return _MOST_FILES if soft == resource.RLIM_INFINITY else soft
