"""Rows that do not all count the same: `weights` of a specification, what it changes, the report, and refusals."""

from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from app.cli.commands import cli
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import CSV_BODY, QUICK, Service

FEW = QUICK | {"adapt": {"rounds": 2, "steps": 8}, "basis_size": 15}


def measured(count: int = 200, *, copies: int = 0, seed: int = 3) -> str:
    """Means of 1 or 50 measurements of noise 1, by turns."""
    random = np.random.default_rng(seed)
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


@pytest.mark.parametrize(("count", "exponent", "told"), [(100, 6.0, True), (60, 0.3, False)])
def test_where_the_weights_of_a_few_rows_decide_a_warning_says_so(
    empty: Service, count: int, exponent: float, told: bool
) -> None:
    random = np.random.default_rng(1)
    weights, x = 10.0 ** random.uniform(-exponent, exponent, count), random.uniform(0.0, 3.0, count)
    lines = [f"{a!r},{w!r},{np.sin(a).item()!r}\n" for a, w in zip(x.tolist(), weights.tolist(), strict=True)]
    text = "x,w,y\n" + "".join(lines)
    report = empty.train(text, model="m", target="y", **QUICK | {"weights": "w"})["result"]["report"]
    effective = weights.sum() ** 2 / np.square(weights).sum()
    said = f"the weights of a few rows decide: by 'w' the {count} rows say as much as {effective:.3g} of equal weight"
    assert any(warning.startswith(said) for warning in report["warnings"]) == told


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


def scored(service: Service, table: str, **options: Any) -> dict[str, Any]:
    answer = service.client.post("/evaluate", params={"model": "m", **options}, content=table, headers=CSV_BODY)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def cells(table: str, *places: int) -> str:
    """Some of the columns of a table."""
    return "".join(",".join(line.split(",")[place] for place in places) + "\n" for line in table.splitlines())


def test_rows_are_scored_by_their_own_weights(empty: Service, tmp_path: Any) -> None:
    empty.train(measured(), model="m", target="y", **FEW | {"weights": "times"})
    new = measured(400, seed=4)
    found = scored(empty, new, by="times")
    scores = found["scores"]
    assert (found["weights"], found["rows_of_weight_zero"], found["warnings"]) == ("times", 0, [])
    assert 0.9 < scores["coverage"]["0.95"] < 0.99
    light, heavy = (next(each for each in found["groups"] if each["value"] == value) for value in ("1", "50"))
    assert min(light["coverage"]["0.95"], heavy["coverage"]["0.95"]) > 0.88
    assert light["mean_width"]["0.95"] == pytest.approx(50**0.5 * heavy["mean_width"]["0.95"], rel=0.2)
    x, times, y = np.loadtxt(new.splitlines(), delimiter=",", skiprows=1).T
    errors = y - np.array(empty.ask("m", [{"x": float(each)} for each in x])["mean"])
    assert scores["rmse"] == pytest.approx(np.average(errors**2, weights=times) ** 0.5, rel=1e-6)
    assert scores["mae"] == pytest.approx(np.average(np.abs(errors), weights=times), rel=1e-6)
    spread = np.average((y - np.average(y, weights=times)) ** 2, weights=times)
    assert (scores["nmse"], 1.0 - scores["r2"]) == pytest.approx([scores["rmse"] ** 2 / spread] * 2, rel=1e-6)
    # Only what a weight is beside those of the training matters: of bars of mean weight that is nothing.
    lines = measured(40, seed=5).splitlines()
    same = [lines[0], *(f"{x},25.5,{y}" for x, _, y in (line.split(",") for line in lines[1:]))]
    by_mean, without = scored(empty, "\n".join(same)), scored(empty, cells("\n".join(same), 0, 2))
    for name, score in without["scores"].items():
        assert by_mean["scores"][name] == pytest.approx(score, rel=1e-9), name
    assert without["weights"] is None
    path = tmp_path / "new.csv"
    path.write_text(new.replace(",50,", ",0,", 3))
    told = CliRunner().invoke(
        cli, ["evaluate", "m", str(path)], env={"PURSUIT_URL": str(empty.client.base_url), "COLUMNS": "120"}
    )
    assert "397 rows of y (3 of weight 0)" in told.output


def test_a_table_without_weights_is_scored_by_bars_of_mean_weight(empty: Service) -> None:
    empty.train(measured(), model="m", target="y", **FEW | {"weights": "times"})
    found = scored(empty, cells(measured(400, seed=4), 0, 2))
    assert found["weights"] is None
    first, second = found["warnings"][:2]
    assert "no column 'times'" in first
    assert "error bars are those of a row of mean weight, 'times' 25.5" in first
    assert "too short for them, whose own weights are not known" in second
    assert not any("another kind" in said for said in found["warnings"])


def test_live_coverage_is_said_to_be_of_bars_of_mean_weight(empty: Service) -> None:
    empty.train(measured(), model="m", target="y", **FEW | {"weights": "times"})
    empty.train(measured(), model="plain", target="y", features=["x"], **QUICK)
    lines = [line.split(",") for line in measured(300, seed=4).splitlines()[1:]]
    rows, truth = [{"x": float(x)} for x, _, _ in lines], [float(y) for _, _, y in lines]
    said = "error bars are those of a row of mean weight, 'times' 25.5"
    told = empty.client.post("/feedback", json={"model": "m@1", "rows": rows, "truth": truth}).json()
    assert said in told["message"]
    kept = empty.client.post("/predict", json={"model": "m", "rows": rows, "keep_for_feedback": True}).json()
    told = empty.client.post("/feedback", json={"prediction_id": kept["prediction_id"], "truth": truth}).json()
    assert said in told["message"]
    live = empty.client.get("/models/m/monitoring").json()["feedback"]["message"]
    assert said in live
    assert "train it again" not in live
    told = empty.client.post("/feedback", json={"model": "plain@1", "rows": rows, "truth": truth}).json()
    assert "message" not in told


def test_wrong_weights_of_rows_with_the_truth_are_refused(empty: Service) -> None:
    empty.train(measured(), model="m", target="y", **QUICK | {"weights": "times"})
    table = measured(20, seed=4)
    for cell, said in (
        ("-1", "'-1' is negative"),
        ("many", "'many' is not a number"),
        ("inf", "not a finite number"),
        ("", "missing"),
        ("true", "'true' is not a number"),
        ("1e-30", "nothing beside the mean weight"),
    ):
        wrong = table.replace(",50,", f",{cell},", 1)
        answer = empty.client.post("/evaluate", params={"model": "m"}, content=wrong, headers=CSV_BODY)
        problem = assert_problem(answer, 422)
        assert (problem["errors"][0]["row"], problem["errors"][0]["column"]) == (1, "times")
        assert said in problem["detail"]
        found = scored(empty, wrong, on_error="null")
        assert (found["rows"], found["rows_failed"]) == (19, 1)
    nothing = table.replace(",50,", ",0,").replace(",1,", ",0,")
    answer = empty.client.post("/evaluate", params={"model": "m"}, content=nothing, headers=CSV_BODY)
    assert "20 have a weight of 0" in assert_problem(answer, 422)["detail"]
