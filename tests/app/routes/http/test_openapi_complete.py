"""Every field, parameter and header is described, and what the document says of their values holds."""

import re
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from app.errors import InvalidRequestError
from app.identifiers import new_api_key_id, new_dataset_id, new_job_id
from app.services.spec_reading import read_spec
from app.services.specification import SpecBody
from tests.app.routes.http.openapi_walk import all_fields, is_free_text, operations, parameters, variants
from tests.app.routes.service import JSON_BODY, Service

IDENTIFIERS = {
    "id",
    "key",
    "key_id",
    "created_by",
    "job",
    "job_id",
    "dataset",
    "model",
    "model_name",
    "alias",
    "version",
}
FREE = {
    "InferenceRequest.id": "given back as it came",
    "InferenceAnswer.id": "the same",
    "app__routes__health__VersionBody.version": "of the package, as its builder wrote it",
}
"""Texts that are called as identifiers are, and may be anything."""
PATHS = {
    "name": "waves",
    "alias": "champion",
    "version": "1",
    "job_id": new_job_id(),
    "dataset": new_dataset_id(),
    "key_id": new_api_key_id(),
}
WRONG_PATHS = {"name": "-é", "alias": "12", "job_id": "job_1", "dataset": "ds", "key_id": "F"}
HTTP_NOT_FOUND = {404, 409}


def test_everything_is_described(document: dict[str, Any]) -> None:
    described = [*all_fields(document), *parameters(document)]
    assert len(described) > 300
    assert [where for where, _, one in described if not one.get("description", "").strip()] == []


def test_a_description_is_a_sentence_or_a_phrase(document: dict[str, Any]) -> None:
    odd = [where for where, _, one in parameters(document) if not re.search(r"[.)`]$", one["description"])]
    odd += [
        where
        for where, _, one in all_fields(document)
        if not re.match(r"[A-Z0-9`\"(]|(name|npy)\b", one["description"])
    ]
    assert odd == []


def test_identifiers_have_a_pattern(document: dict[str, Any]) -> None:
    found = [where for where, name, one in all_fields(document) if name in IDENTIFIERS and is_free_text(one)]
    assert sorted(set(found) - set(FREE)) == []
    assert [where for where, _, one in parameters(document) if is_free_text(one["schema"])] == []


def test_patterns_and_schemas_are_valid(document: dict[str, Any]) -> None:
    for where, _, schema in all_fields(document):
        Draft202012Validator.check_schema(schema)
        for part in variants(schema):
            if "pattern" in part:
                assert re.compile(part["pattern"]), where


def test_examples_are_valid(document: dict[str, Any]) -> None:
    """Those of bodies against their schema, and those of fields against theirs."""
    components = {"components": document["components"]}
    seen = 0
    for name, operation in operations(document):
        for kind, content in operation.get("requestBody", {}).get("content", {}).items():
            examples = [content["example"]] if "example" in content else []
            examples += [one["value"] for one in content.get("examples", {}).values()]
            for example in examples:
                Draft202012Validator(content["schema"] | components).validate(example)
                seen += bool(name and kind)
    for where, _, schema in all_fields(document):
        for example in schema.get("examples", ()):
            Draft202012Validator(schema | components).validate(example)
            seen += bool(where)
    assert seen >= 8


def numeric(document: dict[str, Any], place: str) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Parameters of GET with bounds: method, path, name and schema."""
    for path, methods in document["paths"].items():
        for parameter in methods.get("get", {}).get("parameters", ()):
            schema = next((part for part in variants(parameter["schema"]) if part.get("type") == "integer"), None)
            if parameter["in"] == place and schema is not None:
                yield path, parameter["name"], parameter["in"], schema


def filled(path: str) -> str:
    return re.sub(r"{(\w+)}", lambda found: PATHS[found[1]], path)


def test_documented_bounds_of_the_query_hold(service: Service, document: dict[str, Any]) -> None:
    tried = 0
    for path, name, _, schema in numeric(document, "query"):
        for value in (schema["minimum"], schema["maximum"]):
            answer = service.client.get(filled(path), params={name: value})
            assert answer.status_code in {200, *HTTP_NOT_FOUND}, (path, name, value, answer.text)
        for value in (schema["minimum"] - 1, schema["maximum"] + 1, 10**30, "1.5", "x", ""):
            answer = service.client.get(filled(path), params={name: value})
            assert answer.status_code == 422, (path, name, value, answer.text)
            tried += 1
    assert tried > 30


def resolved(document: dict[str, Any], schema: Any) -> Iterator[dict[str, Any]]:
    """The schemas that a value may be of, those that others refer to too."""
    for part in variants(schema):
        yield document["components"]["schemas"][part["$ref"].rpartition("/")[2]] if "$ref" in part else dict(part)


def test_words_and_forms_of_the_query_hold(service: Service, document: dict[str, Any]) -> None:
    """Every word that is told is taken, others are refused by a sentence; and so are texts of another form."""
    tried = 0
    for path, methods in document["paths"].items():
        for parameter in methods.get("get", {}).get("parameters", ()):
            if parameter["in"] != "query":
                continue
            for part in resolved(document, parameter["schema"]):
                for word in part.get("enum", ()):
                    assert service.client.get(filled(path), params={parameter["name"]: word}).status_code == 200, path
                if "enum" in part or "pattern" in part:
                    answer = service.client.get(filled(path), params={parameter["name"]: "\u2028 no such!"})
                    assert answer.status_code in {422, *HTTP_NOT_FOUND}, (path, parameter["name"], answer.text)
                    tried += 1
    assert tried > 8


def test_paths_of_another_form_are_4xx(service: Service, document: dict[str, Any]) -> None:
    for path, methods in document["paths"].items():
        for method in methods:
            names = re.findall(r"{(\w+)}", path)
            for name in set(names) & set(WRONG_PATHS):
                wrong = filled(path.replace(f"{{{name}}}", WRONG_PATHS[name]))
                answer = service.client.request(method, wrong, content=b"{}", headers=JSON_BODY)
                assert 400 <= answer.status_code < 500, (method, wrong, answer.status_code)


@pytest.mark.parametrize("version", [2**31 - 1, 2**31, 2**63, 2**64, 10**40])
def test_the_largest_versions(service: Service, version: int) -> None:
    for path in ("", "/artefact", "/held-out", "/importance"):
        assert service.client.get(f"/models/waves/versions/{version}{path}").status_code in {404, 422}
    body = f'{{"version": {version}}}'
    assert service.client.put("/models/waves/aliases/a", content=body, headers=JSON_BODY).status_code in {404, 422}
    assert service.client.get(f"/v2/models/waves/versions/{version}").status_code in {404, 422}


def bounded(schema: dict[str, Any]) -> Iterator[tuple[Any, bool]]:
    """Values at and beyond the bounds of a number, and whether they are taken."""
    step = 1 if schema["type"] == "integer" else 1e-9
    for bound, exclusive, sign in (("minimum", "exclusiveMinimum", -1), ("maximum", "exclusiveMaximum", 1)):
        if bound in schema:
            yield schema[bound], True
            yield schema[bound] + sign * step, False
        if exclusive in schema:
            yield schema[exclusive], False
            yield schema[exclusive] - sign * step, True


def test_documented_bounds_of_the_specification_hold(document: dict[str, Any]) -> None:
    tried = 0
    described = document["components"]["schemas"]["SpecBody"]["properties"]
    for name in SpecBody.model_fields:
        for part in variants(described[name]):
            if part.get("type") not in ("integer", "number"):
                continue
            for value, taken in bounded(part):
                with nullcontext() if taken else pytest.raises(InvalidRequestError, match=name):
                    read_spec({name: value}, max_basis_size=10**9)
                tried += 1
    assert tried > 40


def test_words_of_the_specification_hold(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    tried = 0
    for name in SpecBody.model_fields:
        parts = list(resolved(document, schemas["SpecBody"]["properties"][name]))
        words = [word for part in parts for word in part.get("enum", [part["const"]] if "const" in part else [])]
        for word in words:
            read_spec({name: word}, max_basis_size=500)
            tried += 1
        if words:
            with pytest.raises(InvalidRequestError, match=name):
                read_spec({name: "no such word"}, max_basis_size=500) if name != "sheet" else None
    assert tried > 50
