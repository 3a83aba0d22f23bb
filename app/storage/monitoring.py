"""Summaries of predictions, and of the truth that came back, by model, version and day; added up over processes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, select, update

from app.database.tables import feedback, summaries, target_feedback
from app.database.upsert import insert_or_ignore, insert_or_update

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """Rows whose truth came back in a day: how many, of these inside of their 95% interval (None without intervals),
    and the sum of the squared errors."""

    day: str
    rows: int
    with_interval: int
    covered: int
    squared_error: float


def add(
    connection: Connection,
    model: str,
    version: int,
    day: str,
    summary: Document,
    *,
    merge: Callable[[Document, Document], Document],
) -> None:
    """Add a summary to that of the day, under the row's lock."""
    c = summaries.c
    key = {"model": model, "version": version, "day": day}
    if insert_or_ignore(connection, summaries, {**key, "summary": dict(summary)}, key=[c.model, c.version, c.day]):
        return
    where = (c.model == model, c.version == version, c.day == day)
    stored = connection.execute(select(c.summary).where(*where).with_for_update()).scalar_one()
    connection.execute(update(summaries).where(*where).values(summary=dict(merge(stored, summary))))


def days(connection: Connection, model: str, version: int, *, limit: int) -> list[tuple[str, Document]]:
    """Return the newest days with their summaries, the newest first."""
    c = summaries.c
    query = select(c.day, c.summary).where(c.model == model, c.version == version).order_by(c.day.desc()).limit(limit)
    return [(row.day, row.summary) for row in connection.execute(query)]


def add_truth(connection: Connection, model: str, version: int, truth: Truth, *, place: int | None = None) -> None:
    """Add rows whose truth came back. place: of the target, from 0, in a model of several; None in one of a single."""
    table = feedback if place is None else target_feedback
    c = table.c
    numbers = {
        "rows": truth.rows,
        "with_interval": truth.with_interval,
        "covered": truth.covered,
        "squared_error": truth.squared_error,
    }
    values = {"model": model, "version": version, "day": truth.day, **numbers}
    key = [c.model, c.version, c.day]
    if place is not None:
        values["place"] = place
        key.append(c.place)
    changes = {name: c[name] + number for name, number in numbers.items()}
    insert_or_update(connection, table, values, key=key, update=changes)


def truths(connection: Connection, model: str, version: int, *, limit: int, place: int | None = None) -> list[Truth]:
    """Return what came back on the newest days, the newest first. place: as for `add_truth`."""
    table = feedback if place is None else target_feedback
    c = table.c
    query = select(table).where(c.model == model, c.version == version).order_by(c.day.desc()).limit(limit)
    if place is not None:
        query = query.where(c.place == place)
    return [
        Truth(
            day=row.day,
            rows=row.rows,
            with_interval=row.with_interval,
            covered=row.covered,
            squared_error=row.squared_error,
        )
        for row in connection.execute(query)
    ]


def remove_before(connection: Connection, day: str) -> int:
    """Remove all of the days before this one; return how many rows."""
    tables = summaries, feedback, target_feedback
    return sum(connection.execute(delete(table).where(table.c.day < day)).rowcount for table in tables)
