"""Strict JSON: what is refused says where it is. No NaN, no Infinity, no number that a float64 cannot hold."""

import re
from typing import Any, NoReturn, TypeVar

import msgspec
import numpy as np

from app.errors import Fault, InvalidRequestError, MalformedError

T = TypeVar("T")

_NO_STRUCTURE = bytes(sorted(set(range(256)) - set(b'[]{}"')))
_STRINGS = re.compile(rb'"[^"]*"')
_ESCAPES = re.compile(rb"\\.", re.DOTALL)

_BYTE = re.compile(r"\(byte (\d+)\)")
_PATH = re.compile(r"(?P<what>.*) - at `\$(?P<path>.*)`")
_WORDS = (b"NaN", b"Infinity", b"nan", b"inf")


def decode(body: bytes | msgspec.Raw, kind: type[T], *, where: str = "") -> T:
    """`body` as `kind`. Raises MalformedError if it is not JSON, InvalidRequestError if a value is not of its kind.

    where: path of this part inside the whole body, put before the paths in messages.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        explain(error, bytes(body), where=where)
    except UnicodeDecodeError as error:
        raise MalformedError(f"the JSON is not UTF-8: {error}") from error
    except RecursionError as error:
        raise MalformedError("the JSON is nested too deep") from error


def decode_any(body: bytes | msgspec.Raw, *, where: str = "") -> Any:
    """`body` as whatever JSON it is; a number out of range is refused with its full path, keys included."""
    try:
        return msgspec.json.decode(body)
    except msgspec.ValidationError as error:
        _descend(bytes(body), where)
        explain(error, bytes(body), where=where)
    except msgspec.DecodeError as error:
        explain(error, bytes(body), where=where)
    except UnicodeDecodeError as error:
        raise MalformedError(f"the JSON is not UTF-8: {error}") from error
    except RecursionError as error:
        raise MalformedError("the JSON is nested too deep") from error


def check_depth(body: bytes, limit: int) -> None:
    """InvalidRequestError where lists and objects are nested deeper than `limit`. O(body), and quick for numbers."""
    bare = _ESCAPES.sub(b"", body) if b"\\" in body else body
    structure = _STRINGS.sub(b"", bare.translate(None, _NO_STRUCTURE))
    signs = np.frombuffer(structure, dtype=np.uint8)
    steps = np.where((signs == ord("[")) | (signs == ord("{")), 1, -1)
    deepest = int(np.cumsum(steps).max(initial=0))
    if deepest > limit:
        raise InvalidRequestError(f"the JSON is nested {deepest:,} deep; at most {limit} are read (max_json_depth)")


def explain(error: msgspec.DecodeError, body: bytes, *, where: str = "") -> NoReturn:
    """Raise the refusal that tells a person what msgspec found."""
    message = str(error)
    if isinstance(error, msgspec.ValidationError):
        found = _PATH.fullmatch(message)
        what, path = (found["what"], found["path"]) if found else (message, "")
        what = friendly(what)
        path = (where + path).lstrip(".")
        raise InvalidRequestError(
            f"{path}: {what}" if path else what, faults=[Fault(message=what, column=path or None)]
        ) from error
    if not body.strip():
        raise MalformedError("the body is empty: expected JSON") from error
    if "truncated" in message:
        raise MalformedError(f"the JSON ends too early, after {len(body)} bytes") from error
    at = _BYTE.search(message)
    if at is None:
        raise MalformedError(f"the body is not JSON: {message}") from error
    position = int(at[1])
    text = body[max(0, position - 1) : position + 12].lstrip(b"-+ ,:[")
    for word in _WORDS:
        if text.startswith(word):
            raise MalformedError(
                f"byte {position}{_in(where)}: {word.decode()} is not a JSON number; "
                "send a finite number, or null where the model takes missing cells"
            ) from error
    line = body.count(b"\n", 0, position) + 1
    near = body[max(0, position - 15) : position + 15].decode(errors="replace")
    raise MalformedError(
        f"the body is not JSON: {message.removeprefix('JSON is malformed: ').split(' (byte')[0]} "
        f"at byte {position}{_in(where)}, line {line}, near {near!r}"
    ) from error


def _in(where: str) -> str:
    return f" of {where}" if where else ""


def friendly(what: str) -> str:
    """What msgspec says, in the words of people who do not write Python."""
    if what == "Number out of range":
        return "this number is too large: expected a finite number of at most 1.8e308"
    if what.startswith("Object contains unknown field"):
        return what.replace("Object contains unknown field", "unknown field")
    if what.startswith("Object missing required field"):
        return what.replace("Object missing required field", "missing field")
    names = {
        "float": "a number",
        "int": "a whole number",
        "str": "a text",
        "array": "a list",
        "object": "an object",
        "bool": "true or false",
        "null": "null",
    }
    return re.sub(
        r"`(\w+(?: \| \w+)*)`",
        lambda found: " or ".join(names.get(word, word) for word in found[1].split(" | ")),
        what,
    ).replace("Expected", "expected")


def _descend(body: bytes, where: str) -> None:
    """Find the value in `body` that cannot be read and refuse it with its path; returns if there is none."""
    start = body.lstrip()[:1]
    if start == b"[":
        for index, part in enumerate(msgspec.json.decode(body, type=list[msgspec.Raw])):
            _try(bytes(part), f"{where}[{index}]")
    elif start == b"{":
        for key, part in msgspec.json.decode(body, type=dict[str, msgspec.Raw]).items():
            _try(bytes(part), f"{where}.{key}")


def _try(part: bytes, where: str) -> None:
    try:
        msgspec.json.decode(part)
    except msgspec.ValidationError as error:
        _descend(part, where)
        explain(error, part, where=where)
