"""A default of the OpenAPI document is what happens without the field; and so is null where it is allowed."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import numpy as np
import pytest

from app.services.spec_reading import read_spec
from tests.app.routes.service import Service, numbers

COLUMNS = {"a": [0.1, 0.2, 0.3], "b": [1.0, 2.0, 4.0], "y": [1.0, 2.0, 3.0]}
ROWS = [[0.1, 0.2], [0.3, 0.4]]


def described(document: Mapping[str, Any], method: str, path: str, kind: str) -> dict[str, Any]:
    """The schema of a request's body."""
    content = document["paths"][path][method]["requestBody"]["content"]
    return resolved(document, content[kind]["schema"])


def resolved(document: Mapping[str, Any], schema: Any) -> dict[str, Any]:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return dict(schema)


def nullable(document: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    kinds = schema.get("type", [])
    if "null" in ([kinds] if isinstance(kinds, str) else kinds):
        return True
    return any(nullable(document, resolved(document, part)) for part in schema.get("anyOf", []))


def bodies(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Bodies of all defaults at once, each default alone, and null for each field that may be null."""
    fields = schema["properties"]
    defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
    yield defaults
    yield from ({name: value} for name, value in defaults.items())
    for name, field in fields.items():
        if nullable(document, resolved(document, field)):
            yield {name: None}


def spec_of(service: Service, answer: httpx.Response) -> Any:
    """Return what the job that was queued is to do."""
    assert answer.status_code == 202, answer.text
    job = service.claim()
    assert job is not None
    return dict(job.payload)["spec"]


def test_every_default_and_null_of_a_specification(document: dict[str, Any]) -> None:
    schema = resolved(document, {"$ref": "#/components/schemas/SpecBody"})
    empty = read_spec({}, max_basis_size=4000)
    tried = list(bodies(document, schema))
    assert len(tried) > len(schema["properties"])
    assert all("default" in field for field in schema["properties"].values())
    for body in tried:
        assert read_spec(body, max_basis_size=4000) == empty, body
    all_null = dict.fromkeys(schema["properties"])
    assert read_spec(all_null, max_basis_size=4000) == empty
    for name, field in schema["properties"].items():
        for part in (resolved(document, each) for each in field.get("anyOf", [])):
            for inside in bodies(document, part) if "properties" in part and "required" not in part else ():
                assert read_spec({name: inside}, max_basis_size=4000) == read_spec({name: {}}, max_basis_size=4000)


def test_the_defaults_are_trained_with_as_json_and_as_a_form(service: Service, document: dict[str, Any]) -> None:
    schema = resolved(document, {"$ref": "#/components/schemas/SpecBody"})
    defaults = next(bodies(document, schema))
    service.work()
    expected = spec_of(service, service.client.post("/train", json={"columns": COLUMNS}))
    for spec in (defaults, {}, None, dict.fromkeys(schema["properties"])):
        assert spec_of(service, service.client.post("/train", json={"columns": COLUMNS, "spec": spec})) == expected
        assert spec_of(service, service.post_file(numbers(20), {} if spec is None else spec)) == expected
    form = {"spec": json.dumps(None)}
    assert (
        spec_of(service, service.client.post("/train", files={"file": ("t.csv", numbers(20))}, data=form)) == expected
    )


@pytest.mark.parametrize("path", ["/train", "/datasets"])
def test_null_in_the_body_around_it(service: Service, document: dict[str, Any], path: str) -> None:
    schema = described(document, "post", path, "application/json")
    for body in bodies(document, schema):
        answer = service.client.post(
            path, json={"columns": COLUMNS} | {k: v for k, v in body.items() if k != "columns"}
        )
        assert answer.status_code in (201, 202), (body, answer.text)
    rows = [dict(zip(COLUMNS, cells, strict=True)) for cells in zip(*COLUMNS.values(), strict=True)]
    answer = service.client.post(path, json={"columns": None, "rows": rows})
    assert answer.status_code in (201, 202), answer.text
    assert service.client.post(path, json={"columns": None}).status_code == 422


def test_every_default_and_null_of_a_prediction(service: Service, document: dict[str, Any]) -> None:
    expected = service.ask("numbers", ROWS)
    schema = described(document, "post", "/predict", "application/json")
    for body in bodies(document, schema):
        if "rows" not in body:
            assert service.ask("numbers", ROWS, **body) == expected, body
    columns = {"a": [0.1, 0.3], "b": [0.2, 0.4]}
    answer = service.client.post("/predict", json={"model": "numbers", "rows": None, "columns": columns})
    assert answer.json() == expected
    parameters = document["paths"]["/predict"]["post"]["parameters"]
    defaults = {p["name"]: p["schema"]["default"] for p in parameters if p["schema"].get("default")}
    answer = service.client.post(
        "/predict",
        params=defaults | {"model": "numbers"},
        content="a,b\n.1,.2\n.3,.4\n",
        headers={"Content-Type": "text/csv"},
    )
    assert answer.json() == expected


def test_every_default_and_null_of_the_inference_protocol(service: Service, document: dict[str, Any]) -> None:
    path = "/v2/models/numbers/infer"
    schema = described(document, "post", "/v2/models/{name}/infer", "application/json")
    tensor = {"name": "r", "shape": [2, 2], "datatype": "FP64", "data": [0.1, 0.2, 0.3, 0.4]}
    expected = service.client.post(path, json={"inputs": [tensor]}).json()
    for body in bodies(document, schema):
        assert service.client.post(path, json={"inputs": [tensor]} | body).json() == expected, body
    for body in bodies(document, schema["properties"]["parameters"]):
        assert service.client.post(path, json={"inputs": [tensor], "parameters": body}).json() == expected, body
    for body in bodies(document, schema["properties"]["inputs"]["items"]):
        if "data" not in body:  # its null is for those whose bytes come behind
            assert service.client.post(path, json={"inputs": [tensor | body]}).json() == expected, body


def test_bytes_behind_the_json_with_null_for_data(service: Service) -> None:
    data = np.array(ROWS).tobytes()
    tensor = {"name": "r", "shape": [2, 2], "datatype": "FP64", "data": None, "parameters": {"binary_data_size": 32}}
    head = json.dumps({"inputs": [tensor], "id": None, "outputs": None, "parameters": {"interval": None}}).encode()
    headers = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(head))}
    answer = service.client.post("/v2/models/numbers/infer", content=head + data, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.json()["outputs"][0]["data"] == service.ask("numbers", ROWS)["mean"]


def test_an_unknown_field_is_refused_whatever_its_value(service: Service) -> None:
    for spec in ({"targt": None}, {"adapt": {"round": None}}):
        answer = service.client.post("/train", json={"columns": COLUMNS, "spec": spec})
        assert answer.status_code == 422
        assert "unknown field" in answer.json()["detail"]
