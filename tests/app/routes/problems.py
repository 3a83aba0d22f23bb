"""Checks that every problem document over HTTP passes."""

from typing import Any

import httpx

from app.routes.http.errors import PROBLEM

FORM = "multipart/form-data; boundary=xx"


def assert_problem(answer: httpx.Response, status: int, *words: str) -> dict[str, Any]:
    """Assert that an answer is a problem document with this status and all these words; return it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == PROBLEM
    assert answer.headers["x-request-id"]
    problem: dict[str, Any] = answer.json()
    assert problem["status"] == status
    assert problem["instance"] == answer.request.url.path
    assert {"type", "title", "detail"} <= set(problem)
    for word in words:
        assert word in problem["detail"], problem["detail"]
    for leaked in ("Traceback", "site-packages", "Error("):
        assert leaked not in answer.text
    return problem
