"""Lines around the names of a table that are no rows of it: titles above them, a row of units beside them.

Every rule wants rows below that show what the columns are: a title is shorter than the row of names that it stands
above, and units are text where the columns below hold numbers. Nothing is skipped silently: each skipped row is told.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from app.tables.columns.cells import BLANKS, MISSING_TOKENS, CellKind, parse_number, quote
from app.tables.columns.dates import TEXT_ORDERS, parse_date
from app.tables.read.csv_records import Record
from app.tables.read.names import clean_name

AGREE = 0.9  # share of the records that must be as wide as the first
_MAX_TITLES = 20  # rows above the names
_BRACKETED = re.compile(r"[\[({<].*[\])}>]", re.DOTALL)
_UNIT = re.compile(r"[^\W\d_][\w µ°%‰/*·.^²³⁻¹-]{0,15}|[%‰$€£¥°][\w/]{0,10}")
_NO_UNITS = {
    *map(str.lower, MISSING_TOKENS),
    "-",
    "--",
    ".",
    "*",
    "unknown",
    "missing",
    "n.a.",
    "none",
    "true",
    "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Preamble:
    """Rows of a sample that are no data.

    names: the place of the row of names. skipped: places that are no rows of the table; notes: why.
    """

    names: int = 0
    skipped: tuple[int, ...] = ()
    notes: list[str] = field(default_factory=list)


def find_preamble(sample: Sequence[Record], known: Collection[str]) -> Preamble:
    """Look at the first records of a table. known: names of columns; a first record with one of them is the names."""
    notes: list[str] = []
    names = 0 if _names_known(sample[0].cells, known) else _titles(sample, known)
    skipped = list(range(names))
    if names:
        where = f"line {sample[0].line}" if names == 1 else f"lines {sample[0].line} to {sample[names - 1].line}"
        shown = quote(" ".join(filter(None, (cell.strip(BLANKS) for cell in sample[0].cells))))
        notes.append(
            f"{where}: {'a title' if names == 1 else 'titles'} above the names of the columns skipped ({shown})"
        )
    units = _units(sample, names, known)
    if units is not None:
        skipped.append(units)
        names = names + 1 if units == names else names
        shown = ", ".join(quote(cell) for cell in sample[units].cells if cell.strip(BLANKS))
        notes.append(f"line {sample[units].line}: a row of units skipped ({shown})")
    return Preamble(names=names, skipped=tuple(skipped), notes=notes)


def _names_known(cells: Sequence[str], known: Collection[str]) -> bool:
    return not {clean_name(cell) for cell in cells}.isdisjoint(known)


def usual_width(sample: Sequence[Record]) -> int:
    """Return how many cells most records have."""
    counts = Counter(len(record.cells) for record in sample)
    return max(counts, key=lambda width: (counts[width], width))


def _titles(sample: Sequence[Record], known: Collection[str]) -> int:
    """Return how many records above the names are titles; 0 where the first may be the names."""
    width = usual_width(sample)
    if width < 2:
        return 0
    place = 0
    while place < min(_MAX_TITLES, len(sample) - 2) and _filled(sample[place]) < width:
        place += 1
    names, below = sample[place], sample[place + 1 :]
    if place == 0 or len(names.cells) != width or _filled(names) < width:
        return 0
    agree = sum(len(record.cells) == width for record in below)
    named = _names_known(names.cells, known) or any(
        _texts_over_values(names.cells, rows) for rows in (below, below[1:])
    )
    return place if agree >= AGREE * len(below) and named else 0


def _filled(record: Record) -> int:
    return sum(bool(cell.strip(BLANKS)) for cell in record.cells)


def _texts_over_values(cells: Sequence[str], below: Sequence[Record]) -> bool:
    """Return whether the cells are text where the columns below hold numbers or dates, of which there are some."""
    typed = value_columns(below)
    return bool(typed) and all(is_value(cells[place]) is False for place in typed if place < len(cells))


def value_columns(below: Sequence[Record]) -> list[int]:
    """The columns whose cells are numbers or dates."""
    width = max((len(record.cells) for record in below), default=0)
    columns = [[record.cells[place] for record in below if place < len(record.cells)] for place in range(width)]
    return [place for place, cells in enumerate(columns) if _are_values(cells)]


def _are_values(cells: Sequence[str]) -> bool:
    kinds = [is_value(cell) for cell in cells]
    known = [kind for kind in kinds if kind is not None]
    return bool(known) and sum(known) >= AGREE * len(known)


def is_value(cell: str) -> bool | None:
    """Return whether a cell is a number or a date; None if it is missing."""
    cell = cell.strip(BLANKS)
    kind, _ = parse_number(cell)
    if kind is CellKind.MISSING:
        return None
    return kind is not CellKind.TEXT or any(parse_date(cell, order) is not None for order in TEXT_ORDERS)


def _units(sample: Sequence[Record], names: int, known: Collection[str]) -> int | None:
    """The place of a row of units: below the names, or between titles and names."""
    if len(sample) < names + 3:
        return None
    first, second, below = sample[names].cells, sample[names + 1].cells, sample[names + 2 :]
    likely = _all_bracketed(first) or any(_is_unit(cell.strip(BLANKS)) for cell in second)
    if not likely or any(is_value(second[place]) for place in value_columns(below[:2]) if place < len(second)):
        return None  # quickly, where it is a row like those below
    typed = value_columns(below)
    if len(first) != len(second) or not typed or max(typed) >= len(first) or not _texts_over_values(first, below):
        return None
    above, under = [first[place] for place in typed], [second[place] for place in typed]
    if _all_bracketed(above) and not _all_bracketed(under) and not _names_known(first, known):
        return names if _texts_over_values(second, below) else None
    return names + 1 if _are_units(under) else None


def _are_units(cells: Sequence[str]) -> bool:
    """Return whether these cells of columns of numbers are units: in brackets, or at least two, and none a value."""
    texts = [cell.strip(BLANKS) for cell in cells if cell.strip(BLANKS) not in ("", "-")]
    if not texts or any(text.lower() in _NO_UNITS for text in texts):
        return False
    return all(map(_is_unit, texts)) and (len(texts) > 1 or _BRACKETED.fullmatch(texts[0]) is not None)


def _is_unit(text: str) -> bool:
    return _BRACKETED.fullmatch(text) is not None or _UNIT.fullmatch(text) is not None


def _all_bracketed(cells: Sequence[str]) -> bool:
    texts = [cell.strip(BLANKS) for cell in cells if cell.strip(BLANKS)]
    return bool(texts) and all(_BRACKETED.fullmatch(text) for text in texts)
