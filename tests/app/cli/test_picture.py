"""The picture of what was learnt, in characters."""

import io
from typing import Any

import pytest
from rich.console import Console

from app.cli import display
from app.cli.client import Client
from app.cli.picture import ASCII, HEIGHT, UNICODE, against_truth, importance_bars, show_learnt, signs_for
from tests.app.cli.stub import Answer, job, problem, stub

ROWS: dict[str, Any] = {
    "name": "mpg",
    "held_out": True,
    "total": 3,
    "interval": 0.95,
    "rows": [4, 7, 9],
    "std": [1.0, 1.0, 1.0],
    "target": [0.0, 5.0, 10.0],
    "mean": [0.0, 9.0, 10.0],
    "lower": [-1.0, 8.0, 9.0],
    "upper": [1.0, 10.0, 11.0],
}
IMPORTANCE = {
    "rows": 9,
    "spread": 2.0,
    "features": [{"name": "weight", "importance": 2.0}, {"name": "year", "importance": 0.5}],
}
DONE = job("succeeded", result={"model": "cars", "version": 3, "report": {}})


@pytest.mark.parametrize("signs", [UNICODE, ASCII])
@pytest.mark.parametrize("width", [30, 72])
def test_points_are_where_they_are(signs: Any, width: int) -> None:
    head, *body, axis, ends, key = against_truth(ROWS, width, signs)
    assert head == "predicted mpg against the truth, 3 held-out rows"
    assert key == f"{signs.inside} inside of its 95% interval: 2   {signs.outside} outside: 1"
    assert len(body) == HEIGHT
    assert max(map(len, (*body, axis, ends))) <= width
    assert body[0].lstrip().startswith(f"10{signs.upright}")
    assert body[0].endswith(signs.inside)  # truth 10, mean 10
    assert body[-1].lstrip().startswith(f"0{signs.upright}{signs.inside}")
    (high,) = [line for line in body if signs.outside in line]
    assert body.index(high) < HEIGHT // 2  # its mean is 9, its truth 5
    assert ends.split() == ["0", "10"]
    if signs is ASCII:
        assert "\n".join((head, *body, axis, ends, key)).isascii()


def test_bars_of_importance() -> None:
    _, weight, year = importance_bars(IMPORTANCE, 60, ASCII)
    assert weight.count("#") == pytest.approx(4 * year.count("#"), abs=2)
    assert weight.endswith(" 2")
    assert importance_bars({**IMPORTANCE, "features": []}, 60, ASCII) == []


def test_signs_are_plain_without_a_terminal_or_with_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    utf8 = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    latin = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    assert signs_for(Console(file=utf8, force_terminal=True)) is UNICODE
    assert signs_for(Console(file=utf8, force_terminal=False)) is ASCII
    assert signs_for(Console(file=latin, force_terminal=True)) is ASCII
    monkeypatch.setenv("NO_COLOR", "1")
    assert signs_for(Console(file=utf8, force_terminal=True)) is ASCII


@pytest.mark.parametrize(
    ("held_out", "said"),
    [
        (Answer(body=ROWS), "predicted mpg against the truth"),
        (problem(404, "no held-out rows are kept"), "how far each column moves the prediction"),
    ],
)
def test_a_training_ends_with_it_and_with_what_may_be_done_next(held_out: Answer, said: str) -> None:
    place = "/models/cars/versions/3"
    answers = {("GET", f"{place}/held-out"): [held_out], ("GET", f"{place}/importance"): [Answer(body=IMPORTANCE)]}
    out = io.StringIO()
    with stub(answers) as server, Client(server.url) as client:
        show_learnt(Console(file=out, width=80), client, DONE, target_given=False, where=" --local")
    lines = out.getvalue().splitlines()
    assert said in lines[1]
    commands = [line.split("#")[0].strip() for line in lines[lines.index("Next:") + 1 :]]
    assert commands == [
        "pursuit predict cars NEW.csv --local",
        "pursuit evaluate cars MORE.csv --local",
        "pursuit report cars -o cars.html --local",
    ]
    assert ("It predicts 'mpg', the last column: --target names another." in lines) == (held_out.status == 200)


def test_a_training_of_several_targets_ends_with_commands_that_name_one() -> None:
    place = "/models/cars/versions/3"
    answers = {("GET", f"{place}/held-out"): [Answer(body=ROWS)]}
    done = job("succeeded", result={"model": "cars", "version": 3, "report": {"targets": {"a b": {}, "mpg": {}}}})
    out = io.StringIO()
    with stub(answers) as server, Client(server.url) as client:
        show_learnt(Console(file=out, width=80), client, done, target_given=True, where="")
    assert "  pursuit evaluate cars MORE.csv --target 'a b'   # score rows with the truth\n" in out.getvalue()


def test_of_many_notes_the_first_few_are_shown() -> None:
    report = {"warnings": [f"{place} missing cells of column {place}" for place in range(40)]}
    columns = {f"c{place}": {"cells": 1, "treated": "integrated"} for place in range(40)}
    report |= {"missing": {"cells": 40, "rows": 40, "columns": columns, "rows_left_out": 0}}  # type: ignore[dict-item]
    for verbose, notes in ((False, 6), (True, 40)):
        out = io.StringIO()
        display.report(Console(file=out, width=500), job("succeeded", result={"report": report}), verbose=verbose)
        lines = out.getvalue().splitlines()
        assert len([line for line in lines if line.startswith("note: ")]) == notes
        assert any("and 35 more notes: --verbose" in line for line in lines) is not verbose
        assert ("c39 (1)" in out.getvalue()) is verbose
        assert ("and 35 more columns" in out.getvalue()) is not verbose
