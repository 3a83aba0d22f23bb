"""`pursuit serve` and `--local` as real processes: they start, stop cleanly, and leave nothing behind."""

import csv
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from app.cli import servers
from app.cli.client import Client
from app.cli.service import Service, ServiceError, start
from app.settings import Settings
from tests.processes import alive, children, wait_until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc"),
]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    started = start(tmp_path / "data", tmp_path / "serve.log")
    yield started
    started.stop()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "squares.csv"
    path.write_text("x,y\n" + "".join(f"{i / 20},{(i / 20) ** 2}\n" for i in range(80)))
    return path


def pursuit(*words: object, url: str = "http://127.0.0.1:9", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "app.cli", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PURSUIT_URL": url, **environment},
    )


def test_nobody_else_reads_what_it_stores(service: Service, table: Path, tmp_path: Path) -> None:
    """Whatever umask it was started with: tests have that of the machine."""
    assert pursuit("train", table, "--target", "y", "--effort", "quick", url=service.url).returncode == 0
    found = [tmp_path / "data", *(tmp_path / "data").rglob("*")]
    assert {"pursuit.db", "blobs", "uploads"} <= {path.name for path in found}
    for path in found:
        with suppress(FileNotFoundError):  # a temporary one
            assert path.stat().st_mode & 0o077 == 0, path


def test_a_signal_ends_it_cleanly(service: Service) -> None:
    wait_until(lambda: len(children(service.process.pid)) == 1)
    (worker,) = children(service.process.pid)
    service.process.send_signal(signal.SIGTERM)
    assert service.process.wait(20) == 0
    assert not alive(worker)


def test_its_worker_does_not_outlive_it(service: Service) -> None:
    wait_until(lambda: "is ready" in service.log.read_text())
    (worker,) = children(service.process.pid)
    service.process.kill()
    service.process.wait()
    wait_until(lambda: not alive(worker))
    assert children(worker) == []


def test_a_worker_that_dies_is_started_again(service: Service) -> None:
    wait_until(lambda: len(children(service.process.pid)) == 1)
    (worker,) = children(service.process.pid)
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: any(child != worker for child in children(service.process.pid)))
    assert "a worker died" in service.log.read_text()


def test_the_job_of_a_worker_that_is_killed_is_taken_over_before_its_lease_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PURSUIT_LEASE_SECONDS", "600")
    table = tmp_path / "surface.csv"
    table.write_text("x,z,y\n" + "".join(f"{i % 37},{i % 41},{i % 37 * (i % 41)}\n" for i in range(1200)))
    service = start(tmp_path / "data", tmp_path / "serve.log")
    try:
        with service.client() as client:
            job = client.train(table, {"basis_size": 200, "adapt": {"rounds": 20, "steps": 20}})
            wait_until(lambda: client.job(job["id"])["state"] == "running")
            wait_until(lambda: len(children(service.process.pid)) == 1)
            (worker,) = children(service.process.pid)
            os.kill(worker, signal.SIGKILL)
            wait_until(lambda: client.job(job["id"])["attempts"] == 2, 60.0)
            assert client.job(job["id"])["state"] == "running"
            assert "its worker died" in service.log.read_text()
            client.cancel(job["id"])
    finally:
        service.stop()


def test_a_port_that_is_taken_is_said_so(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ServiceError, match=r"cannot listen on 127\.0\.0\.1 port"):
            start(tmp_path / "data", tmp_path / "log", port=taken.getsockname()[1], workers=1)
    assert not (tmp_path / "data").exists()
    assert len((tmp_path / "log").read_text().splitlines()) == 1  # no worker was started that could have logged


def assert_one_line_error(*words: object, code: int, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "app.cli", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PURSUIT_PORT": "0", **environment},
    )
    assert (done.returncode, done.stdout) == (code, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    return line


COMMANDS = [("serve",), ("api",), ("worker",), ("migrate",), ("models", "--local")]


@pytest.mark.parametrize("words", COMMANDS)
def test_a_data_directory_that_is_a_file(words: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    assert str(path) in assert_one_line_error(*words, "--data-dir", path, code=1)


@pytest.mark.parametrize("words", COMMANDS)
def test_a_data_directory_that_cannot_be_written(words: tuple[str, ...]) -> None:
    assert_one_line_error(*words, "--data-dir", "/proc/pursuit", code=1)  # not even root can make it


@pytest.mark.parametrize("words", COMMANDS)
def test_wrong_settings(words: tuple[str, ...], tmp_path: Path) -> None:
    url = assert_one_line_error(*words, "--data-dir", tmp_path, code=2, PURSUIT_DATABASE_URL="mysql://x")
    assert "PURSUIT_DATABASE_URL: expected a sqlite" in url
    assert "PURSUIT_LEASE_SECONDS" in assert_one_line_error(*words, code=2, PURSUIT_LEASE_SECONDS="soon")


def test_a_file_that_is_not_a_database(tmp_path: Path) -> None:
    (tmp_path / "pursuit.db").write_text("certainly not a database" * 100)
    assert "not a database" in assert_one_line_error("serve", "--data-dir", tmp_path, code=1)


def test_a_stopped_service_answers_nobody(tmp_path: Path) -> None:
    service = start(tmp_path / "data", tmp_path / "serve.log", workers=0)
    with Client(service.url) as client:
        assert client.ready()
        service.stop()
        assert not client.ready()


def test_a_server_goes_on_where_nobody_hears_where_it_is(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "app.cli", "serve", "--port", str(port), "--data-dir", str(tmp_path / "data")]
    with (
        Path("/dev/full").open("wb") as full,
        subprocess.Popen(command, stdout=full, stderr=subprocess.PIPE) as process,
    ):
        try:
            with Client(f"127.0.0.1:{port}") as client:
                wait_until(client.ready)
        finally:
            process.terminate()
            _, said = process.communicate(timeout=30)
    assert process.returncode == 0
    assert b"standard output cannot be written: No space left on device" in said
    assert b"Traceback" not in said


def test_a_server_that_stops_waits_for_no_job(tmp_path: Path) -> None:
    """Whatever a worker of its own may be granted: the one who ends the server waits, and the job goes back."""
    table = tmp_path / "table.csv"
    table.write_text("x,z,y\n" + "".join(f"{i / 20},{i % 7},{(i / 20) ** 2 % 3}\n" for i in range(3000)))
    command = [sys.executable, "-m", "app.cli", "serve", "--port", "0", "--data-dir", str(tmp_path / "data")]
    environment = {**os.environ, "PURSUIT_WORKER_DRAIN_SECONDS": "600"}
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment) as process,
    ):
        try:
            assert process.stdout is not None
            url = process.stdout.readline().decode().split()[-1]
            sent = pursuit("train", table, "--target", "y", "--effort", "best", "--no-wait", "--json", url=url)
            job = json.loads(sent.stdout)["id"]
            with Client(url) as client:
                wait_until(lambda: client.job(job)["state"] == "running")
        finally:
            process.terminate()
            began = time.monotonic()
            assert process.wait(60.0) == 0
    assert time.monotonic() - began < 30.0
    assert f"{job}: queued" in (tmp_path / "log").read_text()


def test_train_and_predict_with_a_server(service: Service, table: Path) -> None:
    trained = pursuit("train", table, "--basis-size", 10, url=service.url)
    assert trained.returncode == 0, trained.stderr + service.log.read_text()
    assert "squares version 1" in trained.stdout
    check_prediction(pursuit("predict", "squares", table, url=service.url))
    assert "succeeded" in pursuit("jobs", url=service.url).stdout
    refused = pursuit("predict", "circles", table, url=service.url)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "circles" in refused.stderr


def test_train_and_predict_without_a_server(tmp_path: Path, table: Path) -> None:
    here = ("--local", "--data-dir", tmp_path / "data")
    trained = pursuit("train", table, "--basis-size", 10, *here)
    assert trained.returncode == 0, trained.stderr
    check_prediction(pursuit("predict", "squares@1", table, *here))
    assert "squares" in pursuit("models", *here).stdout
    assert [p.name for p in Path(tmp_path).glob("*.sock")] == []


def test_nobody_is_let_in_before_there_is_somebody_to_answer() -> None:
    """A connection that the kernel takes earlier waits for all that is yet to be loaded; a proxy would ask another."""
    with servers._listening(Settings(port=0), None) as (_, url):
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, timeout=10.0)


def test_an_address_of_others_wants_a_key_first(tmp_path: Path, table: Path) -> None:
    """Refused without one; then it starts, and the commands send theirs."""
    data = tmp_path / "data"
    for command in ("serve", "api"):
        said = assert_one_line_error(command, "--host", "0.0.0.0", "--data-dir", data, code=1)
        assert "pursuit keys create" in said
        assert "--insecure" in said
    made = pursuit("keys", "create", "--scope", "predict,train", "--data-dir", data)
    assert made.returncode == 0, made.stderr
    key = made.stdout.strip()
    assert re.fullmatch(r"pk_[0-9a-f]{16}_[0-9a-f]{64}", key)
    with started("serve", "--host", "0.0.0.0", "--data-dir", data) as url:
        refused = pursuit("models", url=url)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "an API key is needed" in refused.stderr
        assert "PURSUIT_API_KEY or --key" in refused.stderr
        assert pursuit("models", "--key", key, url=url).returncode == 0
        trained = pursuit("train", table, "--basis-size", 10, url=url, PURSUIT_API_KEY=key)
        assert trained.returncode == 0, trained.stderr
        check_prediction(pursuit("predict", "squares", table, url=url, PURSUIT_API_KEY=key))
    assert "squares" in pursuit("models", "--local", "--data-dir", data).stdout, "whoever has the files needs no key"
    log = pursuit("keys", "audit", "--data-dir", data).stdout
    assert re.search(rf"{key.split('_')[1]} +127\.0\.0\.1 +train +squares", log), log


@pytest.mark.parametrize("told", [("--insecure",), ()])
def test_an_address_of_others_without_keys_where_the_operator_says_so(tmp_path: Path, told: tuple[str, ...]) -> None:
    environment = {} if told else {"PURSUIT_INSECURE": "1"}
    with started("api", "--host", "0.0.0.0", "--data-dir", tmp_path / "data", *told, **environment) as url:
        assert pursuit("models", url=url).returncode == 0


@pytest.mark.parametrize(("proxies", "address"), [("127.0.0.1", "203.0.113.9"), ("10.0.0.0/8", "127.0.0.1")])
def test_only_proxies_that_are_trusted_say_who_asks(tmp_path: Path, table: Path, proxies: str, address: str) -> None:
    data = tmp_path / "data"
    with started("api", "--data-dir", data, PURSUIT_TRUSTED_PROXIES=proxies) as url, table.open("rb") as body:
        sent = {"X-Forwarded-For": "203.0.113.9"}
        assert httpx.post(f"{url}/train", files={"file": body}, headers=sent, trust_env=False).status_code == 202
    (entry,) = json.loads(pursuit("keys", "audit", "--json", "--data-dir", data).stdout)
    assert (entry["action"], entry["address"]) == ("train", address)


@contextmanager
def started(*words: object, **environment: str) -> Iterator[str]:
    """Run a server's command until the end of the block; yield its URL on this machine."""
    command = [sys.executable, "-m", "app.cli", *map(str, words)]
    settings = {**os.environ, "PURSUIT_PORT": "0", **environment}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=settings
    ) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip().rpartition(":")[2]
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)


def test_migrate(tmp_path: Path) -> None:
    done = pursuit("migrate", "--data-dir", tmp_path / "data")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "data" / "pursuit.db").exists()


def check_prediction(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(rows) == 80
    assert float(rows[40]["mean"]) == pytest.approx(4.0, abs=0.2)
    ends = [(float(row["lower"]), float(row["mean"]), float(row["upper"])) for row in rows]
    assert all(0.0 <= lower <= mean <= upper for lower, mean, upper in ends)  # no square was negative
    assert all(lower < mean < upper for lower, mean, upper in ends if lower > 0.0)
