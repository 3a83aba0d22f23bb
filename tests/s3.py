"""An S3 server as a process on loopback, to be frozen and thawed, and a relay in front of it that can hold requests."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

import httpx


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Server:
    """Its process and where it listens."""

    process: subprocess.Popen[bytes]
    port: int

    @property
    def url(self) -> str:
        """Of the server."""
        return f"http://127.0.0.1:{self.port}"

    def environment(self, port: int | None = None) -> dict[str, str]:
        """The variables that lead to it, or to a relay at that port."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
            "AWS_ACCESS_KEY_ID": "pursuit",
            "AWS_SECRET_ACCESS_KEY": "pursuit",
            "AWS_REGION": "us-east-1",
        }

    def make_bucket(self) -> str:
        """A new one; its name."""
        name = f"bucket-{uuid4().hex}"
        httpx.put(f"{self.url}/{name}", trust_env=False, timeout=60.0).raise_for_status()
        return name

    def freeze(self) -> None:
        """From now on it takes connections and says nothing."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """It goes on."""
        self.process.send_signal(signal.SIGCONT)


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """A server with nothing in it, until the end of the block."""
    port = _free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    quiet = {**os.environ, "PYTHONWARNINGS": "ignore"}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=quiet) as process:
        server = S3Server(process=process, port=port)
        try:
            deadline = time.monotonic() + 120.0
            while True:
                try:
                    httpx.get(f"{server.url}/moto-api/", trust_env=False, timeout=60.0)
                    break
                except httpx.TransportError:
                    assert process.poll() is None, "the S3 server ended"
                    assert time.monotonic() < deadline, "the S3 server does not listen"
                    time.sleep(0.1)
            yield server
        finally:
            process.kill()


class Relay:
    """Passes bytes on to a server; requests that begin with `held` wait until `release`."""

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


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port
