"""Requests for intervals, quantiles and more: the same numbers as JSON and as CSV, and every refusal."""

import json
from typing import Any

import numpy as np
import pytest

from tests.app.routes.problems import assert_problem
from tests.app.routes.service import CSV_BODY, JSON_BODY, Service

ROWS = [[0.25, -0.5], [0.9, 0.1], [30.0, 0.0]]
TABLE = "a,b\n" + "".join(f"{a!r},{b!r}\n" for a, b in ROWS)


def as_csv(service: Service, query: str) -> dict[str, list[float]]:
    """A CSV body answered as CSV: its columns."""
    headers = {"content-type": "text/csv", "accept": "text/csv"}
    answer = service.client.post(f"/predict?model=numbers&{query}", content=TABLE, headers=headers)
    assert answer.status_code == 200, answer.text
    return columns(answer.text)


def columns(text: str) -> dict[str, list[float]]:
    head, *lines = text.splitlines()
    cells = zip(*(map(float, line.split(",")) for line in lines), strict=True)
    return dict(zip(head.split(","), map(list, cells), strict=True))


QUERIES = [
    "interval=0.5,0.9,0.95&quantiles=0.1,0.75&include=latent_std,median,support",
    "interval=0.5&interval=0.9&interval=0.95&quantiles=0.1&quantiles=0.75&include=latent_std&include=median,support",
    "interval=%200.5,%200.9&interval=.95,&quantiles=1e-1,%2075e-2&include=support,%20median&include=latent_std",
]


@pytest.mark.parametrize("query", QUERIES)
def test_csv_and_json_give_the_same_numbers(service: Service, query: str) -> None:
    more: dict[str, Any] = {
        "interval": [0.5, 0.9, 0.95],
        "quantiles": [0.1, 0.75],
        "include": ["latent_std", "median", "support"],
    }
    found = service.ask("numbers", ROWS, **more)
    expected = {"mean": found["mean"], "std": found["std"]}
    for place, level in enumerate((0.5, 0.9, 0.95)):
        expected[f"lower_{level}"] = found["lower"][place]
        expected[f"upper_{level}"] = found["upper"][place]
    expected |= {"quantile_0.1": found["quantile_values"][0], "quantile_0.75": found["quantile_values"][1]}
    expected |= {name: found[name] for name in more["include"]}
    table = as_csv(service, query)
    assert table == expected
    assert list(table) == list(expected)
    answer = service.client.post(f"/predict?model=numbers&{query}", content=TABLE, headers=CSV_BODY)
    assert answer.json() == found
    body = {"model": "numbers", "rows": ROWS, **more}
    answer = service.client.post("/predict", json=body, headers={"accept": "text/csv"})
    assert columns(answer.text) == expected


def test_levels_name_their_columns_only_where_there_may_be_several(service: Service) -> None:
    assert list(as_csv(service, "interval=0.9&quantiles=0.5")) == ["mean", "std", "lower", "upper", "quantile_0.5"]
    assert list(as_csv(service, "quantiles=&include=")) == ["mean", "std", "lower", "upper"]
    for level in ([0.9], []):
        body = {"model": "numbers", "rows": ROWS, "interval": level}
        answer = service.client.post("/predict", json=body, headers={"accept": "text/csv"})
        assert list(columns(answer.text)) == ["mean", "std", *(["lower_0.9", "upper_0.9"] if level else [])]


@pytest.mark.parametrize(("name", "level"), [("interval", 0.9), ("quantiles", 0.3)])
def test_the_same_twice_is_refused(service: Service, name: str, level: float) -> None:
    answer = service.client.post("/predict", json={"model": "numbers", "rows": ROWS, name: [level, level]})
    assert_problem(answer, 422, f"{name}: every level once, got {level}, {level}")


def test_levels_that_differ_have_columns_that_differ(service: Service) -> None:
    assert len(as_csv(service, "interval=0.9,0.9000001")) == 6
    assert len(as_csv(service, "quantiles=0.1,0.1000001")) == 6


def test_no_interval_of_a_csv_body(service: Service) -> None:
    headers = CSV_BODY
    answer = service.client.post("/predict?model=numbers&interval=", content=TABLE, headers=headers)
    assert_problem(answer, 422, "interval: expected a number, got nothing")


def test_no_level_is_refused_and_the_answer_says_its_basis(service: Service) -> None:
    """120 rows: 99.1% by rank."""
    levels = [0.5, 0.99, 0.995, 0.9999999]
    found = service.ask("numbers", ROWS, interval=levels)
    assert found["interval_basis"] == ["conformal", "conformal", "tail", "tail"]
    assert (np.diff(found["upper"], axis=0) >= 0).all()
    assert service.ask("numbers", ROWS, interval=0.995)["interval_basis"] == "tail"
    assert "interval_basis" not in service.ask("numbers", ROWS, interval=False)
    quantiles = service.ask("numbers", ROWS, quantiles=[1e-5, 0.5])["quantile_values"]
    assert quantiles[0] < quantiles[1]
    query = f"/predict?model=numbers&interval={','.join(map(str, levels))}"
    answer = service.client.post(query, content=TABLE, headers={"content-type": "text/csv", "accept": "text/csv"})
    assert answer.headers["x-interval-basis"] == "conformal,conformal,tail,tail"


WRONG: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "interval of zero": ({"interval": 0}, ("interval: expected a probability above 0 and below 1, got 0",)),
    "interval of one": ({"interval": 1.0}, ("interval: expected a probability", "got 1.0")),
    "negative interval": ({"interval": -0.5}, ("interval: expected a probability", "got -0.5")),
    "one wrong of several": ({"interval": [0.5, 95]}, ("interval: expected a probability", "got 95")),
    "text among intervals": ({"interval": [0.5, "x"]}, ("interval[1]: expected a number, got a text",)),
    "list among intervals": ({"interval": [[0.5]]}, ("interval[0]: expected a number, got a list",)),
    "null among intervals": ({"interval": [0.5, None]}, ("interval[1]: expected a number, got null",)),
    "true": ({"interval": True}, ("interval: expected a number, a list of numbers or false, got true",)),
    "too many intervals": ({"interval": [0.5] * 101}, ("interval: at most 100 at once, got 101",)),
    "quantile of zero": ({"quantiles": [0]}, ("quantiles: expected a probability above 0 and below 1, got 0",)),
    "quantile of one": ({"quantiles": [0.5, 1]}, ("quantiles: expected a probability", "got 1")),
    "quantile alone": ({"quantiles": 0.5}, ("quantiles: expected a list or null, got a number",)),
    "quantile as text": ({"quantiles": ["0.5"]}, ("quantiles[0]: expected a number, got a text",)),
    "too many quantiles": ({"quantiles": [0.5] * 101}, ("quantiles: at most 100 at once, got 101",)),
    "include of something else": (
        {"include": ["median", "variance"]},
        ("include: expected latent_std or median or support or imputed, got 'variance'",),
    ),
    "include of a text": ({"include": "median"}, ("include: expected a list or null, got a text",)),
    "include of a number": ({"include": [3]}, ("include[0]: expected a text",)),
    "another name": ({"intervals": 0.5}, ("unknown field `intervals`",)),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wish_that_is_refused(service: Service, name: str) -> None:
    more, words = WRONG[name]
    assert_problem(service.client.post("/predict", json={"model": "numbers", "rows": ROWS, **more}), 422, *words)


def test_numbers_that_are_none_are_refused(service: Service) -> None:
    for field in ("interval", "quantiles"):
        for word, status in (("NaN", 400), ("1e400", 422)):
            body = json.dumps({"model": "numbers", "rows": ROWS})[:-1] + f', "{field}": [0.5, {word}]}}'
            answer = service.client.post("/predict", content=body, headers=JSON_BODY)
            assert_problem(answer, status, "NaN" if status == 400 else f"{field}[1]")


WRONG_QUERIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "interval of one": ("interval=0.5,1", ("interval: expected a probability above 0 and below 1, got 1.0",)),
    "interval in percent": ("interval=0.5&interval=95", ("interval: expected a probability", "got 95.0")),
    "text": ("interval=0.5,x", ("interval: expected a number, got 'x'",)),
    "infinity": ("interval=0.5,inf", ("interval: expected a probability", "got inf")),
    "quantile of text": ("quantiles=median", ("quantiles: expected a number, got 'median'",)),
    "quantile of NaN": ("quantiles=nan", ("quantiles: expected a probability", "got nan")),
    "quantile": ("quantile=0.5", ("unknown query parameter 'quantile'", "interval, quantiles, include")),
    "include": ("include=median,variance", ("median or support or imputed, got 'variance'",)),
    "too many": ("quantiles=" + ",".join(["0.5"] * 101), ("quantiles: at most 100 at once, got 101",)),
}


@pytest.mark.parametrize("name", WRONG_QUERIES)
def test_a_query_that_is_refused(service: Service, name: str) -> None:
    query, words = WRONG_QUERIES[name]
    headers = CSV_BODY
    assert_problem(service.client.post(f"/predict?model=numbers&{query}", content=TABLE, headers=headers), 422, *words)


SPECS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "calibrate": ({"calibrate": "yes"}, ("spec.calibrate", "auto, loo, cross-fit", "'yes'")),
    "calibrate by number": ({"calibrate": 1}, ("spec.calibrate", "got 1")),
    "intervals": ({"intervals": "skewed"}, ("spec.intervals", "symmetric, asymmetric", "'skewed'")),
    "noise": ({"noise": "varied"}, ("spec.noise", "auto, constant, input-dependent", "'varied'")),
    "noise without calibration": ({"noise": "input-dependent", "calibrate": False}, ("noise", "left-out rows")),
}


@pytest.mark.parametrize("name", SPECS)
def test_a_specification_that_is_refused(service: Service, name: str) -> None:
    spec, words = SPECS[name]
    assert_problem(service.post_file("a,y\n" + "1,2\n3,5\n" * 20, spec), 422, *words)
