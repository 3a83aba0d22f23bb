"""Every way to get a request wrong, over HTTP: the status, and a sentence that a person can act on."""

import gzip
import json
import os
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.routes.errors import PROBLEM
from tests.app.routes.service import Service, running

GOOD = "a,b,y\n1,2,3\n2,3,4\n3,5,6\n"


def refused(answer: httpx.Response, status: int, *words: str) -> dict[str, Any]:
    """The problem document, if it is one, has this status and says all these words."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == PROBLEM
    assert answer.headers["x-request-id"]
    problem: dict[str, Any] = answer.json()
    assert problem["status"] == status
    assert problem["instance"] == answer.request.url.path
    assert {"type", "title", "detail"} <= set(problem)
    for word in words:
        assert word in problem["detail"], problem["detail"]
    for leaked in ("Traceback", "site-packages", "Error("):
        assert leaked not in answer.text
    return problem


TABLES: dict[str, tuple[str | bytes, dict[str, Any], int, tuple[str, ...]]] = {
    "empty file": ("", {}, 422, ("the file is empty", "header line")),
    "only blank lines": ("\n\n \n", {}, 422, ("blank lines",)),
    "header only": ("a,b,y\n", {}, 422, ("header line but no rows",)),
    "one row": ("a,b,y\n1,2,3\n", {}, 422, ("2 rows",)),
    "one column": ("y\n1\n2\n", {}, 422, ("only one column",)),
    "constant target": ("a,y\n1,3\n2,3\n3,3\n", {}, 422, ("y", "3", "every row")),
    "text target": ("a,y\n1,red\n2,green\n3,blue\n", {}, 422, ("target", "'y'")),
    "nan cell": ("a,y\n1,2\nNaN,3\n3,5\n", {}, 422, ("line 3", "'a'", "missing")),
    "empty cell": ("a,y\n1,2\n,3\n3,5\n", {}, 422, ("line 3", "'a'", "missing")),
    "nan in the target": ("a,y\n1,2\n2,nan\n3,5\n", {}, 422, ("line 3", "'y'", "missing")),
    "too large for a float": ("a,y\n1,2\n1e400,3\n3,5\n", {}, 422, ("line 3", "'a'", "1e400")),
    "too large, though missing cells are dropped": (
        "a,y\n1,2\n1e400,3\n3,5\n",
        {"missing": "drop"},
        422,
        ("line 3", "'a'", "1e400"),
    ),
    "infinite": ("a,y\n1,2\ninf,3\n3,5\n", {}, 422, ("line 3", "'a'", "inf")),
    "ragged, too short": ("a,b,y\n1,2,3\n1,2\n3,4,5\n", {}, 422, ("line 3", "expected 3 cells, got 2")),
    "ragged, too long": ("a,b,y\n1,2,3\n1,2,3,4\n3,4,5\n", {}, 422, ("line 3", "expected 3 cells, got 4")),
    "two columns of one name": ("a,a,y\n1,2,3\n2,3,4\n", {}, 422, ("columns 1 and 2", "'a'")),
    "open quotation mark": ('a,y\n1,"2\n3,4\n', {}, 400, ("line 2", "never closed")),
    "binary": (b"\x00\x01\x02" * 100, {}, 400, ("not text",)),
    "not UTF-8": (b"a,y\n1,2\n" + b"\xff\xfe,3\n", {}, 400, ("not UTF-8", "line 3")),
    "a workbook": (b"PK\x03\x04" + bytes(100), {}, 415, ("Excel", "CSV")),
    "damaged gzip": (gzip.compress(GOOD.encode())[:-6], {}, 400, ("gzip", "damaged")),
    "no such target": (GOOD, {"target": "z"}, 422, ("'z'", "'a'", "'b'", "'y'")),
    "no such feature": (GOOD, {"features": ["a", "z"]}, 422, ("'z'", "'a'", "'b'")),
    "no features": (GOOD, {"features": []}, 422, ("features", "at least one")),
    "the target as a feature": (GOOD, {"features": ["a", "y"]}, 422, ("'y'", "target")),
    "unknown field": (GOOD, {"basis_siz": 3}, 422, ("spec.basis_siz: unknown field", "basis_size")),
    "unknown inner field": (GOOD, {"adapt": {"round": 3}}, 422, ("spec.adapt.round: unknown field", "rounds")),
    "wrong method": (GOOD, {"method": "magic"}, 422, ("spec.method", "batch", "dmax", "'magic'")),
    "wrong approximation": (GOOD, {"approximation": "full"}, 422, ("spec.approximation", "fitc", "'full'")),
    "text for a number": (GOOD, {"basis_size": "many"}, 422, ("spec.basis_size", "whole number", "'many'")),
    "half a basis vector": (GOOD, {"basis_size": 2.5}, 422, ("spec.basis_size", "whole number", "2.5")),
    "no basis vectors": (GOOD, {"basis_size": 0}, 422, ("spec.basis_size", "at least 1", "0")),
    "too many basis vectors": (GOOD, {"basis_size": 10**6}, 422, ("spec.basis_size", "at most 4000")),
    "impossible holdout": (GOOD, {"holdout": 1.5}, 422, ("spec.holdout", "at most 0.9", "1.5")),
    "impossible power": (GOOD, {"approximation": "pep", "power": 0}, 422, ("spec.power", "more than 0")),
    "impossible name": (GOOD, {"model": "a/b"}, 422, ("spec.model", "letter or digit", "'a/b'")),
    "wrong way with missing cells": (GOOD, {"missing": "guess"}, 422, ("spec.missing", "drop", "'guess'")),
    "lengthscales that do not fit": (
        GOOD,
        {
            "hyperparameters": {
                "signal_variance": 1,
                "bias_variance": 0,
                "noise_variance": 0.1,
                "lengthscales": {"a": 1, "c": 1},
            }
        },
        422,
        ("lengthscales", "no value for b", "no such input column: c"),
    ),
    "negative noise": (
        GOOD,
        {
            "hyperparameters": {
                "signal_variance": 1,
                "bias_variance": 0,
                "noise_variance": -1,
                "lengthscales": {"a": 1, "b": 1},
            }
        },
        422,
        ("spec.hyperparameters.noise_variance", "more than 0", "-1"),
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_or_specification_that_cannot_be_trained_on(service: Service, name: str) -> None:
    body, spec, status, words = TABLES[name]
    refused(service.post_file(body, spec), status, *words)


def test_faults_carry_the_place(service: Service) -> None:
    problem = refused(service.post_file("a,y\n1,2\n\n?,3\n3,5\n,7\n"), 422)
    assert problem["error_count"] == 2
    assert problem["errors"][0] | {"message": ""} == {
        "row": 1,
        "line": 4,
        "column": "a",
        "value": "?",
        "message": "",
    }
    assert problem["errors"][1]["line"] == 6


def test_a_thousand_faults_are_twenty_and_a_number(service: Service) -> None:
    problem = refused(
        service.post_file("a,y\n" + "".join(f",{i}\n" if i % 2 else f"{i},{i}\n" for i in range(2000))), 422
    )
    assert len(problem["errors"]) == 20
    assert problem["error_count"] == 1000


def test_fifty_megabytes_of_garbage_are_refused_at_once(service: Service) -> None:
    garbage = os.urandom(50 << 20)
    started = time.monotonic()
    refused(service.post_file(garbage), 400, "not")
    assert time.monotonic() - started < 4.0
    assert list(service.settings.uploads.iterdir()) == []


FORM = "multipart/form-data; boundary=xx"

REQUESTS: dict[str, tuple[str, bytes, int, tuple[str, ...]]] = {
    "no body at all": ("", b"", 415, ("no Content-Type", "multipart/form-data", "application/json")),
    "wrong content type": ("text/plain", b"hello", 415, ("'text/plain'", "multipart/form-data")),
    "form without a boundary": ("multipart/form-data", b"hello", 400, ("boundary",)),
    "form that is none": (FORM, b"hello", 400, ("form",)),
    "form cut short": (
        FORM,
        b'--xx\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\na,y\n1,2\n',
        400,
        ("closing boundary",),
    ),
    "form without a file": (
        FORM,
        b'--xx\r\nContent-Disposition: form-data; name="spec"\r\n\r\n{}\r\n--xx--\r\n',
        422,
        ("no file", "`file`"),
    ),
    "form with something else": (
        FORM,
        b'--xx\r\nContent-Disposition: form-data; name="data"\r\n\r\n{}\r\n--xx--\r\n',
        422,
        ("'data'", "`file`", "`spec`"),
    ),
    "form with a broken specification": (
        FORM,
        b'--xx\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\na,y\n1,2\n2,3\n\r\n'
        b'--xx\r\nContent-Disposition: form-data; name="spec"\r\n\r\n{"seed": \r\n--xx--\r\n',
        400,
        ("JSON", "too early"),
    ),
    "form with a list for a specification": (
        FORM,
        b'--xx\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\na,y\n1,2\n2,3\n\r\n'
        b'--xx\r\nContent-Disposition: form-data; name="spec"\r\n\r\n[]\r\n--xx--\r\n',
        422,
        ("spec: expected an object",),
    ),
    "empty JSON": ("application/json", b"", 400, ("empty", "JSON")),
    "bad JSON": ("application/json", b'{"columns": {', 400, ("JSON", "too early")),
    "JSON of another shape": ("application/json", b"[1, 2]", 422, ("expected an object",)),
    "unknown top field": ("application/json", b'{"colums": {}}', 422, ("unknown field `colums`",)),
    "neither columns nor rows": ("application/json", b"{}", 422, ("`columns`", "`rows`", "neither")),
    "both columns and rows": ("application/json", b'{"columns": {}, "rows": []}', 422, ("columns and rows",)),
    "no columns": ("application/json", b'{"columns": {}}', 422, ("no columns",)),
    "no rows": ("application/json", b'{"rows": []}', 422, ("rows is empty",)),
    "columns of different length": (
        "application/json",
        b'{"columns": {"x": [1, 2], "y": [1]}}',
        422,
        ("differ in length", "'x' has 2", "'y' has 1"),
    ),
    "a column that is no list": ("application/json", b'{"columns": {"x": 1, "y": [1]}}', 422, ("columns:", "lists")),
    "a cell that is a list": (
        "application/json",
        b'{"columns": {"x": [1, [2]], "y": [1, 2]}}',
        422,
        ("row 1", "'x'", "a list"),
    ),
    "a row that is a list": ("application/json", b'{"rows": [{"x": 1, "y": 2}, [1, 2]]}', 422, ("row 1", "a list")),
    "NaN literal": (
        "application/json",
        b'{"columns": {"x": [1, NaN], "y": [1, 2]}}',
        400,
        ("byte 22", "NaN is not a JSON number"),
    ),
    "Infinity literal": (
        "application/json",
        b'{"columns": {"x": [1, -Infinity], "y": [1, 2]}}',
        400,
        ("Infinity is not a JSON number",),
    ),
    "1e400 in a column": (
        "application/json",
        b'{"columns": {"x": [1, 1e400], "y": [1, 2]}}',
        422,
        ("columns.x[1]", "too large"),
    ),
    "1e400 in a row": (
        "application/json",
        b'{"rows": [{"x": 1, "y": 2}, {"x": -1e400, "y": 2}]}',
        422,
        ("rows[1].x", "too large"),
    ),
    "1e400 in the specification": (
        "application/json",
        b'{"columns": {"x": [1, 2], "y": [1, 2]}, "spec": {"power": 1e400}}',
        422,
        ("spec.power", "too large"),
    ),
    "null cell": (
        "application/json",
        b'{"columns": {"x": [1, null, 2], "y": [1, 2, 3]}}',
        422,
        ("row 1", "'x'", "missing"),
    ),
    "constant target": ("application/json", b'{"columns": {"x": [1, 2], "y": [2, 2]}}', 422, ("'y'", "every row")),
    "one row": ("application/json", b'{"rows": [{"x": 1, "y": 2}]}', 422, ("2 rows",)),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_train_request_that_cannot_be_read(service: Service, name: str) -> None:
    kind, body, status, words = REQUESTS[name]
    headers = {"content-type": kind} if kind else {}
    refused(service.client.post("/train", content=body, headers=headers), status, *words)


ROWS: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "no model": ('{"rows": [[1, 2]]}', 422, ("missing field `model`",)),
    "unknown model": ('{"model": "cars", "rows": [[1, 2]]}', 404, ("no model 'cars'",)),
    "unknown version": ('{"model": "numbers@7", "rows": [[1, 2]]}', 404, ("no version 7", "1")),
    "unknown alias": ('{"model": "numbers@best", "rows": [[1, 2]]}', 404, ("no alias 'best'", "latest")),
    "impossible reference": ('{"model": "a b", "rows": [[1, 2]]}', 422, ("'a b'",)),
    "model that is no text": ('{"model": 3, "rows": [[1, 2]]}', 422, ("model: expected a text",)),
    "unknown field": ('{"model": "numbers", "row": [[1, 2]]}', 422, ("unknown field `row`",)),
    "neither rows nor columns": ('{"model": "numbers"}', 422, ("`rows`", "`columns`")),
    "rows and columns": ('{"model": "numbers", "rows": [], "columns": {}}', 422, ("`rows`", "`columns`")),
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
    "a number in quotation marks": (
        '{"model": "numbers", "rows": [[1, "2"]]}',
        422,
        ("'b'", "without quotation marks"),
    ),
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
    "include of nonsense": ('{"model": "numbers", "rows": [[1, 2]], "include": ["x"]}', 422, ("include[0]",)),
    "bad JSON": ('{"model": "numbers", "rows": [[1, 2]', 400, ("JSON", "too early")),
    "words": ("hello", 400, ("not JSON", "byte 0")),
    "empty": ("", 400, ("empty",)),
    "nested for ever": ('{"model": "numbers", "rows": ' + "[" * 50_000, 400, ("JSON",)),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_predict_request_that_cannot_be_answered(service: Service, name: str) -> None:
    body, status, words = ROWS[name]
    answer = service.client.post("/predict", content=body, headers={"content-type": "application/json"})
    refused(answer, status, *words)


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
    answer = service.client.post(f"/predict{query}", content=body, headers={"content-type": "text/csv"})
    refused(answer, status, *words)


def test_predict_says_what_it_reads_and_writes(service: Service) -> None:
    answer = service.client.post("/predict", content=b"x", headers={"content-type": "application/xml"})
    refused(answer, 415, "'application/xml'", "application/json", "text/csv")
    answer = service.client.post("/predict", json={"model": "numbers", "rows": []}, headers={"accept": "image/png"})
    refused(answer, 415, "text/csv", "'image/png'")


def test_json_is_sent_plain_and_says_all(service: Service) -> None:
    body = json.dumps({"model": "numbers", "rows": [[1, 2]]}).encode()
    kind = {"content-type": "application/json"}
    packed = service.client.post("/predict", content=gzip.compress(body), headers=kind | {"content-encoding": "gzip"})
    refused(packed, 415, "'gzip'", "plain")
    refused(service.client.post("/predict?interval=0.5", content=body, headers=kind), 422, "in the body")


SURROGATES = [
    ("/train", b'{"columns": {"x": [1, 2, 4], "y": [1, 2, 3]}, "spec": {"target": "\\ud800"}}'),
    ("/train", b'{"columns": {"\\ud800": [1, 2, 4], "y": [1, 2, 3]}, "spec": {"adapt": false}}'),
    ("/train", b'{"rows": [{"x": "\\udfff", "y": 1}, {"x": "b", "y": 3}]}'),
    ("/train", b'{"columns": {"x": [1, 2, 4], "y": [1, 2, 3]}, "spec": {"\\ud800": 1}}'),
    ("/train", b'{"columns": {"x": [1, 2, 4], "y": [1, 2, 3]}, "spec": {"model": "\\u0000"}}'),
    ("/predict", b'{"model": "\\ud800", "rows": [[1, 2]]}'),
    ("/predict", b'{"model": "waves", "rows": [[1, "\\ud800"]]}'),
    ("/predict", b'{"model": "numbers", "rows": [{"a": 1, "b": "\\ud800"}]}'),
]


@pytest.mark.parametrize(("path", "body"), SURROGATES)
def test_half_a_character(service: Service, path: str, body: bytes) -> None:
    answer = service.client.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (202, 400, 404, 422), answer.text
    service.work()


def test_bodies_above_the_limits(tmp_path: Path) -> None:
    with running(tmp_path, max_body_bytes=1000, max_upload_bytes=5000) as small:
        body = b'{"model": "numbers", "rows": [' + b"[1, 2]," * 200 + b"[1, 2]]}"
        json_kind = {"content-type": "application/json"}
        for path in ("/predict", "/train"):
            refused(small.client.post(path, content=body, headers=json_kind), 413, "1000", "PURSUIT_MAX_BODY_BYTES")
            answer = small.client.post(path, content=iter([body[:900], body[900:]]), headers=json_kind)
            refused(answer, 413, "1000", "PURSUIT_MAX_BODY_BYTES")
        refused(small.post_file("a,y\n" + "1,2\n" * 2000), 413, "5000", "PURSUIT_MAX_UPLOAD_BYTES")
        assert list(small.settings.uploads.iterdir()) == []


def test_a_table_that_is_larger_than_it_looks(tmp_path: Path) -> None:
    bomb = gzip.compress(b"a,y\n" + b"1,2\n" * 100_000)
    with running(tmp_path, max_upload_bytes=100_000) as small:
        refused(small.post_file(bomb), 413, "after decompression")
    with running(tmp_path, max_rows=1000) as small:
        refused(small.post_file(bomb), 413, "1,000 rows")


NOWHERE = [
    ("GET", "/nothing", 404, "nothing at this address"),
    ("GET", "/predict", 405, "does not answer to that method"),
    ("PUT", "/train", 405, "does not answer to that method"),
    ("GET", "/jobs/job_0", 404, "job_0"),
    ("DELETE", "/jobs/job_0", 404, "job_0"),
    ("GET", "/jobs/job_0/events", 404, "job_0"),
    ("GET", "/jobs?state=lost", 422, "queued"),
    ("GET", "/jobs?limit=0", 422, "limit"),
    ("GET", "/models?limit=x", 422, "limit"),
    ("GET", "/models/none", 404, "'none'"),
    ("GET", "/models/numbers/versions/9", 404, "no version 9"),
    ("GET", "/models/numbers/versions/x", 422, "version"),
    ("GET", "/models/numbers/versions/9/artefact", 404, "no version 9"),
    ("DELETE", "/models/none", 404, "'none'"),
    ("DELETE", "/models/numbers/versions/9", 404, "no version 9"),
    ("DELETE", "/models/numbers/aliases/best", 404, "'best'"),
    ("DELETE", "/models/numbers/aliases/latest", 409, "latest"),
]


@pytest.mark.parametrize(("method", "path", "status", "word"), NOWHERE)
def test_what_is_not_there(service: Service, method: str, path: str, status: int, word: str) -> None:
    answer = service.client.request(method, path)
    refused(answer, status, word)


ALIASES: list[tuple[str, Any, int, str]] = [
    ("best", {"version": 9}, 404, "no version 9"),
    ("best", {}, 422, "missing field `version`"),
    ("best", {"version": "1"}, 422, "version: expected a whole number"),
    ("best", {"version": 1, "x": 1}, 422, "unknown field `x`"),
    ("7", {"version": 1}, 422, "alias"),
    ("a b", {"version": 1}, 422, "alias"),
]


@pytest.mark.parametrize(("alias", "body", "status", "word"), ALIASES)
def test_an_alias_that_cannot_be(service: Service, alias: str, body: Any, status: int, word: str) -> None:
    refused(service.client.put(f"/models/numbers/aliases/{alias}", json=body), status, word)
    refused(service.client.put("/models/numbers/aliases/best", content=json.dumps(body)), 415, "application/json")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from(["/predict", "/predict?model=numbers", "/train"]),
    kind=st.sampled_from(["application/json", "text/csv", FORM, ""]),
    body=st.sampled_from(
        [
            b'{"model": "numbers", "rows": [[1, 2], [3, 4.5]], "interval": 0.9, "include": ["latent_std"]}',
            b'{"model": "waves@latest", "rows": [{"x": 1, "kind": "low"}]}',
            b'{"columns": {"x": [1, 2.5, "a"], "y": [1, null, 3]}, "spec": {"missing": "drop", "adapt": false}}',
            b"a,b\n1,2\n",
            b'--xx\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\na,y\n1,2\n2,3\n\r\n'
            b'--xx\r\nContent-Disposition: form-data; name="spec"\r\n\r\n{"seed": 1}\r\n--xx--\r\n',
        ]
    ),
    data=st.data(),
)
def test_no_spoilt_request_is_a_bug_of_ours(service: Service, path: str, kind: str, body: bytes, data: Any) -> None:
    spoilt = bytearray(body)
    for _ in range(data.draw(st.integers(0, 3))):
        start = data.draw(st.integers(0, len(spoilt)))
        end = data.draw(st.integers(start, min(len(spoilt), start + 9)))
        spoilt[start:end] = data.draw(st.binary(max_size=4) | st.sampled_from([b"1e999", b"NaN", b"null", b"[", b'"']))
    answer = service.client.post(path, content=bytes(spoilt), headers={"content-type": kind} if kind else {})
    assert answer.status_code < 500, answer.text
    assert answer.status_code in (200, 202) or answer.headers["content-type"] == PROBLEM
