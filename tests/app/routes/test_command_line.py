"""Commands against a real server: datasets, aliases, deletion, what is asked before and told after."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from app.cli.commands import cli
from tests.app.routes.service import QUICK, Service, running, waves


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with three versions of `waves`, for commands that change it."""
    with running(tmp_path_factory.mktemp("command-line")) as found:
        for seed in range(3):
            found.train(waves(seed=seed), model="waves", **QUICK)
        yield found


def pursuit(service: Service, *words: object, stdin: str | None = None) -> Result:
    env = {"PURSUIT_URL": str(service.client.base_url), "COLUMNS": "120"}
    return CliRunner().invoke(cli, [str(word) for word in words], env=env, input=stdin)


def in_terminal(service: Service, *words: object, answers: str) -> tuple[int, str]:
    """Run a command in a terminal of its own, where it is answered; return its exit code and all that is shown."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "app.cli", *map(str, words)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "PURSUIT_URL": str(service.client.base_url), "COLUMNS": "160", "NO_COLOR": "1"},
    )
    os.close(theirs)
    os.write(ours, answers.encode())
    shown = b""
    with suppress(OSError):  # the terminal is gone with its last process
        while piece := os.read(ours, 4096):
            shown += piece
    os.close(ours)
    return process.wait(30), re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).replace("\r\n", "\n")


def test_an_alias_is_pointed_rolled_back_and_removed(own: Service) -> None:
    assert pursuit(own, "alias", "waves", "champion", "3").stdout == "waves@champion is version 3 now\n"
    rolled = pursuit(own, "alias", "waves", "champion", "2", "--json")
    assert json.loads(rolled.stdout) == {"model": "waves", "alias": "champion", "version": 2}
    assert json.loads(pursuit(own, "alias", "waves", "best", "champion", "--json").stdout)["version"] == 2
    assert pursuit(own, "alias", "waves", "best", "--remove").stdout == "waves@best is removed\n"
    refused = pursuit(own, "alias", "waves", "champion", "9")
    assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)
    assert "9" in refused.stderr
    assert pursuit(own, "alias", "waves", "champion").exit_code == 2


def test_deletion_asks_and_refuses_what_an_alias_points_at(own: Service) -> None:
    pursuit(own, "alias", "waves", "champion", "2")
    unasked = pursuit(own, "delete", "waves@1")
    assert unasked.exit_code == 2
    assert "--yes" in unasked.stderr
    code, said = in_terminal(own, "delete", "waves@1", answers="n\n")
    assert (code, said.endswith("error: stopped: nothing was changed\n")) == (1, True), said
    assert own.client.get("/models/waves/versions/1").status_code == 200
    code, said = in_terminal(own, "delete", "waves@1", answers="y\n")
    assert (code, said.endswith("version waves@1 is deleted\n")) == (0, True), said
    assert own.client.get("/models/waves/versions/1").status_code == 404
    kept = pursuit(own, "delete", "waves@2", "--yes", "--json")
    assert json.loads(kept.stdout)["error"]["status"] == 409
    assert pursuit(own, "delete", "waves@champion", "--yes").exit_code == 2
    forced = pursuit(own, "delete", "waves@2", "--yes", "--force", "--json")
    assert json.loads(forced.stdout) == {"deleted": ["waves@2"]}


def test_datasets_are_uploaded_shown_trained_on_and_deleted(own: Service, tmp_path: Path) -> None:
    file = tmp_path / "cars.csv"
    file.write_text(
        "id,power,maker,mpg\n" + "".join(f"{i},{50 + i % 9},{'ab'[i % 2]},{20 + i % 7}\n" for i in range(40))
    )
    made = json.loads(pursuit(own, "dataset", "upload", file, "--json").stdout)
    assert (made["rows"], made["name"], made["target"]) == (40, "cars.csv", "mpg")
    shown = pursuit(own, "dataset", "show", made["id"])
    for words in ("cars.csv, 40 rows", "power", "50 to 58", "category", "a (20), b (20)", "row number"):
        assert words in shown.output
    assert made["id"] in pursuit(own, "dataset", "list").stdout
    assert json.loads(pursuit(own, "dataset", "list", "--json").stdout)["datasets"][0]["id"] == made["id"]
    queued = pursuit(own, "train", made["id"], "--model", "cars", "--no-wait", "--json")
    assert json.loads(queued.stdout)["model"] == "cars"
    assert pursuit(own, "jobs", json.loads(queued.stdout)["id"], "--cancel").exit_code == 0
    assert pursuit(own, "dataset", "delete", made["id"]).exit_code == 2
    assert pursuit(own, "dataset", "delete", made["id"], "--yes").exit_code == 0
    assert "error: " in pursuit(own, "dataset", "show", made["id"]).stderr


@pytest.mark.parametrize(("word", "sent"), [("x\nimpute", "impute"), ("stop", None)])
def test_missing_cells_are_explained_and_asked_about(own: Service, tmp_path: Path, word: str, sent: str | None) -> None:
    file = tmp_path / "holes.csv"
    file.write_text("a,y\n" + "".join(f"{'' if i == 7 else i},{2 * i}\n" for i in range(30)))
    code, said = in_terminal(own, "train", file, "--no-wait", answers=f"{word}\n")
    for words in ("line 9, column 'a'", "--missing", "drop ", "impute ", "stop "):
        assert words in said
    assert code == (sent is None)
    if sent is None:
        assert "--missing drop, or --missing impute" in said
        return
    claimed = own.claim()
    assert claimed is not None
    assert claimed.payload["spec"]["missing"] == sent
    own.finish(claimed)


def test_without_a_terminal_missing_cells_are_told_with_the_flag(own: Service) -> None:
    told = pursuit(own, "train", "-", "--no-wait", stdin="a,y\n" + "".join(f"{i or ''},{i}\n" for i in range(30)))
    assert told.exit_code == 1
    assert "--missing drop, or --missing impute" in told.stderr


def test_a_column_and_a_level_that_were_meant(own: Service, tmp_path: Path) -> None:
    file = tmp_path / "waves.csv"
    file.write_text(waves())
    assert "did you mean 'y'?" in pursuit(own, "train", file, "--target", "Y").stderr
    spec = '{"intervals": "asymetric"}'
    assert "did you mean 'asymmetric'?" in pursuit(own, "train", file, "--spec", spec).stderr
    rows = tmp_path / "rows.csv"
    rows.write_text("x,kind\n1,Higgh\n")
    level = pursuit(own, "predict", "waves", rows)
    assert level.exit_code == 1
    assert "did you mean 'high'?" in level.stderr
    rows.write_text("x,Kind\n1,high\n")
    assert "did you mean 'kind' by 'Kind'?" in pursuit(own, "predict", "waves", rows).stderr
