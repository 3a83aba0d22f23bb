"""The OpenAPI document is complete, though the busiest routes are not declared to FastAPI."""

from typing import Any

from app.routes.encode import FILES
from app.routes.http.bodies import TABLES
from app.services.specification import SpecBody
from tests.app.routes.service import CSV_BODY, Service


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [found for value in node.values() for found in references(value)]
    if isinstance(node, list):
        return [found for value in node for found in references(value)]
    return []


def test_every_reference_resolves(document: dict[str, Any]) -> None:
    found = references(document)
    assert found
    for reference in found:
        node: Any = document
        for part in reference.removeprefix("#/").split("/"):
            assert part in node, reference
            node = node[part]


def test_the_raw_routes_describe_their_bodies(document: dict[str, Any]) -> None:
    train = document["paths"]["/train"]["post"]
    assert set(train["requestBody"]["content"]) == {"multipart/form-data", "application/json"}
    assert "202" in train["responses"]
    predict = document["paths"]["/predict"]["post"]
    assert set(predict["requestBody"]["content"]) == {"application/json", "multipart/form-data", *TABLES}
    assert set(predict["responses"]["200"]["content"]) == {"application/json", *FILES}
    assert "406" in predict["responses"]
    for route in (train, predict):
        for status in ("400", "413", "415", "422", "503"):
            assert list(route["responses"][status]["content"]) == ["application/problem+json"]


def test_no_default_validation_error_is_promised(document: dict[str, Any]) -> None:
    assert "HTTPValidationError" not in str(document["paths"])


def test_the_specification_is_described_field_by_field(document: dict[str, Any]) -> None:
    described = document["components"]["schemas"]["SpecBody"]
    assert set(described["properties"]) == set(SpecBody.model_fields)
    assert described["additionalProperties"] is False
    assert described["properties"]["basis_size"]["default"] == "auto"


def test_the_examples_work(service: Service, document: dict[str, Any]) -> None:
    train = document["paths"]["/train"]["post"]["requestBody"]["content"]["application/json"]["example"]
    assert service.client.post("/train", json=train).status_code == 202
    service.work()
    predict = document["paths"]["/predict"]["post"]["requestBody"]["content"]
    answer = service.client.post("/predict", json=predict["application/json"]["example"])
    assert answer.status_code == 200, answer.text
    answer = service.client.post("/predict?model=sine", content=predict["text/csv"]["example"], headers=CSV_BODY)
    assert answer.status_code == 200, answer.text


def test_every_route_has_a_summary_and_an_answer(document: dict[str, Any]) -> None:
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            assert route["summary"], (method, path)
            assert any(status.startswith("2") for status in route["responses"]), (method, path)


def test_the_pages_for_people(service: Service) -> None:
    assert service.client.get("/docs").status_code == 200
