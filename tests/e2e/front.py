"""nginx with the configuration that is deployed, on loopback ports."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.ports import free_port
from tests.processes import wait_until

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nginx" / "nginx.conf"
PROGRAM = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
MISSING = "there is no nginx on this machine"


def rendered(folder: Path, port: int, apis: Sequence[int]) -> str:
    """Return the deployed configuration with other addresses and folders.

    `resolve` is left out: names are not looked up here, and nginx before 1.27.3 does not know the word.
    """
    text = _swap(CONFIGURATION.read_text(encoding="utf-8"), " /tmp/", f" {folder}/")
    for place, api in enumerate(apis, 1):
        text = _swap(text, f"api-{place}:8000 resolve", f"127.0.0.1:{api}")
    text = _swap(text, "listen 8080 ", f"listen 127.0.0.1:{port} ")
    text = _swap(text, "/dev/stdout", f"{folder}/access.log")
    text = _swap(text, "/dev/stderr", f"{folder}/error.log")
    return f"user root;\n{text}" if os.geteuid() == 0 else text  # its processes are to reach the test's folder


def check(folder: Path, text: str) -> str:
    """Return the output of `nginx -t`; AssertionError if it refuses the configuration."""
    return _run("-t", folder, text)


@dataclass(slots=True)
class Front:
    """A running nginx."""

    folder: Path
    url: str
    process: subprocess.Popen[bytes]

    def reload(self) -> None:
        """Read the configuration again; what is under way goes on."""
        self.process.send_signal(signal.SIGHUP)

    def retried(self) -> int:
        """Requests that were sent to more than one API."""
        lines = (self.folder / "access.log").read_text().splitlines()
        return sum(line.partition('"tried":"')[2].partition('"')[0].count(",") > 0 for line in lines)

    def log(self) -> str:
        """Return its error log."""
        return (self.folder / "error.log").read_text()


@contextmanager
def nginx(folder: Path, apis: Sequence[int]) -> Iterator[Front]:
    """Start nginx in front of these ports of loopback; it is stopped at the end."""
    folder.mkdir()
    port = free_port()
    configuration = folder / "nginx.conf"
    configuration.write_text(rendered(folder, port, apis))
    assert PROGRAM is not None, MISSING
    command = [PROGRAM, "-p", str(folder), "-c", str(configuration), "-e", str(folder / "error.log")]
    with subprocess.Popen([*command, "-g", "daemon off;"]) as process:
        try:
            front = Front(folder, f"http://127.0.0.1:{port}", process)
            wait_until(lambda: _answers(front))
            yield front
        finally:
            process.terminate()


def _answers(front: Front) -> bool:
    assert front.process.poll() is None, front.log()
    try:
        httpx.get(front.url, timeout=5.0, trust_env=False)
    except httpx.TransportError:
        return False
    return True


def _run(option: str, folder: Path, text: str) -> str:
    configuration = folder / "checked.conf"
    configuration.write_text(text)
    assert PROGRAM is not None, MISSING
    command = [PROGRAM, option, "-p", str(folder), "-c", str(configuration), "-e", str(folder / "error.log")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stderr


def _swap(text: str, old: str, new: str) -> str:
    assert old in text, old
    return text.replace(old, new)
