"""Every way to ask for a prediction wrongly, over HTTP."""

import pytest

from tests.app.routes.problems import assert_problem
from tests.app.routes.service import CSV_BODY, JSON_BODY, Service

ROWS: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "no model": ('{"rows": [[1, 2]]}', 422, ("missing field `model`",)),
    "unknown model": ('{"model": "cars", "rows": [[1, 2]]}', 404, ("no model 'cars'",)),
    "unknown version": ('{"model": "numbers@7", "rows": [[1, 2]]}', 404, ("no version 7", "1")),
    "unknown alias": ('{"model": "numbers@best", "rows": [[1, 2]]}', 404, ("no alias 'best'", "latest")),
    "impossible reference": ('{"model": "a b", "rows": [[1, 2]]}', 422, ("'a b'",)),
    "model that is no text": ('{"model": 3, "rows": [[1, 2]]}', 422, ("model: expected a text",)),
    "unknown field": ('{"model": "numbers", "row": [[1, 2]]}', 422, ("unknown field `row`",)),
    "neither rows nor columns": ('{"model": "numbers"}', 422, ("`rows`, `columns` and `dataset`, got none",)),
    "rows and columns": ('{"model": "numbers", "rows": [], "columns": {}}', 422, ("`dataset`, got several",)),
    "missing column": ('{"model": "numbers", "rows": [{"a": 1, "b": 2}, {"a": 1}]}', 422, ("row 1", "'b'")),
    "missing column of columns": ('{"model": "numbers", "columns": {"a": [1]}}', 422, ("missing", "'b'")),
    "too few cells": ('{"model": "numbers", "rows": [[1, 2], [1]]}', 422, ("row 1", "expected 2 cells", "got 1")),
    "too many cells": ('{"model": "numbers", "rows": [[1, 2, 3]]}', 422, ("row 0", "expected 2 cells", "got 3")),
    "mixed rows": ('{"model": "numbers", "rows": [[1, 2], {"a": 1, "b": 2}]}', 422, ("row 1", "object")),
    "rows that are no list": ('{"model": "numbers", "rows": {"a": 1}}', 422, ("rows: expected a list",)),
    "a row that is a number": ('{"model": "numbers", "rows": [1, 2]}', 422, ("row 0", "a number")),
    "columns that are no object": ('{"model": "numbers", "columns": [[1]]}', 422, ("columns: expected an object",)),
    "columns of different length": (
        '{"model": "numbers", "columns": {"a": [1, 2], "b": [1]}}',
        422,
        ("differ in length", "'a' has 2", "'b' has 1"),
    ),
    "text for a number": ('{"model": "numbers", "rows": [[1, "x"]]}', 422, ("row 0", "'b'", "'x'")),
    "a decimal comma in quotation marks": ('{"model": "numbers", "rows": [[1, "2,5"]]}', 422, ("'b'", "'2,5'")),
    "true for a number": ('{"model": "numbers", "rows": [[1, true]]}', 422, ("0", "number")),
    "null": ('{"model": "numbers", "rows": [[1, null]]}', 422, ("row 0", "'b'", "missing")),
    "NaN literal": ('{"model": "numbers", "rows": [[1, NaN]]}', 400, ("NaN is not a JSON number",)),
    "1e400": ('{"model": "numbers", "rows": [[0, 0], [1, 1e400]]}', 422, ("rows[1][1]", "too large")),
    "1e400 by name": ('{"model": "numbers", "rows": [{"a": 1, "b": -1e400}]}', 422, ("rows[0].b", "too large")),
    "1e400 in a column": ('{"model": "numbers", "columns": {"a": [1], "b": [1e400]}}', 422, ("columns.b[0]",)),
    "unseen category": ('{"model": "waves", "rows": [{"x": 1, "kind": "odd"}]}', 422, ("row 0", "'kind'", "'odd'")),
    "interval of one": ('{"model": "numbers", "rows": [[1, 2]], "interval": 1}', 422, ("interval", "below 1")),
    "interval in percent": ('{"model": "numbers", "rows": [[1, 2]], "interval": 95}', 422, ("interval", "95")),
    "interval as text": ('{"model": "numbers", "rows": [[1, 2]], "interval": "x"}', 422, ("interval", "a number")),
    "include of nonsense": (
        '{"model": "numbers", "rows": [[1, 2]], "include": ["x"]}',
        422,
        ("include", "latent_std", "'x'"),
    ),
    "bad JSON": ('{"model": "numbers", "rows": [[1, 2]', 400, ("JSON", "too early")),
    "words": ("hello", 400, ("not JSON", "byte 0")),
    "empty": ("", 400, ("empty",)),
    "nested for ever": ('{"model": "numbers", "rows": ' + "[" * 50_000, 400, ("JSON",)),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_predict_request_that_cannot_be_answered(service: Service, name: str) -> None:
    body, status, words = ROWS[name]
    answer = service.client.post("/predict", content=body, headers=JSON_BODY)
    assert_problem(answer, status, *words)


CSVS: dict[str, tuple[str, str, int, tuple[str, ...]]] = {
    "no model": ("", "a,b\n1,2\n", 422, ("/predict?model=",)),
    "unknown parameter": ("?modl=numbers", "a,b\n1,2\n", 422, ("'modl'", "model")),
    "unknown model": ("?model=cars", "a,b\n1,2\n", 404, ("'cars'",)),
    "missing column": ("?model=numbers", "a,c\n1,2\n", 422, ("missing", "'b'")),
    "ragged": ("?model=numbers", "a,b\n1,2\n1\n", 422, ("line 3", "expected 2 cells, got 1")),
    "missing cell": ("?model=numbers", "a,b\n1,2\n1,\n", 422, ("line 3", "'b'")),
    "text": ("?model=numbers", "a,b\n1,2\n1,x\n", 422, ("line 3", "'b'", "'x'")),
    "1e400": ("?model=numbers", "a,b\n1,1e400\n", 422, ("line 2", "'b'", "1e400")),
    "empty": ("?model=numbers", "", 422, ("empty",)),
    "interval": ("?model=numbers&interval=x", "a,b\n1,2\n", 422, ("interval", "'x'")),
    "interval of NaN": ("?model=numbers&interval=nan", "a,b\n1,2\n", 422, ("interval",)),
    "include": ("?model=numbers&include=x", "a,b\n1,2\n", 422, ("include", "latent_std")),
}


@pytest.mark.parametrize("name", CSVS)
def test_a_csv_predict_request_that_cannot_be_answered(service: Service, name: str) -> None:
    query, body, status, words = CSVS[name]
    answer = service.client.post(f"/predict{query}", content=body, headers=CSV_BODY)
    assert_problem(answer, status, *words)


def test_predict_says_what_it_reads_and_writes(service: Service) -> None:
    answer = service.client.post("/predict", content=b"x", headers={"content-type": "application/xml"})
    assert_problem(answer, 415, "'application/xml'", "application/json", "text/csv")
    wrong = {"accept": "image/png"}
    answer = service.client.post("/predict", json={"model": "numbers", "rows": []}, headers=wrong)
    assert_problem(answer, 406, "text/csv", "'image/png'")
    answer = service.client.post("/predict?model=numbers", content=b"a,b\n1,2\n", headers=wrong | CSV_BODY)
    assert_problem(answer, 406, "text/csv", "'image/png'")
