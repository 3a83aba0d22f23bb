"""Strict JSON: what is refused says where it is. No NaN, no Infinity, no number that a float64 cannot hold, no object
that has a key twice."""

import operator
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

import msgspec
import numpy as np

from app.errors import Fault, InvalidRequestError, MalformedError
from app.tables.read.json_locations import find_invalid_literal, row_and_column
from app.tables.read.strict_json import TOO_LARGE, check_duplicate_keys, count_keys, is_too_large

T = TypeVar("T")

_decoders: dict[type[Any], msgspec.json.Decoder[Any]] = {}

_NO_STRUCTURE = bytes(sorted(set(range(256)) - set(b'[]{}"')))
_STRINGS = re.compile(rb'"[^"]*"')
_ESCAPES = re.compile(rb"\\.", re.DOTALL)

_MARK = b"\xef\xbb\xbf"  # before UTF-8, by editors of Windows
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_BYTE = re.compile(r"\(byte (\d+)\)")
_PATH = re.compile(r"(?P<what>.*) - at `\$(?P<path>.*)`")


def decode(body: bytes | msgspec.Raw, kind: type[T], *, where: str = "") -> T:
    """`body` as `kind`. Raises MalformedError if it is not JSON, InvalidRequestError if a value is not of its kind.

    where: path of this part inside the whole body, put before the paths in messages.
    """
    if isinstance(body, bytes):
        body = body.removeprefix(_MARK)
    try:
        if kind not in _decoders:
            _decoders[kind] = msgspec.json.Decoder(kind)
        found: T = _decoders[kind].decode(body)
        check_fields(body, found, where=where)
        return found
    except msgspec.DecodeError as error:
        explain(error, bytes(body), where=where)
    except UnicodeDecodeError as error:
        raise MalformedError(f"the JSON is not UTF-8: {error}") from error
    except RecursionError as error:
        raise MalformedError("the JSON is nested too deep") from error


def refuse_other_encodings(body: bytes) -> None:
    """MalformedError with the place where bytes are not UTF-8."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise MalformedError(f"the JSON is not UTF-8: {error}") from error


def check_fields(body: bytes | msgspec.Raw, found: object, *, where: str = "") -> None:
    """InvalidRequestError where a field is there twice in the body that a msgspec.Struct was decoded from; what is
    inside of parts that are kept as they are is looked at when these are read."""
    if isinstance(found, msgspec.Struct):
        values, defaults = msgspec.structs.astuple(found), found.__struct_defaults__
        keys = len(values) - sum(map(operator.is_, values[len(values) - len(defaults) :], defaults))
        parts = [value for value in values if type(value) is msgspec.Raw]
        check_duplicate_keys(memoryview(body) if isinstance(body, msgspec.Raw) else body, keys, parts, where)


def given(part: msgspec.Raw | msgspec.UnsetType) -> msgspec.Raw | None:
    """A part that was kept as it is; None where it was left out, or is null."""
    return None if isinstance(part, msgspec.UnsetType) or (len(part) == 4 and bytes(part) == b"null") else part


def decode_any(body: bytes | msgspec.Raw, *, where: str = "", names: Sequence[str] = ()) -> Any:
    """`body` as whatever JSON it is; a number out of range is refused with its full path, keys included.

    names: of the columns, where rows are lists of their cells.
    """
    if isinstance(body, bytes):
        body = body.removeprefix(_MARK)
    try:
        found = msgspec.json.decode(body)
        check_duplicate_keys(
            memoryview(body) if isinstance(body, msgspec.Raw) else body, count_keys(found), where=where
        )
        return found
    except msgspec.ValidationError as error:
        _descend(bytes(body), where, names)
        explain(error, bytes(body), where=where, names=names)
    except msgspec.DecodeError as error:
        explain(error, bytes(body), where=where, names=names)
    except UnicodeDecodeError as error:
        raise MalformedError(f"the JSON is not UTF-8: {error}") from error
    except RecursionError as error:
        raise MalformedError("the JSON is nested too deep") from error


def check_whole_numbers(tree: Any, where: str, names: Sequence[str] = ()) -> None:
    """InvalidRequestError for a whole number that a float64 cannot hold; msgspec reads them at any length."""
    if is_too_large(tree):
        row, column = row_and_column(where, names)
        raise InvalidRequestError(f"{where}: {TOO_LARGE}", [Fault(message=TOO_LARGE, row=row, column=column)])
    if isinstance(tree, list):
        for place, part in enumerate(tree):
            if not isinstance(part, float | str):  # spares most of the names
                check_whole_numbers(part, f"{where}[{place}]", names)
    elif isinstance(tree, dict):
        for key, part in tree.items():
            if not isinstance(part, float | str):
                check_whole_numbers(part, f"{where}.{key}", names)


def check_depth(body: bytes, limit: int) -> None:
    """InvalidRequestError where lists and objects are nested deeper than `limit`. O(body), and quick for numbers."""
    bare = _ESCAPES.sub(b"", body) if b"\\" in body else body
    structure = _STRINGS.sub(b"", bare.translate(None, _NO_STRUCTURE))
    signs = np.frombuffer(structure, dtype=np.uint8)
    steps = np.where((signs == ord("[")) | (signs == ord("{")), 1, -1)
    deepest = int(np.cumsum(steps).max(initial=0))
    if deepest > limit:
        setting = "PURSUIT_MAX_JSON_DEPTH"
        raise InvalidRequestError(f"the JSON is nested {deepest:,} deep; at most {limit} are read ({setting})")


def explain(error: msgspec.DecodeError, body: bytes, *, where: str = "", names: Sequence[str] = ()) -> NoReturn:
    """Raise the refusal that tells a person what msgspec found. names: as in `decode_any`."""
    message = str(error)
    if isinstance(error, msgspec.ValidationError):
        found = _PATH.fullmatch(message)
        what, path = (found["what"], found["path"]) if found else (message, "")
        what = friendly(what)
        path = (where + path).lstrip(".")
        row, column = row_and_column(path, names)
        raise InvalidRequestError(
            f"{path}: {what}" if path else what, faults=[Fault(message=what, row=row, column=column)]
        ) from error
    if not body.strip():
        raise MalformedError("the body is empty: expected JSON") from error
    if body.startswith(_UTF16) or b"\0" in body[:2]:
        raise MalformedError("the JSON is not UTF-8 but, as it seems, UTF-16 or UTF-32; send it as UTF-8") from error
    if "truncated" in message:
        raise MalformedError(f"the JSON ends too early, after {len(body)} bytes") from error
    at = _BYTE.search(message)
    if at is None:
        refuse_other_encodings(body)  # which msgspec from 0.23 on says as a DecodeError without a place
        raise MalformedError(f"the body is not JSON: {message}") from error
    position = int(at[1])
    literal = find_invalid_literal(body, position)
    if literal is not None:
        path = (where + literal.path).lstrip(".")
        row, column = row_and_column(path, names)
        what = f"{literal.text} is not a JSON number; send a finite number, or null where the model takes missing cells"
        raise MalformedError(
            f"{path + ', ' if path else ''}byte {position}{_in(where)}: {what}",
            faults=[Fault(message=what, row=row, column=column, value=literal.text)],
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
    """Message of msgspec, in the words of people who do not write Python."""
    if what == "Number out of range":
        return TOO_LARGE
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


def _descend(body: bytes, where: str, names: Sequence[str]) -> None:
    """Find the value in `body` that cannot be read and refuse it with its path; returns if there is none, or if the
    JSON is malformed behind it."""
    start = body.lstrip()[:1]
    parts: list[tuple[str, msgspec.Raw]] = []
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        if start == b"[":
            items = enumerate(msgspec.json.decode(body, type=list[msgspec.Raw]))
            parts = [(f"{where}[{index}]", part) for index, part in items]
        elif start == b"{":
            fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
            parts = [(f"{where}.{key}", part) for key, part in fields.items()]
    for path, part in parts:
        _try(bytes(part), path, names)


def _try(part: bytes, where: str, names: Sequence[str]) -> None:
    try:
        msgspec.json.decode(part)
    except msgspec.ValidationError as error:
        _descend(part, where, names)
        explain(error, part, where=where, names=names)
