"""The contents of the wheel, and the dependencies in pyproject.toml."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from app.help.contents import COPIED, FOLDER
from tests.needs import IMPORTED, IN_PART

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_dependency_has_a_range_and_a_reason() -> None:
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("dependencies = [")[2].partition("\n]")[0]
    for line in filter(str.strip, lines.splitlines()):
        assert re.fullmatch(r'    "[a-z0-9-]+>=[^"]+",\s+# .+', line), line


def test_the_licence_is_there() -> None:
    assert PROJECT["project"]["license"] == "MIT"
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("MIT License")


def test_what_needs_more_than_the_extra_test_is_there_and_named() -> None:
    for name in (*IMPORTED, *IN_PART):
        assert (ROOT / name).exists(), name
    extras = PROJECT["project"]["optional-dependencies"]
    known = {re.split(r"[\[>=<]", line)[0].replace("-", "_") for line in extras["test-all"]}
    assert {module for modules in IMPORTED.values() for module in modules} <= known
    sources = {path.relative_to(ROOT).as_posix(): path.read_text() for path in (ROOT / "tests").rglob("*.py")}
    for name in known - {"pursuit_gp"}:  # nothing else imports them where pytest collects
        users = {path for path, text in sources.items() if re.search(rf"^(import|from) {name}\b", text, re.MULTILINE)}
        assert all(path.startswith(tuple(IMPORTED)) for path in users), (name, users)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_wheel_holds_migrations_the_page_the_bundled_table_and_the_package_pursuit(tmp_path: Path) -> None:
    source = tmp_path / "source"  # a copy: what an earlier build left must not count, nor anything be left here
    for name in ("app", "core"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    (source / "deploy").mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", *(n for n in COPIED.values() if n.startswith("deploy/"))):
        shutil.copy(ROOT / name, source / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(source)]
    subprocess.run(command, check=True, timeout=280)
    (wheel,) = tmp_path.glob("pursuit_gp-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {p.relative_to(ROOT).as_posix() for room in ("app", "core") for p in (ROOT / room).rglob("*.py")}
    library = {name for name in sources if name.startswith("app/library/")}
    assert {f"pursuit/_packages/{name}" for name in sources - library} | {"pursuit_gp.py"} <= names
    assert {name.removeprefix("app/library/") for name in library - {"app/library/__init__.py"}} <= names
    assert "pursuit/py.typed" in names
    assert not any("app/library/" in name for name in names)
    data = {"app/demo/flights.csv", "app/demo/flights.md", "app/migrations/script.py.mako"}
    page = {path.relative_to(ROOT).as_posix() for path in (ROOT / "app/page").iterdir()}
    assert "app/page/index.html" in page
    vendored = {path.relative_to(ROOT).as_posix() for path in (ROOT / "app/swagger_ui").iterdir()}
    guide = {path.relative_to(ROOT).as_posix() for path in FOLDER.iterdir() if path.is_file()}
    guide |= {f"app/help/{name}" for name in COPIED}
    assert {f"pursuit/_packages/{name}" for name in data | page | vendored | guide} <= names
    operators = zipfile.ZipFile(wheel).read("pursuit/_packages/app/help/operators.md")
    assert operators == (ROOT / "deploy" / "README.md").read_bytes()
    assert any(
        re.fullmatch(r"pursuit/_packages/app/migrations/versions/\w+\.py", n) and "__init__" not in n for n in names
    )
    at_the_top = {name.partition("/")[0] for name in names if not re.match(r"pursuit_gp-[^/]+\.dist-info/", name)}
    assert at_the_top == {"pursuit", "pursuit_gp.py"}
    _check_import(wheel, tmp_path / "installed", tmp_path / "mine")


def _check_import(wheel: Path, installed: Path, folder: Path) -> None:
    """Import `pursuit` of the wheel in a folder that has an `app.py` and a `core`, and run the command there."""
    zipfile.ZipFile(wheel).extractall(installed)
    (folder / "core").mkdir(parents=True)
    for name in ("app.py", "core/__init__.py"):
        (folder / name).write_text("MINE = True\n")
    program = (
        "import app, core; from pursuit import Client, LocalModel, SparseGPRegressor; import app, core, sys\n"
        "print(app.MINE, core.MINE, sys.modules[LocalModel.__module__].artefact.__file__)"
    )
    environment = {**os.environ, "PYTHONPATH": str(installed)}

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, *words]
        return subprocess.run(
            command, cwd=folder, env=environment, check=True, capture_output=True, text=True, timeout=100
        )

    done = run("-c", program)
    assert done.stdout == f"True True {installed / 'pursuit' / '_packages' / 'app' / 'storage' / 'artefact.py'}\n"
    (folder / "table.csv").write_text("x,y\n" + "".join(f"{x},{x * x}\n" for x in range(40)))
    train = ("train", "table.csv", "--local", "--data-dir", "data", "--basis-size", "10")  # API, worker and its child
    assert "table version 1" in run("-m", "pursuit_gp", *train).stdout
    (folder / "app.py").unlink()
    absent = "from importlib.util import find_spec; import pursuit, pursuit_gp; print(find_spec('app'))"
    assert run("-P", "-S", "-c", absent).stdout == "None\n"
