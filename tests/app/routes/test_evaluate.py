"""`POST /evaluate` and `pursuit evaluate`: scores on rows with the truth, by group, and the worst rows."""

import csv
import io
import json
import math
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from app.cli.commands import cli
from app.services import evaluation
from app.tables import read_table
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import CSV_BODY, QUICK, Service, waves

NEW = waves(90, seed=3)
"""Rows that the model has not seen; three of them are spoilt below."""


def post(service: Service, table: str, model: str = "waves", **options: Any) -> dict[str, Any]:
    answer = service.client.post("/evaluate", params={"model": model, **options}, content=table, headers=CSV_BODY)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def pursuit(service: Service, *words: object) -> Result:
    env = {"PURSUIT_URL": str(service.client.base_url), "COLUMNS": "120"}
    return CliRunner().invoke(cli, [str(word) for word in words], env=env)


def figures(scores: dict[str, Any]) -> dict[str, float]:
    """Scores without the names of a group, coverage among them."""
    plain = {name: value for name, value in scores.items() if isinstance(value, int | float)}
    return plain | {f"coverage {level}": share for level, share in scores["coverage"].items()}


def predicted(service: Service, table: str, **options: Any) -> list[dict[str, str]]:
    """Predictions of the same rows by the other route."""
    query = {"model": "waves", "keep": "all", **options}
    answer = service.client.post("/predict", params=query, content=table, headers={**CSV_BODY, "accept": "text/csv"})
    return list(csv.DictReader(io.StringIO(answer.text)))


def test_scores_are_those_of_the_predictions(service: Service) -> None:
    found, scores = post(service, NEW), post(service, NEW)["scores"]
    rows = predicted(service, NEW, interval=0.8)
    truth = [float(row["y"]) for row in rows]
    errors = [y - float(row["mean"]) for y, row in zip(truth, rows, strict=True)]
    middle = math.fsum(truth) / len(truth)
    spread = math.fsum((y - middle) ** 2 for y in truth) / len(truth)
    assert (found["model"], found["version"], found["target"], found["rows"], scores["rows"]) == (
        "waves",
        1,
        "y",
        90,
        90,
    )
    assert scores["rmse"] == pytest.approx(math.sqrt(math.fsum(e * e for e in errors) / 90), rel=1e-6)
    assert scores["mae"] == pytest.approx(math.fsum(map(abs, errors)) / 90, rel=1e-6)
    assert scores["nmse"] == pytest.approx(scores["rmse"] ** 2 / spread, rel=1e-6)
    assert scores["r2"] == pytest.approx(1 - scores["nmse"], rel=1e-12)
    inside = sum(float(row["lower"]) <= y <= float(row["upper"]) for y, row in zip(truth, rows, strict=True))
    assert scores["coverage"]["0.8"] == pytest.approx(inside / 90)
    assert sorted(scores["coverage"]) == ["0.5", "0.8", "0.9", "0.95", "0.99"]
    assert math.isfinite(scores["nlpd"])


def test_the_worst_rows_have_their_rows_and_lines(service: Service) -> None:
    rows = predicted(service, NEW)
    found = post(service, NEW, worst=5)["worst"]
    errors = {place: float(row["y"]) - float(row["mean"]) for place, row in enumerate(rows)}
    worst = sorted(errors, key=lambda place: -abs(errors[place]))[:5]
    assert [row["row"] for row in found] == worst
    assert [row["line"] for row in found] == [row + 2 for row in worst]  # under the header, which is line 1
    for row in found:
        assert row["error"] == pytest.approx(errors[row["row"]], rel=1e-5)
        assert (row["lower"], row["upper"]) == pytest.approx(
            (float(rows[row["row"]]["lower"]), float(rows[row["row"]]["upper"])), rel=1e-6
        )
    assert post(service, NEW, worst=0)["worst"] == []


def test_groups_by_text_and_by_number(service: Service) -> None:
    found = post(service, NEW, by=["kind", "x"])["groups"]
    kinds = {group["value"]: group for group in found if group["column"] == "kind"}
    assert sorted(kinds) == ["high", "low"]
    assert sum(group["rows"] for group in kinds.values()) == 90
    head, *lines = NEW.splitlines()
    high = "\n".join([head, *(line for line in lines if ",high," in line)])
    alone = post(service, high)["scores"]
    assert figures(kinds["high"]) == pytest.approx(figures(alone), rel=1e-9)
    quarters = [group for group in found if group["column"] == "x"]
    assert [group["rows"] for group in quarters] == pytest.approx([22.5] * 4, abs=0.6)
    assert " to " in quarters[0]["value"]


def test_rows_without_truth_and_rows_that_cannot_be_predicted(service: Service) -> None:
    lines = NEW.splitlines()
    lines[4] = ",".join([*lines[4].split(",")[:2], ""])
    spoilt = lines.copy()
    spoilt[7] = "?," + spoilt[7].partition(",")[2]
    assert post(service, "\n".join(lines))["rows_without_truth"] == 1
    refused = service.client.post("/evaluate?model=waves", content="\n".join(spoilt), headers=CSV_BODY)
    (fault,) = assert_problem(refused, 422)["errors"]
    assert (fault["row"], fault["line"], fault["column"]) == (6, 8, "x")
    found = post(service, "\n".join(spoilt), on_error="null")
    assert (found["rows"], found["rows_without_truth"], found["rows_failed"]) == (88, 1, 1)
    assert "the first at row 6" in found["warnings"][0]


@pytest.mark.parametrize(
    ("table", "query", "said"),
    [
        (NEW.replace("x,kind,y", "x,kind,Y "), {}, "did you mean 'y' by 'Y'?"),
        (NEW.replace("x,kind,y", "x,kind,z"), {}, "no column 'y', the truth"),
        (NEW, {"by": "Kind"}, "by: the table has no column 'Kind'; did you mean 'kind'?"),
        (NEW, {"worst": 1001}, "worst"),
        (NEW, {"by": ["kind"] * 21}, "at most 20"),
        (NEW, {"on_error": "skip"}, "on_error"),
        ("x,kind,y\n1,low,much\n", {}, "line 2, column 'y': 'much' is not a number"),
        ("x,kind,y\n1,low,\n", {}, "no row is left to evaluate"),
    ],
)
def test_what_is_refused(service: Service, table: str, query: dict[str, Any], said: str) -> None:
    answer = service.client.post("/evaluate", params={"model": "waves", **query}, content=table, headers=CSV_BODY)
    body = assert_problem(answer, 422)
    assert said in json.dumps(body, ensure_ascii=False)


def test_a_form_with_a_file_and_json_are_answered_as_the_file_is(service: Service) -> None:
    """As /predict takes them: options are parts of the form or in the query, or fields of the JSON body."""
    expected = post(service, NEW, by=["kind", "x"], worst=3)
    send = partial(service.client.post, "/evaluate")
    file = {"file": ("new.csv", NEW.encode(), "text/csv")}
    parts = send(files=file, data={"model": "waves", "by": ["kind", "x"], "worst": "3"})
    mixed = send(params={"model": "waves", "by": ["kind", "x"]}, files=file, data={"worst": "3"})
    assert parts.json() == mixed.json() == expected
    rows = list(csv.DictReader(io.StringIO(NEW)))
    typed = [{"x": float(row["x"]), "kind": row["kind"], "y": float(row["y"])} for row in rows]
    columns = {name: [row[name] for row in typed] for name in ("x", "kind", "y")}
    options = {"model": "waves", "by": ["kind", "x"], "worst": 3, "on_error": None}
    by_rows, by_columns = (
        send(json={"rows": typed, **options}).json(),
        send(json={"columns": columns, **options}).json(),
    )
    assert by_rows == by_columns
    assert by_rows["scores"] == expected["scores"]
    assert [row["row"] for row in by_rows["worst"]] == [row["row"] for row in expected["worst"]]
    assert [row["line"] for row in by_rows["worst"]] == [None] * 3


@pytest.mark.parametrize(
    ("data", "query", "said"),
    [
        ({}, {}, "there is no model"),
        ({"model": "waves"}, {"model": "waves"}, "model: it is in the query and in the form"),
        ({"model": "waves", "worst": "many"}, {}, "worst: expected a whole number; got 'many'"),
        ({"model": "waves", "on_error": "skip"}, {}, "on_error: expected 'refuse' or 'null'; got 'skip'"),
        ({"model": "waves", "by": ["kind"] * 21}, {}, "by: "),
        ({"model": "waves", "by": ["kind"] * 101}, {}, "the form part `by` is there more than 100 times"),
        ({"model": ["waves", "waves"]}, {}, "the form part `model` is there twice"),
        ({"model": "waves", "interval": "0.5"}, {}, "unknown form part 'interval'"),
    ],
)
def test_what_is_refused_of_a_form(service: Service, data: dict[str, Any], query: dict[str, Any], said: str) -> None:
    answer = service.client.post("/evaluate", params=query, files={"file": ("n.csv", NEW.encode())}, data=data)
    assert said in assert_problem(answer, 422)["detail"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"rows": [{"x": 1.0, "kind": "low", "y": 1.0}]}, "model"),
        ({"model": "waves"}, "one of `rows` and `columns`"),
        ({"model": "waves", "rows": [{"x": 1.0}], "columns": {"x": [1.0]}}, "one of `rows` and `columns`"),
        ({"model": "waves", "rows": [[1.0, "low", 1.0]]}, "row 0: expected an object of cells by column name"),
        ({"model": "waves", "columns": {"x": [1.0], "kind": ["low", "low"], "y": [1.0]}}, "'kind'"),
        ({"model": "waves", "rows": [{"x": 1.0, "kind": "low", "y": 1.0}], "worst": -1}, "worst: expected a number"),
        ({"model": "waves", "rows": [{"x": 1.0, "kind": "low", "y": 1.0}], "by": ["x"] * 21}, "by: expected at most"),
        ({"model": "waves", "rows": [{"x": 1.0, "kind": "low", "y": 1.0}], "on_error": "skip"}, "on_error: expected"),
        ({"model": "waves", "interval": 0.5}, "interval"),
    ],
)
def test_what_is_refused_of_json(service: Service, body: dict[str, Any], said: str) -> None:
    assert said in assert_problem(service.client.post("/evaluate", json=body), 422)["detail"]


def test_a_group_of_missing_cells_alone(service: Service) -> None:
    """A column of many numbers, all in the rows without truth."""
    head, *lines = NEW.splitlines()
    spent = [f"{line.rpartition(',')[0]},,{place}" for place, line in enumerate(lines[:30])]
    table = "\n".join([f"{head},age", *spent, *(f"{line}," for line in lines[30:])])
    (group,) = post(service, table, by="age")["groups"]
    assert (group["column"], group["value"], group["rows"]) == ("age", None, 60)


def test_groups_of_a_text_that_differs_in_every_row_cost_little() -> None:
    """A sort, and not a pass over the rows for each value."""
    rows = 200_000
    table = read_table(("kind,name\n" + "".join(f"low,n{place}\n" for place in range(rows))).encode())
    began = time.process_time()
    groups = evaluation._groups(table, "name", np.arange(rows))
    assert time.process_time() - began < 1.5
    assert [len(members) for _, members in groups] == [1] * 50 + [rows - 50]
    assert (groups[0][0], groups[-1][0]) == ("n0", "199,950 other values")
    assert sorted(np.concatenate([members for _, members in groups]).tolist()) == list(range(rows))


def test_error_bars_that_do_not_fit_the_rows_are_told(service: Service) -> None:
    head, *lines = NEW.splitlines()
    off = [f"{line.rpartition(',')[0]},{float(line.rpartition(',')[2]) + 3.0}" for line in lines]
    warnings = post(service, "\n".join([head, *off]))["warnings"]
    assert any("the error bars are too short" in warning for warning in warnings)
    assert any("closer to them" in warning for warning in warnings)
    assert post(service, NEW)["warnings"] == []


@pytest.mark.parametrize(("calibrated", "told"), [(0, True), (300, False), (100_000, True)])
def test_few_left_out_rows_are_chance_for_the_coverage_of_new_rows(calibrated: int, told: bool) -> None:
    """93.1% of 3,000 rows: 4.8 standard errors of the rows, 1.5 of them and the 300 that the bars were fitted to."""
    scores = {"coverage": {"0.95": 0.931}, "coverage_standard_error": {"0.95": 0.00398}, "nmse": 0.5}
    assert bool(evaluation._warnings(scores, calibrated, None)) == told


def test_a_model_of_the_mean_alone(service: Service) -> None:
    service.train(waves(), model="mean", artefact="mean", **QUICK)
    found = post(service, NEW, model="mean", by="kind")
    assert sorted(found["scores"]) == ["mae", "nmse", "r2", "rmse", "rows"]
    assert "lower" not in found["worst"][0]
    shown = pursuit(service, "evaluate", "mean", "-")
    assert shown.exit_code == 1  # nothing came


def test_the_command_by_server_and_by_file(service: Service, tmp_path: Path) -> None:
    table, artefact = tmp_path / "new.csv", tmp_path / "waves.safetensors"
    table.write_text(NEW)
    saved = pursuit(service, "artefact", "waves@latest", "-o", artefact, "--json")
    assert json.loads(saved.stdout)["version"] == 1
    by_server = json.loads(pursuit(service, "evaluate", "waves@1", table, "--by", "kind", "--json").stdout)
    by_file = json.loads(pursuit(service, "evaluate", artefact, table, "--by", "kind", "--json").stdout)
    assert by_server == post(service, NEW, by="kind")
    assert figures(by_file["scores"]) == pytest.approx(figures(by_server["scores"]), rel=1e-9)
    assert [row["row"] for row in by_file["worst"]] == [row["row"] for row in by_server["worst"]]
    shown = pursuit(service, "evaluate", artefact, table, "--by", "kind", "--worst", "3")
    assert shown.exit_code == 0, shown.output
    for words in ("90 rows of y", "NMSE", "R2", "95%", "high", "The worst rows", "line"):
        assert words in shown.stdout
    refused = pursuit(service, "evaluate", artefact, table, "--by", "Kind", "--json")
    assert refused.exit_code == 1
    assert "did you mean 'kind'?" in json.loads(refused.stdout)["error"]["message"]
    assert pursuit(service, "evaluate", table, table).stderr.startswith("error: the file is no artefact")
