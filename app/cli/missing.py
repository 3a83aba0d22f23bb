"""Missing cells in a table to train on: what may be done about them, asked on a terminal, told elsewhere."""

import typer

from app.cli.arguments import is_terminal
from app.cli.client import ClientError, ProblemError
from app.cli.display import fault_line
from app.cli.missing_advice import may_impute
from app.cli.output import wants_json

_SHOWN = 3
_MEANING = {
    "drop": "leave the rows with missing cells out, here and in what is predicted later",
    "impute": "learn from them too: a prediction integrates over what the cell may be, and its error bar is wider",
    "stop": "do nothing; correct the table",
}


def can_ask() -> bool:
    """Return whether there is a person to ask."""
    return is_terminal() and not wants_json()


def columns_with_missing(error: ClientError) -> str:
    """Return how many cells are missing and in which columns, without their places, as of a part of a table."""
    if not isinstance(error, ProblemError) or not error.faults:
        return "cells are missing"
    names = dict.fromkeys(str(fault.get("column")) for fault in error.faults)
    cells = "1 cell is" if error.total == 1 else f"{error.total:,} cells are"
    more = " and others" if error.total > len(error.faults) else ""
    return f"{cells} missing, in {', '.join(names)}{more}"


def ask_about_missing(error: ClientError, *, places: bool = True) -> str | None:
    """Ask on a terminal what is to become of missing cells; None where nobody can be asked, or who is asked stops.

    places: the refusal's lines are those of the person's file.
    """
    if not can_ask():
        return None
    told = str(error).partition("; ")[0] if places else columns_with_missing(error)
    typer.echo(f"The table has missing cells: {told}", err=True)
    if places and isinstance(error, ProblemError):
        for fault in error.faults[:_SHOWN]:
            typer.echo(f"  {fault_line(fault)}", err=True)
    *ways, last = (word for word in _MEANING if word != "impute" or may_impute(error))
    meaning = "\n".join(f"  {word:<9}{_MEANING[word]}" for word in (*ways, last))
    typer.echo(f"What is to become of them (--missing)?\n{meaning}", err=True)
    while True:
        word: str = typer.prompt(f"{', '.join(ways)} or {last}", default=ways[-1], err=True).strip().lower()
        if word == "stop":
            return None
        if word in ways:
            return word
