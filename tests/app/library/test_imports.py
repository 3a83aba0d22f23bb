"""`pursuit` beside modules of the user's own that are called `app` and `core`."""

import os
import pydoc
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LIBRARY = ROOT / "app" / "library"

PROGRAM = """
import app, core, core.errors, sys
before = app, core, core.errors
from pursuit import Client, LocalModel, SparseGPRegressor, load
import pursuit.local
import numpy as np
X = np.linspace(0, 6, 40)[:, None]
fitted = SparseGPRegressor(adapt=False).fit(X, np.sin(X[:, 0]))
fitted.save("model.safetensors")
predicted = load("model.safetensors").predict(X)
assert (predicted["mean"] == fitted.predict(X)).all()
import app, core, core.errors
from core.errors import MINE
assert before == (app, core, core.errors) == (sys.modules["app"], sys.modules["core"], sys.modules["core.errors"])
assert not hasattr(app, "services") and not hasattr(core, "spec")
ours = {name.partition(".")[0] for name, module in list(sys.modules.items())
        if str(getattr(module, "__file__", "")).startswith(sys.argv[1])}
print(app.MINE, core.MINE, MINE, *sorted(ours))
"""


def run(folder: Path, program: str, *words: str, **environment: str) -> str:
    """Run a program as a notebook would in this folder, which comes first on the search path; return its output."""
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(LIBRARY), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_users_modules_are_neither_taken_for_ours_nor_hidden(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "__init__.py").write_text("MINE = 'my core'\n")
    (tmp_path / "core" / "errors.py").write_text("MINE = 'my errors'\n")
    (tmp_path / "app.py").write_text("MINE = 'my app'\n")
    assert run(tmp_path, PROGRAM, str(ROOT / "app")) == "my app my core my errors pursuit\n"


@pytest.mark.slow
def test_modules_that_fail_are_not_touched_also_where_an_estimator_is_unpickled(tmp_path: Path) -> None:
    for name in ("app", "core"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')\n")
    make = (
        "import pursuit; [getattr(pursuit, name) for name in pursuit.__all__]\n"
        "import numpy as np, pickle; from pursuit import SparseGPRegressor; X = np.linspace(0, 6, 30)[:, None]\n"
        "fitted = SparseGPRegressor(adapt=False).fit(X, np.sin(X[:, 0]))\n"
        "pickle.dump(fitted, open('fitted', 'wb')); print(fitted.predict(X).tolist())"
    )
    read = (
        "import numpy as np, pickle; fitted = pickle.load(open('fitted', 'rb'))\n"
        "print(fitted.predict(np.linspace(0, 6, 30)[:, None]).tolist())"
    )
    assert run(tmp_path, make) == run(tmp_path, read)


def test_a_client_needs_neither_numerics_nor_scikit_learn(tmp_path: Path) -> None:
    program = (
        "import sys; from pursuit import AsyncClient, Client\n"
        "print({'scipy', 'sklearn', 'pandas', 'polars', 'sqlalchemy', 'fastapi'} & {*sys.modules})"
    )
    assert run(tmp_path, program) == "set()\n"


def test_what_there_is_can_be_listed_with_and_without_scikit_learn(tmp_path: Path) -> None:
    program = (
        "import pursuit, sys; print(sorted(pursuit.__all__) == pursuit.__all__, 'SparseGPRegressor' in dir(pursuit))"
    )
    assert run(tmp_path, program) == "True True\n"
    without = [sys.executable, "-S", "-c", program]
    done = subprocess.run(without, env={"PYTHONPATH": str(LIBRARY)}, capture_output=True, text=True, check=True)
    assert done.stdout == "True False\n"
    text = pydoc.plain(pydoc.render_doc("pursuit"))
    assert "Regression with honest error bars: a client of the service" in text
    assert "class SparseGPRegressor" in text


def test_without_scikit_learn_the_estimator_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "sklearn.py").write_text("raise ImportError('not here')\n")
    program = (
        "import pursuit\n"
        "try:\n    pursuit.SparseGPRegressor\n"
        "except ImportError as error: print(error)\n"
        "print(hasattr(pursuit, 'nothing'))"
    )
    (needed,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["sklearn"]
    assert run(tmp_path, program) == (f"the estimator needs scikit-learn 1.6 or later: pip install '{needed}'\nFalse\n")


def test_a_package_that_another_distribution_wrote_over_is_told(tmp_path: Path) -> None:
    for name in ("__init__.py", "_imports.py", "errors.py"):
        (tmp_path / "pursuit").mkdir(exist_ok=True)
        (tmp_path / "pursuit" / name).write_text((LIBRARY / "pursuit" / name).read_text(encoding="utf-8"))
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").write_text("print('mine')\n")
    program = "try:\n    import pursuit.errors\nexcept ImportError as error: print(error)"
    found = run(tmp_path, program, PYTHONPATH="")
    assert found.startswith(f"{tmp_path / 'app'} is not Pursuit's: another distribution wrote over it; install Pursuit")
