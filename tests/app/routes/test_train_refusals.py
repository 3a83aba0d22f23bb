"""Every way to ask for a training wrongly, over HTTP: the status, and a sentence that a person can act on."""

import gzip
import os
from typing import Any

import pytest

from tests.app.routes.problems import FORM, assert_problem
from tests.app.routes.service import Service

GOOD = "a,b,y\n1,2,3\n2,3,4\n3,5,6\n"

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
    "not UTF-8": ("a,y\né,2\n".encode() + b"\xff\xfe,3\n", {}, 400, ("not UTF-8", "line 3")),
    "a workbook": (b"PK\x03\x04" + bytes(100), {}, 400, ("Excel", "damaged")),
    "damaged gzip": (gzip.compress(GOOD.encode())[:-6], {}, 400, ("gzip", "damaged")),
    "no such target": (GOOD, {"target": "z"}, 422, ("'z'", "'a'", "'b'", "'y'")),
    "no such feature": (GOOD, {"features": ["a", "z"]}, 422, ("'z'", "'a'", "'b'")),
    "no features": (GOOD, {"features": []}, 422, ("features", "at least one")),
    "the target as a feature": (GOOD, {"features": ["a", "y"]}, 422, ("'y'", "target")),
    "unknown field": (GOOD, {"basis_siz": 3}, 422, ("spec.basis_siz: unknown field", "basis_size")),
    "unknown inner field": (GOOD, {"adapt": {"round": 3}}, 422, ("spec.adapt.round: unknown field", "rounds")),
    "wrong method": (GOOD, {"method": "magic"}, 422, ("spec.method", "batch", "dmax", "'magic'")),
    "wrong approximation": (GOOD, {"approximation": "full"}, 422, ("spec.approximation", "fitc", "'full'")),
    "wrong kernel": (
        GOOD,
        {"kernel": "cosine"},
        422,
        ("spec.kernel", "auto, gaussian, matern52, matern32, matern12", "'cosine'"),
    ),
    "mean on no rows": (GOOD, {"mean_rows": 0}, 422, ("spec.mean_rows", "at least 1", "0")),
    "mean on other words": (GOOD, {"mean_rows": "most"}, 422, ("spec.mean_rows", '"auto", "all", "basis"', "'most'")),
    "mean on more rows than there are": (GOOD, {"mean_rows": 10**6}, 422, ("spec.mean_rows", "at most the")),
    "mean without left-out rows": (GOOD, {"mean_rows": "all", "calibrate": False}, 422, ("mean_rows", "left-out")),
    "mean on more rows, refined": (GOOD, {"mean_rows": "all", "refine": True}, 422, ("mean_rows", "`refine`")),
    "mean on more rows, compact": (GOOD, {"mean_rows": 2, "artefact": "compact"}, 422, ("mean_rows", "compact")),
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
    assert_problem(service.post_file(body, spec), status, *words)


def test_faults_carry_the_place(service: Service) -> None:
    problem = assert_problem(service.post_file("a,y\n1,2\n\n?,3\n3,5\n,7\n"), 422)
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
    problem = assert_problem(
        service.post_file("a,y\n" + "".join(f",{i}\n" if i % 2 else f"{i},{i}\n" for i in range(2000))), 422
    )
    assert len(problem["errors"]) == 20
    assert problem["error_count"] == 1000


@pytest.mark.slow
def test_fifty_megabytes_of_garbage_are_refused_and_not_kept(service: Service) -> None:
    assert_problem(service.post_file(os.urandom(50 << 20)), 400, "not")
    assert list(service.settings.uploads.glob("*/*")) == []


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
    "form of fields alone": (
        "application/x-www-form-urlencoded",
        b"spec=%7B%7D",
        422,
        ("no file", "multipart/form-data", "`file`"),
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
    "neither columns nor rows": ("application/json", b"{}", 422, ("`columns`", "`rows`", "none of them")),
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
    assert_problem(service.client.post("/train", content=body, headers=headers), status, *words)
