"""The image: rules that can be read off it, and its commands run as a script, as deploy/laptop.yml has them."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.settings import Settings
from tests.ports import free_port
from tests.processes import wait_until
from tests.project.dockerfile import Instruction, read

ROOT = Path(__file__).parents[2]
IMAGE = read(ROOT / "Dockerfile")
LAPTOP: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "laptop.yml").read_text(encoding="utf-8"))
CONSTRAINTS = (ROOT / "deploy" / "constraints.txt").read_text(encoding="utf-8")


def only(word: str, stage: int | None = None) -> list[Instruction]:
    return [i for i in IMAGE if i.word == word and stage in {None, i.stage}]


def environment_of_the_image() -> dict[str, str]:
    return dict(word.split("=", 1) for i in only("ENV") for word in i.words)


def test_base_images_are_pinned_to_a_slim_minor_version() -> None:
    for instruction in only("FROM"):
        assert re.fullmatch(r"python:3\.\d+-slim( AS \w+)?", instruction.rest)


def test_it_does_not_run_as_root_and_has_a_health_check() -> None:
    last = max(i.stage for i in IMAGE)
    (user,) = only("USER", last)
    assert user.rest.isdigit(), "a number, so that an orchestrator can see that it is not root"
    assert int(user.rest) > 0
    (added,) = [i.rest for i in only("RUN", last) if "useradd" in i.rest]
    assert f"--uid {user.rest} " in added
    assert "--no-create-home --shell /usr/sbin/nologin" in added
    assert IMAGE.index(user) > max(IMAGE.index(i) for i in only("RUN", last))
    (check,) = only("HEALTHCHECK")
    assert "/health/ready" in check.rest
    assert "curl" not in check.rest


def test_packages_are_checked_by_hash_and_none_is_looked_up_beside_them() -> None:
    installs = [i.rest for i in only("RUN") if "pip install" in i.rest]
    assert len(installs) == 2
    assert "--require-hashes -r constraints.txt" in installs[0]
    assert "--no-deps --no-build-isolation" in installs[1]
    assert all("--no-cache-dir" in line for line in installs)


def test_constraints_have_hashes_and_name_no_index() -> None:
    assert "://" not in CONSTRAINTS
    assert not re.search(r"^\s*(-i|--index|--extra-index|--find-links|-f|--trusted)", CONSTRAINTS, re.M)
    blocks = re.findall(r"^[a-z0-9][^\n]*(?:\n    --hash[^\n]*)*", CONSTRAINTS, re.M)
    assert len(blocks) > 30
    for block in blocks:
        assert re.match(r"[a-z0-9._-]+==[^\s]+", block), block
        assert "--hash=sha256:" in block, block


def test_constraints_cover_what_the_project_asks_for() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = project.partition("dependencies = [")[2].partition("\n]")[0]
    asked = set(re.findall(r'^\s+"([a-z0-9-]+)', block, re.M)) | {"psycopg", "obstore", "distributed", "setuptools"}
    assert "numpy" in asked
    assert asked <= set(re.findall(r"^([a-z0-9-]+)==", CONSTRAINTS, re.M))


def test_copied_files_exist_and_are_let_through() -> None:
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    for instruction in only("COPY"):
        if "--from" in instruction.rest:
            continue
        for name in instruction.words[:-1]:
            assert (ROOT / name).exists()
            assert f"!{name}" in ignore


def test_settings_of_the_image_exist() -> None:
    named = {name.removeprefix("PURSUIT_").lower() for name in environment_of_the_image() if "PURSUIT_" in name}
    assert named
    assert named <= set(Settings.model_fields)


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_commands_run_as_a_script(tmp_path: Path) -> None:
    """Build the image's contents in a folder, start API and worker as the compose file does, train once."""
    home, data, source = tmp_path / "opt", tmp_path / "data", tmp_path / "src"
    source.mkdir()
    data.mkdir()

    def moved(text: str) -> str:
        return text.replace("/opt/pursuit", str(home)).replace("/data", str(data))

    for instruction in (i for i in IMAGE if i.stage == 0):
        if instruction.word == "COPY":
            *names, destination = instruction.words
            for name in names:
                _copy(ROOT / name, source / destination, into_folder=destination.endswith("/"))
        elif instruction.word == "RUN":
            line = moved(instruction.rest).replace("python -m venv", f"{shlex.quote(sys.executable)} -m venv")
            subprocess.run(["sh", "-euc", line], cwd=source, check=True, timeout=600)
    environment = {name: moved(value) for name, value in environment_of_the_image().items()}
    environment["PATH"] = environment["PATH"].replace("$PATH", os.environ["PATH"])
    services = LAPTOP["services"]
    environment |= services["api"]["environment"] | {"PURSUIT_PORT": str(free_port())}
    with _running(services["api"]["command"], environment, data):
        check = json.loads(only("HEALTHCHECK")[0].rest.partition("CMD ")[2])
        check[-1] = check[-1].replace(":8000", f":{environment['PURSUIT_PORT']}")
        wait_until(
            lambda: subprocess.run(check, env=environment, check=False, capture_output=True).returncode == 0, 120.0, 0.2
        )
        with _running(services["worker"]["command"], environment, data):
            job = _trained(f"http://127.0.0.1:{environment['PURSUIT_PORT']}")
    assert job["state"] == "succeeded", job


def _trained(url: str) -> dict[str, Any]:
    columns = {"x": [i / 40 for i in range(60)], "y": [(i / 40) ** 2 for i in range(60)]}
    body = json.dumps({"columns": columns, "spec": {"model": "square", "basis_size": 10}}).encode()
    request = urllib.request.Request(f"{url}/train", data=body, headers={"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        job: dict[str, Any] = json.load(answer)

    def ended() -> bool:
        with urllib.request.urlopen(f"{url}/jobs/{job['id']}", timeout=30) as answer:
            job.update(json.load(answer))
        return job["state"] not in {"queued", "running"}

    wait_until(ended, 120.0, 0.2)
    return job


def _copy(name: Path, destination: Path, *, into_folder: bool) -> None:
    if name.is_dir():
        shutil.copytree(name, destination, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        if into_folder:  # as COPY makes a folder that is not there
            destination.mkdir(exist_ok=True)
        shutil.copy(name, destination / name.name if destination.is_dir() else destination)


@contextmanager
def _running(command: list[str], environment: dict[str, str], folder: Path) -> Iterator[None]:
    program = shutil.which(command[0], path=environment["PATH"])
    assert program is not None
    with subprocess.Popen([program, *command[1:]], env=environment, cwd=folder) as process:
        try:
            yield
        finally:
            process.terminate()
            assert process.wait(30) == 0
