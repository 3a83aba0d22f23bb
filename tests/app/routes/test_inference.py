"""The Open Inference Protocol: the same bits as /predict, in the protocol's own bytes."""

import json
import struct
from typing import Any

import httpx
import numpy as np
import pytest

from tests.app.routes.service import CSV_BODY, QUICK, Service, waves

ROWS = [[0.25, -0.5], [0.5, 0.75], [-0.125, 0.0]]
FLAT = [cell for row in ROWS for cell in row]
TENSOR: dict[str, Any] = {"name": "rows", "shape": [3, 2], "datatype": "FP64", "data": FLAT}
LENGTH = "Inference-Header-Content-Length"


def infer(service: Service, inputs: list[dict[str, Any]], model: str = "numbers", **more: Any) -> dict[str, Any]:
    answer = service.client.post(f"/v2/models/{model}/infer", json={"inputs": inputs, **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def outputs(found: dict[str, Any]) -> dict[str, Any]:
    return {output["name"]: output["data"] for output in found["outputs"]}


@pytest.fixture(scope="module")
def expected(service: Service) -> dict[str, Any]:
    return service.ask("numbers", ROWS)


def test_the_server_tells_of_itself(service: Service) -> None:
    found = service.client.get("/v2").json()
    assert (found["name"], found["extensions"]) == ("pursuit", ["binary_tensor_data"])
    assert service.client.get("/v2/health/live").json() == {"live": True}
    assert service.client.get("/v2/health/ready").json() == {"ready": True}


def test_a_model_tells_of_its_tensors(service: Service) -> None:
    found = service.client.get("/v2/models/numbers").json()
    assert found["inputs"] == [
        {"name": "rows", "datatype": "FP64", "shape": [-1, 2], "parameters": {"columns": ["a", "b"]}}
    ]
    assert [output["name"] for output in found["outputs"]] == [
        *("mean", "std", "lower", "upper", "latent_std", "median", "support", "imputed")
    ]
    assert (found["name"], found["versions"]) == ("numbers", ["1"])
    assert service.client.get("/v2/models/numbers/versions/1").json() == found
    assert service.client.get("/v2/models/waves").json()["inputs"] == [
        {"name": "x", "datatype": "FP64", "shape": [-1]},
        {"name": "kind", "datatype": "BYTES", "shape": [-1]},
    ]
    assert service.client.get("/v2/models/waves/versions/latest/ready").json() == {"name": "waves", "ready": True}


def test_an_answer_to_the_byte(service: Service, expected: dict[str, Any]) -> None:
    body = {"id": "42", "inputs": [TENSOR], "outputs": [{"name": "std"}, {"name": "mean"}]}
    answer = service.client.post("/v2/models/numbers/infer", json=body)
    assert answer.headers["content-type"] == "application/json"
    std, mean = (",".join(map(repr, expected[name])) for name in ("std", "mean"))
    assert answer.text == (
        '{"model_name":"numbers","model_version":"1","id":"42","outputs":['
        f'{{"name":"std","datatype":"FP64","shape":[3],"data":[{std}]}},'
        f'{{"name":"mean","datatype":"FP64","shape":[3],"data":[{mean}]}}]}}'
    )


def test_every_form_gives_the_bits_of_predict(service: Service, expected: dict[str, Any]) -> None:
    a, b = ([row[place] for row in ROWS] for place in (0, 1))
    forms: list[list[dict[str, Any]]] = [
        [TENSOR],
        [TENSOR | {"data": ROWS, "name": "anything"}],
        [
            {"name": "b", "shape": [3], "datatype": "FP64", "data": b},
            {"name": "note", "shape": [3], "datatype": "BYTES", "data": ["", "x", "y"]},
            {"name": "a", "shape": [3, 1], "datatype": "FP64", "data": [[cell] for cell in a]},
        ],
    ]
    for form in forms:
        found = infer(service, form)
        assert outputs(found) == {name: expected[name] for name in ("mean", "std", "lower", "upper")}
        assert found["parameters"] == {"interval": 0.95, "interval_basis": "conformal"}


def test_interval_and_extras(service: Service) -> None:
    more = service.ask("numbers", ROWS, interval=0.5, include=["latent_std", "support"])
    wanted = [{"name": name} for name in ("support", "lower", "latent_std")]
    found = infer(service, [TENSOR], parameters={"interval": 0.5}, outputs=wanted)
    assert outputs(found) == {name: more[name] for name in ("support", "lower", "latent_std")}


def test_the_mean_alone(service: Service, expected: dict[str, Any]) -> None:
    found = infer(service, [TENSOR], outputs=[{"name": "mean"}])
    assert outputs(found) == {"mean": expected["mean"]}
    assert "parameters" not in found


def binary(service: Service, inputs: list[dict[str, Any]], data: bytes, **more: Any) -> httpx.Response:
    head = json.dumps({"inputs": inputs, **more}).encode()
    headers = {LENGTH: str(len(head)), "content-type": "application/octet-stream"}
    return service.client.post("/v2/models/numbers/infer", content=head + data, headers=headers)


def test_bytes_both_ways(service: Service, expected: dict[str, Any]) -> None:
    tensor = {"name": "rows", "shape": [3, 2], "datatype": "FP64", "parameters": {"binary_data_size": 48}}
    data = struct.pack("<6d", *FLAT)
    wanted = [{"name": "mean"}, {"name": "std", "parameters": {"binary_data": False}}, {"name": "upper"}]
    answer = binary(service, [tensor], data, parameters={"binary_data_output": True}, outputs=wanted)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/octet-stream"
    length = int(answer.headers[LENGTH])
    head = json.loads(answer.content[:length])
    assert head["outputs"][0] == {
        "name": "mean",
        "datatype": "FP64",
        "shape": [3],
        "parameters": {"binary_data_size": 24},
    }
    assert head["outputs"][1]["data"] == expected["std"]
    assert answer.content[length:] == struct.pack("<6d", *expected["mean"], *expected["upper"])
    assert outputs(binary(service, [tensor], data).json())["mean"] == expected["mean"]  # JSON where nobody asked


@pytest.mark.parametrize("datatype", ["FP32", "FP16", "INT8", "INT64", "UINT16"])
def test_other_numbers_as_bytes(service: Service, datatype: str) -> None:
    kind = {"FP32": "<f4", "FP16": "<f2", "INT8": "<i1", "INT64": "<i8", "UINT16": "<u2"}[datatype]
    cells = np.array([[1, 0], [2, 1]]).astype(kind)
    tensor = {"name": "rows", "shape": [2, 2], "datatype": datatype}
    raw = binary(service, [tensor | {"parameters": {"binary_data_size": cells.nbytes}}], cells.tobytes())
    assert outputs(raw.json())["mean"] == service.ask("numbers", [[1, 0], [2, 1]])["mean"]
    assert outputs(infer(service, [tensor | {"data": [1, 0, 2, 1]}])) == outputs(raw.json())


def test_categories_as_bytes(service: Service) -> None:
    kinds = [b"low", b"high"]
    data = b"".join(struct.pack("<I", len(kind)) + kind for kind in kinds) + struct.pack("<2d", 0.5, 1.5)
    inputs = [
        {"name": "kind", "shape": [2], "datatype": "BYTES", "parameters": {"binary_data_size": len(data) - 16}},
        {"name": "x", "shape": [2], "datatype": "FP64", "parameters": {"binary_data_size": 16}},
    ]
    head = json.dumps({"inputs": inputs}).encode()
    answer = service.client.post("/v2/models/waves/infer", content=head + data, headers={LENGTH: str(len(head))})
    assert outputs(answer.json())["mean"] == service.ask("waves", [[0.5, "low"], [1.5, "high"]])["mean"]


def test_a_category_called_by_a_whole_number(empty: Service) -> None:
    table = waves().replace("low", "3").replace("high", "4")
    empty.train(table, model="m", columns={"kind": "category"}, **QUICK)
    tensors = [
        {"name": "x", "shape": [1], "datatype": "FP32", "data": [0.5]},
        {"name": "kind", "shape": [1], "datatype": "INT64", "data": [3]},
    ]
    assert outputs(infer(empty, tensors, "m"))["mean"] == empty.ask("m", [[0.5, "3"]])["mean"]


def test_many_rows(service: Service) -> None:
    rows = np.random.default_rng(0).uniform(-1, 1, (20_000, 2))
    found = outputs(infer(service, [TENSOR | {"shape": [20_000, 2], "data": rows.ravel().tolist()}]))
    for place in (0, 2047, 2048, 19_999):
        assert found["mean"][place] == service.ask("numbers", [rows[place].tolist()])["mean"][0]


BAD: dict[str, tuple[dict[str, Any], int, tuple[str, ...]]] = {
    "no inputs": ({"inputs": []}, 422, ("at least one",)),
    "inputs missing": ({}, 422, ("missing field `inputs`",)),
    "shape and data": ({"inputs": [TENSOR | {"shape": [2, 2]}]}, 422, ("'rows'", "needs 4 elements, got 6")),
    "columns": ({"inputs": [TENSOR | {"shape": [2, 3]}]}, 422, ("expected shape [rows, 2] (a, b)", "[2, 3]")),
    "negative": ({"inputs": [TENSOR | {"shape": [-1, 2]}]}, 422, ("[-1, 2]",)),
    "datatype": ({"inputs": [TENSOR | {"datatype": "FP8"}]}, 422, ("'FP8'", "FP64")),
    "ragged": ({"inputs": [TENSOR | {"data": [[1, 2], [3], [4, 5]]}]}, 422, ("needs 2 elements at depth 1, got 1",)),
    "nested otherwise": ({"inputs": [TENSOR | {"data": [[1, 2, 3], [4, 5, 6]]}]}, 422, ("nested otherwise", "[3, 2]")),
    "text": ({"inputs": [TENSOR | {"data": [1, 2, 3, "x", 5, 6]}]}, 422, ("element 3", "a number")),
    "fraction": ({"inputs": [TENSOR | {"datatype": "INT32", "data": [1, 2, 3, 4, 5, 0.5]}]}, 422, ("whole number",)),
    "beyond": ({"inputs": [TENSOR | {"datatype": "INT8", "data": [1, 2, 3, 4, 5, 300]}]}, 422, ("beyond INT8",)),
    "null": ({"inputs": [TENSOR | {"data": [1, None, 3, 4, 5, 6]}]}, 422, ("row 0", "'b'", "missing")),
    "no data": ({"inputs": [{"name": "r", "shape": [1, 2], "datatype": "FP64"}]}, 422, ("binary_data_size",)),
    "missing column": (
        {"inputs": [{"name": "a", "shape": [1], "datatype": "FP64", "data": [1]}]},
        422,
        ("missing: 'b'",),
    ),
    "output": ({"inputs": [TENSOR], "outputs": [{"name": "sd"}]}, 422, ("latent_std", "'sd'")),
    "output twice": ({"inputs": [TENSOR], "outputs": [{"name": "std"}, {"name": "std"}]}, 422, ("once",)),
    "parameter": ({"inputs": [TENSOR], "parameters": {"intervall": 0.5}}, 422, ("unknown field `intervall`",)),
    "interval": ({"inputs": [TENSOR], "parameters": {"interval": 95}}, 422, ("interval", "95")),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_answered(service: Service, name: str) -> None:
    body, status, words = BAD[name]
    assert_error(service.client.post("/v2/models/numbers/infer", json=body), status, *words)


def assert_error(answer: httpx.Response, status: int, *words: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert list(answer.json()) == ["error"]
    for word in words:
        assert word in answer.json()["error"]


def test_other_refusals(service: Service) -> None:
    assert_error(service.client.post("/v2/models/cars/infer", json={"inputs": [TENSOR]}), 404, "'cars'")
    assert_error(service.client.get("/v2/models/cars/ready"), 404, "'cars'")
    assert_error(
        service.client.post("/v2/models/numbers/versions/7/infer", json={"inputs": [TENSOR]}), 404, "no version 7"
    )
    assert_error(service.client.get("/v2/models/numbers/infer"), 405)
    assert_error(service.client.get("/v2/nothing"), 404)
    assert_error(service.client.post("/v2/models/numbers/infer", content=b"{", headers={}), 400, "JSON")
    assert_error(
        service.client.post("/v2/models/numbers/infer", content=b"x", headers=CSV_BODY),
        415,
        "application/octet-stream",
    )


def test_bytes_that_do_not_fit(service: Service) -> None:
    tensor: dict[str, Any] = {"name": "rows", "shape": [1, 2], "datatype": "FP64"}
    for size, data, words in (
        (16, bytes(8), "8 bytes are left"),
        (8, bytes(8), "needs 16 bytes, got 8"),
        (16, bytes(17), "1 bytes behind the JSON belong to no input"),
        (16, struct.pack("<2d", 1.0, float("nan")), "row 0"),
    ):
        assert_error(binary(service, [tensor | {"parameters": {"binary_data_size": size}}], data), 422, words)
    text = {"name": "kind", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": 6}}
    assert_error(binary(service, [text], b"\x03\0\0\0ab"), 422, "end inside of element 0")
    answer = service.client.post("/v2/models/numbers/infer", content=b"{}", headers={LENGTH: "3"})
    assert_error(answer, 422, LENGTH, "'3'")
