"""Integers that 64-bit numbers cannot tell apart: above 2^53 they are rounded to a neighbour.

A column of such integers (identifiers, nanoseconds since 1970) is read as its exact differences from one integer near
its least, which training finds and the model keeps. The differences are rounded, not the cells, so that what lies
within 2^53 of that integer is exact.
"""

import math
import re
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.tables.columns.cells import BLANKS, Cell, CellKind, FloatArray, TextChunk, Texts, parse_number, to_numpy
from app.tables.columns.number_formats import PLAIN, NumberFormat

LARGE: Final = 2.0**52
"""Size of a column's largest integer from which on differences are taken: beyond it no prediction may go far."""
MAX_EXACT: Final = 2.0**53
"""Size up to which every integer is a 64-bit number."""
_LARGEST = 2.0**128  # past identifiers of any kind: measurements
_TYPES = (pa.int64(), pa.uint64())
_WHOLE = re.compile(r"(?P<sign>[+-]?)(?P<digits>[0-9]+)(\.0*)?")


def find_offset(values: FloatArray) -> int | None:
    """The integer that a column's differences are taken from; None where its numbers are exact as they are, are no
    integers, or lie so far apart that the differences are as large as they are. values: NaN where there is none. O(n).
    """
    present = values[~np.isnan(values)]
    if not len(present):
        return None
    low, high = float(present.min()), float(present.max())
    return offset_of(low, high, whole=max(-low, high) >= LARGE and bool((present == np.floor(present)).all()))


def offset_of(low: float, high: float, *, whole: bool) -> int | None:
    """The same by the ends of the numbers, NaN of none. whole: all are integers."""
    size = max(-low, high)
    if not LARGE <= size <= _LARGEST or high - low > 0.5 * size or not whole:
        return None
    return int(low)


def add_offset(value: float, offset: int | None) -> float | int:
    """A number of a column that was read less its offset, as the column has it."""
    if offset is None:
        return value
    return offset + (int(value) if value.is_integer() else value)


def difference(cell: Cell, offset: int, number_format: NumberFormat = PLAIN) -> float:
    """A cell that is a number, less the offset: exact, then rounded once."""
    value = exact_value(cell, number_format)
    exact = value - offset if isinstance(value, int) else Fraction(value) - offset
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def exact_value(cell: Cell, number_format: NumberFormat = PLAIN) -> int | float:
    """A cell that is a number: all digits of an integer that is written as one, else the nearest 64-bit number."""
    if isinstance(cell, str):
        text = cell.strip(BLANKS)
        text = text if number_format is PLAIN else number_format.normalize(text)
        whole = _WHOLE.fullmatch(text)
        if whole is None:
            return float(text)
        return int(f"{whole['sign']}{whole['digits'].lstrip('0') or '0'}")  # Python reads 4,300 digits, no more
    return cell or 0


def differences(
    cells: Iterable[Cell], values: FloatArray, offset: int, number_format: NumberFormat = PLAIN
) -> FloatArray:
    """Return those of JSON cells (n,); NaN where `values`, the same cells read as numbers, has it."""
    known = (~np.isnan(values)).tolist()
    found = (
        difference(cell, offset, number_format) if there else math.nan for cell, there in zip(cells, known, strict=True)
    )
    return np.fromiter(found, np.float64, count=len(values))


def text_differences(texts: Texts, values: FloatArray, offset: int, number_format: NumberFormat = PLAIN) -> FloatArray:
    """The same for a column of text. O(n), quickly where cells are written as integers of 64 bits."""
    parts = [np.empty(0)]
    start = 0
    for chunk in texts.chunks:
        here = values[start : start + len(chunk)]
        quick = _machine_differences(chunk, here, offset)
        parts.append(differences(chunk.to_pylist(), here, offset, number_format) if quick is None else quick)
        start += len(chunk)
    return np.concatenate(parts)


def _machine_differences(chunk: TextChunk, values: FloatArray, offset: int) -> FloatArray | None:
    """Return exact differences if cells and differences are integers of one machine type, else None."""
    known = ~np.isnan(values)
    if not known.any():
        return values
    numbers: Any = pc.if_else(pa.array(known), pc.ascii_trim_whitespace(chunk), pa.scalar(None, pa.string()))
    for kind in _TYPES:
        try:
            cells: Any = to_numpy(pc.drop_null(pc.cast(numbers, kind)))
        except pa.ArrowInvalid:
            continue
        ends = np.iinfo(cells.dtype)
        low, high = int(cells.min()), int(cells.max())
        if not (ends.min <= offset <= ends.max and ends.min <= low - offset and high - offset <= ends.max):
            continue
        found = np.full(len(values), np.nan)
        found[known] = (cells - cells.dtype.type(offset)).astype(np.float64)
        return found
    return None


def find_collision(
    texts: Iterable[str], offset: int | None, number_format: NumberFormat = PLAIN
) -> tuple[str, str] | None:
    """Two texts of different integers that are one 64-bit number, even as differences from the offset."""
    seen: dict[float, tuple[str, int | float]] = {}
    for text in texts:
        kind, value = parse_number(text, number_format)
        if kind is not CellKind.NUMBER or not MAX_EXACT <= abs(value) <= _LARGEST:
            continue
        exact = exact_value(text, number_format)
        other, known = seen.setdefault(difference(text, offset or 0, number_format), (text, exact))
        if known != exact:
            return other, text
    return None
