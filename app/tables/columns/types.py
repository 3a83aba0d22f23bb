"""Types of the columns of Arrow and Parquet files, by name: what their cells were before they were read as text.

A type is kept where text gives the same cells back; other columns stay text. Files of one table may have a column by
types that mean the same: then it is of a type that holds the cells of all of them.
"""

import re
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

_PLAIN: dict[str, Any] = {
    str(kind): kind
    for kind in (
        pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
        pa.float32(), pa.float64(), pa.date32(), *(pa.timestamp(unit) for unit in ("s", "ms", "us")),
    )
}  # fmt: skip
_DECIMAL = re.compile(r"decimal\d+\((\d+), (-?\d+)\)")
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}  # of integers with so many bits
_MOST_DIGITS = 76
NOTHING: Final = "no cells"
"""Meaning of a column of nulls, which goes with anything."""
_TEXTS: tuple[Any, ...] = (
    pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_binary,
    pa.types.is_large_binary, pa.types.is_binary_view,
)  # fmt: skip
_MEANINGS: dict[str, tuple[Any, ...]] = {
    NOTHING: (pa.types.is_null,),
    "text": _TEXTS,
    "numbers": (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
    "booleans": (pa.types.is_boolean,),
    "dates": (pa.types.is_date, pa.types.is_timestamp),
    "times of day": (pa.types.is_time,),
    "durations": (pa.types.is_duration,),
}
_ZONED = re.compile(r"timestamp\[(s|ms|us), tz=([A-Za-z0-9_+:/-]{1,64})\]")


def type_name(kind: Any) -> str | None:
    """Return the name of a type that `restored` reads; None for one that stays text."""
    name = str(kind)
    return name if name in _PLAIN or _ZONED.fullmatch(name) else None


def restored(texts: Any, name: str) -> Any:
    """Return the cells of a column as the type of this name; the texts where one is none of it."""
    zoned = _ZONED.fullmatch(name)
    try:
        kind: Any = _PLAIN[f"timestamp[{zoned[1]}]" if zoned else name]
        found: Any = pc.cast(texts, pa.timestamp("us")).cast(kind) if pa.types.is_timestamp(kind) else texts.cast(kind)
        return found if zoned is None else found.cast(pa.timestamp(kind.unit, tz=zoned[2]))
    except (pa.ArrowException, KeyError):
        return texts


def is_text(kind: Any) -> bool:
    """Return whether cells are text, or bytes that are."""
    return any(test(kind) for test in _TEXTS)


def meaning(kind: Any) -> str:
    """Return what cells of a type are, in a word or two."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return "dates with a time zone"
    return next((name for name, tests in _MEANINGS.items() if any(test(kind) for test in tests)), str(kind))


def common_type(one: Any, other: Any) -> Any:
    """Return a type that holds the cells of both; None where they do not mean the same."""
    meant = {meaning(one), meaning(other)}
    if one == other or meaning(other) == NOTHING:
        return one
    if meaning(one) == NOTHING:
        return other
    if len(meant) > 1:
        return None
    return _COMMON.get(meaning(one), _unified)(one, other)


def cast_name(kind: Any) -> str | None:
    """Return the name by which `as_type` casts to a common type; None where cells of all types that it stands for are
    the same text without."""
    if pa.types.is_timestamp(kind):
        return "timestamp[us]" if kind.tz is None else None  # as precise as its text
    return str(kind) if pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_time(kind) else None


def as_type(column: Any, name: str) -> Any:
    """Return the cells as those of a common type. Integers that doubles do not hold are rounded."""
    decimal = _DECIMAL.fullmatch(name)
    named: Any = pa.type_for_alias
    kind = _decimal(int(decimal[1]), int(decimal[2])) if decimal else named(name)
    cells = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(cells.type):
        return cells
    if pa.types.is_floating(kind) and pa.types.is_decimal(cells.type):
        cells = cells.cast(pa.string())  # Arrow's own cast is not correctly rounded
    return cells.cast(kind, safe=not pa.types.is_floating(kind))


def _common_number(one: Any, other: Any) -> Any:
    kinds = (one, other)
    if any(map(pa.types.is_decimal, kinds)):
        return pa.float64() if any(map(pa.types.is_floating, kinds)) else _common_decimal(one, other)
    if pa.uint64() in kinds and any(map(pa.types.is_signed_integer, kinds)):
        return _common_decimal(one, other)  # as no integer holds both
    return _unified(one, other)


def _common_decimal(one: Any, other: Any) -> Any:
    digits = [
        (kind.precision - kind.scale, kind.scale) if pa.types.is_decimal(kind) else (_DIGITS[kind.bit_width], 0)
        for kind in (one, other)
    ]
    before, after = (max(counts) for counts in zip(*digits, strict=True))
    return _decimal(before + after, after) if before + after <= _MOST_DIGITS else pa.float64()


def _decimal(precision: int, scale: int) -> Any:
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)


def _common_date(one: Any, other: Any) -> Any:
    stamps = [kind for kind in (one, other) if pa.types.is_timestamp(kind)]
    return _unified(stamps[0], stamps[-1]) if stamps else pa.date32()


def _common_instant(one: Any, other: Any) -> Any:
    unit = _unified(pa.timestamp(one.unit), pa.timestamp(other.unit)).unit
    return pa.timestamp(unit, tz=one.tz if one.tz == other.tz else "UTC")


def _unified(one: Any, other: Any) -> Any:
    schemas = [pa.schema({"": kind}) for kind in (one, other)]
    return pa.unify_schemas(schemas, promote_options="permissive").field(0).type


_COMMON: dict[str, Any] = {
    "text": lambda _one, _other: pa.string(),
    "numbers": _common_number,
    "dates": _common_date,
    "dates with a time zone": _common_instant,
}
