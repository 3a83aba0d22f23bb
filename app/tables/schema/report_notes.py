"""Sentences of the report on what was guessed of a table's columns, and how to say otherwise."""

from collections.abc import Iterable, Mapping

from app.tables.columns.cell_errors import list_names
from app.tables.columns.cells import quote
from app.tables.columns.date_cycles import CycleChoice
from app.tables.columns.dates import (
    TEXT_ORDERS,
    DateOrder,
    format_timestamp,
    has_short_year,
    infer_number_dates,
    looks_like_dates,
    may_be_dates,
    parse_date,
    shows_order,
)
from app.tables.columns.number_formats import MARK_NAMES, NumberFormat
from app.tables.columns.sums import ColumnSums
from app.tables.columns.table import Kind, Table
from app.tables.columns.type_inference import NUMERIC_SHARE, InferredType


def format_warnings(table: Table, number_formats: Mapping[str, NumberFormat], numbers: Iterable[str]) -> list[str]:
    """A sentence for each format that was guessed where another may be meant: groups of digits, decimal commas between
    cells that commas separate, and columns that differ. numbers: the columns that are read as numbers.
    """
    columns: dict[NumberFormat, list[str]] = {}
    for name in numbers:
        if name in number_formats and table.marks[name].has_marks:
            columns.setdefault(number_formats[name], []).append(name)
    usual = table.separator not in (None, ",") and len({number_format.decimal for number_format in columns}) == 1
    return [
        f"{'column' if len(names) == 1 else 'columns'} {list_names(names)}: {_format_sentence(number_format)}"
        for number_format, names in columns.items()
        if number_format.thousands is not None or (number_format.decimal == "," and not usual)
    ]


def _format_sentence(number_format: NumberFormat) -> str:
    parts = [] if number_format.decimal == "." else ["the decimal mark was taken to be the comma"]
    parts += (
        []
        if number_format.thousands is None
        else [f"digits were taken to be grouped by {MARK_NAMES[number_format.thousands]}"]
    )
    example = (
        "0,5 is 0.5"
        if number_format.thousands is None
        else f"1{number_format.thousands}234{number_format.decimal}5 is 1234.5"
    )
    return f'{" and ".join(parts)} ({example}); to have it otherwise, say "decimal" and "thousands" in the spec'


def cycle_warnings(name: str, choice: CycleChoice) -> list[str]:
    """Return which cycles of a date were taken in, and why."""
    if not choice.cycles:
        return []
    named = " and ".join(f"the {cycle}" for cycle in choice.cycles)
    return [
        f"column {name!r}: where in {named} a row is was taken in, which saves {choice.error_reduction:.0%} of the "
        "squared error of predicting later rows from earlier ones; to learn from elapsed time alone, say "
        '"dates": "elapsed"'
    ]


_OTHER = {DateOrder.DAY_FIRST: DateOrder.MONTH_FIRST, DateOrder.MONTH_FIRST: DateOrder.DAY_FIRST}
_BEGIN = {DateOrder.DAY_FIRST: "begin with the day", DateOrder.MONTH_FIRST: "begin with the month"}


def date_warnings(name: str, column: ColumnSums, inferred: InferredType, *, chosen: bool) -> list[str]:
    """Return what a person should know of a column of dates, or of one that looks like dates and is none.

    chosen: the specification says what the column is.
    """
    if inferred.kind is Kind.DATE:
        return [f"column {name!r}: {sentence}" for sentence in _date_sentences(name, column, inferred, chosen=chosen)]
    if chosen:
        return []
    say = f'to read it as dates, say "columns": {{"{name}": "date"}}'
    if inferred.kind is Kind.NUMBER and (order := _number_dates(column)) is not None:
        example = quote(column.levels.names()[0])
        return [
            f"column {name!r} holds numbers that look like dates ({example}, {order}) and was read as numbers; {say}"
        ]
    if inferred.kind is Kind.CATEGORY and inferred.lookalike is None:
        texts = column.levels.names()
        if looks_like_dates(texts, NUMERIC_SHARE):
            return [
                f"column {name!r} looks like dates, such as {quote(texts[0])}, but too few of its texts can be read "
                "so: it was taken for text; write YYYY-MM-DD"
            ]
    return []


def _number_dates(column: ColumnSums) -> DateOrder | None:
    """What dates its numbers can be."""
    ends = column.numbers.ends
    return infer_number_dates(column.values()) if may_be_dates(ends.low, ends.high) else None


def _date_sentences(name: str, column: ColumnSums, inferred: InferredType, *, chosen: bool) -> list[str]:
    order = inferred.order or DateOrder.YEAR_FIRST
    texts = column.levels.names()
    sentences = []
    if order not in TEXT_ORDERS:
        sentences.append(f"its numbers were read as dates ({order})")
    elif order in _OTHER and not chosen:
        shown = next((text for text in texts if shows_order(text) and parse_date(text, order) is not None), None)
        say = f'; if not, say "columns": {{"{name}": "{_OTHER[order]}"}}'
        if inferred.from_row_order:
            example = next(text for text in texts if parse_date(text, order) is not None)
            when = format_timestamp(parse_date(example, order) or 0)
            sentences.append(
                f"dates {_BEGIN[order]}, for only so are the rows in order ({quote(example)} is {when}){say}"
            )
        elif shown is not None:
            sentences.append(f"dates {_BEGIN[order]}, as {quote(shown)} shows")
    short = next((text for text in texts if has_short_year(text) and parse_date(text, order) is not None), None)
    if short is not None:
        sentences.append(
            f"years of two digits are 1969 to 2068 ({quote(short)} is "
            f"{format_timestamp(parse_date(short, order) or 0)})"
        )
    return sentences
