"""Wishes: what the specification says about a table, and how that fits the table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from app.errors import Fault, InvalidRequestError
from app.tables.guessing import Choice, unknown
from app.tables.problems import list_names
from app.tables.schema import Unseen
from app.tables.table import Table

_Choice = TypeVar("_Choice", bound=StrEnum)


class Missing(StrEnum):
    """What to do about missing cells: refuse the table, leave the rows out, or fill them in and mark them."""

    ERROR = "error"
    DROP = "drop"
    IMPUTE = "impute"


class Dates(StrEnum):
    """What becomes of a date: days since 1970, or those and where in the day, week and year it is."""

    ELAPSED = "elapsed"
    CYCLIC = "cyclic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the specification says about the table; see `fit_table`, which takes them."""

    target: str | None = None
    features: Sequence[str] | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    missing: str = Missing.ERROR
    missing_values: Sequence[float | str] = ()
    dates: str = Dates.ELAPSED
    unseen: str = Unseen.ERROR


def choice(kind: type[_Choice], field_name: str, value: str) -> _Choice:
    """The member of that value. InvalidRequestError naming the field and all members."""
    try:
        return kind(value)
    except ValueError:
        allowed = ", ".join(repr(member.value) for member in kind)
        raise InvalidRequestError(f"{field_name}: expected one of {allowed}, got {value!r}") from None


def _refuse_unknown(field_name: str, names: Sequence[str], table: Table) -> None:
    if names:
        raise InvalidRequestError(
            f"{field_name}: there is no column {list_names(names)}; there are {list_names(table.names)}",
            [Fault(column=name, message="no such column") for name in names],
        )


def find_target(table: Table, target: str | None) -> str:
    """The column to predict; by default the last."""
    if target is None:
        return table.names[-1]
    _refuse_unknown("target", unknown([target], table.names), table)
    return target


def find_choices(table: Table, target: str, columns: Mapping[str, str]) -> dict[str, Choice]:
    """What the columns that are named are to be."""
    _refuse_unknown("columns", unknown(columns, table.names), table)
    choices = {name: choice(Choice, f"columns.{name}", value) for name, value in columns.items()}
    if choices.pop(target, Choice.NUMBER) is not Choice.NUMBER:
        raise InvalidRequestError(f"columns: {target!r} is the target, which has to be a number")
    return choices


def find_features(table: Table, target: str, features: Sequence[str] | None) -> list[str]:
    """The columns to learn from; by default all others."""
    if features is None:
        names = [name for name in table.names if name != target]
        if not names:
            raise InvalidRequestError(f"the table has no column besides the target {target!r} to learn from")
        return names
    if not features:
        raise InvalidRequestError("features: expected at least one column name")
    _refuse_unknown("features", unknown(features, table.names), table)
    if target in features:
        raise InvalidRequestError(f"features: {target!r} is the target")
    twice = sorted({name for name in features if list(features).count(name) > 1})
    if twice:
        raise InvalidRequestError(f"features: {list_names(twice)} named twice")
    return list(features)
