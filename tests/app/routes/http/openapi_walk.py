"""A walk over an OpenAPI document: every field, parameter and header with the place where it is described."""

from collections.abc import Iterator
from typing import Any

Described = tuple[str, str, dict[str, Any]]
"""Where, its name, and the schema or parameter."""


def fields(where: str, schema: Any) -> Iterator[Described]:
    """Return all properties inside of a schema, at any depth."""
    if isinstance(schema, list):
        for place, part in enumerate(schema):
            yield from fields(f"{where}[{place}]", part)
    if not isinstance(schema, dict):
        return
    for name, part in schema.get("properties", {}).items():
        yield f"{where}.{name}", name, part
    for key, part in schema.items():
        if key == "properties":
            for name, one in part.items():
                yield from fields(f"{where}.{name}", one)
        elif key in ("items", "anyOf", "oneOf", "allOf", "additionalProperties", "prefixItems"):
            yield from fields(where if key != "items" else f"{where}[]", part)


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every operation with its name."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def parameters(document: dict[str, Any]) -> Iterator[Described]:
    """Return all parameters of requests, and headers of answers."""
    for name, operation in operations(document):
        for parameter in operation.get("parameters", ()):
            yield f"{name} {parameter['name']}", parameter["name"], parameter
        for status, answer in operation["responses"].items():
            for header, described in answer.get("headers", {}).items():
                yield f"{name} {status} {header}", header, described


def all_fields(document: dict[str, Any]) -> Iterator[Described]:
    """Return all fields of the schemas that bodies are made of."""
    for name, schema in document["components"]["schemas"].items():
        yield from fields(name, schema)
    for name, operation in operations(document):
        for kind, content in operation.get("requestBody", {}).get("content", {}).items():
            yield from fields(f"{name} {kind}", content.get("schema", {}))
        for status, answer in operation["responses"].items():
            for kind, content in answer.get("content", {}).items():
                yield from fields(f"{name} {status} {kind}", content.get("schema", {}))


def variants(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The schema, and those that it may be one of."""
    yield schema
    for key in ("anyOf", "oneOf", "allOf"):
        for part in schema.get(key, ()):
            yield from variants(part)


def is_free_text(schema: dict[str, Any]) -> bool:
    """True where some variant is a text that may be anything."""
    kinds = ("pattern", "enum", "const", "format", "maxLength", "minLength", "contentMediaType")
    return any(
        "string" in ([part["type"]] if isinstance(part.get("type"), str) else part.get("type", ()))
        and not any(kind in part for kind in kinds)
        for part in variants(schema)
    )
