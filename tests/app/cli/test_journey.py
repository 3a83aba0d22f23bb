"""The commands as a person uses them, as processes, against a server that is one too."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.app.routes.service import waves

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(200)]

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Run commands in a folder with a table, with a server whose address `serve --json` printed."""
    folder = tmp_path_factory.mktemp("journey")
    (folder / "waves.csv").write_text(waves(150).replace("low,", ",", 1))  # one cell is missing
    (folder / "more.csv").write_text(waves(60, seed=4))
    environment = {**os.environ, "COLUMNS": "120", "PURSUIT_DATA_DIR": str(folder / "data"), "PURSUIT_PATIENCE": "0"}
    words = [sys.executable, "-m", "app.cli", "serve", "--port", "0", "--json"]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, env=environment) as server,
    ):
        assert server.stdout is not None
        environment["PURSUIT_URL"] = json.loads(server.stdout.readline())["url"]

        def pursuit(*words: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [sys.executable, "-P", "-c", "import pursuit_gp; pursuit_gp.main()", *map(str, words)],
                input=stdin,
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
                cwd=folder,
                env={**environment, "PYTHONPATH": str(Path(__file__).parents[3] / "app" / "entry")},
            )

        yield pursuit
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
    assert all(json.loads(line)["level"] for line in (folder / "log").read_text().splitlines())


def document(done: subprocess.CompletedProcess[str], code: int = 0) -> Any:
    """Return the one document on standard output."""
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_from_a_table_to_a_report(run: Run) -> None:
    refused = run("train", "waves.csv")
    assert refused.returncode == 1
    assert "line " in refused.stderr
    assert "--missing drop, or --missing impute" in refused.stderr
    quick = '{"adapt": false, "basis_size": 30, "method": "rand"}'
    trained = run("train", "waves.csv", "--missing", "drop", "--spec", quick)
    assert trained.returncode == 0, trained.stderr
    for said in ("waves version 1", "predicted y against the truth", "pursuit evaluate waves MORE.csv", "last column"):
        assert said in trained.stdout
    again = document(run("train", "-", "--model", "waves", "--missing", "drop", "--spec", quick, "--json",
                         stdin=waves(90, seed=1)))  # fmt: skip
    assert (again["state"], again["result"]["version"]) == ("succeeded", 2)
    assert document(run("alias", "waves", "champion", 1, "--json"))["version"] == 1
    rows = run("predict", "waves", "-", "--interval", "false", "-o", "-", stdin="x,kind\n1,low\n2,high\n")
    assert (rows.returncode, rows.stdout.splitlines()[0], len(rows.stdout.splitlines())) == (0, "mean", 3)
    answer = document(run("predict", "waves@2", "more.csv", "--interval", "0.5,0.9", "--json"))
    assert len(answer["mean"]) == 60
    assert answer["version"] == 2
    scores = document(run("evaluate", "waves", "more.csv", "--by", "kind", "--json"))
    assert (scores["version"], scores["rows"], len(scores["groups"])) == (1, 60, 2)
    assert document(run("report", "waves", "-o", "waves.html", "--json"))["version"] == 1
    assert document(run("artefact", "waves", "-o", "waves.safetensors", "--json"))["version"] == 1
    local = document(run("evaluate", "waves.safetensors", "more.csv", "--json"))
    assert local["scores"]["rmse"] == pytest.approx(scores["scores"]["rmse"], rel=1e-9)
    assert document(run("import", "copy", "waves.safetensors", "--json"))["version"] == 1
    assert document(run("delete", "waves@2", "copy", "--yes", "--json")) == {"deleted": ["waves@2", "copy"]}


def test_an_installation_that_serves_is_well(run: Run) -> None:
    found = document(run("doctor", "--json"))
    assert [check["name"] for check in found["checks"] if check["state"] == "error"] == []
    assert found["ok"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("evaluate", "none", "more.csv"), 1, "'none'"),
        (("evaluate", "waves", "nowhere.csv"), 2, "file 'nowhere.csv' does not exist"),
        (("train", "more.csv", "--target", "Y"), 1, "did you mean 'y'?"),
        (("models", "--url", "http://127.0.0.1:9"), 1, "no answer from http://127.0.0.1:9"),
        (("evalute", "waves", "more.csv"), 2, "Did you mean 'evaluate'"),
    ],
)
def test_what_goes_wrong_is_a_line_a_document_and_a_code(
    run: Run, words: tuple[str, ...], code: int, said: str
) -> None:
    done = run(*words, "--json")
    assert said in document(done, code)["error"]["message"]
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
