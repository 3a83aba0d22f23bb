"""Reading of one cell. The Python functions define the rules; `parse_numbers` is the same over Arrow columns, faster.

A number is `[+-] digits [. digits] [e [+-] digits]` with blanks around it, read as the nearest float64; in a column of
another NumberFormat its decimal mark takes the place of the point and its groups of digits are joined. No underscores;
`13,5` is never 135.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.tables.columns.lookalikes import LOOKALIKE_ADVICE, match_lookalike
from app.tables.columns.number_formats import (
    MARK_NAMES,
    OTHER_MARK,
    PLAIN,
    FileMarkCounts,
    NumberFormat,
    count_marks,
    infer_format,
)

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
Cell = str | float | int | bool | None
"""JSON value of a table; CSV cells are always text."""
TextChunk: TypeAlias = "pa.Array[pa.StringScalar]"
Texts: TypeAlias = "pa.ChunkedArray[pa.StringScalar]"
"""A column of text in Arrow; null where JSON has null."""

BLANKS: Final = " \t\n\r\v\f"
MISSING_TOKENS: Final = ("", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL", "Null", "None", "?")
"""Texts that stand for a missing number. In a text column only an empty or blank cell, or JSON null, is missing."""

_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_NUMBER_PATTERN = re.compile(_NUMBER)
_INFINITY = r"[+-]?(inf|infinity)"
_INFINITY_PATTERN = re.compile(_INFINITY, re.IGNORECASE)
_SEPARATED = r"[+-]?([0-9]{1,3}([.,'" "\u00a0\u202f" r" ][0-9]{3})+([.,][0-9]+)?|[0-9]*,[0-9]+)([eE][+-]?[0-9]+)?"
_SEPARATED_PATTERN = re.compile(_SEPARATED)
_WHOLE_PATTERN = re.compile(r"[+-]?[0-9]{1,400}")
_OPEN_PATTERN = re.compile(r"[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}")


class CellKind(StrEnum):
    """Kind of a cell of a numeric column; HUGE, INFINITE and SEPARATED are meant as numbers but cannot be used."""

    NUMBER = "number"
    MISSING = "missing"
    HUGE = "huge"
    INFINITE = "infinite"
    SEPARATED = "separated"
    TEXT = "text"


_UNUSABLE: Final = frozenset({CellKind.HUGE, CellKind.INFINITE, CellKind.SEPARATED})


def parse_number(cell: Cell, number_format: NumberFormat = PLAIN) -> tuple[CellKind, float]:
    """Kind and value of one cell; the value is NaN unless the kind is NUMBER."""
    if cell is None:
        return CellKind.MISSING, math.nan
    if isinstance(cell, bool):
        return CellKind.TEXT, math.nan
    if isinstance(cell, str):
        text = cell.strip(BLANKS)
        return _parse_text(text if number_format is PLAIN else number_format.normalize(text))
    try:
        value = float(cell)
    except OverflowError:  # an integer above 1.8e308
        return CellKind.HUGE, math.nan
    if math.isfinite(value):
        return CellKind.NUMBER, value
    return (CellKind.MISSING if math.isnan(value) else CellKind.INFINITE), math.nan


def read_text(text: str, known: NumberFormat) -> Cell:
    """A text among JSON cells whose column had the format `known` in training: a number where its own is sure."""
    found = infer_format(count_marks([text]), FileMarkCounts(separator=","), known=known)
    kind, value = parse_number(text, found)
    if kind is not CellKind.NUMBER:
        return text
    plain = found.normalize(text.strip(BLANKS))
    return int(plain) if _WHOLE_PATTERN.fullmatch(plain) else value  # all digits of an integer


def _parse_text(text: str) -> tuple[CellKind, float]:
    if text in MISSING_TOKENS:
        return CellKind.MISSING, math.nan
    if _NUMBER_PATTERN.fullmatch(text):
        value = float(text)
        return (CellKind.NUMBER, value) if math.isfinite(value) else (CellKind.HUGE, math.nan)
    if _INFINITY_PATTERN.fullmatch(text):
        return CellKind.INFINITE, math.nan
    return (CellKind.SEPARATED if _SEPARATED_PATTERN.fullmatch(text) else CellKind.TEXT), math.nan


def cell_text(cell: Cell) -> str | None:
    """A JSON cell as CSV would write it; None if missing. Floats by shortest repr, so that they round-trip."""
    if cell is None or isinstance(cell, str):
        return cell
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return repr(cell) if abs(cell) < 1 << 1100 or isinstance(cell, float) else "1e400"  # an int past float64


def describe_number(cell: Cell, number_format: NumberFormat = PLAIN) -> str:
    """Describe why this cell of a numeric column cannot be used, in a few words."""
    kind, _ = parse_number(cell, number_format)
    shown = quote(cell)
    match kind:
        case CellKind.MISSING:
            return f"missing ({shown})"
        case CellKind.HUGE:
            return f"{shown} is too large for a 64-bit number"
        case CellKind.INFINITE:
            return f"{shown} is not a finite number"
        case CellKind.SEPARATED:
            return f"{shown} {_describe_marks(str(cell).strip(BLANKS), number_format)}"
        case _:
            what = match_lookalike(cell.strip(BLANKS)) if isinstance(cell, str) else None
            return f"{shown} is {what.value}: {LOOKALIKE_ADVICE[what]}" if what else f"{shown} is not a number"


def _describe_marks(text: str, number_format: NumberFormat) -> str:
    """Describe why a number in other marks than the column's is not read, in words that follow it."""
    if number_format.thousands is None and _OPEN_PATTERN.fullmatch(text):
        mark = "," if "," in text else "."
        say = f'say "decimal": "{mark}" or "thousands": "{mark}" in the spec of the training'
        return f"may be {text.replace(mark, '.')} or {text.replace(mark, '')}: write the plain number, or {say}"
    mark = "point" if number_format.decimal == "." else "comma"
    groups = "not grouped" if number_format.thousands is None else f"grouped by {MARK_NAMES[number_format.thousands]}"
    other = OTHER_MARK[number_format.decimal]
    return (
        f"is no plain number: the decimal mark is the {mark} here, and digits are {groups}; if all cells of the column "
        f'are written so, say "decimal": "{other}" or "thousands" in the spec of the training'
    )


def is_blank(cell: Cell) -> bool:
    """Return whether a cell of a text column is missing."""
    return cell is None or (isinstance(cell, str) and cell.strip(BLANKS) == "")


def quote(cell: Cell) -> str:
    """A cell as shown in a message: quoted, at most 40 characters."""
    text = cell_text(cell)
    if text is None:
        return "null"
    if text.strip(BLANKS) == "":
        return "empty"
    return f"'{shorten(text)}'"


def shorten(text: str) -> str:
    """Cut a text to 40 characters, for a message."""
    return text if len(text) <= 40 else f"{text[:37]}..."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Numbers:
    """A column read as numbers.

    values (n,): NaN where `missing` or invalid. missing (n,). invalid: row numbers of the other cells without a usable
    number; `meant` of them are infinities, past float64 or with separators, the rest is text.
    """

    values: FloatArray
    missing: BoolArray
    invalid: IntArray
    unusable: int

    @property
    def finite_count(self) -> int:
        """Return how many cells are usable numbers."""
        return len(self.values) - int(np.count_nonzero(self.missing)) - len(self.invalid)


def parse_numbers(texts: Texts, number_format: NumberFormat = PLAIN) -> Numbers:
    """Read a column of text as `parse_number` reads a cell. O(n); a few columns of (n,) numbers in memory."""
    rows = len(texts)
    values = np.empty(rows)
    missing = np.zeros(rows, dtype=np.bool_)
    invalid: list[IntArray] = []
    unusable = 0
    start = 0
    for chunk in texts.chunks:
        if number_format != PLAIN:
            chunk = number_format.normalize_chunk(chunk)  # noqa: PLW2901  the same cells
        stop = start + len(chunk)
        plain = _all_numbers(chunk)
        if plain is not None:
            values[start:stop] = plain
        else:
            values[start:stop], missing[start:stop], invalid_here, unusable_here = _parse_chunk(chunk)
            invalid.append(invalid_here + start)
            unusable += unusable_here
        start = stop
    return Numbers(
        values=values,
        missing=missing,
        invalid=np.concatenate(invalid) if invalid else np.empty(0, dtype=np.int64),
        unusable=unusable,
    )


def _all_numbers(chunk: TextChunk) -> FloatArray | None:
    """The chunk as finite numbers, or None if a cell is not one. Arrow's cast takes no blanks, but inf and nan."""
    if chunk.null_count:
        return None
    try:
        values: FloatArray = to_numpy(pc.cast(chunk, pa.float64()))
    except pa.ArrowInvalid:
        return None
    return values if np.isfinite(values).all() else None


def _parse_chunk(chunk: TextChunk) -> tuple[FloatArray, BoolArray, IntArray, int]:
    trimmed: Any = pc.ascii_trim_whitespace(chunk)
    missing = _flags(pc.or_kleene(pc.is_null(trimmed), pc.is_in(trimmed, value_set=pa.array(MISSING_TOKENS))))
    shaped: Any = pc.match_substring_regex(trimmed, f"^(?:{_NUMBER})$")
    numeric: Any = pc.if_else(shaped, trimmed, pa.scalar(None, pa.string()))
    values: FloatArray = to_numpy(pc.cast(numeric, pa.float64())).copy()
    huge = np.isinf(values)
    values[huge] = np.nan
    invalid = np.flatnonzero(np.isnan(values) & ~missing)
    wrong: Any = trimmed.take(invalid)
    infinite = _flags(pc.match_substring_regex(wrong, f"^(?:{_INFINITY})$", ignore_case=True))
    separated = _flags(pc.match_substring_regex(wrong, f"^(?:{_SEPARATED})$"))
    unusable = huge[invalid] | infinite | separated
    return values, missing, invalid, int(np.count_nonzero(unusable))


def to_numpy(array: Any) -> Any:
    """Values of an Arrow array; null becomes NaN. The stubs of Arrow's kernels are too wide to say more."""
    return array.to_numpy(zero_copy_only=False)


def _flags(array: Any) -> BoolArray:
    flags: BoolArray = to_numpy(pc.fill_null(array, False)).astype(np.bool_)
    return flags


def parse_cells(cells: Sequence[Cell], number_format: NumberFormat = PLAIN) -> Numbers:
    """Read JSON values as `parse_number` does."""
    parsed = [parse_number(cell, number_format) for cell in cells]
    kinds = [kind for kind, _ in parsed]
    wrong = (*_UNUSABLE, CellKind.TEXT)
    return Numbers(
        values=np.array([value for _, value in parsed], dtype=np.float64),
        missing=np.array([kind is CellKind.MISSING for kind in kinds], dtype=np.bool_),
        invalid=np.array([row for row, kind in enumerate(kinds) if kind in wrong], dtype=np.int64),
        unusable=sum(kind in _UNUSABLE for kind in kinds),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Levels:
    """A column read as text, blanks around it trimmed: codes (n,) into `names`, -1 where missing."""

    codes: NDArray[np.int32]
    names: TextChunk

    def present(self) -> list[str]:
        """The distinct texts, sorted."""
        return sorted(self.counts())

    def counts(self) -> dict[str, int]:
        """Count how often each text is there."""
        names: Any = self.names
        counts = np.bincount(self.codes[self.codes >= 0], minlength=len(names)).tolist()
        return {name: count for name, count in zip(names.to_pylist(), counts, strict=True) if count}


def parse_levels(texts: Texts) -> Levels:
    """A column of text as levels. O(n)."""
    trimmed: Any = pc.ascii_trim_whitespace(texts)
    kept: Any = pc.if_else(pc.equal(trimmed, pa.scalar("")), pa.scalar(None, pa.string()), trimmed)
    encoded = kept.dictionary_encode().unify_dictionaries()
    codes = [to_numpy(pc.fill_null(chunk.indices, -1)).astype(np.int32) for chunk in encoded.chunks]
    return Levels(
        codes=np.concatenate(codes) if codes else np.empty(0, dtype=np.int32),
        names=encoded.chunk(0).dictionary if codes else pa.array([], pa.string()),
    )


def levels_of(cells: Iterable[Cell]) -> Levels:
    """Return JSON cells as the levels that `parse_levels` makes of their texts; quicker, for a few most of all."""
    places: dict[str, int] = {}
    codes = []
    for cell in cells:
        text = (cell_text(cell) or "").strip(BLANKS)
        codes.append(places.setdefault(text, len(places)) if text else -1)
    return Levels(codes=np.array(codes, dtype=np.int32), names=pa.array(list(places), pa.string()))


def texts_of(cells: Iterable[Cell]) -> Texts:
    """JSON cells as the text column that CSV would have given."""
    return pa.chunked_array([pa.array([cell_text(cell) for cell in cells], pa.string())])
