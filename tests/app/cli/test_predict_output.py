"""Where predictions are written, and the document that says so."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from app.launch import python_command
from tests.app.cli.run import pursuit
from tests.app.cli.stub import Answer, stub


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "cars.csv"
    path.write_text("x,y\n1,2\n3,4\n")
    return path


@pytest.mark.parametrize(
    ("suffix", "answer"),
    [
        ("csv", Answer(body=b"mean\n1.0\n", type="text/csv", headers={"x-model": "cars@1", "x-warnings": "far"})),
        ("json", Answer(body={"model": "cars", "version": 1, "mean": [1.0], "warnings": [{"message": "far"}]})),
    ],
)
def test_the_document_of_predictions_in_a_file(table: Path, tmp_path: Path, suffix: str, answer: Answer) -> None:
    out = tmp_path / f"out.{suffix}"
    with stub({("POST", "/predict"): [answer]}) as server:
        result = pursuit("predict", "cars", table, "--output", out, "--json", url=server.url)
    told = {"model": "cars@1", "warnings": ["far"], "output": str(out), "size_bytes": out.stat().st_size}
    assert json.loads(result.stdout) == told
    assert "note: far" in result.stderr


@pytest.mark.parametrize(
    "words",
    [("cars.csv", "--format", "parquet"), ("cars.csv", "--format", "npy", "-o", "-"), (f"ds_{'0' * 32}",)],
)
def test_bytes_are_not_written_to_a_terminal(table: Path, words: tuple[str, ...]) -> None:
    ours, theirs = os.openpty()
    with stub({}) as server:
        done = subprocess.run(
            python_command("app.cli", "predict", "cars", *words, "--url", server.url),
            cwd=table.parent,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
            stdout=theirs,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
        asked = len(server.requests)
    os.close(ours)
    os.close(theirs)
    assert (done.returncode, asked) == (2, 0)
    assert "bytes are not for a terminal" in done.stderr
