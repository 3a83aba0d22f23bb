"""Every format over HTTP: trained on, predicted with, and the same cell gives the same prediction to the last digit."""

import io
import random
from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest

from tests.app.routes.problems import assert_problem
from tests.app.routes.service import QUICK, Service
from tests.app.tables.files import FORMATS, rows_of

SPEC: dict[str, Any] = {**QUICK, "missing": "impute", "missing_values": [-200], "columns": {"note": "ignore"}}


def table(rows: int) -> dict[str, list[Any]]:
    """Numbers of at most 15 digits: openpyxl writes no more, though it reads them."""
    chance = random.Random(rows)
    x = [chance.choice([None, -200.0, round(chance.uniform(-5, 5), 9)]) for _ in range(rows)]
    kind = [chance.choice(["süß", "sauer", "NA"]) for _ in range(rows)]
    plate = [chance.choice(["02134", "10001"]) for _ in range(rows)]
    count = [chance.randrange(9) for _ in range(rows)]
    good = [chance.random() < 0.5 for _ in range(rows)]
    day = [date(2011, 1, 1) + timedelta(chance.randrange(700)) for _ in range(rows)]
    y = [round(0.3 * (v or 0.5) + n + 2.0 * yes, 9) for v, n, yes in zip(x, count, good, strict=True)]
    note = [f"note {row}" for row in range(rows)]
    return {"x": x, "kind": kind, "zip": plate, "count": count, "good": good, "day": day, "note": note, "y": y}


TABLE = table(60)
ASKED = {name: cells for name, cells in table(9).items() if name != "y"}


@pytest.fixture(scope="module")
def expected(service: Service) -> dict[str, Any]:
    """Answer of the model trained on CSV to JSON."""
    job = service.train(FORMATS["comma"](TABLE), model="formats", **SPEC)
    assert job["state"] == "succeeded", job
    kinds = [(column["name"], column["kind"]) for column in job["result"]["report"]["columns"]]
    assert kinds == [
        ("x", "number"), ("kind", "category"), ("zip", "category"), ("count", "number"), ("good", "boolean"),
        ("day", "date"), ("note", "unused"),
    ]  # fmt: skip
    answer = service.client.post("/predict", json={"model": "formats", "rows": rows_of(ASKED)})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


TRAINED = ("semicolon and decimal comma", "UTF-16", "Latin-1", "JSON Lines, zstd", "Parquet", "Arrow stream", "Excel")
"""Formats of every kind; the others differ from these in how they are packed or delimited, and are among the slow."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in TRAINED else pytest.mark.slow) for name in FORMATS]
)
def test_a_format_is_trained_on_as_any_other(service: Service, expected: dict[str, Any], name: str) -> None:
    model = "by-" + "".join(filter(str.isalnum, name))
    job = service.train(FORMATS[name](TABLE), model=model, filename="odd.name", **SPEC)
    assert job["state"] == "succeeded", job
    answer = service.client.post("/predict", json={"model": model, "rows": rows_of(ASKED)}).json()
    assert answer["mean"] == expected["mean"]
    assert answer["std"] == expected["std"]
    said = job["result"]["report"]["warnings"]
    assert any("Windows-1252" in warning for warning in said) == (name == "Latin-1")


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_predicted_with_as_any_other(service: Service, expected: dict[str, Any], name: str) -> None:
    answer = service.client.post(
        "/predict?model=formats", content=FORMATS[name](ASKED), headers={"content-type": "application/octet-stream"}
    )
    assert answer.status_code == 200, answer.text
    assert answer.json() == expected


def test_texts_in_json_are_the_same_cells(service: Service, expected: dict[str, Any]) -> None:
    texts = [{name: cell if cell is None else str(cell) for name, cell in row.items()} for row in rows_of(ASKED)]
    columns = {name: [row[name] for row in texts] for name in ASKED}
    for body in ({"rows": texts}, {"columns": columns}, {"rows": [list(row.values()) for row in texts]}):
        answer = service.client.post("/predict", json={"model": "formats", **body})
        assert answer.json() == expected


def test_json_is_trained_on_as_any_file(service: Service, expected: dict[str, Any]) -> None:
    rows = rows_of(TABLE)
    for body in ({"rows": rows}, {"columns": {name: [row[name] for row in rows] for name in TABLE}}):
        answer = service.client.post("/train", json={**body, "spec": {**SPEC, "model": "by-json"}})
        assert answer.status_code == 202, answer.text
        service.work()
        predicted = service.client.post("/predict", json={"model": "by-json", "rows": rows_of(ASKED)}).json()
        assert predicted["mean"] == expected["mean"]


def test_an_npy_matrix(service: Service) -> None:
    rows = [[0.1, 0.2], [0.3, -0.4]]
    out = io.BytesIO()
    np.save(out, np.array(rows))
    headers = {"content-type": "application/x-npy"}
    answer = service.client.post("/predict?model=numbers", content=out.getvalue(), headers=headers)
    assert answer.json() == service.client.post("/predict", json={"model": "numbers", "rows": rows}).json()
    damaged = service.client.post("/predict?model=numbers", content=out.getvalue()[:-4], headers=headers)
    assert_problem(damaged, 400, "npy")


def test_dates_in_cycles(service: Service) -> None:
    job = service.train(FORMATS["Parquet"](TABLE), model="cycles", dates="cyclic", **SPEC)
    assert job["state"] == "succeeded", job
    lengthscales = job["result"]["report"]["hyperparameters"]["lengthscales"]
    assert {"day", "day (week)", "day (year)"} <= set(lengthscales)
    asked: dict[str, Any] = {"model": "cycles", "rows": rows_of(ASKED)}
    answer = service.client.post("/predict", json=asked).json()
    alone = [service.client.post("/predict", json={**asked, "rows": [row]}).json()["mean"][0] for row in asked["rows"]]
    assert alone == answer["mean"]


@pytest.mark.usefixtures("expected")
def test_a_date_of_another_form_is_refused(service: Service) -> None:
    row = {**rows_of(ASKED)[0], "day": "31.01.2011"}
    answer = service.client.post("/predict", json={"model": "formats", "rows": [row]})
    assert_problem(answer, 422, "row 0", "'day'", "'31.01.2011' is no date of the form YYYY-MM-DD")
