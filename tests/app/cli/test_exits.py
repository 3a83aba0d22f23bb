"""Ends of commands whose output cannot be written, as real processes: in a line, never in a traceback."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app.launch import python_command
from tests.app.cli.stub import Answer, job, stub
from tests.app.cli.test_commands import DONE, TRAINED, VERSION
from tests.processes import wait_until

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is full is /dev/full")

DATASET = f"ds_{'0' * 32}"
EACH = """
import contextlib, io, json, os, sys
from app.cli.commands import cli
from app.cli.exits import run

with contextlib.redirect_stdout(io.StringIO()):
    cli(["models"], standalone_mode=False)
for words in json.loads(sys.argv[2]):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writing, 2)
        if sys.argv[1] == "full":
            os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
        elif sys.argv[1] == "closed":
            reader, gone = os.pipe()
            os.dup2(gone, 1)
            os.close(gone)
            os.close(reader)
        sys.argv[1:] = words
        run(lambda: cli(prog_name="pursuit"))
    os.close(writing)
    said = b"".join(iter(lambda: os.read(reading, 65536), b"")).decode()
    os.close(reading)
    print(json.dumps([words, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said]), flush=True)
"""
"""Loads all that commands need by running one, then runs each in a copy of this process."""


@pytest.mark.parametrize(
    ("output", "said"),
    [("full", "error: cannot write the output: No space left on device\n"), ("closed", "")],
)
def test_a_full_disk_and_a_closed_pipe(tmp_path: Path, output: str, said: str) -> None:
    table = tmp_path / "cars.csv"
    table.write_text("x,y\n1,2\n3,4\n")
    model = {"name": "cars", "latest": 3, "versions": [], "aliases": {}, "created_at": "2026-01-01T00:00:00.000Z"}
    answers = dict(TRAINED) | {
        ("POST", "/predict"): [Answer(body=b"mean,std\n1.5,0.25\n", type="text/csv")],
        ("GET", "/models"): [Answer(body={"models": [model]})],
        ("GET", "/models/cars"): [Answer(body=model)],
        ("GET", "/models/cars/versions/3"): [Answer(body=VERSION)],
        ("GET", "/jobs"): [Answer(body={"jobs": [job("running")]})],
        ("GET", "/jobs/done"): [Answer(body=DONE)],
        ("DELETE", "/jobs/done"): [Answer(body=job("cancelled"))],
    }
    commands = (
        ("train", str(table)),
        ("train", str(table), "--no-wait"),
        ("predict", "cars", str(table)),
        ("models",),
        ("models", "--json"),
        ("models", "cars"),
        ("models", "cars@3"),
        ("jobs",),
        ("jobs", "--json"),
        ("jobs", "done"),
        ("jobs", "done", "--cancel"),
        ("--help",),
    )[:: 1 if output == "full" else 3]
    with stub(answers) as server:
        done = subprocess.run(
            [sys.executable, "-c", EACH, output, json.dumps(commands)],
            env={**os.environ, "PURSUIT_URL": server.url},
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    ends = [json.loads(line) for line in done.stdout.splitlines()]
    assert ends == [[list(words), 1, said] for words in commands]


def pursuit(*words: object, **options: Any) -> "subprocess.Popen[str]":
    command = python_command("app.cli", *map(str, words))
    return subprocess.Popen(command, **{"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options})


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/train", ("train", "cars.csv")),
        ("/models/cars/update", ("update", "cars", "cars.csv")),
        ("/predict", ("predict", "cars", DATASET, "-o", "out.parquet", "--json")),
    ],
)
def test_ctrl_c_leaves_the_job_to_the_server(tmp_path: Path, path: str, words: tuple[str, ...]) -> None:
    table = tmp_path / "cars.csv"
    table.write_text("x,y\n1,2\n3,4\n")
    answers = {
        ("POST", path): [Answer(body=job("queued"), status=202)],
        ("GET", "/jobs/job_1"): [Answer(body=job("queued"))],
        ("GET", "/jobs/job_1/events"): [Answer(body=b"", status=502, type="text/html")],  # it waits and asks again
    }
    with stub(answers) as server:
        with (tmp_path / "out").open("w") as out:
            waiting = pursuit(*words, "--url", server.url, stdout=out, stderr=subprocess.STDOUT, cwd=tmp_path)
        wait_until(lambda: (tmp_path / "out").read_text() == "  0%  queued\n")
        waiting.send_signal(signal.SIGINT)
        waiting.communicate(timeout=30)
    assert waiting.returncode == 130
    assert (tmp_path / "out").read_text() == "  0%  queued\nthe server goes on: `pursuit jobs job_1`\n"


def test_what_the_encoding_of_the_output_lacks_is_escaped() -> None:
    model = {"name": "größe→", "latest": 1, "versions": 1, "created_at": "2026-01-01T00:00:00.000Z"}
    with stub({("GET", "/models"): [Answer(body={"models": [model]})]}) as server:
        latin = {**os.environ, "PYTHONIOENCODING": "latin-1"}
        listing = pursuit("models", "--json", "--url", server.url, env=latin, encoding="latin-1")
        out, errors = listing.communicate(timeout=30)
    assert (listing.returncode, errors) == (0, "")
    assert '"name": "größe\\u2192"' in out


def test_streams_that_are_closed_are_not_taken_by_files(tmp_path: Path) -> None:
    """The first file or socket that is opened would be standard output."""
    shell = 'exec "$@" <&- >&- 2>&-'
    command = python_command("app.cli", "migrate", "--data-dir", str(tmp_path / "data"))
    done = subprocess.run(["sh", "-c", shell, "sh", *command], check=False, timeout=60)
    assert done.returncode == 0
    assert (tmp_path / "data" / "pursuit.db").read_bytes().startswith(b"SQLite format 3")


def test_a_current_folder_that_is_gone(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    shell = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
    command = python_command("app.cli", "migrate")
    done = subprocess.run(
        ["sh", "-c", shell, "sh", str(gone), *command], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: the current folder does not exist any more: go to another one\n"


def test_a_system_that_is_not_posix_is_refused(tmp_path: Path) -> None:
    done = _without_posix("serve", "--data-dir", str(tmp_path / "data"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: the server and its workers need Linux, macOS or another POSIX system")
    assert len(done.stderr.splitlines()) == 1


def test_the_clients_and_the_numerics_work_on_any_system(tmp_path: Path) -> None:
    table = tmp_path / "cars.csv"
    table.write_text("x,y\n1,2\n3,4\n")
    with stub(dict(TRAINED)) as server:
        done = _without_posix("train", str(table), "--url", server.url)
    assert done.returncode == 0, done.stderr
    assert "cars version 3" in done.stdout


def _without_posix(*words: str) -> "subprocess.CompletedProcess[str]":
    """The command where Python has none of the modules that it has on POSIX alone, as on Windows."""
    names = ("fcntl", "resource", "pwd", "grp", "termios", "uvloop")
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({names!r}));"
        "import core.train.run; from app.cli import main; sys.argv[0] = 'pursuit'; main()"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
