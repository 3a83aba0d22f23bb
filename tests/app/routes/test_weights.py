"""Rows that do not all count the same: `weights` of a specification, what it changes, the report, and refusals."""

import numpy as np
import pytest

from tests.app.routes.service import QUICK, Service

FEW = QUICK | {"adapt": {"rounds": 2, "steps": 8}, "basis_size": 15}


def measured(count: int = 200, *, copies: int = 0) -> str:
    """Means of 1 or 50 measurements of noise 1, by turns."""
    random = np.random.default_rng(3)
    lines = []
    for row in range(count):
        times, x = (1, 50)[row % 2], float(random.uniform(0.0, 3.0))
        lines.append(f"{x!r},{times},{float(np.sin(2.0 * x) + random.normal() / times**0.5)!r}\n")
    return "x,times,y\n" + "".join(lines) + "".join(lines[:copies])


def error(service: Service, model: str) -> float:
    """Distance from the function, root mean square."""
    x = np.linspace(0.1, 2.9, 50)
    found = service.ask(model, [{"x": float(each)} for each in x])["mean"]
    return float(np.sqrt(np.mean((np.array(found) - np.sin(2.0 * x)) ** 2)))


def test_rows_that_count_more_are_followed_more(empty: Service) -> None:
    job = empty.train(measured(), model="weighted", target="y", **FEW | {"weights": "times"})
    assert job["state"] == "succeeded", job
    empty.train(measured(), model="plain", target="y", features=["x"], **FEW)
    assert error(empty, "weighted") < 0.6 * error(empty, "plain")
    report = job["result"]["report"]
    weights = report["weights"]
    assert weights == pytest.approx(
        {"column": "times", "least": 1.0, "mean": 25.5, "greatest": 50.0, "effective_rows": 200 * 25.5**2 / 1250.5}
    )
    assert [column["name"] for column in report["columns"]] == ["x"]
    detail = empty.client.get("/models/weighted/versions/1").json()
    assert detail["spec"]["weights"] == "times"
    page = empty.client.get("/models/weighted/versions/1/report", headers={"accept": "text/html"}).text
    assert "weights by column" in page
    # the noise of a row of mean weight, of 25.5 measurements
    std = np.array(empty.ask("weighted", [{"x": 1.5}])["std"])
    assert std[0] == pytest.approx(25.5**-0.5, rel=0.5)
    told = empty.client.post("/models/weighted/update", json={"rows": [{"x": 1.0, "y": 2.0}]})
    assert told.status_code == 409
    assert "it was trained with `weights` ('times')" in told.json()["detail"]


def test_equal_weights_are_none(empty: Service) -> None:
    text = measured(80).replace(",50,", ",1,")
    empty.train(text, model="one", target="y", **QUICK | {"weights": "times"})
    empty.train(text, model="none", target="y", features=["x"], **QUICK)
    rows = [{"x": 0.5}, {"x": 1.5}]
    one, none = (empty.ask(model, rows) for model in ("one", "none"))
    assert (one["mean"], one["std"], one["lower"]) == (none["mean"], none["std"], none["lower"])


def test_copies_have_the_same_weight(empty: Service) -> None:
    text = measured(80, copies=3)
    report = empty.train(text, model="m", target="y", **QUICK | {"weights": "times"})["result"]["report"]
    assert report["rows"] == 80
    x, times, y = text.splitlines()[1].split(",")
    report = empty.train(f"{text}{x},{int(times) + 1},{y}\n", model="m", target="y", **QUICK | {"weights": "times"})
    assert report["result"]["report"]["rows"] == 81


def test_what_does_not_fit_is_refused(empty: Service) -> None:
    table = measured(20)
    for text, spec, place, said in (
        (table.replace(",50,", ",-1,", 1), {}, (1, "times"), "'-1' is negative"),
        (table.replace(",50,", ",,", 1), {}, (1, "times"), "missing"),
        (table.replace(",50,", ",many,", 1), {}, (1, "times"), "'many'"),
        (table, {"missing": "impute"}, (None, "weights"), "not with missing impute"),
        (table, {"target": ["y", "x"]}, (None, "weights"), "several targets"),
        (table, {"weights": "tmes"}, (None, "tmes"), "did you mean 'times'"),
        (table, {"weights": 3}, (None, "weights"), "spec.weights: expected"),
    ):
        answer = empty.post_file(text, {"target": "y", "weights": "times", **spec})
        assert answer.status_code == 422, spec
        problem = answer.json()
        assert said in problem["detail"]
        assert (problem["errors"][0].get("row"), problem["errors"][0]["column"]) == place
