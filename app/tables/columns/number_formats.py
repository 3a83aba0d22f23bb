"""Decimal marks and grouped digits: `0,5`, `1.234,56`, `1,234.5`, `1 234`, `1'234`.

One cell may tell its format (`0,5` can only have a decimal comma, `1,234,567` only grouped digits) or leave it open
(`1,234`). Every column of text is tallied while it is read; what its sure cells agree on holds for the column. Where no
cell is sure, the other columns decide if there are enough cells, and else nobody: the cells are refused with both
meanings. What the specification says is never overruled.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

OTHER_MARK: Final = {",": ".", ".": ","}
"""Decimal marks, and the one that each is not."""
GROUP_PATTERNS: Final = {",": ",", ".": r"\.", " ": "[ \u00a0\u202f]", "'": "['\u2019]"}
"""Patterns of what may stand between groups of three digits; a blank may be a no-break one."""
MARK_NAMES: Final = {",": "commas", ".": "points", " ": "blanks", "'": "apostrophes"}
_SWAPPED = str.maketrans(".,", ",.")
_EXPONENT = "(?:[eE][+-]?[0-9]+)?"
_FIRST = "[+-]?[1-9][0-9]{0,2}"  # `0,758` is no group of thousands
_BLANKS = r"[ \t\n\r\v\f]*"

_ENOUGH_BESIDE = 10  # open cells of a column whose file elsewhere has the other decimal mark
_ENOUGH_ALONE = 20  # open cells where nothing else tells: decimals of varying length would have shown by then
_NUMERIC = 0.5  # share of numbers from which on a column tells of its file


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """Decimal mark, before the fraction; thousands: the sign between groups of three digits, if any."""

    decimal: str = "."
    thousands: str | None = None

    def to_json(self) -> dict[str, str]:
        """A JSON document without what is as usual."""
        document = {} if self.decimal == "." else {"decimal": self.decimal}
        return document | ({} if self.thousands is None else {"thousands": self.thousands})

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "NumberFormat":
        """Read what `to_json` wrote. ValueError for something else."""
        made = cls(document.get("decimal", "."), document.get("thousands"))
        if made.decimal not in OTHER_MARK or (made.thousands is not None and made.thousands not in GROUP_PATTERNS):
            raise ValueError(f"number format {made!r}")
        return made

    def normalize(self, text: str) -> str:
        """A text without blanks around it as it would be with decimal points and without groups."""
        if self.thousands is not None and re.fullmatch(_grouped(self), text):  # which keeps what it compiles
            text = re.sub(GROUP_PATTERNS[self.thousands], "", text)
        return text if self.decimal == "." else text.translate(_SWAPPED)

    def normalize_chunk(self, chunk: Any) -> Any:
        """Normalize an Arrow array of texts; cells with groups lose the blanks around them."""
        if self.thousands is not None:
            trimmed: Any = pc.ascii_trim_whitespace(chunk)
            grouped: Any = pc.match_substring_regex(trimmed, f"^(?:{_grouped(self)})$")
            if pc.any(grouped).as_py():
                joined = pc.replace_substring_regex(trimmed, GROUP_PATTERNS[self.thousands], "")
                chunk = pc.if_else(grouped, joined, chunk)
        if self.decimal == ".":
            return chunk
        held: Any = pc.replace_substring(chunk, ".", "\0")
        pointed: Any = pc.replace_substring(held, ",", ".")
        return pc.replace_substring(pointed, "\0", ",")


PLAIN: Final = NumberFormat()


def _grouped(number_format: NumberFormat) -> str:
    mark = re.escape(number_format.decimal)
    return f"{_FIRST}(?:{GROUP_PATTERNS[number_format.thousands or '']}[0-9]{{3}})+(?:{mark}[0-9]*)?{_EXPONENT}"


def _certain_decimal(mark: str) -> str:
    """Pattern of sure decimal marks: `13,5`, `0,758`, `,5`, `1.234,5`; never `1,234`."""
    other = GROUP_PATTERNS[OTHER_MARK[mark]]
    here = re.escape(mark)
    groups = "|".join(
        f"{_FIRST}(?:{group}[0-9]{{3}})+{here}[0-9]*" for group in (other, GROUP_PATTERNS[" "], GROUP_PATTERNS["'"])
    )
    return (
        f"(?:[+-]?(?:0[0-9]*{here}[0-9]+|[0-9]{{4,}}{here}[0-9]+|[0-9]+{here}(?:[0-9]{{1,2}}|[0-9]{{4,}})|{here}[0-9]+)|"
        f"{groups}){_EXPONENT}|[+-]?[0-9]+{here}[0-9]*[eE][+-]?[0-9]+"
    )


def _certain_group(mark: str) -> str:
    """Pattern of sure groups: `1,234,567`, `1,234.5`."""
    group, other = GROUP_PATTERNS[mark], re.escape(OTHER_MARK[mark])
    several = f"{_FIRST}(?:{group}[0-9]{{3}}){{2,}}(?:{other}[0-9]*)?{_EXPONENT}"
    return f"{several}|{_FIRST}{group}[0-9]{{3}}{other}[0-9]*{_EXPONENT}"


def _ambiguous(mark: str) -> str:
    """Pattern of cells where either may be meant: `1,234`."""
    return f"{_FIRST}{GROUP_PATTERNS[mark]}[0-9]{{3}}"


def _split_by(sign: str) -> str:
    return f"{_FIRST}(?:{GROUP_PATTERNS[sign]}[0-9]{{3}})+(?:[.,][0-9]*)?{_EXPONENT}"


_PATTERNS: Final = {
    "decimal_commas": _certain_decimal(","),
    "decimal_points": _certain_decimal("."),
    "grouped_by_commas": _certain_group(","),
    "grouped_by_points": _certain_group("."),
    "open_commas": _ambiguous(","),
    "open_points": _ambiguous("."),
    "grouped_by_blanks": _split_by(" "),
    "grouped_by_apostrophes": _split_by("'"),
    "short": "[+-]?[0-9]{1,3}",
    "long": "[+-]?[0-9]{4,}",
}
_WHOLE: Final = {name: f"^{_BLANKS}(?:{pattern}){_BLANKS}$" for name, pattern in _PATTERNS.items()}
_OF_COMMAS: Final = ("decimal_commas", "grouped_by_commas", "open_commas", "short", "long")
_OF_POINTS: Final = ("decimal_points", "grouped_by_points", "open_points")
_OF_SPLIT: Final = {
    b" ": "grouped_by_blanks",
    b"'": "grouped_by_apostrophes",
    "\u00a0".encode(): "grouped_by_blanks",
    "\u202f".encode(): "grouped_by_blanks",
    "\u2019".encode(): "grouped_by_apostrophes",
}
_ASCII_SPLIT: Final = (b" ", b"'")
"""Signs of ASCII; the others are looked for only in blocks that are not."""
_FIRST_CELLS = 500


@dataclass(slots=True)
class MarkCounts:
    """Counts of the cells of a column that are written in each way. short, long: whole numbers of up to 3 digits, and
    of more, counted beside commas; cells: those that are not blank, counted beside commas.
    """

    decimal_commas: int = 0
    decimal_points: int = 0
    grouped_by_commas: int = 0
    grouped_by_points: int = 0
    open_commas: int = 0
    open_points: int = 0
    grouped_by_blanks: int = 0
    grouped_by_apostrophes: int = 0
    short: int = 0
    long: int = 0
    cells: int = 0

    def add(self, texts: Any) -> None:
        """Count an Arrow array of cells: the first of them, and the others only where they may say more."""
        self._count(texts.slice(0, _FIRST_CELLS))
        rest = texts.slice(_FIRST_CELLS)
        if len(rest):
            self._count(rest)

    def _count(self, texts: Any) -> None:
        data = _bytes_of(texts)
        commas, points = b"," in data, b"." in data
        signs = _ASCII_SPLIT if data.isascii() else _OF_SPLIT
        wanted = {_OF_SPLIT[sign] for sign in signs if sign in data}
        if points and not (self.decimal_points and not (commas or self.has_commas)):
            wanted.update(_OF_POINTS)
        if commas and not (self.decimal_commas and not points) and _matches_any(texts, _COMMA_NUMBER):
            wanted.update(_OF_COMMAS)
            self.cells += _count_matches(texts, r"[^ \t\n\r\v\f]")
        for name in wanted:
            setattr(self, name, getattr(self, name) + _count_matches(texts, _WHOLE[name]))

    def __add__(self, other: "MarkCounts") -> "MarkCounts":
        """The counts of both columns."""
        names = [each.name for each in fields(self)]
        return MarkCounts(**{name: getattr(self, name) + getattr(other, name) for name in names})

    @property
    def has_commas(self) -> bool:
        """Return whether some cell is a number with a comma."""
        return self.decimal_commas + self.grouped_by_commas + self.open_commas > 0

    @property
    def has_marks(self) -> bool:
        """Return whether some cell is a number with marks."""
        return any(getattr(self, field.name) for field in fields(self) if field.name not in ("short", "long", "cells"))

    @property
    def mostly_numbers(self) -> bool:
        """Return whether the column is of numbers rather than of texts among which there is one."""
        commas = self.decimal_commas + self.grouped_by_commas + self.open_commas
        points = self.decimal_points + self.open_points
        return commas + points + self.short + self.long >= _NUMERIC * self.cells

    def add_cells(self, cells: Sequence[object]) -> bool:
        """Count cells that have types; whether some are text. A number is sure of its point."""
        types = set(map(type, cells))
        self.decimal_points += float in types
        if str in types:
            self.add(pa.array([cell for cell in cells if isinstance(cell, str)], pa.string()))
        return str in types

    def to_json(self) -> dict[str, int]:
        """The counts that are not 0."""
        return {name: count for name, count in asdict(self).items() if count}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "MarkCounts":
        """Read what `to_json` wrote; counts that are not known are left."""
        return cls(**{field.name: int(document.get(field.name, 0)) for field in fields(cls)})


_SIGNS = "".join(sign.decode() for sign in _OF_SPLIT) + "."
_COMMA_NUMBER = f"^{_BLANKS}[+-]?(?:[0-9][0-9{_SIGNS}]*)?(?:,[0-9]+)+(?:[.][0-9]*)?{_EXPONENT}{_BLANKS}$"


def _matches_any(texts: Any, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())


def _count_matches(texts: Any, pattern: str) -> int:
    return int(pc.sum(pc.match_substring_regex(texts, pattern)).as_py() or 0)


def _bytes_of(texts: Any) -> bytes:
    """Join all cells of an Arrow array of text: a sign is found there at the speed of memory."""
    _, offsets, data = texts.buffers()
    if data is None or not len(texts):
        return b""
    ends = memoryview(offsets).cast("i")
    start, stop = ends[texts.offset], ends[texts.offset + len(texts)]
    return bytes(data[start:stop])


def count_marks(texts: Iterable[str]) -> MarkCounts:
    """The tally of some texts."""
    marks = MarkCounts()
    marks.add(pa.array(list(texts), pa.string()))
    return marks


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMarkCounts:
    """Evidence of all columns of a file. separator: of its cells, if it is delimited text."""

    commas: bool = False
    points: bool = False
    by_commas: bool = False
    by_points: bool = False
    separator: str | None = None

    @classmethod
    def of(cls, columns: Iterable[MarkCounts], separator: str | None) -> "FileMarkCounts":
        """Gather the columns that are of numbers."""
        numeric = [marks for marks in columns if marks.mostly_numbers]
        return cls(
            commas=any(marks.decimal_commas for marks in numeric),
            points=any(marks.decimal_points for marks in numeric),
            by_commas=any(marks.grouped_by_commas for marks in numeric),
            by_points=any(marks.grouped_by_points for marks in numeric),
            separator=separator,
        )


def infer_format(
    marks: MarkCounts,
    file: FileMarkCounts | None = None,
    *,
    decimal: str | None = None,
    thousands: str | None = None,
    known: NumberFormat | None = None,
) -> NumberFormat:
    """The format of a column.

    decimal, thousands: what the specification says, None where it does not; "" for no groups. known: the format of the
    same column in training, which decides what its cells leave open.
    """
    file = file or FileMarkCounts()
    if decimal is not None:
        return NumberFormat(decimal, _asked_thousands(marks, decimal, thousands, known))
    if thousands in OTHER_MARK:
        return NumberFormat(OTHER_MARK[thousands], thousands)
    if thousands is not None:
        comma = marks.decimal_commas > 0 or (marks.open_commas > 0 and not marks.decimal_points)
        return NumberFormat("," if comma and not marks.decimal_points else ".", thousands or None)
    found = _certain_format(marks)
    if known is None or known == PLAIN:
        return found or _ambiguous_format(marks, file)
    return _known_format(marks, found, known, file)


def _asked_thousands(marks: MarkCounts, decimal: str, thousands: str | None, known: NumberFormat | None) -> str | None:
    """The groups beside a decimal mark that was asked for."""
    if thousands is not None:
        return thousands or None
    other = OTHER_MARK[decimal]
    if other == ",":
        grouped, sure = marks.grouped_by_commas + marks.open_commas, marks.decimal_commas
    else:
        grouped, sure = marks.grouped_by_points + marks.open_points, marks.decimal_points
    if grouped and not sure:
        return other
    blank = _blank_groups(marks)
    return blank if blank is not None or known is None or known.decimal != decimal else known.thousands


def _blank_groups(marks: MarkCounts) -> str | None:
    return " " if marks.grouped_by_blanks else "'" if marks.grouped_by_apostrophes else None


def _certain_format(marks: MarkCounts) -> NumberFormat | None:
    """The format that the sure cells agree on; None if there are none, or they do not agree."""
    comma, point = marks.decimal_commas > 0, marks.decimal_points > 0
    by_comma, by_point = marks.grouped_by_commas > 0, marks.grouped_by_points > 0
    if (comma or by_point) and not (point or by_comma):
        return NumberFormat(",", "." if by_point or marks.open_points else _blank_groups(marks))
    if (point or by_comma) and not (comma or by_point):
        return NumberFormat(".", "," if by_comma or marks.open_commas else _blank_groups(marks))
    return None


def _ambiguous_format(marks: MarkCounts, file: FileMarkCounts) -> NumberFormat:
    """The format of a column without sure cells, by those beside it."""
    blank = _blank_groups(marks)
    if marks.decimal_commas or marks.decimal_points or (marks.open_commas and marks.open_points):
        return PLAIN  # they do not agree
    if marks.open_commas:
        if file.commas and not (file.points or file.by_commas):
            return NumberFormat(",", blank)
        beside = file.points and marks.open_commas >= _ENOUGH_BESIDE
        alone = not file.points and marks.open_commas >= _ENOUGH_ALONE and marks.short > 0 and not marks.long
        if not file.commas and (file.by_commas or beside or alone):
            return NumberFormat(".", ",")
    elif marks.open_points and file.commas and not file.points:
        return NumberFormat(",", "." if file.by_points else None)  # without groups elsewhere they are refused
    return NumberFormat(".", blank)


def _known_format(
    marks: MarkCounts, found: NumberFormat | None, known: NumberFormat, file: FileMarkCounts
) -> NumberFormat:
    """The format of new cells of a column that had a format of its own in training."""
    still_open = marks.open_commas + marks.open_points > 0
    if found is not None and (found.decimal == known.decimal or not still_open):
        keep = found.decimal == known.decimal and found.thousands is None
        return known if keep else found
    machine_made = file.separator == "," and not marks.has_commas and not file.commas
    if machine_made and marks.open_points and known.thousands == ".":
        return NumberFormat(known.decimal)  # `1.234` may be a program's or a person's: refused
    return known


def infer_formats(
    marks: Mapping[str, MarkCounts],
    separator: str | None = None,
    *,
    decimal: str | None = None,
    thousands: str | None = None,
    known: Mapping[str, NumberFormat] | None = None,
) -> dict[str, NumberFormat]:
    """Infer the format of every column of text, see `infer_format`."""
    file = FileMarkCounts.of(marks.values(), separator)
    return {
        name: infer_format(tally, file, decimal=decimal, thousands=thousands, known=(known or {}).get(name))
        for name, tally in marks.items()
    }
