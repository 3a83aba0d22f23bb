"""Processes of `pursuit` import nothing from the current folder, nor take another package for `app` or `core`."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from app.launch import python_command
from tests.ports import free_port
from tests.processes import wait_until

ROOT = Path(__file__).parents[2]
ENTRY = ROOT / "app" / "entry" / "pursuit_gp.py"
LIBRARIES = (
    *("app", "core", "pursuit", "numpy", "scipy", "fastapi", "starlette", "uvicorn", "uvloop", "httptools", "pydantic"),
    *("msgspec", "orjson", "sqlalchemy", "alembic", "pyarrow", "openpyxl", "safetensors", "httpx", "typer", "rich"),
    *("psycopg", "obstore", "distributed", "dask", "anyio", "sitecustomize", "usercustomize"),
)


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Path]:
    """A folder where every module that may be imported leaves a mark and fails; none must be left."""
    mark = tmp_path / "mark"
    folder = tmp_path / "hostile"
    folder.mkdir()
    code = f"import sys\nprint(__name__, sys.argv, file=open({str(mark)!r}, 'a'))\nraise SystemExit(9)\n"
    for name in {*sys.stdlib_module_names, *LIBRARIES}:
        (folder / f"{name}.py").write_text(code)
    for name in ("app", "core"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(code)
    yield folder
    assert not mark.exists(), mark.read_text()


def entry(*words: object) -> list[str]:
    """The command line of `pursuit`, as the installed script runs it: the script's own folder comes first."""
    return [sys.executable, str(ENTRY), *map(str, words)]


def run(folder: Path, *command: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_current_folder_is_off_the_search_path_however_it_came_there(hostile: Path) -> None:
    code = (
        "import sys; from importlib.util import module_from_spec, spec_from_file_location;"
        f"spec = spec_from_file_location('pursuit_gp', {str(ENTRY)!r});"
        "entry = module_from_spec(spec); spec.loader.exec_module(entry);"
        "sys.path.insert(0, sys.argv[1]); sys.path.append('.'); entry.isolate();"
        "import random, app.errors, core.errors;"
        "print(app.__file__, core.__file__, sys.argv[1] in sys.path or '.' in sys.path)"
    )
    done = run(hostile, sys.executable, "-P", "-c", code, str(hostile))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [str(ROOT / "app/__init__.py"), str(ROOT / "core/__init__.py"), "False"]


def test_a_package_of_the_same_name_on_the_search_path_is_passed_over(hostile: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    for name in ("app", "core"):
        (other / name).mkdir(parents=True)
        (hostile / name / "__init__.py").rename(other / name / "__init__.py")
    done = run(tmp_path, *entry("models", "--help"), PYTHONPATH=str(other))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_package_that_another_wrote_over_is_told_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "pursuit_gp.py").write_text(ENTRY.read_text())
    missing = run(tmp_path, sys.executable, "pursuit_gp.py", "serve")
    for name in ("app", "core"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text((ROOT / name / "__init__.py").read_text())
    (tmp_path / "core" / "__init__.py").write_text("print('mine')\n")
    over = run(tmp_path, sys.executable, "pursuit_gp.py", "app.worker", "child")
    assert (missing.returncode, missing.stdout, over.returncode, over.stdout) == (1, "", 1, "")
    (line,) = missing.stderr.splitlines()
    assert line.startswith(f"error: Pursuit's package 'app' is missing in {tmp_path}: install Pursuit")
    (line,) = over.stderr.splitlines()
    assert line.startswith(f"error: {tmp_path / 'core'} is not Pursuit's: another distribution wrote over it: install")


def test_a_process_of_ours_is_isolated_as_this_one_is() -> None:
    code = "from app.launch import python_command; print(python_command('app.cli', 'serve'))"
    plain = python_command("app.cli", "serve")
    assert plain[:2] == [sys.executable, "-P"]
    assert plain[-3:] == [str(ENTRY), "app.cli", "serve"]
    isolated = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert isolated.stdout.strip() == str([sys.executable, "-P", "-E", "-s", *plain[-3:]])


@pytest.fixture
def table(hostile: Path) -> Path:
    path = hostile / "squares.csv"
    path.write_text("x,y\n" + "".join(f"{i / 20},{(i / 20) ** 2}\n" for i in range(80)))
    columns = {"x": [i / 20 for i in range(80)], "y": [(i / 20) ** 2 for i in range(80)]}
    parquet.write_table(
        pa.table(columns), path.with_suffix(".parquet")
    )  # a binary file is read by a process of its own
    return path


@pytest.mark.e2e
@pytest.mark.timeout(200)
@pytest.mark.parametrize("path", ["", "here"])
def test_a_server_with_its_worker_its_children_and_its_clients(hostile: Path, table: Path, path: str) -> None:
    environment = {"PYTHONPATH": f"{os.pathsep}{hostile}"} if path else {}
    if path:  # Python itself looks there for these when it starts, before any line of ours
        for name in {*sys.stdlib_module_names, "sitecustomize", "usercustomize"}:
            (hostile / f"{name}.py").unlink()
    serving = entry("serve", "--port", 0, "--data-dir", hostile / "data")
    log, said = hostile / "log", hostile / "said"
    with log.open("wb") as errors, said.open("wb") as output:
        process = subprocess.Popen(
            serving, cwd=hostile, env={**os.environ, **environment}, stdout=output, stderr=errors
        )
    try:
        wait_until(lambda: process.poll() is not None or "listens" in said.read_text())
        url = said.read_text().split()[-1]
        for words in (
            ("train", table, "--basis-size", 10),
            ("train", table.with_suffix(".parquet"), "--basis-size", 10, "--model", "other"),
            ("predict", "squares", table),
            ("models",),
            ("jobs",),
        ):
            done = run(hostile, *entry(*words, "--url", url), **environment)
            assert done.returncode == 0, done.stderr + log.read_text()
        assert "a worker died" not in log.read_text()
    finally:
        process.terminate()
        assert process.wait(30) == 0


@pytest.mark.e2e
@pytest.mark.timeout(200)
def test_the_commands_that_start_a_server_of_their_own(hostile: Path, table: Path) -> None:
    data = ("--data-dir", hostile / "data")
    for words in (
        ("migrate", *data),
        ("train", table, "--basis-size", 10, "--local", *data),
        ("predict", "squares", table, "--local", *data),
        ("demo", table, "--picture", hostile / "p.svg", "--spec", '{"basis_size": 10}'),
    ):
        done = run(hostile, *entry(*words))
        assert done.returncode == 0, done.stdout + done.stderr
    assert (hostile / "p.svg").exists()


@pytest.mark.e2e
def test_a_module_of_the_interpreters_search_is_no_way_in(hostile: Path) -> None:
    """`python -m` looks for `app` in the current folder before any line of ours, unless it is told not to."""
    words = ("-m", "app.cli", "migrate", "--data-dir", str(hostile / "data"))
    installed = {"PYTHONPATH": str(ROOT)}
    safe = run(hostile, sys.executable, *words, PYTHONSAFEPATH="1", **installed)
    assert safe.returncode == 0, safe.stderr
    for name in ("app", "core"):
        (hostile / name / "__init__.py").unlink()
        (hostile / name).rmdir()
        (hostile / f"{name}.py").unlink()
    for name in sys.stdlib_module_names:
        (hostile / f"{name}.py").unlink()  # the interpreter itself takes some from there, before any line of ours
    done = run(hostile, sys.executable, *words, **installed)
    assert done.returncode == 0, done.stderr


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(200)
def test_workers_of_a_dask_cluster_that_are_started_as_the_manual_says(hostile: Path) -> None:
    """They have nannies, which start them by `python -c`: the current folder would come first."""
    manual = (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")
    exported = dict(re.findall(r"^    export (PYTHON\w+)=(\w+) ", manual, re.M))
    assert exported
    port = str(free_port())
    address = f"tcp://127.0.0.1:{port}"
    environment = {**os.environ, **exported, "PYTHONPATH": str(ROOT)}
    commands = (
        ("dask_scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard"),
        ("dask_worker", address, "--nworkers", "1", "--nthreads", "1", "--no-dashboard", "--death-timeout", "60"),
    )
    ask = (
        "import sys\nfrom distributed import Client\nfrom app.services.intake.large_table import sample_rows\n"
        "client = Client(sys.argv[1], timeout=60)\n"
        "print(client.submit(sample_rows, 1_000_000, 8).result(timeout=60))\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{name}", *words],
            cwd=hostile,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for name, *words in commands
    ]
    try:
        done = run(hostile, sys.executable, "-P", "-c", ask, address, PYTHONPATH=str(ROOT))
        assert done.stdout == "200000\n", done.stderr
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(30)
