"""PostgreSQL for the tests: a server to be stopped and killed, and databases on a server that runs already."""

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from tests.ports import free_port
from tests.processes import alive, children, wait_until

SERVER_VARIABLE = "PURSUIT_TEST_POSTGRES_URL"
"""URL of a running server whose user may create databases."""
MISSING = "there is no PostgreSQL server program on this machine"


def programs() -> Path | None:
    """Return the folder of the newest server's programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4]))
    return found[-1].parent if found else None


@dataclass(slots=True)
class Server:
    """A server with one database, and what it takes to end it."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """URL of its database."""
        return f"postgresql://pursuit@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        place = ["-h", "127.0.0.1", "-p", str(self.port), "-k", str(self.folder)]
        self.process = _as_owner("postgres", "-D", str(self.folder / "data"), *place, folder=self.folder)
        wait_until(self._answers, 60.0)

    def stop(self, number: int = signal.SIGINT) -> None:
        """Stop it as an operator would: it ends its connections and exits."""
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(60.0)

    def kill(self) -> None:
        """Kill the server and its processes (SIGKILL)."""
        assert self.process is not None
        family = children(self.process.pid)
        self.process.kill()
        self.process.wait()
        for member in family:
            with suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)
        wait_until(lambda: not any(map(alive, family)))

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, _read(self.folder / "log")
        ask = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "pursuit", "-d", "postgres"]
        return _as_owner("pg_isready", *ask, folder=self.folder).wait(30.0) == 0


@contextmanager
def postgres() -> Iterator[Server]:
    """Start a server; it is stopped at the end. It refuses to run as root, so root runs it as the package's user."""
    folder = Path(tempfile.mkdtemp(prefix="pursuit-postgres-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")
        options = ["-D", str(folder / "data"), "-U", "pursuit", "--auth=trust", "-E", "UTF8", "--no-sync"]
        assert _as_owner("initdb", *options, folder=folder).wait(120.0) == 0, _read(folder / "log")
        server = Server(folder, free_port())
        server.start()
        try:
            yield server
        finally:
            server.stop(signal.SIGQUIT)
    finally:
        shutil.rmtree(folder)


@contextmanager
def new_database(server_url: str) -> Iterator[str]:
    """Create an empty database on a running server; yield its URL and drop it at the end."""
    server = make_url(server_url).set(drivername="postgresql+psycopg")
    name = f"pursuit_test_{secrets.token_hex(6)}"
    admin = create_engine(server, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    try:
        yield server.set(drivername="postgresql", database=name).render_as_string(hide_password=False)
    finally:
        with admin.connect() as connection:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
        admin.dispose()


def _as_owner(program: str, *arguments: str, folder: Path) -> subprocess.Popen[bytes]:
    found = programs()
    assert found is not None, MISSING
    owner = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [str(found / program), *arguments],
            user=None if owner is None else owner.pw_uid,
            group=None if owner is None else owner.pw_gid,
            extra_groups=None if owner is None else [],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""
