"""An S3 server as a process on loopback, to be frozen and thawed, and a relay in front of it that can hold requests."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from uuid import uuid4

import httpx
import pytest

from tests.needs import HOW
from tests.ports import free_port
from tests.processes import wait_until


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Server:
    """A running S3 server: its process and port."""

    process: subprocess.Popen[bytes]
    port: int

    @property
    def url(self) -> str:
        """URL of the server."""
        return f"http://127.0.0.1:{self.port}"

    def environment(self, port: int | None = None) -> dict[str, str]:
        """Return the variables of a client of it, or of a relay at that port."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
            "AWS_ACCESS_KEY_ID": "pursuit",
            "AWS_SECRET_ACCESS_KEY": "pursuit",
            "AWS_REGION": "us-east-1",
        }

    def make_bucket(self) -> str:
        """Make a new bucket; return its name."""
        name = f"bucket-{uuid4().hex}"
        httpx.put(f"{self.url}/{name}", trust_env=False, timeout=60.0).raise_for_status()
        return name

    def put(self, bucket: str, key: str, data: bytes) -> None:
        """Write an object."""
        import obstore  # noqa: PLC0415  an extra
        from obstore.store import S3Store  # noqa: PLC0415  an extra

        store = S3Store(
            bucket,
            endpoint=self.url,
            access_key_id="pursuit",
            secret_access_key="pursuit",
            region="us-east-1",
            client_options={"allow_http": True},
        )
        obstore.put(store, key, data)

    def freeze(self) -> None:
        """Stop it: it takes connections and does not answer."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self.process.send_signal(signal.SIGCONT)


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Start an empty server; it is killed at the end of the block. The test is skipped where there is none."""
    if any(find_spec(name) is None for name in ("moto", "flask", "flask_cors")):
        pytest.skip(f"no server that speaks S3: {HOW}")
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    quiet = {**os.environ, "PYTHONWARNINGS": "ignore"}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=quiet) as process:
        server = S3Server(process=process, port=port)
        try:
            wait_until(lambda: _answers(server), 120.0)
            yield server
        finally:
            process.kill()


def _answers(server: S3Server) -> bool:
    assert server.process.poll() is None, "the S3 server ended"
    try:
        httpx.get(f"{server.url}/moto-api/", trust_env=False, timeout=60.0)
    except httpx.TransportError:
        return False
    return True


class Relay:
    """Relay of bytes to a server; requests that begin with `held` wait until `release`."""

    def __init__(self, port: int) -> None:
        self._behind = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.held: bytes | None = None
        self.waiting = threading.Event()
        self.release = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._behind))
            threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()
            threading.Thread(target=self._pass_on, args=(server, client), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                if self.held is not None and data.startswith(self.held):
                    self.waiting.set()
                    self.release.wait(60.0)
                sink.sendall(data)
        except OSError:
            pass
        finally:
            for end in (source, sink):
                end.close()
