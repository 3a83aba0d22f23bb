"""The page of the specification's fields, written from the specification: kind, default, meaning, example."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from app.help.field_examples import EXAMPLES
from app.services.specification import SpecBody

_WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "array": "list",
    "object": "object",
}
_BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
}


def fields_markdown() -> str:
    """Return the Markdown of all fields, group by group."""
    schema = SpecBody.model_json_schema()
    return "\n".join(_lines(schema))


def _lines(schema: Mapping[str, Any]) -> Iterator[str]:
    definitions: Mapping[str, Any] = schema.get("$defs", {})
    for group, examples in EXAMPLES.items():
        yield f"## {group}\n"
        for name, example in examples.items():
            described = schema["properties"][name]
            yield f"### {name}\n"
            yield f"{kind(described, definitions)}; {_default(described)}.\n"
            yield f"{described.get('description', '')}\n"
            yield f"*Of use when:* {example.when}\n"
            yield f"```json\n{json.dumps(example.spec)}\n```\n"
            yield from _inside(described, definitions)


def kind(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Return in words what a JSON schema takes."""
    schema = _resolved(schema, definitions)
    if "anyOf" in schema:
        kinds = [kind(part, definitions) for part in schema["anyOf"] if part.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in schema:
        return ", ".join(f"`{_json(value)}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{_json(schema['const'])}`"
    word = _WORDS[schema["type"]]
    if schema["type"] == "array" and "items" in schema:
        word = f"list, each {kind(schema['items'], definitions)}"
    elif schema["type"] == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        word = f"object, each value {kind(schema['additionalProperties'], definitions)}"
    bounds = " and ".join(f"{text} {schema[name]:g}" for name, text in _BOUNDS.items() if name in schema)
    return f"{word} {bounds}" if bounds else word


def _resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref")
    return definitions[reference.rpartition("/")[2]] if reference else schema


def _default(schema: Mapping[str, Any]) -> str:
    default = schema.get("default")
    return "by default not set" if default is None else f"by default `{_json(default)}`"


def _inside(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Iterator[str]:
    """Yield a table of the fields of an object."""
    for part in (schema, *schema.get("anyOf", ())):
        properties = _resolved(part, definitions).get("properties")
        if properties:
            yield "| inside | kind | default |\n|---|---|---|"
            for name, described in properties.items():
                default = f"`{_json(described['default'])}`" if "default" in described else "must be given"
                yield f"| `{name}` | {kind(described, definitions)} | {default} |"
            yield ""


def _json(value: object) -> str:
    return json.dumps(value)
