"""Names of columns: trimmed, in one Unicode form, each there once; and which of them a request means.

Headers of spreadsheets and data frames often end in a blank. Such a name is kept without it, and whoever writes it with
the blank means it all the same: a name is looked for as it is first, then without the blanks around it. Two headers
that differ only in these blanks keep them.
"""

import difflib
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from app.errors import Fault, InvalidRequestError
from app.tables.columns.cell_errors import list_names
from app.tables.columns.cells import BLANKS, CellKind, parse_number
from app.tables.read.limits import Limits

NAMELESS: Final = "Unnamed: 0"
"""Name of a first column without one, as pandas reads the index of a data frame that was saved with it."""
_INDEX_LEVEL = re.compile(r"__index_level_[0-9]+__")  # the same in Arrow and Parquet
_MAX_LENGTH = 256  # characters
_NOT_LETTERS = re.compile(r"[\W_]+")
_CLOSE = 0.8  # likeness from which a name may be a misspelling


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnNames:
    """The names of a table's columns, and which of them are of a data frame's index."""

    names: tuple[str, ...]
    index: tuple[str, ...] = ()


def compose(name: str) -> str:
    """A name in NFC: é is one character however it was typed."""
    return unicodedata.normalize("NFC", name)


def clean_name(name: str) -> str:
    """A composed name without the blanks around it."""
    return compose(name.strip(BLANKS))


def read_names(given: Sequence[str], limits: Limits, line: int | None = None) -> ColumnNames:
    """The names that a table gives its columns. InvalidRequestError by position for overlong and repeated ones, and for
    an empty one other than the first, which is the index of a data frame.
    """
    if not given:
        raise InvalidRequestError("there are no columns: expected at least one feature and the target")
    limits.check_columns(len(given))
    trimmed = [clean_name(name) for name in given]
    times = Counter(trimmed)
    names = [short if times[short] == 1 else compose(name) for short, name in zip(trimmed, given, strict=True)]
    index = [name for name in names if _INDEX_LEVEL.fullmatch(name)]
    if not trimmed[0] and times[""] == 1 and len(names) > 1:
        names[0] = _nameless(names)
        index.insert(0, names[0])
    return ColumnNames(names=_checked(names, line), index=tuple(index))


def _nameless(others: Collection[str]) -> str:
    """A name that is not taken: a data frame that was saved twice has two indices."""
    name, count = NAMELESS, 0
    while name in others:
        count += 1
        name = f"{NAMELESS}.{count}"
    return name


def _checked(names: Sequence[str], line: int | None) -> tuple[str, ...]:
    faults = []
    places: dict[str, int] = {}
    for place, name in enumerate(names, start=1):
        if not name.strip(BLANKS):
            faults.append(Fault(line=line, message=f"column {place} has an empty name"))
        elif len(name) > _MAX_LENGTH or not is_encodable(name):
            message = f"the name of column {place} is longer than {_MAX_LENGTH} characters or not valid text"
            faults.append(Fault(line=line, message=message))
        elif name in places:
            message = f"columns {places[name]} and {place} are both named {name!r}"
            faults.append(Fault(line=line, column=name, message=message))
        else:
            places[name] = place
    if faults:
        raise InvalidRequestError(f"every column needs a name of its own; {faults[0].message}", faults)
    return tuple(names)


def find_name(asked: str, there: Collection[str], field: str = "") -> str | None:
    """The name among those `there` that is meant: the same, else the only one that is so without the blanks around it.

    field: what asks, for the refusal. InvalidRequestError naming all where several may be meant.
    """
    if asked in there:
        return asked
    short = _trimmed(asked)
    meant = [name for name in there if _trimmed(name) == short]
    if len(meant) > 1:
        message = (
            f"{asked!r} may mean any of the columns {list_names(meant)}: write it with the blanks that it has there"
        )
        raise InvalidRequestError(
            f"{field}: {message}" if field else message, [Fault(column=asked, message="the name is ambiguous")]
        )
    return meant[0] if meant else None


def match_names(wanted: Sequence[str], there: Collection[str], others: Collection[str] = ()) -> dict[str, str]:
    """Return which column that is `there` each one that is wanted is; without those that are not there.

    others: columns that have names of their own and are not wanted. InvalidRequestError where two columns may be meant
    by one name, or one column by two.
    """
    found = {name: name for name in wanted if name in there}
    if len(found) == len(wanted):
        return found
    free = [name for name in there if name not in found and name not in others]
    for name in wanted:
        meant = name if name in found else find_name(name, free)
        if meant is None:
            continue
        if name not in found and meant in found.values():
            twins = [other for other in found if found[other] == meant]
            message = f"column {meant!r} may be any of {list_names([*twins, name])}: write its name with its blanks"
            raise InvalidRequestError(message, [Fault(column=meant, message="the name is ambiguous")])
        found[name] = meant
    return found


def _trimmed(name: str) -> str:
    return clean_name(name) or NAMELESS


_MOST_COMPARED, _LONGEST_COMPARED = 1_000, 200
"""Names that are compared with one, and their characters: a row of JSON may have a million of them."""


def closest_name(asked: str, there: Iterable[str]) -> str | None:
    """The name that was probably meant, where no name is the one asked for: another case, blanks, a misspelling."""
    letters: dict[str, str] = {}
    for name in islice(there, _MOST_COMPARED):
        if len(name) <= _LONGEST_COMPARED:
            letters.setdefault(_letters(name), name)
    near = difflib.get_close_matches(_letters(asked), letters, n=1, cutoff=_CLOSE)
    return letters[near[0]] if near else None


def _letters(name: str) -> str:
    return _NOT_LETTERS.sub("", compose(name).casefold()) or name


def are_numbers(names: Sequence[str]) -> bool:
    """Return whether what should be names may be a row of data instead: numbers, and no text."""
    kinds = {parse_number(name)[0] for name in names}
    return CellKind.NUMBER in kinds and CellKind.TEXT not in kinds


def numeric_names_note(names: Sequence[str]) -> str:
    """Return a note on names that are numbers."""
    return (
        f"the names of the columns are numbers ({list_names(names)}): if the first row is data, put a row of names "
        "above it"
    )


def is_encodable(text: str) -> bool:
    """Return whether UTF-8 can hold the text: JSON can escape half a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
