"""The demo as a whole, on a person's own small table."""

import io
import math
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from rich.console import Console

from app.cli.client import Client, ClientError
from app.demo.run import run
from app.demo.table import Split, split
from tests.processes import alive, children, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(200)]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Numbers, a category, holes, a rare level, and the target in the middle."""
    source = random.Random(5)
    lines = ["a;wanted;kind"]
    for row in range(300):
        a = source.uniform(0, 6)
        kind = source.choice(["red", "blue"]) if row else "never again"
        wanted = math.sin(a) + (kind == "red") + source.gauss(0, 0.1)
        lines.append(f"{'' if row % 50 == 3 else f'{a:.4f}'};{wanted:.4f};{kind}")
    path = tmp_path / "own.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the temporary folders, so that a test sees which are left."""
    folder = tmp_path / "t"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_it_shows_how_good_a_model_of_ones_own_table_is(table: Path, temporary: Path, tmp_path: Path) -> None:
    out = io.StringIO()
    picture = tmp_path / "p.svg"
    console = Console(file=out, width=120)
    scores = run(
        console, file=table, target="wanted", spec={"features": ["a", "kind"]}, picture=picture, keep=False, port=0
    )
    assert scores.nmse < 0.15
    assert 0.8 < scores.coverage <= 1.0
    assert scores.nlpd < 0.0
    said = out.getvalue()
    for words in ("250 rows to learn wanted from, 50 rows held back", "true wanted", "NMSE", "NLPD", "95% intervals"):
        assert words in said
    assert f"{scores.coverage:.1%} +- 3.1% of the rows" in said
    assert len([line for line in said.splitlines() if line.startswith("error bars calibrated by ")]) == 1
    assert f"picture: {picture}" in said
    assert re.search(r"\d cells are missing, in a: they are learnt from too \(--missing impute\); --missing drop", said)
    assert "wanted, predicted against true</text>" in picture.read_text(encoding="utf-8")
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("missing", ["impute", "drop"])
def test_rows_held_back_that_have_holes_of_their_own(tmp_path: Path, missing: str) -> None:
    """Training met no hole there: those are integrated over, or the rows left out, and the training is not lost."""
    source = random.Random(5)
    rows = [[f"{source.uniform(0, 6):.4f}", source.choice(["red", "blue"]), ""] for _ in range(120)]
    for row in rows:
        row[2] = f"{math.sin(float(row[0])) + (row[1] == 'red') + source.gauss(0, 0.1):.4f}"
    path = tmp_path / "own.csv"
    (tmp_path / "split").mkdir()

    def write() -> Split:
        path.write_text("\n".join(map(",".join, [["a", "kind", "y"], *rows])) + "\n")
        return split(path, tmp_path / "split")

    places = write().numbers[3:6]
    for place in places:
        rows[place][1] = ""
    assert write().numbers[3:6] == places
    out = io.StringIO()
    spec = {"missing": missing, "adapt": False}
    scores = run(
        Console(file=out, width=120), file=path, target=None, spec=spec, picture=tmp_path / "p.svg", keep=False, port=0
    )
    assert scores.nmse < 0.2
    said = out.getvalue()
    if missing == "impute":
        assert "20 rows the model has not seen" in said
        return
    assert "3 of the 20 rows held back cannot be predicted; the first is " in said
    assert f"row {places[0]}, column kind, ''" in said
    assert "17 rows the model has not seen" in said
    assert [line.split()[0] for line in said.splitlines() if line.lstrip()[:1].isdigit()].count(str(places[0])) == 0


def test_keep_leaves_the_server_running(table: Path, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    words = ("demo", table, "--target", "wanted", "--picture", tmp_path / "p.svg", "--keep")
    done = subprocess.run(
        [sys.executable, "-m", "app.cli", *map(str, words)],
        env={**os.environ, "TMPDIR": str(folder), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    said = re.search(r"goes on at (http://\S+) .*kill (\d+)", done.stdout, re.S)
    assert said is not None, done.stdout + done.stderr
    pid = int(said[2])
    try:
        with Client(said[1]) as client:
            (model,) = client.models()["models"]
        assert model["name"] == "own"
        assert len(list(folder.iterdir())) == 1
    finally:
        os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not alive(pid))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_its_end_is_the_end_of_the_service(temporary: Path, tmp_path: Path, number: signal.Signals) -> None:
    words = ("demo", "--picture", tmp_path / "p.svg")
    with subprocess.Popen(
        [sys.executable, "-m", "app.cli", *map(str, words)],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        while not re.match(r" *\d+%  ", demo.stdout.readline()):  # the first that is said of the job
            assert demo.poll() is None
        service = children(demo.pid)
        everyone = [*service, *(worker for server in service for worker in children(server))]
        assert len(everyone) == 2
        demo.send_signal(number)
        demo.wait(30)
    wait_until(lambda: not any(map(alive, everyone)))
    assert number == signal.SIGKILL or list(temporary.iterdir()) == []


def test_what_the_server_refuses_is_told_and_nothing_is_left(temporary: Path, tmp_path: Path) -> None:
    source = tmp_path / "same.csv"
    source.write_text("x,y\n" + "".join(f"{i},3\n" for i in range(40)))
    console = Console(file=io.StringIO())
    with pytest.raises(ClientError, match=r"3\.0 in every row"):
        run(console, file=source, target=None, spec={}, picture=tmp_path / "p.svg", keep=True, port=0)
    assert list(temporary.iterdir()) == []


def test_a_picture_that_cannot_be_written_is_said_before_the_work(tmp_path: Path) -> None:
    place = tmp_path / "missing" / "p.svg"
    for picture in (place, tmp_path):
        with pytest.raises(ClientError, match="cannot write the picture"):
            run(Console(file=io.StringIO()), file=None, target=None, spec={}, picture=picture, keep=False, port=0)
