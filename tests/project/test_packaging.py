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

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_dependency_has_a_range_and_a_reason() -> None:
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("dependencies = [")[2].partition("\n]")[0]
    for line in filter(str.strip, lines.splitlines()):
        assert re.fullmatch(r'    "[a-z0-9-]+>=[^"]+",\s+# .+', line), line


def test_the_licence_is_there() -> None:
    assert PROJECT["project"]["license"] == "MIT"
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("MIT License")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_wheel_holds_migrations_the_bundled_table_and_the_package_pursuit(tmp_path: Path) -> None:
    source = tmp_path / "source"  # a copy: what an earlier build left must not count, nor anything be left here
    for name in ("app", "core"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(source)]
    subprocess.run(command, check=True, timeout=280)
    (wheel,) = tmp_path.glob("pursuit_gp-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {p.relative_to(ROOT).as_posix() for room in ("app", "core") for p in (ROOT / room).rglob("*.py")}
    library = {name for name in sources if name.startswith("app/library/")}
    assert {*sources - library, "pursuit_gp.py"} <= names
    assert {name.removeprefix("app/library/") for name in library - {"app/library/__init__.py"}} <= names
    assert "pursuit/py.typed" in names
    assert not any(name.startswith("app/library/") for name in names)
    assert {"app/demo/flights.csv", "app/demo/flights.md", "app/migrations/script.py.mako"} <= names
    assert any(re.fullmatch(r"app/migrations/versions/\w+\.py", n) and "__init__" not in n for n in names)
    assert not any(name.startswith("tests/") for name in names)
    _check_import(wheel, tmp_path / "installed", tmp_path / "mine")


def _check_import(wheel: Path, installed: Path, folder: Path) -> None:
    """Import `pursuit` of the wheel in a folder that has an `app.py` and a `core`."""
    zipfile.ZipFile(wheel).extractall(installed)
    (folder / "core").mkdir(parents=True)
    for name in ("app.py", "core/__init__.py"):
        (folder / name).write_text("MINE = True\n")
    program = (
        "import app, core; from pursuit import Client, LocalModel, SparseGPRegressor; import app, core, sys\n"
        "print(app.MINE, core.MINE, sys.modules[LocalModel.__module__].artefact.__file__)"
    )
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == f"True True {installed / 'app' / 'storage' / 'artefact.py'}\n"
