"""The row and column of a value in a JSON table that JSON does not have, or that a float64 cannot hold."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

_LITERAL = re.compile(rb"-?(?<![\w\"])(?:NaN|Infinity|nan|inf)(?![\w\"])")
_STAND_IN = b"7.135246e-297"  # a number that nobody sends, in place of the literal
_ROW = re.compile(r"(?:rows)?\[([0-9]+)\](?:\.(?P<name>.*)|\[(?P<place>[0-9]+)\])?", re.DOTALL)
_COLUMN = re.compile(r"(?:columns|truth)\.(.*)\[([0-9]+)\]", re.DOTALL)
_WORST = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


@dataclass(frozen=True, slots=True)
class InvalidLiteral:
    """Word that is no JSON number; path: of the value in the document, such as `rows[3].x`, empty if unknown."""

    text: str
    path: str


def find_invalid_literal(body: bytes, position: int) -> InvalidLiteral | None:
    """The word that is no JSON number near a byte where reading failed. O(body), twice the time of reading it."""
    found = _LITERAL.search(body, max(0, position - 2), position + 12)
    if found is None:
        return None
    rest = _LITERAL.sub(b"0", body[found.end() :])
    try:
        document = msgspec.json.decode(body[: found.start()] + _STAND_IN + rest)
    except _WORST:
        return InvalidLiteral(found[0].decode(), "")
    return InvalidLiteral(found[0].decode(), _path_of(document, float(_STAND_IN)) or "")


def _path_of(value: Any, wanted: float) -> str | None:
    if isinstance(value, list):
        parts: Any = ((f"[{place}]", part) for place, part in enumerate(value))
    elif isinstance(value, dict):
        parts = ((f".{key}", part) for key, part in value.items())
    else:
        return "" if value == wanted else None
    found = ((step, _path_of(part, wanted)) for step, part in parts)
    return next((f"{step}{below}" for step, below in found if below is not None), None)


def row_and_column(path: str, names: Sequence[str] = ()) -> tuple[int | None, str | None]:
    """The row and column that a path in a request stands for. names: of the columns of rows that are lists, which are
    told by their place without them. A path that leads to no cell stands for a column.
    """
    path = path.removeprefix(".")
    if found := _COLUMN.fullmatch(path):
        return int(found[2]), found[1]
    if found := _ROW.fullmatch(path):
        place = found["place"]
        if place is not None and int(place) < len(names):
            return int(found[1]), names[int(place)]
        return int(found[1]), found["name"] if place is None else f"[{place}]"
    return None, path or None
