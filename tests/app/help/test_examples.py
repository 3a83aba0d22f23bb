"""Every block of code in README.md and the help runs as written, against a server; every field's example trains."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.help.contents import PAGES, ROOT
from app.help.field_examples import EXAMPLES
from app.services.spec_reading import read_spec
from tests.app.library.conftest import url, working
from tests.app.routes.service import Service, running
from tests.shell_blocks import blocks

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

README = (ROOT / "README.md").read_text(encoding="utf-8")
TEXTS = {"README": README} | {
    page.slug: page.text for page in PAGES if page.slug not in ("python", "operators", "changes")
}
"""By name: `python` runs in tests/app/library; `operators` in tests/project."""
RUN_BY_CI = {
    "pursuit train FILE --target COLUMN                      # how each column was read, how good the model is\n"
    "pursuit predict MODEL NEW_FILE --output predicted.csv   "
    "# mean, std, lower, upper of each row; MODEL: the file's name",
    "pip install . && pursuit demo",
    "pip install '.[test]' && pytest",
    "pip install .\npursuit serve",
}
"""What .ci/run does, in an environment of its own; of files that are the reader's, as in the tutorial."""
READ_ONLY = {"decimal", "thousands", "sheet"}
"""Fields of files of another form than the table of cars; tests/app/tables has them."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with working(tmp_path_factory.mktemp("served")) as found:
        yield found


@pytest.fixture
def environment(served: Service, tmp_path: Path) -> dict[str, str]:
    """An environment in which `pursuit` is the command, and asks the server."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "pursuit").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m app.cli "$@"\n')
    (folder / "pursuit").chmod(0o755)
    path = os.pathsep.join((str(folder), os.environ["PATH"]))
    return {
        **os.environ,
        "PATH": path,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'app' / 'library'}",
        "PURSUIT_URL": url(served),
    }


@pytest.mark.parametrize("name", TEXTS)
def test_every_block_runs(
    name: str, served: Service, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl on this machine")
    (tmp_path / "app").symlink_to(ROOT / "app")  # the README's paths are those of the repository
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PURSUIT_URL", url(served))
    names: dict[str, object] = {}
    for language, block in blocks(TEXTS[name]):
        if block.strip() in RUN_BY_CI:
            continue
        if language in ("bash", "sh"):
            run_shell(block, served, environment, tmp_path)
        elif language == "python":
            exec(compile(block, name, "exec"), names)
        elif language == "json":
            read_spec(json.loads(block), max_basis_size=1000)
        else:
            pytest.fail(f"{name}: a block that no test runs: {block}")


def run_shell(block: str, served: Service, environment: dict[str, str], folder: Path) -> None:
    script = block.replace("pursuit serve &\n", "").replace("http://127.0.0.1:8000", url(served))
    done = subprocess.run(
        ["bash", "-euc", script],  # no pipefail: `head` ends what writes to it
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    assert "/problems/" not in done.stdout, f"{block}\n{done.stdout}"


def test_the_blocks_of_a_text_are_found() -> None:
    text = "a\n\n    one\n    two\n\n```bash\nthree\n```\n\n- b\n"
    assert blocks(text) == [("bash", "three\n"), ("", "one\ntwo\n")]
    assert blocks("    one \\\n        more\n\n    two\n") == [("", "one \\\n    more\n"), ("", "two\n")]
    assert len(blocks(TEXTS["tutorial"])) == 5


@pytest.fixture(scope="module")
def cars() -> str:
    """The table that the page of fields begins with."""
    source = random.Random(3)
    lines = ["name,maker,sold,doors,weight,horsepower,sales,price"]
    for row in range(120):
        weight, horsepower = source.uniform(900, 2200), source.uniform(50, 250)
        day = f"202{row % 4}-{row % 12 + 1:02}-{row % 28 + 1:02}"
        price = 5_000 + 80 * horsepower + 2 * weight + source.gauss(0, 500)
        maker = f"maker {row % 24}"
        lines.append(f"car {row},{maker},{day},{2 + row % 3},{weight:.0f},{horsepower:.0f},{1 + row % 7},{price:.0f}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("trained")) as found:
        yield found


@pytest.mark.parametrize("name", [name for group in EXAMPLES.values() for name in group if name not in READ_ONLY])
def test_the_example_of_a_field_trains(trained: Service, cars: str, name: str) -> None:
    (example,) = [group[name] for group in EXAMPLES.values() if name in group]
    short = {} if {"adapt", "effort"} & set(example.spec) else {"adapt": {"rounds": 1, "steps": 5}, "effort": "quick"}
    if name in ("kernel", "mean_rows", "variance"):
        short = {}  # what a sparse model chosen by hand does not have
    job = trained.train(cars, **(short | dict(example.spec)))
    assert job["state"] == "succeeded", job["error"]
