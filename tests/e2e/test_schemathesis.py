"""Schemathesis has nothing to say: requests made from the OpenAPI document, valid and not, against a real server.

    pip install '.[fuzz]' && pytest -n 0 -m slow tests/e2e/test_schemathesis.py

`PURSUIT_FUZZ_SECONDS` is the time of each of its runs (60), `PURSUIT_FUZZ_SEEDS` their number (1). The first run of a
seed sends valid requests for what there is, the second any, and deletes too. Exceptions, and why: schemathesis.toml.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.cli.service import start
from tests.app.routes.service import QUICK, curve, even
from tests.processes import wait_until

CONFIG = Path(__file__).with_suffix(".toml").with_name("schemathesis.toml")
SECONDS = int(os.environ.get("PURSUIT_FUZZ_SECONDS", "60"))
SEEDS = range(int(os.environ.get("PURSUIT_FUZZ_SEEDS", "1")))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(4 * SECONDS + 300)]


@pytest.fixture(scope="module")
def command() -> str:
    found = shutil.which("st", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        pytest.skip("the extra `fuzz` is not installed")
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, dict[str, str]]]:
    """A server with a key, a model, a dataset and a file of predictions: its address, the key, and their names."""
    folder = tmp_path_factory.mktemp("schemathesis")
    service = start(folder / "data", folder / "serve.log")
    with httpx.Client(base_url=service.url, timeout=60.0) as client:
        files = {"file": ("sine.csv", curve(60, even))}
        spec = {**QUICK, "model": "sine", "effort": "quick", "holdout": 0}
        trained = client.post("/train", files=files, data={"spec": json.dumps(spec)}).json()["id"]
        dataset = client.post("/datasets", files=files).json()["id"]
        wait_until(lambda: client.get(f"/jobs/{trained}").json()["state"] == "succeeded", seconds=120)
        job = client.post("/predict", json={"model": "sine", "dataset": dataset}).json()["id"]
        wait_until(lambda: client.get(f"/jobs/{job}").json()["state"] == "succeeded", seconds=120)
        key = client.post("/keys", json={"scopes": ["predict", "train", "admin", "monitor"]}).json()["token"]
    yield service.url, key, {"name": "sine", "version": "1", "dataset": dataset, "job_id": job, "alias": "latest"}
    service.stop()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("known", [True, False], ids=["what there is", "anything"])
def test_it_has_nothing_to_say(
    command: str, server: tuple[str, str, dict[str, str]], tmp_path: Path, known: bool, seed: int
) -> None:
    url, key, names = server
    given = "".join(f'"path.{name}" = "{value}"\n' for name, value in names.items())
    config = tmp_path / "schemathesis.toml"
    config.write_text((f"[parameters]\n{given}\n" if known else "") + CONFIG.read_text())
    asked = [command, "--config-file", str(config), "run", f"{url}/openapi.json", "-H", f"Authorization: Bearer {key}"]
    asked += ["--seed", str(seed), "--max-time", str(SECONDS), "-n", "20", "-w", "1", "--continue-on-failure"]
    asked += [
        "--no-shrink",
        "--no-color",
        "--generation-database",
        "none",
        *(["--exclude-method", "DELETE", "--mode", "positive"] if known else []),
    ]
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Test cases:" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0, done.stdout[-8000:]
    if known:
        assert "Authentication failed" not in done.stdout
    print(done.stdout[done.stdout.index("SUMMARY") :])
