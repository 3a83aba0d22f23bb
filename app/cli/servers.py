"""The commands that serve: they compose API and workers, and stop cleanly on SIGTERM or Ctrl-C.

`serve` is the API in this process and the workers beside it, each in a process of its own that is started
again when it dies. A worker started so ends when its standard input does: it cannot outlive this process.
"""

import contextlib
import gc
import json
import logging
import math
import os
import signal
import socket as sockets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from app.cli.exits import discard_output
from app.cli.output import error_document, print_json, wants_json
from app.launch import python_command
from app.settings import Settings, unknown_variables

log = logging.getLogger(__name__)

_STOPPING_SECONDS = 10.0
_OTHER_FILES = 256
"""Open files that are not connections: of the database, of uploads, of table readers."""
_MAX_RETRY_SECONDS = 30.0
_HEALTHY_SECONDS = 60.0


def run_api(settings: Settings) -> None:
    """Serve the API until a signal; print its address on standard output once it listens."""
    with _listening(settings, None) as (listener, url):
        _prepare(settings, *settings.folders)
        _refuse_without_keys(settings)
        _run_api(settings, listener, url)


def _run_api(
    settings: Settings, listener: sockets.socket, url: str, *, while_stdin: bool = False, trusted: bool = False
) -> None:
    """Serve the API on a bound socket until a signal, or until standard input ends. trusted: without API keys."""
    # BLAS reads this at import: requests are small, and the cores belong to the worker's training.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from app.posix import limit_heaps, raise_open_files

    limit_heaps()  # models come and go in threads: with a heap for each, twice the memory stays with the process
    import uvicorn

    from app.cli.protocol import OneWriteProtocol
    from app.log import set_up
    from app.main import create_app

    app = create_app(settings, trusted=trusted)
    set_up(style=settings.log_format, level=settings.log_level)
    _warn_of_unknown_settings()

    announcement = json.dumps({"url": url}) if wants_json() else f"Pursuit listens on {url}"

    class _Server(uvicorn.Server):
        async def startup(self, sockets: list[Any] | None = None) -> None:
            await super().startup(sockets=sockets)
            if self.started:
                gc.collect()
                gc.freeze()  # what was imported stays: rows in flight must not have all of it looked through
                gc.set_threshold(10_000)  # nor themselves again and again: a request of 10,000 rows is as many lists
                _print_address(announcement)

        async def shutdown(self, sockets: list[Any] | None = None) -> None:
            app.state.services.stopping.set()
            await super().shutdown(sockets=sockets)

    files = raise_open_files()

    class _Protocol(OneWriteProtocol):
        max_connections = settings.max_connections or max(files - _OTHER_FILES, files // 2)

    config = uvicorn.Config(
        app,
        http=_Protocol,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        forwarded_allow_ips=settings.trusted_proxies,
        timeout_graceful_shutdown=math.ceil(settings.drain_seconds),
    )
    server = _Server(config)

    def stop(*_: object) -> None:
        server.should_exit = True

    # uvicorn raises the signal again once it has stopped; without a handler our clean-up would not run.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    if while_stdin:
        _call_at_end_of_input(stop)
    server.run(sockets=[listener])
    if not server.started:
        raise SystemExit(1)


def _print_address(text: str) -> None:
    """Print on standard output; a server goes on where it cannot be written."""
    try:
        print(text, flush=True)
    except OSError as error:
        log.warning("%s; standard output cannot be written: %s", text, error.strerror)
        discard_output()


def run_worker(settings: Settings, *, while_stdin: bool = False, name: str | None = None) -> None:
    """Work on jobs until a signal, and on the job in hand for `settings.worker_drain_seconds` more; what is not done by
    then, by a second signal or by the end of standard input, goes back to the queue. name: of the worker, by which who
    started it finds its job."""
    _prepare(settings, *settings.folders[1:])  # which may wait for the database: until then a signal ends the process
    stop, give_back = threading.Event(), threading.Event()
    seconds = 0.0 if while_stdin else settings.worker_drain_seconds  # whoever started it does not wait

    def limit() -> None:
        log.info("this worker stops: its job, if it has one, goes on for at most %g s", seconds)
        give_back.wait(seconds)
        give_back.set()

    def drain(*_: object) -> None:
        if stop.is_set() or not seconds:
            give_back.set()
        else:
            threading.Thread(target=limit, name="drain", daemon=True).start()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):  # before the imports, one of which may swallow an exit
        signal.signal(number, drain)
    from app.log import set_up
    from app.worker import run_worker as work

    set_up(style=settings.log_format, level=settings.log_level)
    _warn_of_unknown_settings()
    if while_stdin:
        _call_at_end_of_input(drain)
    work(settings, stop, give_back=give_back, name=name)


def serve(settings: Settings, *, unix_socket: Path | None = None, while_stdin: bool = False) -> None:
    """Run the API and `settings.workers` workers until a signal, or until standard input ends."""
    with _listening(settings, unix_socket) as (listener, url):  # first: a taken port must not leave a trace
        _prepare(settings, *settings.folders)
        if unix_socket is None:
            _refuse_without_keys(settings)
        with _workers(settings):  # who reaches the socket, in a folder of this user alone, could read the files too
            _run_api(settings, listener, url, while_stdin=while_stdin, trusted=unix_socket is not None)


def migrate(settings: Settings) -> None:
    """Bring the database's schema to the newest version."""
    _prepare(settings, wait=False)


def _prepare(settings: Settings, *folders: Path, wait: bool = True) -> None:
    """Make the folders and bring the schema up to date; end the program with one line if that fails.

    A database server that does not answer may come yet: unless told not to `wait`, that is left to the caller.
    """
    from sqlalchemy.exc import SQLAlchemyError

    from app.database.engine import Database
    from app.errors import UnavailableError
    from app.posix import make_files_private
    from app.storage.stores import open_store

    make_files_private()
    try:
        database = Database(settings.database)
    except ValueError as error:
        raise _refusal(f"PURSUIT_DATABASE_URL: {error}", code=2) from None
    except ImportError as error:
        raise _refusal(f"the database's driver cannot be loaded: {error}") from None
    try:
        open_store(settings)
    except (ImportError, ValueError) as error:
        raise _refusal(f"PURSUIT_ARTEFACT_URL: {error}") from None
    folder = settings.data_dir
    try:
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        with database:
            database.migrate()
    except OSError as error:
        raise _refusal(f"cannot write to {folder}: {error.strerror or error}") from None
    except UnavailableError as error:
        if database.is_sqlite or not wait:
            raise _refusal(str(error)) from None
    except SQLAlchemyError as error:
        raise _refusal(f"the database cannot be used: {getattr(error, 'orig', None) or error}") from None


def _refuse_without_keys(settings: Settings) -> None:
    """End the program where others could reach an API that lets everybody in.

    A database that does not answer yet may have keys: until it has told, the API refuses all requests by itself.
    """
    if settings.insecure or settings.is_loopback:
        return
    from app.database.engine import Database
    from app.errors import UnavailableError
    from app.services.keys.keys import Keys

    with contextlib.suppress(UnavailableError), Database(settings.database) as database:
        if not Keys(database).any_live():
            raise _refusal(
                f"{settings.host} can be reached by others, and there is no API key: create one with `pursuit keys "
                "create --scope predict,train,admin`, or let everybody in with --insecure or PURSUIT_INSECURE=1"
            )


def _warn_of_unknown_settings() -> None:
    """Log a warning for each PURSUIT_ variable that is no setting."""
    for name, meant in unknown_variables(os.environ).items():
        log.warning("%s is no setting%s", name, f": do you mean {meant}?" if meant else "")


def _refusal(message: str, *, code: int = 1) -> SystemExit:
    """Print in one line why nothing starts, and as a document where that is wanted; return the exception to raise."""
    said = " ".join(message.split())
    print(f"error: {said}", file=sys.stderr, flush=True)
    if wants_json():
        print_json(error_document(said))
    return SystemExit(code)


@contextlib.contextmanager
def _listening(settings: Settings, unix_socket: Path | None) -> Iterator[tuple[sockets.socket, str]]:
    """Bind a socket; yield it and its URL. Ends the program with an error message if it cannot be bound."""
    family = sockets.AF_INET6 if ":" in settings.host else sockets.AF_INET
    listener = sockets.socket(sockets.AF_UNIX if unix_socket else family)
    try:
        if unix_socket is not None:
            listener.bind(str(unix_socket))
            url = "http://pursuit.local"
        else:
            listener.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
            listener.bind((settings.host, settings.port))
            host = f"[{settings.host}]" if family == sockets.AF_INET6 else settings.host
            url = f"http://{host}:{listener.getsockname()[1]}"
        listener.listen()  # two sockets can be bound to one port while neither listens
        if unix_socket is None:  # it is free; but who connected now would wait for all that is yet to be loaded
            address = listener.getsockname()
            listener.close()
            listener = sockets.socket(family)
            listener.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
            listener.bind(address)
    except OSError as error:
        listener.close()
        where = unix_socket or f"{settings.host} port {settings.port}"
        raise _refusal(f"cannot listen on {where}: {error.strerror}") from None
    try:
        yield listener, url
    finally:
        listener.close()
        if unix_socket is not None:
            unix_socket.unlink(missing_ok=True)


@contextlib.contextmanager
def _workers(settings: Settings) -> Iterator[None]:
    """Keep `settings.workers` worker processes running for the length of the block."""
    stop = threading.Event()
    environment = {**os.environ, **_environment(settings)}  # before run_api sets the threads of this process
    threads = [
        threading.Thread(target=_supervise_worker, args=(settings, environment, stop), name=f"worker-{index}")
        for index in range(settings.workers)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _supervise_worker(settings: Settings, environment: dict[str, str], stop: threading.Event) -> None:
    """Run one worker; restart it when it dies, after a pause that doubles while it dies soon after its start. Its job
    goes back to the queue at once, and does not wait for the end of its lease."""
    from app.worker import worker_name

    pause = 1.0
    while not stop.is_set():
        name = worker_name()
        command = python_command("app.cli", "worker", "--while-stdin", "--name", name)
        started = time.monotonic()
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sys.stderr.fileno(), env=environment) as worker:
            while worker.poll() is None and not stop.wait(0.2):
                pass
            _end(worker)
        if stop.is_set():
            return
        log.error("a worker died and is started again", extra={"exit_code": worker.returncode})
        _release_lost(settings, name)
        pause = 1.0 if time.monotonic() - started > _HEALTHY_SECONDS else min(2 * pause, _MAX_RETRY_SECONDS)
        stop.wait(pause)


def _release_lost(settings: Settings, worker: str) -> None:
    """Return the job of a worker that died to the queue; where that cannot be, its lease ends by itself."""
    from app.errors import UnavailableError
    from app.worker import release_lost

    try:
        for job in release_lost(settings, worker):
            log.warning("%s: %s, since its worker died", job.id, job.state.value, extra={"job": job.id})
    except UnavailableError as error:
        log.warning("the job of a worker that died waits for the end of its lease: %s", error)


def _end(worker: subprocess.Popen[bytes]) -> None:
    worker.terminate()
    try:
        worker.wait(_STOPPING_SECONDS)
    except subprocess.TimeoutExpired:
        worker.kill()


def _environment(settings: Settings) -> dict[str, str]:
    """Environment variables for the settings of the command line; a worker inherits the others."""
    return {
        "PURSUIT_DATA_DIR": str(settings.data_dir.resolve()),
        "PURSUIT_WORKERS": str(settings.workers),
        "PURSUIT_LOG_FORMAT": settings.log_format,
    }


def _call_at_end_of_input(stop: Callable[[], None]) -> None:
    """Call `stop` when whoever holds the other end of standard input closes it, or dies."""

    def wait() -> None:
        while os.read(0, 1):
            pass
        stop()

    threading.Thread(target=wait, name="stdin", daemon=True).start()
