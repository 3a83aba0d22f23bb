"""Every command: --json, help that names the words of options, one line for what is wrong, completion."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

import app.cli as cli_package
from app.cli import spec_values
from app.cli.commands import cli
from tests.app.cli.stub import Answer, problem, stub


def pursuit(*words: str | Path, stdin: str | None = None, **environment: str) -> Result:
    env = {"PURSUIT_URL": "http://127.0.0.1:9", "COLUMNS": "200", **environment}
    return CliRunner().invoke(cli, [str(word) for word in words], input=stdin, env=env)


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command with its words."""
    root: Any = group or typer.main.get_command(cli)
    for name, member in root.commands.items():
        if hasattr(member, "commands"):
            yield from commands(member, (*path, name))
        else:
            yield (*path, name), member


def test_every_command_takes_json() -> None:
    without = [" ".join(path) for path, command in commands() if not any("--json" in p.opts for p in command.params)]
    assert without == []


def test_every_option_says_what_it_is() -> None:
    unsaid = [
        f"{' '.join(path)} {param.opts[-1]}"
        for path, command in commands()
        for param in command.params
        if not param.help and not param.hidden and param.name not in {"help"}
    ]
    assert unsaid == []


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("train", (*spec_values.METHODS, *spec_values.KERNELS, *spec_values.EFFORTS, *spec_values.MISSING)),
        ("predict", (*spec_values.EXTRAS, *spec_values.KEEP, *spec_values.ON_ERROR, "csv", "parquet", "false")),
        ("jobs", spec_values.JOB_STATES),
    ],
)
def test_help_names_the_words(command: str, words: tuple[str, ...]) -> None:
    said = pursuit(command, "--help").stdout
    assert [word for word in words if word not in said] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("trian", __file__), "No such command 'trian'. Did you mean 'train'"),
        (("train", __file__, "--tagret", "y"), "--target"),
        (("train", __file__, "--missing", "imput"), "Did you mean 'impute'?"),
        (("train", __file__, "--kernel", "Matern-32"), "Did you mean 'matern32'?"),
        (("train", __file__, "--basis-size", "aut"), "Did you mean 'auto'?"),
        (("predict", "m", __file__, "--include", "medain"), "Did you mean 'median'?"),
        (("predict", "m", __file__, "--format", "parket"), "Did you mean 'parquet'?"),
        (("jobs", "--state", "Running"), "Did you mean 'running'?"),
        (("completion", "basch"), "Did you mean 'bash'?"),
        (("train", "no-such.csv"), "file 'no-such.csv' does not exist"),
        (("train", "/"), "'/' is a folder"),
    ],
)
def test_a_mistake_is_one_line_that_names_what_was_meant(words: tuple[str, ...], said: str) -> None:
    for extra in ((), ("--json",)):
        result = pursuit(*words, *extra)
        assert result.exit_code == 2
        first, second = result.stderr.splitlines()
        assert first.startswith("error: ")
        assert said in first
        assert second.endswith("--help`")
        assert (json.loads(result.stdout)["error"]["message"] if extra else result.stdout) in first


def test_a_refusal_is_a_document_too(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("x,y\n1,2\n")
    fault = {"row": 0, "line": 2, "column": "x", "value": "?", "message": "not a number"}
    refusal = problem(422, "line 2, column 'x': not a number", errors=[fault], error_count=1)
    with stub({("POST", "/train"): [refusal], ("GET", "/models"): [problem(401, "an API key is needed")]}) as server:
        refused = pursuit("train", file, "--json", PURSUIT_URL=server.url)
        unknown = pursuit("models", "--json", PURSUIT_URL=server.url)
    away = pursuit("models", "--json")
    assert json.loads(refused.stdout) == {
        "error": {
            "message": "line 2, column 'x': not a number",
            "status": 422,
            "errors": [fault],
            "error_count": 1,
        }
    }
    assert json.loads(unknown.stdout)["error"]["status"] == 401
    assert json.loads(away.stdout)["error"]["status"] is None
    assert [one.exit_code for one in (refused, unknown, away)] == [1, 1, 1]
    assert unknown.stderr == "error: an API key is needed\nsend one with PURSUIT_API_KEY or --key\n"
    assert away.stderr.startswith("error: no answer from http://127.0.0.1:9: ")


def test_a_table_from_standard_input() -> None:
    queued = {"id": "job_1", "kind": "train", "model": "table", "created_at": "2026-01-01", "state": "queued"}
    answers = {
        ("POST", "/train"): [Answer(body=queued, status=202)],
        ("POST", "/predict"): [Answer(body=b"mean\n1.5\n", type="text/csv")],
    }
    with stub(answers) as server:
        trained = pursuit("train", "-", "--no-wait", "--json", stdin="x,y\n1,2\n", PURSUIT_URL=server.url)
        predicted = pursuit("predict", "cars", "-", "-o", "-", stdin="x\n1\n", PURSUIT_URL=server.url)
        (sent,) = server.bodies("POST", "/train")
        (asked,) = server.bodies("POST", "/predict")
    assert json.loads(trained.stdout) == queued
    assert b'filename="table"' in sent
    assert b"x,y\n1,2\n" in sent
    assert (predicted.stdout, asked) == ("mean\n1.5\n", b"x\n1\n")


def test_the_mean_alone_for_a_file() -> None:
    with stub({("POST", "/predict"): [Answer(body=b"mean\n1.5\n", type="text/csv")]}) as server:
        result = pursuit("predict", "cars", "-", "--interval", "false", stdin="x\n1\n", PURSUIT_URL=server.url)
        (sent,) = server.requests
    assert result.exit_code == 0, result.output
    assert sent[1] == "/predict?model=cars&interval=false"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    script = pursuit("completion", shell).stdout
    assert "_PURSUIT_COMPLETE" in script
    words = "pursuit train t.csv --missing "
    asked = subprocess.run(
        [sys.executable, "-m", "app.cli"],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "_PURSUIT_COMPLETE": f"complete_{shell}",
            "COMP_WORDS": words,
            "COMP_CWORD": "4",
            "_TYPER_COMPLETE_ARGS": words,
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        },
    )
    assert all(word in asked.stdout for word in spec_values.MISSING), asked.stderr


def test_json_before_the_command_means_the_same() -> None:
    with stub({("GET", "/models"): [Answer(body={"models": [], "next_cursor": None})]}) as server:
        for words in (("models", "--json"), ("--json", "models")):
            assert json.loads(pursuit(*words, PURSUIT_URL=server.url).stdout) == {"models": [], "next_cursor": None}


def test_the_version_as_a_document() -> None:
    assert json.loads(pursuit("--version", "--json").stdout)["version"]
    assert json.loads(pursuit("--json", "--version").stdout)["version"]


def test_the_readme_tells_the_document_of_every_command() -> None:
    rows = Path(cli_package.__file__).with_name("README.md").read_text(encoding="utf-8")
    told = {word for line in rows.splitlines() if line.startswith("| ") for word in line.split("|")[1].split("`")[1::2]}
    groups = {"keys": ("list", "create", "revoke", "audit"), "dataset": ("list", "show", "upload", "delete")}
    for path, _ in commands():
        name = " ".join(path)
        known = {name, path[-1]} if path[0] in groups else {name}
        assert any(word == one or word.startswith(f"{one} ") for word in told for one in known), name
