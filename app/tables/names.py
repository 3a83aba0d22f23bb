"""Names of columns: trimmed, in one Unicode form, each there once."""

import unicodedata
from collections.abc import Sequence

from app.errors import Fault, InvalidRequestError
from app.tables.cells import BLANKS, CellKind, parse_number
from app.tables.limits import Limits
from app.tables.problems import list_names

_LONGEST = 256  # characters


def clean(name: str) -> str:
    """A name without the blanks around it, composed (NFC): é is one character however it was typed."""
    return unicodedata.normalize("NFC", name.strip(BLANKS))


def check_names(names: Sequence[str], limits: Limits, line: int | None = None) -> tuple[str, ...]:
    """The cleaned names. InvalidRequestError by position for empty, overlong and repeated ones."""
    if not names:
        raise InvalidRequestError("there are no columns: expected at least one feature and the target")
    limits.check_columns(len(names))
    faults = []
    places: dict[str, int] = {}
    for place, name in enumerate(names, start=1):
        if not name:
            faults.append(Fault(line=line, message=f"column {place} has an empty name"))
        elif len(name) > _LONGEST or not encodes(name):
            message = f"the name of column {place} is longer than {_LONGEST} characters or not valid text"
            faults.append(Fault(line=line, message=message))
        elif name in places:
            message = f"columns {places[name]} and {place} are both named {name!r}"
            faults.append(Fault(line=line, column=name, message=message))
        else:
            places[name] = place
    if faults:
        raise InvalidRequestError(f"every column needs a name of its own; {faults[0].message}", faults)
    return tuple(names)


def are_numbers(names: Sequence[str]) -> bool:
    """Whether what should be names may be a row of data instead: numbers, and no text."""
    kinds = {parse_number(name)[0] for name in names}
    return CellKind.NUMBER in kinds and CellKind.TEXT not in kinds


def doubt(names: Sequence[str]) -> str:
    """What to say of names that are numbers."""
    return (
        f"the names of the columns are numbers ({list_names(names)}): if the first row is data, put a row of names "
        "above it"
    )


def encodes(text: str) -> bool:
    """Whether UTF-8 can hold the text: JSON can escape half a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
