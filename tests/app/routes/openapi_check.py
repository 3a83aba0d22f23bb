"""Every answer of a test's server is held against the OpenAPI document: its status, its content type, its body."""

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

import httpx
from jsonschema import Draft202012Validator

_JSON = re.compile(r"application/([a-z.-]+\+)?json")
_LONG = 1_000
"""No list of an answer has a limit that is greater."""


def openapi_checker(document: Mapping[str, Any]) -> Callable[[httpx.Response], None]:
    """A hook for a client: AssertionError for an answer that the document does not describe.

    An object may have no other fields than those described. Where there is no such path or method, nothing is promised.
    """
    components = {name: _closed(schema) for name, schema in document["components"]["schemas"].items()}
    paths = sorted(document["paths"], key=lambda path: path.count("{"))
    patterns = {path: re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path))) for path in paths}

    known: dict[tuple[str, int, str], Draft202012Validator] = {}

    def described_by(name: str, status: int, kind: str, content: Mapping[str, Any]) -> Draft202012Validator:
        if (name, status, kind) not in known:
            schema = _closed(content[kind].get("schema", {})) | {"components": {"schemas": components}}
            known[name, status, kind] = Draft202012Validator(schema)
        return known[name, status, kind]

    def check(response: httpx.Response) -> None:
        asked = response.request
        path = next((path for path in paths if patterns[path].fullmatch(unquote(asked.url.path))), None)
        route = None if path is None else document["paths"][path].get(asked.method.lower())
        if route is None:
            return
        name = f"{asked.method} {path}"
        described = route["responses"].get(str(response.status_code))
        assert described is not None, f"{name}: {response.status_code} is not described"
        content = described.get("content", {})
        kind = response.headers.get("content-type", "").partition(";")[0]
        assert kind in content or not (kind or content), f"{name}: {response.status_code} as {kind!r}"
        if _JSON.fullmatch(kind):
            response.read()
            validator, body = described_by(name, response.status_code, kind, content), response.json()
            if not validator.is_valid(_extremes(body)):
                for error in validator.iter_errors(body):
                    raise AssertionError(f"{name}: {response.status_code}: {error.json_path}: {error.message}")

    return check


def _extremes(body: Any) -> Any:
    """The body without most of each long list of numbers: where the least and the greatest of each type are described,
    all are."""
    if isinstance(body, dict):
        return {name: _extremes(value) for name, value in body.items()}
    if not isinstance(body, list):
        return body
    if len(body) <= _LONG or not all(item is None or isinstance(item, int | float) for item in body):
        return [_extremes(item) for item in body]
    numbers: list[list[Any]] = [[item for item in body if type(item) is kind] for kind in (bool, int, float)]
    missing = [None] if None in body else []
    return [*body[:_LONG], *missing, *(end(some) for some in numbers if some for end in (min, max))]


def _closed(schema: Any) -> Any:
    """The schema without room for fields that it does not name."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inside = {key: _closed(value) for key, value in schema.items() if key != "examples"}
    if schema.get("type") == "object" and "properties" in schema:
        return {"additionalProperties": False} | inside
    return inside
