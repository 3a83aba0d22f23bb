"""One rule for JSON, in every body: no key twice, no number that a double cannot hold, ignored columns not excepted."""

import json
from typing import Any

import httpx
import pytest

from tests.app.routes.service import Service

INFER = "/v2/models/numbers/infer"
V2 = '{"inputs": [{"name": "r", "shape": [1, 2], "datatype": "FP64", "data": [1, 2]%s}]%s}'
ROWS = '{"model": "numbers", "rows": [%s]}'
COLUMNS = '{"columns": {"x": [1, 2], "y": [1, 2]}, %s}'
TWICE: dict[str, tuple[str, str, str]] = {
    "predict: model": ("/predict", '{"model": "no", "model": "numbers", "rows": [[1, 2]]}', "'model'"),
    "predict: rows": ("/predict", '{"model": "numbers", "rows": [[1, 2]], "rows": [[3, 4]]}', "'rows'"),
    "predict: interval": ("/predict", '{"model": "m", "rows": [[1]], "interval": 0.9, "interval": 1}', "'interval'"),
    "predict: a row": ("/predict", ROWS % '{"a": 1, "b": 2}, {"a": 1, "b": 2, "a": 3}', "rows[1]: the key 'a'"),
    "predict: ignored": ("/predict", ROWS % '{"a": 1, "b": 2, "n": 2, "n": 3}', "rows[0]: the key 'n'"),
    "predict: columns": (
        "/predict",
        '{"model": "numbers", "columns": {"a": [1], "b": [2], "a": [3]}}',
        "columns: the key 'a'",
    ),
    "predict: a category": (
        "/predict",
        '{"model": "waves", "rows": [{"x": 1, "kind": "low", "kind": "high"}]}',
        "rows[0]: the key 'kind'",
    ),
    "v2: inputs": (INFER, V2 % ("", ', "inputs": []'), "'inputs'"),
    "v2: a tensor": (INFER, V2 % (', "shape": [1, 2]', ""), "inputs[0]: the key 'shape'"),
    "v2: parameters": (INFER, V2 % ("", ', "parameters": {"interval": 1, "interval": 0}'), "parameters: the key"),
    "v2: what is ignored": (INFER, V2 % ("", ', "mine": {"k": 1, "k": 2}'), "mine: the key 'k'"),
    "train: columns": ("/train", '{"columns": {"x": [1], "y": [1], "x": [3]}}', "columns: the key 'x'"),
    "train: a row": ("/train", '{"rows": [{"x": 1, "y": 2}, {"x": 1, "y": 2, "y": 3}]}', "rows[1]: the key 'y'"),
    "train: spec": ("/train", COLUMNS % '"spec": {"seed": 1, "seed": 2}', "spec: the key 'seed'"),
    "train: adapt": ("/train", COLUMNS % '"spec": {"adapt": {"steps": 1, "steps": 2}}', "spec.adapt: the key 'steps'"),
    "train: spec itself": ("/train", COLUMNS % '"spec": {}, "spec": {}', "'spec'"),
    "datasets: a row": ("/datasets", '{"rows": [{"x": 1, "y": 2, "x": 2}]}', "rows[0]: the key 'x'"),
}
IGNORE = '"spec": {"columns": {"n": "ignore"}}'
TOO_LARGE: dict[str, tuple[str, str]] = {
    "predict: an ignored column": ("/predict", ROWS % '{"a": 1, "b": 2, "n": %s}'),
    "predict: rows that differ": ("/predict", ROWS % '{"a": 1, "b": 2}, {"a": 1, "b": 2, "n": %s}'),
    "predict: deep in one": ("/predict", ROWS % '{"a": 1, "b": 2, "n": [[%s]]}'),
    "predict: columns": ("/predict", '{"model": "numbers", "columns": {"a": [1], "b": [2], "n": [%s]}}'),
    "train: rows": ("/train", f'{{"rows": [{{"x": 1, "n": %s, "y": 2}}, {{"x": 2, "n": 1, "y": 3}}], {IGNORE}}}'),
    "train: columns": ("/train", f'{{"columns": {{"x": [1, 2], "n": [1, %s], "y": [1, 2]}}, {IGNORE}}}'),
    "datasets": ("/datasets", '{"columns": {"x": [1, 2], "n": [1, %s]}}'),
}


def posted(service: Service, path: str, body: str) -> httpx.Response:
    return service.client.post(path, content=body, headers={"Content-Type": "application/json"})


def refusal(answer: httpx.Response) -> str:
    assert answer.status_code == 422, answer.text
    said: dict[str, Any] = answer.json()
    return str(said.get("detail", said.get("error")))


@pytest.mark.parametrize("name", TWICE)
def test_a_key_that_is_there_twice(service: Service, name: str) -> None:
    path, body, words = TWICE[name]
    detail = refusal(posted(service, path, body))
    assert words in detail
    assert "is there twice" in detail


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" + "0" * 400])
@pytest.mark.parametrize("name", TOO_LARGE)
def test_a_number_that_no_double_holds(service: Service, name: str, number: str) -> None:
    path, body = TOO_LARGE[name]
    assert "too large" in refusal(posted(service, path, body % number))
    faults = posted(service, path, body % number).json()["errors"]
    assert "n" in faults[0]["column"].removeprefix("columns")
    not_json = posted(service, path, body % "NaN")
    assert not_json.status_code == 400
    assert "NaN is not a JSON number" in not_json.json()["detail"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"x": 2, "y": 3, "x": 4}', "the key 'x' is there twice"),
        ('{"x": 2, "y": 3, "n": 1e400}', "too large"),
        ('{"x": 2, "y": 3, "n": 1%s}' % ("0" * 400), "too large"),
    ],
)
def test_json_lines(service: Service, line: str, words: str) -> None:
    table = f'{{"x": 1, "y": 2, "n": "12:30"}}\n{line}\n'
    spec = {"target": "y", "columns": {"n": "ignore"}}
    detail = refusal(service.post_file(table, spec, filename="t.jsonl"))
    assert "line 2" in detail
    assert words in detail
    kind = {"Content-Type": "application/x-ndjson"}
    table = table.replace('"x"', '"a"').replace('"y"', '"b"')
    assert "line 2" in refusal(service.client.post("/predict?model=numbers", content=table, headers=kind))


def test_the_form_part_and_the_alias(service: Service) -> None:
    form = {"spec": '{"target": "y", "target": "x"}'}
    answer = service.client.post("/train", files={"file": ("t.csv", "x,y\n1,2\n")}, data=form)
    assert "spec: the key 'target' is there twice" in refusal(answer)
    put = service.client.put(
        "/models/numbers/aliases/best",
        content='{"version": 1, "version": 1}',
        headers={"Content-Type": "application/json"},
    )
    assert "the key 'version' is there twice" in refusal(put)


def test_what_is_like_a_key_twice_and_is_none(service: Service) -> None:
    rows = [{"a": 0.5, "b": 0.25, "note": 'at 12:30: "a": 1, \\ "b":', "more": {"a": [{"a": ":"}]}}] * 3
    expected = service.ask("numbers", [[0.5, 0.25]] * 3)
    assert service.ask("numbers", rows) == expected
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    asked = {"model": "numbers", "columns": columns}
    assert service.client.post("/predict", json=asked).json() == expected
    assert (
        service.client.post(
            "/predict", content=json.dumps(asked, indent=2), headers={"Content-Type": "application/json"}
        ).json()
        == expected
    )


def test_large_bodies_name_the_row(service: Service) -> None:
    rows = ",".join(f'{{"a": {row / 9000}, "b": 0.5, "id": {row}}}' for row in range(9_000))
    body = f'{{"model": "numbers", "rows": [{rows}], "interval": false}}'
    answer = posted(service, "/predict", body)
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["mean"]) == 9_000
    assert "rows[8000]: the key 'b'" in refusal(posted(service, "/predict", body.replace('"id": 8000', '"b": 8000')))
    too_large = posted(service, "/predict", body.replace('"id": 8000', '"id": 1e999'))
    assert "rows[8000].id: this number is too large" in refusal(too_large)
