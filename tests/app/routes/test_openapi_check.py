"""The check that all tests of routes go through does refuse."""

from typing import Any

import httpx
import pytest

from tests.app.routes.openapi_check import openapi_checker

MANY = {"type": "array", "items": {"type": ["number", "null"], "minimum": 0}}
THING = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}, "many": MANY}}
DOCUMENT: dict[str, Any] = {
    "components": {"schemas": {"Thing": THING}},
    "paths": {
        "/things/{name}": {
            "get": {
                "responses": {
                    "200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}},
                    "204": {},
                }
            }
        }
    },
}


def assert_described(status: int, path: str = "/things/a", **answer: Any) -> None:
    request = httpx.Request("GET", f"http://server{path}")
    openapi_checker(DOCUMENT)(httpx.Response(status, request=request, **answer))


def test_what_is_described_passes() -> None:
    assert_described(200, json={"n": 1})
    assert_described(204)
    assert_described(404, "/nothing")


@pytest.mark.parametrize(
    ("status", "answer", "complaint"),
    [
        (404, {"json": {}}, "404 is not described"),
        (200, {"text": "1"}, "200 as 'text/plain'"),
        (200, {}, "200 as ''"),
        (204, {"json": {}}, "204 as 'application/json'"),
        (200, {"json": {}}, "'n' is a required property"),
        (200, {"json": {"n": "1"}}, "'1' is not of type 'integer'"),
        (200, {"json": {"n": 1, "more": 2}}, "'more' was unexpected"),
    ],
)
def test_what_is_not_does_not(status: int, answer: dict[str, Any], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        assert_described(status, **answer)


@pytest.mark.parametrize(
    ("wrong", "complaint"), [("x", "'x' is not of type"), (-0.5, "less than"), (True, "not of type")]
)
def test_no_number_of_a_long_list_is_overlooked(wrong: object, complaint: str) -> None:
    many: list[object] = [*map(float, range(4_000)), None]
    assert_described(200, json={"n": 1, "many": many})
    many[2_500] = wrong
    with pytest.raises(AssertionError, match=rf"many\[2500\].*{complaint}"):
        assert_described(200, json={"n": 1, "many": many})
