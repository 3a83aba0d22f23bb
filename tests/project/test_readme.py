"""The README against the code: settings, commands, files, and the example as written."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from app.cli.commands import cli
from app.settings import Settings
from app.storage import artefact
from app.storage.blobs import MODELS
from tests.ports import free_port, listens

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_is_one_screen() -> None:
    assert len(README.splitlines()) <= 70


def test_settings_exist_with_the_defaults_it_names() -> None:
    named = set(re.findall(r"PURSUIT_([A-Z_]+)", README))
    assert named
    assert named <= {name.upper() for name in Settings.model_fields}
    defaults = Settings.model_fields
    assert (str(defaults["data_dir"].default), defaults["host"].default, defaults["port"].default) == (
        "pursuit-data",
        "127.0.0.1",
        8000,
    )
    assert defaults["workers"].default == 1
    assert defaults["max_upload_bytes"].default == 1 << 30


def test_links_and_files_exist() -> None:
    named = {*re.findall(r"\]\(([^)#]+)\)", README), *re.findall(r"@(\S+\.csv)", README)}
    assert "app/demo/flights.svg" in named
    for name in named:
        assert (ROOT / name).exists(), name


def test_commands_exist() -> None:
    known = {command.name or command.callback.__name__ for command in cli.registered_commands if command.callback}
    known |= {str(group.name) for group in cli.registered_groups}
    named = set(re.findall(r"`?pursuit ([a-z]+)", README))
    assert {"demo", "serve", "train", "predict"} <= named
    assert named <= known


@pytest.mark.e2e
@pytest.mark.timeout(600)
def test_the_curl_example_works_as_written(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl on this machine")
    (script,) = re.findall(r"```sh\n(.*?)```", README, re.S)
    port = 8000
    if listens(port):  # something else does: the same lines with another port
        port = free_port()
        script = script.replace("127.0.0.1:8000", f"127.0.0.1:{port}")
    data = tmp_path / "data"
    path = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PURSUIT_DATA_DIR": str(data), "PURSUIT_PORT": str(port)}
    if shutil.which("pursuit", path=path) is None:  # not installed, run from the source tree
        (tmp_path / "pursuit").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m app.cli "$@"\n')
        (tmp_path / "pursuit").chmod(0o755)
        environment["PATH"] = f"{tmp_path}{os.pathsep}{path}"
    ended = "\ntrap 'kill %1; wait' EXIT\n"
    lines = script.replace("pursuit serve &\n", f"pursuit serve 2>'{tmp_path}/log' &{ended}")
    done = subprocess.run(
        ["bash", "-euc", lines], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=580, check=False
    )
    log = (tmp_path / "log").read_text()
    assert done.returncode == 0, done.stdout + done.stderr + log
    assert '"state":"succeeded"' in done.stdout, done.stdout + log
    of_file, answer = [line for line in done.stdout.splitlines() if line.startswith('{"model":"flights"')]
    assert re.match(r'.*"mean":\[-?\d', of_file)
    numbers = re.search(r'"mean":\[(.+?)\],"std":\[(.+?)\],"lower":\[(.+?)\],"upper":\[(.+?)\]', answer)
    assert numbers is not None, answer
    mean, std, lower, upper = map(float, numbers.groups())
    assert 0 < mean < 80  # 42 minutes late at departure, some of it made good
    assert lower < mean < upper
    (stored,) = (data / "blobs" / MODELS).rglob("*.safetensors")
    below, above = artefact.load(stored.read_bytes()).calibration.interval(0.95)
    assert (lower, upper) == pytest.approx((mean + below * std, mean + above * std), rel=1e-9)
    assert 1.5 < above == -below < 3.5
