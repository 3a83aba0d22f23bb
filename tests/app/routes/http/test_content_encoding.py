"""Things that clients put around bodies: byte order marks, other encodings, Accept headers, boundaries, queries."""

import json
from typing import Any

import pytest

from tests.app.routes.service import Service, numbers

JSON = {"Content-Type": "application/json"}
ASKED: dict[str, Any] = {"model": "numbers", "rows": [[0.5, 0.25]]}


def test_a_byte_order_mark_is_no_part_of_json(service: Service) -> None:
    expected = service.ask(**ASKED)
    mark = b"\xef\xbb\xbf"
    assert service.client.post("/predict", content=mark + json.dumps(ASKED).encode(), headers=JSON).json() == expected
    tensor = {"name": "r", "shape": [1, 2], "datatype": "FP64", "data": ASKED["rows"][0]}
    inference = mark + json.dumps({"inputs": [tensor]}).encode()
    assert service.client.post("/v2/models/numbers/infer", content=inference, headers=JSON).status_code == 200
    table = {"columns": {"x": [1, 2, 3], "y": [1, 2, 3]}}
    assert service.client.post("/train", content=mark + json.dumps(table).encode(), headers=JSON).status_code == 202
    form = service.client.post("/train", files={"file": ("t.csv", numbers(20))}, data={"spec": "\ufeff{}"})
    assert form.status_code == 202


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_another_encoding_is_named(service: Service, encoding: str) -> None:
    answer = service.client.post("/predict", content=json.dumps(ASKED).encode(encoding), headers=JSON)
    assert answer.status_code == 400
    assert "send it as UTF-8" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("text/csv, application/json", "text/csv"),
        ("application/json;q=0.5, text/csv", "text/csv"),
        ("text/csv;q=0.5, application/json;q=0.9", "application/json"),
        ("application/json;q=0, */*", "text/csv"),
        ("text/html, application/*;q=0.8, text/*;q=0.9", "text/csv"),
        ("application/x-npy; q=1.0", "application/x-npy"),
        ("application/json;q=0, application/*", "application/x-npy"),
        ("Application/JSON; charset=utf-8", "application/json"),
        ("*/*;q=0", None),
        ("application/json;q=0.0", None),
        ("text/html", None),
    ],
)
def test_accept(service: Service, accept: str, kind: str | None) -> None:
    answer = service.client.post("/predict", json=ASKED, headers={"Accept": accept})
    if kind is None:
        assert answer.status_code == 406
    else:
        assert answer.status_code == 200
        assert answer.headers["content-type"].partition(";")[0] == kind


def test_a_boundary_that_is_too_long(service: Service) -> None:
    headers = {"Content-Type": f"multipart/form-data; boundary={'b' * 300}"}
    answer = service.client.post("/train", content=b"--b", headers=headers)
    assert answer.status_code == 400
    assert "Boundary length 300" in answer.json()["detail"]


def test_one_model_in_the_query(service: Service) -> None:
    answer = service.client.post(
        "/predict?model=numbers&model=waves", content="a,b\n1,2\n", headers={"Content-Type": "text/csv"}
    )
    assert answer.status_code == 422
    assert "named 2 times" in answer.json()["detail"]


def test_a_long_name_is_not_given_back_whole(service: Service) -> None:
    answer = service.client.post("/predict", json=ASKED | {"model": "a" * 100_000})
    assert answer.status_code == 422
    assert len(answer.content) < 1_000


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"missing_values": [None]}, "spec.missing_values.0: expected a number or a text; got null"),
        ({"missing_values": ["x"] * 101}, "spec.missing_values: expected at most 100 items"),
        ({"seed": True}, "spec.seed: expected a whole number; got true"),
        (5, "spec: expected an object, got a number"),
    ],
)
def test_refusals_in_words_of_json(service: Service, spec: Any, words: str) -> None:
    answer = service.client.post("/train", json={"columns": {"x": [1, 2], "y": [1, 2]}, "spec": spec})
    assert answer.status_code == 422
    assert words in answer.json()["detail"]
