"""Dialect of a CSV file: what separates its cells, and whether its first line names the columns."""

import csv
import io
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from app.errors import InvalidRequestError, MalformedError
from app.tables.columns.cell_errors import plural
from app.tables.columns.cells import BLANKS
from app.tables.read.csv_records import Record, records
from app.tables.read.edited_text import Comments
from app.tables.read.names import are_numbers, clean_name
from app.tables.read.preamble import AGREE, find_preamble, is_value, usual_width, value_columns
from app.tables.read.source import Source

DELIMITERS = (",", "\t", ";", "|")
_HEAD = 1 << 20  # characters within which the header must end
_SAMPLE = 100  # records that are looked at
_YEARS = range(1900, 2101)
# An unquoted quotation mark after the bracket tells JSON from a column named "[m]".
_OTHER_TEXT = re.compile(r"\s*([\[{]\s*[\[{]?\s*\"|<!doctype|<html|<\?xml)", re.IGNORECASE)
_SEPARATOR = re.compile(r"\"?sep=(.)\"?[,;|\t]*", re.IGNORECASE)
_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Dialect and head of a file.

    source: the file without the lines that are no records. first: the record of names, or else of data; header:
    whether it names the columns; doubtful: though it is all numbers; wider: the rows below have more
    cells. notes: what was skipped.
    """

    source: Source
    delimiter: str
    first: Record
    header: bool
    doubtful: bool = False
    wider: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def start(self) -> int:
        """The row number of the first record: data rows are numbered from 0."""
        return -1 if self.header else 0


def find_dialect(source: Source, known: Collection[str] = ()) -> Dialect:
    """Find the dialect in the head of the file. known: names of columns; a first line with one of them is a header.

    Raises InvalidRequestError for a blank file, MalformedError for what is no CSV.
    """
    with io.TextIOWrapper(source.text(), encoding="utf-8", newline="") as stream:
        head = stream.read(_HEAD)
    if not head.strip(BLANKS):
        raise InvalidRequestError("the file holds only blank lines: expected a header line and rows of data below it")
    if _OTHER_TEXT.match(head):
        raise MalformedError(
            "the file looks like JSON or HTML, not like CSV; send JSON as application/json, or as JSON Lines: "
            "one object on each line"
        )
    if len(head) == _HEAD and not any(end in head.lstrip(BLANKS) for end in "\r\n"):
        raise MalformedError(f"the first line is longer than {_HEAD:,} characters: this is not a table with a header")
    notes: list[str] = []
    edits, declared = _declared_separator(head, notes)
    edits |= _comments_above(_edited(head, edits), known, notes)
    head = _edited(head, edits)
    candidates = tuple(reversed(DELIMITERS)) if declared is None else (declared,)
    ranked = [(_rank(sample := _sample(head, delimiter), known), delimiter, sample) for delimiter in candidates]
    best, delimiter, sample = max(ranked)
    if not sample:
        raise InvalidRequestError("the file holds only comments: expected a header line and rows of data below it")
    if not sample[0].closed:
        raise MalformedError(f"line {sample[0].line}: a quotation mark in the header is never closed")
    preamble = find_preamble(sample, known)
    spans = [range(sample[place].line, sample[place + 1].line) for place in preamble.skipped]
    if spans:  # comments between are skipped, and told, as comments
        edits |= {line: "" for line, text in _physical(head) if any(line in span for span in spans) and text[:1] != "#"}
    rest = [record for place, record in enumerate(sample) if place not in preamble.skipped]
    first = rest[0]
    header = len(rest) == 1 or bool(preamble.skipped) or not _is_data(first.cells, rest[1:], known)
    notes += _doubt_of_separator(delimiter, [sign for rank, sign, _ in ranked if rank == best and best[0]])
    return Dialect(
        source=replace(source, edits=edits, comments=Comments(delimiter, len(first.cells)) if source.hashes else None),
        delimiter=delimiter,
        first=first,
        header=header,
        doubtful=header and are_numbers(first.cells) and set(map(clean_name, first.cells)).isdisjoint(known),
        wider=len(first.cells) == 1 and any(usual_width(_sample(head, sign)) > 1 for sign in DELIMITERS),
        notes=notes + preamble.notes,
    )


def _declared_separator(head: str, notes: list[str]) -> tuple[dict[int, str], str | None]:
    """The separator that Excel's first line `sep=;` names, and that line blanked."""
    for line, text in _physical(head):
        if not text.strip(BLANKS):
            continue
        found = _SEPARATOR.fullmatch(text)
        if found is None:
            return {}, None
        if found[1] not in DELIMITERS:
            raise InvalidRequestError(
                f"line {line}: {text.strip(BLANKS)!r} names a separator that is not read; "
                "expected comma, tab, semicolon or pipe"
            )
        notes.append(f"line {line}: {text.strip(BLANKS)!r} was read as what separates the cells, not as a row")
        return {line: ""}, found[1]
    return {}, None


def _doubt_of_separator(taken: str, equal: Sequence[str]) -> list[str]:
    """Return what is said of other separators that would part the records as well as the one that was taken."""
    return [
        f"the cells were read as separated by {taken!r}; {other!r} would part the lines into as many: a first line "
        f"'sep={other}' has them read so"
        for other in equal
        if other != taken
    ]


def _comments_above(head: str, known: Collection[str], notes: list[str]) -> dict[int, str]:
    """The lines that begin with `#` above all others blanked, but for names of columns that stand in one of them."""
    comments: list[tuple[int, str]] = []
    for line, text in _physical(head):
        if text.startswith("#"):
            comments.append((line, text))
        elif text.strip(BLANKS):
            break
    if not comments:
        return {}
    edits = _without_names(head, comments, known)
    blank = [line for line, text in edits.items() if not text]
    if blank:
        notes.append(f"{plural(len(blank), 'comment line')} above the table skipped, beginning with '#'")
    if blank and len(blank) < len(edits):
        notes.append(f"the names of the columns were read from line {max(edits)}, which begins with '#'")
    return edits


def _without_names(head: str, comments: Sequence[tuple[int, str]], known: Collection[str]) -> dict[int, str]:
    edits = {line: "" for line, _ in comments}
    line, text = comments[-1]
    if not _sample(_edited(head, edits), ","):
        return edits
    for delimiter in DELIMITERS:
        rows = _sample(_edited(head, edits), delimiter)
        names = next(csv.reader([text], delimiter=delimiter))
        bare = next(csv.reader([text.lstrip("#").lstrip(BLANKS)], delimiter=delimiter))
        width = len(rows[0].cells)
        if len(names) != width or not (width > 1 or _count_known([*bare, *names], known)):
            continue
        if not bare[0].strip(BLANKS) or _is_data(rows[0].cells, rows[1:] or rows, known):
            # Alone it is a header like any other; below comments its mark is theirs.
            more = _count_known(names, known) - _count_known(bare, known)
            keep = more > 0 or (more == 0 and len(comments) == 1)
            edits[line] = text if keep or not bare[0].strip(BLANKS) else text.lstrip("#").lstrip(BLANKS)
            break
    return edits


def _count_known(names: Sequence[str], known: Collection[str]) -> int:
    return len(set(map(clean_name, names)) & set(known))


def _physical(head: str) -> Iterator[tuple[int, str]]:
    """The lines of a text with their numbers, without their ends."""
    return enumerate((found[1] for found in _LINE.finditer(head)), start=1)


def _edited(head: str, edits: dict[int, str]) -> str:
    if not edits:
        return head
    found = enumerate(_LINE.finditer(head), start=1)
    return "".join(edits.get(line, part[1]) + part[2] for line, part in found)


def _sample(head: str, delimiter: str) -> list[Record]:
    sample: list[Record] = []
    for record in records(io.StringIO(head, newline=""), delimiter):
        sample.append(record)
        if len(sample) == _SAMPLE:
            return _without_comments(sample, delimiter)
    if len(head) == _HEAD and len(sample) > 1:
        sample.pop()  # cut in the middle
    return _without_comments(sample, delimiter)


def _without_comments(sample: list[Record], delimiter: str) -> list[Record]:
    """The records without the comments among them, which the reading skips too."""
    if not any(record.cells[0].startswith("#") for record in sample):
        return sample
    comments = Comments(delimiter, usual_width(sample))
    return [record for record in sample if not comments.matches(delimiter.join(record.cells))] or sample


def _rank(sample: Sequence[Record], known: Collection[str]) -> tuple[bool, bool, int, float, int]:
    """Most columns among those that most records agree on; best where nothing is to be skipped for it; of equal ones
    that with more names that are known."""
    if not sample:
        return False, False, 0, 0.0, 0
    skipped = find_preamble(sample, known).skipped
    sample = [record for place, record in enumerate(sample) if place not in skipped]
    width = len(sample[0].cells)
    agree = sum(len(record.cells) == width for record in sample[1:]) / max(1, len(sample) - 1)
    return width > 1 and agree >= AGREE, not skipped, width, agree, _count_known(sample[0].cells, known)


def _is_data(first: Sequence[str], below: Sequence[Record], known: Collection[str]) -> bool:
    """Return whether the first record is a row of data: where the cells below are numbers or dates, it has one too."""
    cells = [cell.strip(BLANKS) for cell in first]
    if not set(cells).isdisjoint(known):
        return False
    columns = [place for place in value_columns(below) if place < len(cells)]
    typed = [cells[place] for place in columns]
    if not any(is_value(cell) for cell in typed) or any(is_value(cell) is False for cell in typed):
        return False
    if typed[0] == "":  # the index of a data frame has no name
        columns, typed = columns[1:], typed[1:]
    return not _number_columns(typed, [[r.cells[p].strip(BLANKS) for p in columns if p < len(r.cells)] for r in below])


def _number_columns(cells: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Return whether they name the columns although they are numbers: years in a row, or 0, 1, 2, .. or 1, 2, 3, ..;
    and most of the same cells below are not of the same sort.
    """
    if _are_years(cells):
        alike = sum(map(_are_years, below))
    elif _counts_up(cells) and len(cells) >= 3 and int(cells[0]) in (0, 1):
        alike = sum(map(_counts_up, below))
    else:
        return False
    return 2 * alike < len(below)


def _are_years(cells: Sequence[str]) -> bool:
    return _counts_up(cells) and int(cells[0]) in _YEARS


def _counts_up(cells: Sequence[str]) -> bool:
    """Return whether they are two integers or more, each one above the one before."""
    if len(cells) < 2 or not all(cell.isascii() and cell.isdigit() for cell in cells):
        return False
    numbers = [int(cell) for cell in cells]
    return all(after - before == 1 for before, after in pairwise(numbers))
