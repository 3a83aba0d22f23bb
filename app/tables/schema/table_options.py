"""Options of the specification that are about the table, resolved against its columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TypeVar

from app.errors import Fault, InvalidRequestError
from app.tables.columns.cell_errors import list_names
from app.tables.columns.table import Table
from app.tables.columns.type_inference import DeclaredType
from app.tables.read.names import closest_name, find_name
from app.tables.schema.schema import Unseen

_Choice = TypeVar("_Choice", bound=StrEnum)


class Missing(StrEnum):
    """Treatment of missing cells: refuse the table, leave the rows out, or integrate over what they may be."""

    ERROR = "error"
    DROP = "drop"
    IMPUTE = "impute"


class Dates(StrEnum):
    """Encoding of a date: days since 1970, or those and where in the day, week and year it is; AUTO: where that
    helps to predict later rows."""

    AUTO = "auto"
    ELAPSED = "elapsed"
    CYCLIC = "cyclic"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """Options of the specification that are about the table; see `fit_table`, which takes them."""

    target: str | Sequence[str] | None = None
    features: Sequence[str] | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    missing: str = Missing.ERROR
    missing_values: Sequence[float | str] = ()
    dates: str = Dates.AUTO
    unseen: str = Unseen.ERROR
    decimal: str | None = None
    thousands: str | None = None
    sheet: str | int | None = None
    max_levels: int | None = None
    groups: str | None = None
    order: str | None = None
    weights: str | None = None


def parse_choice(kind: type[_Choice], field_name: str, value: str) -> _Choice:
    """The member of that value. InvalidRequestError naming the field and all members."""
    try:
        return kind(value)
    except ValueError:
        allowed = ", ".join(repr(member.value) for member in kind)
        message = f"expected one of {allowed}, got {value!r}"
        raise InvalidRequestError(f"{field_name}: {message}", [Fault(column=field_name, message=message)]) from None


def resolve(field_name: str, asked: Sequence[str], table: Table) -> list[str]:
    """The columns that are meant. InvalidRequestError naming those that are not there, and what may be meant."""
    found = [find_name(name, table.columns.keys(), field_name) for name in asked]
    absent = [name for name, there in zip(asked, found, strict=True) if there is None]
    if absent:
        close = [near for name in absent if (near := closest_name(name, table.names)) is not None]
        hint = f"did you mean {list_names(close)}? There" if close else "there"
        raise InvalidRequestError(
            f"{field_name}: there is no column {list_names(absent)}; {hint} are {list_names(table.names)}",
            [Fault(column=name, message="no such column") for name in absent],
        )
    return [name for name in found if name is not None]


def names_several(target: str | Sequence[str] | None, table: Table) -> bool:
    """Return whether a specification asks for several targets: by a list, or by a pattern or names with commas between
    them that are no column."""
    return isinstance(target, Sequence) and (
        not isinstance(target, str) or _is_pattern(target, table) or len(_listed(target, table)) > 1
    )


def resolve_targets(table: Table, target: str | Sequence[str] | None) -> list[str]:
    """The columns to predict, in the order of their mention; by default the last. Patterns have `*`, `?` and `[..]`."""
    if target is None:
        return [table.names[-1]]
    found: list[str] = []
    for name in _listed(target, table) if isinstance(target, str) else target:
        if not _is_pattern(name, table):
            found += resolve("target", [name], table)
            continue
        matching = [column for column in table.names if fnmatchcase(column, name)]
        if not matching:
            message = f"target: no column matches {name!r}; there are {list_names(table.names)}"
            raise InvalidRequestError(message, [Fault(column="target", message=message)])
        found += matching
    return list(dict.fromkeys(found))


def _listed(target: str, table: Table) -> list[str]:
    """The parts of a target that is no column, where one of them is, or is a pattern; else the target alone."""
    parts = [part.strip() for part in target.split(",")]
    if find_name(target, table.columns.keys(), "target") is not None:
        return [target]
    if len(parts) > 1 and any(
        _is_pattern(part, table) or find_name(part, table.columns.keys(), "target") is not None for part in parts
    ):
        return parts
    return [target]


def _is_pattern(name: str, table: Table) -> bool:
    return find_name(name, table.columns.keys(), "target") is None and any(sign in name for sign in "*?[")


def resolve_types(table: Table, targets: Sequence[str], columns: Mapping[str, str]) -> dict[str, DeclaredType]:
    """Return the declared type of each column that is named."""
    names = resolve("columns", list(columns), table)
    _refuse_twice("columns", names)
    choices = {
        name: parse_choice(DeclaredType, f"columns.{asked}", value)
        for name, (asked, value) in zip(names, columns.items(), strict=True)
    }
    for target in targets:
        if choices.pop(target, DeclaredType.NUMBER) is not DeclaredType.NUMBER:
            raise _refused("columns", f"{target!r} is the target, which has to be a number", [target])
    return choices


def resolve_features(table: Table, targets: Sequence[str], features: Sequence[str] | None) -> list[str]:
    """The columns to learn from; by default all others."""
    if features is None:
        names = [name for name in table.names if name not in targets]
        if not names:
            target = f"target{'s' if len(targets) > 1 else ''} {list_names(targets)}"
            told = "".join(f"; {note}" for note in table.notes)  # which sheet was read, and what was skipped
            message = f"the table has no column besides the {target} to learn from"
            raise InvalidRequestError(f"{message}{told}", [Fault(column="target", message=message)])
        return names
    if not features:
        raise _refused("features", "expected at least one column name", ["features"])
    names = resolve("features", features, table)
    for target in targets:
        if target in names:
            raise _refused("features", f"{target!r} is the target", [target])
    _refuse_twice("features", names)
    return names


def _refuse_twice(field_name: str, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise _refused(field_name, f"{list_names(twice)} named twice", twice)


def _refused(field_name: str, message: str, columns: Sequence[str]) -> InvalidRequestError:
    return InvalidRequestError(f"{field_name}: {message}", [Fault(column=name, message=message) for name in columns])
