"""deploy/README.md against the code: its commands of `pursuit` and Dask run, those of Docker, Kubernetes and others
name what is there, and the settings that it names exist."""

import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml
from distributed import Client
from typer.testing import CliRunner

from app.cli.commands import cli
from app.settings import Settings
from tests.ports import free_port, listens
from tests.processes import wait_until
from tests.project.kustomize import Manifest, containers, render
from tests.shell_blocks import blocks, commands

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")
BLOCKS = [block for _, block in blocks(GUIDE)]
NAMESPACE = "pursuit"
COMPOSE_COMMANDS = {"build", "exec", "run", "up"}


def block_with(words: str) -> str:
    """Return the block that has these words."""
    (found,) = [block for block in BLOCKS if words in block]
    return found


def check_pursuit(words: Sequence[str]) -> None:
    """Parse a command of `pursuit` with its options, without running it: what is unknown is told before the help is."""
    parsed = CliRunner().invoke(cli, [*(word.strip("[]") for word in words[1:]), "--help"])
    assert parsed.exit_code == 0, f"{' '.join(words)}: {parsed.output}"


def check_docker(words: Sequence[str]) -> None:
    """Look up the file, the services, volumes and commands that a command of Docker names."""
    if words[1] == "run":
        mounts = [words[place + 1] for place, word in enumerate(words) if word == "-v"]
        volumes = {f"{compose['name']}_{name}" for compose in composed() for name in compose["volumes"]}
        assert {mount.partition(":")[0] for mount in mounts if "$" not in mount} <= volumes
        return
    assert words[1] == "compose"
    rest = list(words[2:])
    file = ROOT / (rest[1] if rest[0] == "-f" else "docker-compose.yml")
    rest = rest[2:] if rest[0] == "-f" else rest
    assert rest[0] in COMPOSE_COMMANDS
    services = yaml.safe_load(file.read_text(encoding="utf-8"))["services"]
    named = [word for word in rest[1:] if not word.startswith("-")]
    if rest[0] in {"exec", "run"}:
        assert named[0] in services, words
        inner = rest[rest.index(named[0]) + 1 :]
        if inner:
            CHECKS[inner[0]](inner)
    else:
        assert set(named) <= set(services), words


def composed() -> list[dict[str, Any]]:
    """Return the files of Docker compose."""
    return [yaml.safe_load((ROOT / name).read_text()) for name in ("docker-compose.yml", "deploy/laptop.yml")]


def check_kubectl(words: Sequence[str]) -> None:
    """Look up the folders and the objects that a command of kubectl names, in the manifests of the medium size."""
    manifests = render(ROOT / "deploy" / "kubernetes" / "medium")
    rest = list(words[1:])
    if rest[0] == "-n":
        assert rest[1] == NAMESPACE
        rest = rest[2:]
    match rest:
        case ["create", "namespace", name]:
            assert name == NAMESPACE == namespace_of(manifests)
        case ["create", "secret", "generic", name, option]:
            assert option.startswith("--from-env-file=")
            assert name in secrets_of(manifests)
        case ["apply", "-k", folder]:
            assert render(ROOT / folder)
        case ["exec", place, "--", *command]:
            assert objects(manifests)[place.replace("deploy/", "Deployment/")]
            check_pursuit(command)
        case ["delete", "job", name, "--ignore-not-found"]:
            assert objects(manifests)[f"Job/{name}"]
        case _:
            pytest.fail(f"a command of kubectl that no test knows: {words}")


def objects(manifests: Sequence[Manifest]) -> dict[str, Manifest]:
    """Return manifests by kind and name."""
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in manifests}


def namespace_of(manifests: Sequence[Manifest]) -> str:
    (found,) = {each["metadata"]["namespace"] for each in manifests if "namespace" in each["metadata"]}
    return str(found)


def secrets_of(manifests: Sequence[Manifest]) -> set[str]:
    """Return the names of the secrets that containers take their environment from."""
    sources = [source for each in manifests for one in containers(each) for source in one.get("envFrom", ())]
    return {source["secretRef"]["name"] for source in sources if "secretRef" in source}


def check_uv(words: Sequence[str]) -> None:
    """Look up the files and the extras that the pins are compiled from."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    after = {word: words[place + 1] for place, word in enumerate(words[:-1]) if word != "--extra"}
    extras = {words[place + 1] for place, word in enumerate(words) if word == "--extra"}
    assert extras <= set(project["optional-dependencies"])
    assert project["requires-python"] == f">={after['--python-version']}"
    assert all((ROOT / name).exists() for name in (*words[3:5], after["-o"]))


def check_store(words: Sequence[str]) -> None:
    """The bucket is that of Docker compose, which is copied to another one."""
    (_, _, _, source, target) = words
    assert source == composed()[0]["x-pursuit"]["environment"]["PURSUIT_ARTEFACT_URL"] != target


def check_dump(words: Sequence[str]) -> None:
    """User and database are those of Docker compose."""
    postgres = composed()[0]["services"]["postgres"]["environment"]
    assert words[words.index("-U") + 1] == postgres["POSTGRES_USER"]
    assert postgres["POSTGRES_DB"] in words[words.index("-Fc") + 1 :]


def runs(_: Sequence[str]) -> None:
    """It runs in a test of its own, below."""


CHECKS: dict[str, Callable[[Sequence[str]], None]] = {
    "pursuit": check_pursuit,
    "docker": check_docker,
    "kubectl": check_kubectl,
    "uv": check_uv,
    "aws": check_store,
    "pg_dump": check_dump,
    "cp": runs,
    "chmod": runs,
    "export": runs,
    "dask": runs,
}
COPY = "copy="
"""Beginning of the assignment of a command that `$copy` runs."""


def test_every_block_is_found() -> None:
    assert len(BLOCKS) == 13
    lines = [line[4:] for line in GUIDE.splitlines() if line.startswith("    ")]
    assert "\n".join(lines).split() == "".join(BLOCKS).split()


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: " ".join(block.split()[:3]))
def test_every_command_names_what_is_there(block: str) -> None:
    assert subprocess.run(["bash", "-n"], input=block, text=True, check=False).returncode == 0, block
    for words in commands(block):
        if words[0].startswith(COPY):
            check_docker(words[0].removeprefix(COPY).split())
        elif words[0] != "$copy":
            assert words[0] in CHECKS, f"a command that no test knows: {' '.join(words)}"
            CHECKS[words[0]](words)


@pytest.mark.parametrize(
    "wrong",
    [
        "pursuit backup /mnt/backup --chekc",
        "docker compose up -d api-3",
        "docker compose -f deploy/laptop.yml exec -T worker pursuit bakcup /data/backup",
        "kubectl -n pursuit exec deploy/pursuit-workers -- pursuit keys list",
        "uv pip compile pyproject.toml deploy/build.in --extra postgresql -o deploy/constraints.txt",
        "pg_dump -h postgres.example.com -U postgres -Fc pursuit",
    ],
)
def test_a_command_that_names_what_is_not_there_is_told(wrong: str) -> None:
    ((program, *rest),) = commands(wrong)
    with pytest.raises((AssertionError, KeyError)):
        CHECKS[program]([program, *rest])


def test_the_settings_that_it_names_exist() -> None:
    named = set(re.findall(r"PURSUIT_([A-Z_]+[A-Z])(?![A-Z_])", GUIDE))
    clients = {"API_KEY"}
    assert len(named) > 20
    assert {name.lower() for name in named - clients} <= set(Settings.model_fields)


def test_the_environment_of_docker_compose_is_begun_as_written(tmp_path: Path) -> None:
    (tmp_path / "deploy").mkdir()
    shutil.copy(ROOT / "deploy" / "env.example", tmp_path / "deploy")
    (line,) = [line for line in block_with("env.example").splitlines() if "env.example" in line]
    subprocess.run(["bash", "-euc", line], cwd=tmp_path, check=True)
    assert stat.S_IMODE((tmp_path / ".env").stat().st_mode) == 0o600
    assert (tmp_path / ".env").read_text() == (ROOT / "deploy" / "env.example").read_text()


@pytest.fixture
def shell(tmp_path: Path) -> Callable[[str], str]:
    """A shell with `pursuit` over a data directory of its own; returns what a script prints."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "pursuit").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m app.cli "$@"\n')
    (folder / "pursuit").chmod(0o755)
    environment = os.environ | {
        "PATH": os.pathsep.join((str(folder), os.environ["PATH"])),
        "PYTHONPATH": str(ROOT),
        "PURSUIT_DATA_DIR": str(tmp_path / "data"),
    }

    def run(script: str) -> str:
        done = subprocess.run(
            ["bash", "-euc", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


@pytest.mark.e2e
def test_the_backup_runs_as_written(shell: Callable[[str], str], tmp_path: Path) -> None:
    shell("pursuit migrate")
    shell(block_with("pursuit backup /mnt/backup").replace("/mnt/backup", str(tmp_path / "backup")))
    assert (tmp_path / "backup").is_dir()


@pytest.mark.e2e
def test_the_keys_are_made_listed_and_revoked_as_written(shell: Callable[[str], str]) -> None:
    create, listed, revoke, audit = block_with("pursuit keys list").splitlines()
    shell("pursuit migrate")
    token = shell(create).strip()
    assert re.fullmatch(r"pk_[0-9a-f]{16}_\S+", token)
    key = token.split("_")[1]
    assert key in shell(listed)
    shell(revoke.replace("ID", key))
    assert "revoke" in shell(audit.replace(" [--usage]", ""))
    shell(audit.replace("[", "").replace("]", ""))


@pytest.mark.e2e
def test_the_cluster_starts_as_written(tmp_path: Path) -> None:
    """Its scheduler and a worker with the variables that are exported, at an address and a number of processes that
    this machine has."""
    port = free_port()
    block = block_with("dask scheduler").replace("10.0.0.1", "127.0.0.1").replace("8786", str(port))
    exports, scheduler, worker = block.partition("dask scheduler")[0], *re.findall(r"^dask .*", block, re.MULTILINE)
    assert "--nworkers 16" in worker
    dask = f'"{sys.executable}" -m distributed.cli.dask_'
    begun = [
        line.replace("dask scheduler", f"{dask}scheduler").replace("dask worker", f"{dask}worker")
        for line in (scheduler, worker.replace("--nworkers 16", "--nworkers 1"))
    ]
    environment = os.environ | {"PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))}
    processes = []
    try:
        for line in begun:
            script = f"{exports}\nexec {line}"
            processes.append(
                subprocess.Popen(["bash", "-euc", script], cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
            )
            if len(processes) == 1:
                wait_until(lambda: listens(port), 30.0)
        with Client(f"tcp://127.0.0.1:{port}", timeout=30, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=30)
            # A function of this file would not do: an installed worker finds no tests.
            assert [path.is_dir() for path in client.run(resources.files, "core.train").values()] == [True]
    finally:
        for process in processes[::-1]:
            process.terminate()
            process.wait(30)
