"""Log lines for people and for machines."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from app.log import request_id, set_up


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("uvicorn.access").disabled = False


def test_json_lines() -> None:
    stream = io.StringIO()
    set_up(style="json", level="info", stream=stream)
    token = request_id.set("abc")
    try:
        logging.getLogger("a.b").info("hello %s", "you", extra={"status": 200, "odd": {1: object}})
        try:
            raise ValueError("boo")
        except ValueError:
            logging.getLogger("a.b").exception("bad")
        logging.getLogger("a.b").debug("not this")
    finally:
        request_id.reset(token)
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert first["message"] == "hello you"
    assert (first["level"], first["logger"], first["status"], first["request_id"]) == ("info", "a.b", 200, "abc")
    assert first["time"].endswith("+00:00")
    assert "ValueError: boo" in second["traceback"]


def test_text_lines() -> None:
    stream = io.StringIO()
    set_up(style="text", level="warning", stream=stream)
    logging.getLogger("a").info("not this")
    logging.getLogger("a").warning("careful", extra={"job": "job_1"})
    (line,) = stream.getvalue().splitlines()
    assert line.endswith("warning a: careful  job=job_1")


def test_nobody_else_writes_lines_or_colours_into_the_text() -> None:
    stream = io.StringIO()
    set_up(style="text", level="info", stream=stream)
    logging.getLogger("a").info("GET %s", "/x\nFAKE\r\x1b[31m\x85\u2028\u202eä", extra={"job": "j\n\x7f"})
    try:
        raise ValueError("boo\n12:00:00 info FAKE \x1b[31m")
    except ValueError:
        logging.getLogger("a").exception("bad")
    first, second, *traceback = stream.getvalue().split("\n")
    assert first.endswith(r"a: GET /x\nFAKE\r\x1b[31m\x85\u2028\u202eä  job=j\n\x7f")
    assert second.endswith("error   a: bad")
    assert traceback.pop() == ""
    assert all(line.startswith("  ") and "\x1b" not in line for line in traceback)
    assert traceback[-1] == r"  12:00:00 info FAKE \x1b[31m"


def test_uvicorn_speaks_through_the_same_handler() -> None:
    stream = io.StringIO()
    logging.getLogger("uvicorn").addHandler(logging.StreamHandler(io.StringIO()))
    set_up(style="text", level="info", stream=stream)
    logging.getLogger("uvicorn.error").info("started")
    assert stream.getvalue().count("started") == 1
