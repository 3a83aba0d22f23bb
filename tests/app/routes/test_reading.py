"""Reading of tables over HTTP: the options of the specification hold, and predictions are read alike."""

import gzip
import json
import math
import random
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.app.routes.problems import assert_problem
from tests.app.routes.service import CSV_BODY, JSON_BODY, QUICK, Service
from tests.app.tables.files import rows_of, workbook, zstd
from tests.app.tables.read.test_preamble import book


def table(rows: int = 30) -> dict[str, list[Any]]:
    chance = random.Random(3)
    x = [chance.randrange(1_000, 9_000) for _ in range(rows)]
    return {"x": x, "y": [value / 1_000 + chance.gauss(0, 0.1) for value in x]}


PLAIN = table()
GROUPED = "x,y\n" + "".join(f'"{x:,}",{y!r}\n' for x, y in zip(*PLAIN.values(), strict=True))
EUROPEAN = GROUPED.replace('",', ";").replace('"', "").replace("x,y", "x;y").translate(str.maketrans(".,", ",."))


def trained(service: Service, data: str | bytes, model: str, **spec: Any) -> dict[str, Any]:
    job = service.train(data, model=model, **{**QUICK, **spec})
    assert job["state"] == "succeeded", job
    report: dict[str, Any] = job["result"]["report"]
    return report


def means(service: Service, model: str, body: str | bytes, headers: dict[str, str] = CSV_BODY) -> list[float]:
    answer = service.client.post(f"/predict?model={model}", content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    found: list[float] = answer.json()["mean"]
    return found


def test_numbers_written_otherwise_make_the_same_model(service: Service) -> None:
    trained(service, "x,y\n" + "".join(f"{x},{y!r}\n" for x, y in zip(*PLAIN.values(), strict=True)), "as-ever")
    wanted = means(service, "as-ever", "x\n1234\n2500\n")
    report = trained(service, GROUPED, "grouped", thousands=",")
    assert report["columns"][0]["thousands"] == ","
    assert means(service, "grouped", 'x\n"1,234"\n2500\n') == wanted
    assert any("grouped by commas" in words for words in trained(service, GROUPED, "guessed")["warnings"])
    assert means(service, "guessed", 'x\n"1,234"\n2500\n') == wanted
    report = trained(service, EUROPEAN, "european", decimal=",", thousands=".")
    assert (report["columns"][0]["decimal"], report["columns"][0]["thousands"]) == (",", ".")
    for body in ("x\n1.234\n2.500\n", "x;z\n1.234;0\n2.500,0;0\n", "x,z\n1.234,\n2500,\n"):
        assert means(service, "european", body) == wanted
    answer = service.client.post("/predict", json={"model": "european", "rows": [["1.234"], [2500]]})
    assert answer.json()["mean"] == wanted
    assert_problem(
        service.client.post("/predict?model=grouped", content='x\n"0,5"\n', headers=CSV_BODY), 422, "line 2", "'0,5'"
    )


def test_a_dataset_keeps_what_was_said_of_it(service: Service) -> None:
    files = {"file": ("t.csv", GROUPED)}
    found = service.client.post("/datasets?thousands=,", files=files)
    assert found.status_code == 201, found.text
    profile = found.json()["columns"][0]
    assert (profile["type"], profile["max"]) == ("integer", max(PLAIN["x"]))
    spec = {**QUICK, "model": "from-dataset"}
    answer = service.client.post("/train", json={"dataset": found.json()["id"], "spec": spec})
    assert answer.status_code == 202, answer.text
    service.work()
    job = service.client.get(answer.headers["location"]).json()
    assert job["result"]["report"]["columns"][0]["thousands"] == ","
    assert job["result"]["report"]["warnings"] == []
    for query, words in (
        ("decimal=,&thousands=,", "another sign than decimal"),
        ("decimal=;", "decimal"),
        ("thousands=x", "thousands"),
    ):
        assert_problem(service.client.post(f"/datasets?{query}", files={"file": ("t.csv", GROUPED)}), 422, words)


def test_a_sheet_is_trained_on_and_predicted_with(service: Service) -> None:
    rows = [list(PLAIN), *map(list, zip(*PLAIN.values(), strict=True))]
    data = book(("Notes", [["made by me"]]), ("Data", [["Report"], *rows]))
    report = trained(service, data, "sheet", sheet="Data")
    assert "the workbook has 2 sheets: 'Data' was read, not 'Notes'" in report["warnings"]
    assert any("'Report'" in words for words in report["warnings"])
    kind = {"content-type": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"}
    wanted = means(service, "sheet", "x\n1234\n")
    asked = book(("Notes", [["made by me"]]), ("Data", [["x"], [1234]]))
    assert means(service, "sheet", asked, kind) == means(service, "sheet", workbook({"x": [1234]}), kind) == wanted
    assert_problem(
        service.client.post("/datasets?sheet=Data", files={"file": ("t.csv", GROUPED)}), 422, "no Excel workbook"
    )
    dataset = service.client.post("/datasets", files={"file": ("t.csv", GROUPED)}).json()["id"]
    assert_problem(service.post_file(GROUPED, {"sheet": "Data"}), 422, "no Excel workbook")
    body = {"columns": PLAIN, "spec": {"sheet": 1}}
    assert_problem(service.client.post("/train", json=body), 422, "a table of JSON has no sheets")
    body = {"dataset": dataset, "spec": {"sheet": 1}}
    assert_problem(service.client.post("/train", json=body), 422, "POST /datasets?sheet=")


WRONG = [
    ({"decimal": ";"}, 'spec.decimal: expected "," or "."; got \';\''),
    ({"thousands": "_"}, 'spec.thousands: expected ",", ".", " " or "\'", or "" for none; got \'_\''),
    ({"decimal": ".", "thousands": "."}, "spec.thousands: expected another sign than spec.decimal; got '.' for both"),
    ({"sheet": 0}, "spec.sheet: expected the name of a sheet, or its number from 1; got 0"),
    ({"sheet": [1]}, "spec.sheet: expected the name of a sheet, or its number from 1; got [1]"),
]


@pytest.mark.parametrize(("spec", "words"), WRONG)
def test_what_cannot_be_said_of_a_table(service: Service, spec: dict[str, Any], words: str) -> None:
    assert_problem(service.post_file(GROUPED, spec), 422, words)


def test_a_title_comments_and_units_are_skipped_at_prediction_too(service: Service) -> None:
    wanted = means(service, "numbers", "a,b\n0.5,0.25\n")
    for head in ("Report\na,b\n", "# me\na,b\n", "sep=,\na,b\n", "a,b\n[m],[s]\n"):
        assert means(service, "numbers", f"{head}0.5,0.25\n") == wanted
    assert_problem(
        service.client.post("/predict?model=numbers", content=b"a,b\n0.5,\x000.25\n", headers=CSV_BODY),
        400,
        "line 2",
        "NUL",
    )


PLACES = [
    ("/predict", '{"model": "numbers", "rows": [{"a": 1, "b": 2}, {"a": 1, "b": 1e400}]}', 422, 1, "b"),
    ("/predict", '{"model": "numbers", "rows": [[1, 2], [1, 1e400]]}', 422, 1, "b"),
    ("/predict", '{"model": "numbers", "columns": {"a": [1, 1e400], "b": [1, 2]}}', 422, 1, "a"),
    ("/predict", '{"model": "numbers", "rows": [{"a": 1, "b": 2}, {"a": NaN, "b": 1}]}', 400, 1, "a"),
    ("/predict", '{"model": "numbers", "columns": {"a": [1, 2], "b": [1, Infinity]}}', 400, 1, "b"),
    ("/train", '{"rows": [{"x": 1, "y": 2}, {"x": 1, "y": NaN}]}', 400, 1, "y"),
    ("/train", '{"rows": [{"x": 1, "y": 2}, {"x": -1e400, "y": 2}]}', 422, 1, "x"),
    ("/train", '{"columns": {"x": [1, 2, 1e400], "y": [1, 2, 3]}}', 422, 2, "x"),
]


@pytest.mark.parametrize(("path", "body", "status", "row", "column"), PLACES)
def test_what_is_no_number_says_its_row_and_column(
    service: Service, path: str, body: str, status: int, row: int, column: str
) -> None:
    problem = assert_problem(service.client.post(path, content=body, headers=JSON_BODY), status, "number")
    assert (problem["errors"][0]["row"], problem["errors"][0]["column"]) == (row, column)


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_packed_json_is_trained_on_and_asked_with(service: Service, pack: Any) -> None:
    encoding = {"content-encoding": "gzip" if pack is gzip.compress else "zstd"}
    body = json.dumps({"columns": PLAIN, "spec": {**QUICK, "model": "packed"}}).encode()
    assert service.client.post("/train", content=pack(body), headers=JSON_BODY | encoding).status_code == 202
    service.work()
    asked = json.dumps({"model": "packed", "columns": {"x": [[1234], [2500]]}}).encode()  # of shape (n, 1)
    packed = service.client.post("/predict", content=pack(asked), headers=JSON_BODY | encoding).json()
    assert packed == service.client.post("/predict", json={"model": "packed", "rows": [[1234], [2500]]}).json()
    found = service.client.post(
        "/datasets", content=pack(json.dumps({"rows": rows_of(PLAIN)}).encode()), headers=JSON_BODY
    )
    assert found.status_code == 201
    tensor = {"inputs": [{"name": "rows", "shape": [1, 1], "datatype": "FP64", "data": [1234.0]}]}
    infer = service.client.post(
        "/v2/models/packed/infer", content=pack(json.dumps(tensor).encode()), headers=JSON_BODY | encoding
    )
    assert infer.json()["outputs"][0]["data"] == packed["mean"][:1]
    lines = b"\n".join(json.dumps(row).encode() for row in rows_of(PLAIN))
    assert service.post_file(pack(lines), {**QUICK, "model": "lines"}, filename="t.json.gz").status_code == 202
    service.work()


def test_hours_beyond_the_last_row_follow_the_day(service: Service) -> None:
    """Without the cycle the error is that of the mean, an NMSE of 1 or more."""
    chance = random.Random(5)
    hours = range(16 * 24)
    when = [(datetime(2024, 1, 1) + timedelta(hours=hour)).isoformat(" ") for hour in hours]
    y = [math.sin(2 * math.pi * hour / 24) + 0.1 * chance.gauss(0, 1) for hour in hours]
    known = len(when) - 48
    data = "when,y\n" + "".join(f"{text},{value!r}\n" for text, value in zip(when[:known], y, strict=False))
    report = trained(
        service, data, "hours", adapt={"rounds": 1, "steps": 8}, basis_size=24, calibrate=False, holdout=0.0
    )
    assert report["columns"][0]["cycles"] == ["day"]
    assert any('say "dates": "elapsed"' in words for words in report["warnings"])
    found = means(service, "hours", "when\n" + "\n".join(when[known:]) + "\n")
    error = sum((mean - value) ** 2 for mean, value in zip(found, y[known:], strict=True)) / 48
    assert error < 0.1  # the noise's variance is .01, the target's .5


def test_a_constant_target_is_refused_with_what_to_do(service: Service) -> None:
    words = ("'y' is 2.0 in every row", "name another target, or send rows in which it differs")
    data = {"x": [1, 2, 3], "y": [2, 2, 2.0]}
    assert_problem(service.client.post("/train", json={"columns": data}), 422, *words)
    assert_problem(service.post_file("x,y\n1,2\n2,2.0\n3,2\n"), 422, *words)
    found = service.client.post("/datasets", json={"columns": data}).json()
    assert any(words[1] in warning for warning in found["warnings"])
