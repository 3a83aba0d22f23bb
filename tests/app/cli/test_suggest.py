"""`pursuit suggest` against a server that says what its answer is."""

import json

import pytest

from tests.app.cli.run import pursuit
from tests.app.cli.stub import Answer, stub

ANSWER = {
    "model": "cars",
    "version": 3,
    "criterion": "variance",
    "scale": "target",
    "region": {"rows": 1000, "latent_std_before": 2.5, "latent_std_after": 1.25},
    "suggestions": [
        {
            "row": {"weight": 1234.5, "maker": "a"},
            "number": None,
            "gain": 0.5,
            "mean": 20.0,
            "std": 3.0,
            "latent_std": 2,
        }
    ],
}


def test_ranges_are_sent_and_rows_shown() -> None:
    with stub({("POST", "/models/cars/suggest"): [Answer(body=ANSWER)] * 2}) as server:
        words = ("--range", "weight=1000..2000.5", "--range", "maker=a, b", "--range", "doors=4", "--count", "1")
        shown = pursuit("suggest", "cars", *words, url=server.url)
        more = ("--criterion", "improvement", "--goal", "min", "--best", "3.5", "--seed", "2", "--json")
        as_json = pursuit("suggest", "cars", *more, url=server.url)
        first, second = (json.loads(request[2]) for request in server.requests)
    assert (shown.exit_code, as_json.exit_code) == (0, 0), shown.output
    assert "1234.5" in shown.stdout.replace(",", "")
    assert "2.5 now, 1.25 once these are measured" in shown.stdout
    assert json.loads(as_json.stdout) == ANSWER
    ranges = {"weight": [1000.0, 2000.5], "maker": {"values": ["a", "b"]}, "doors": {"values": [4]}}
    assert first == {"ranges": ranges, "count": 1, "candidates": 1000, "seed": 0}
    assert second == {
        "ranges": {},
        "count": 5,
        "candidates": 1000,
        "seed": 2,
        "criterion": "improvement",
        "goal": "min",
        "best": 3.5,
    }


@pytest.mark.parametrize("words", [("--range", "x=nan..1"), ("--range", "x=0..inf"), ("--best", "nan")])
def test_numbers_are_finite(words: tuple[str, ...]) -> None:
    result = pursuit("suggest", "cars", *words)
    assert result.exit_code == 1
    assert "error: expected finite numbers: JSON has no NaN and no infinity" in result.stderr


@pytest.mark.parametrize("text", ["weight", "=1..2", "weight=a..2"])
def test_a_range_says_what_was_expected(text: str) -> None:
    result = pursuit("suggest", "cars", "--range", text)
    assert result.exit_code == 2
    assert "expected" in result.stderr
