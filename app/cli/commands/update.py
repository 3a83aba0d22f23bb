"""`pursuit update`: new rows for a model that is there, a version out."""

from typing import Annotated

import typer
from rich.markup import escape

from app.cli.arguments import split_values
from app.cli.client import Json
from app.cli.commands.train import opened
from app.cli.connection import connect
from app.cli.options import DEFAULT_URL, AsJson, DataDir, Key, Local, Reference, TableOrDataset, Url
from app.cli.output import console, note, print_json
from app.cli.progress import wait_for_end
from app.cli.spec_values import MOST_FORGOTTEN

_MOST_PLACES = 10
"""Places of rows that a line lists."""


def update(
    *,
    model: Reference,
    file: TableOrDataset,
    extra_basis: Annotated[
        int, typer.Option(min=0, max=1_000, metavar="NUMBER", help="Basis vectors to add from the new rows.")
    ] = 0,
    forget: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROW[,ROW..]",
            help="Rows to forget, by number: of the table that was trained on, and of updates after it; 3-9: a range.",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option(help="Show the progress until the job has ended.")] = True,
    as_json: AsJson = False,
    local: Local = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    data_dir: DataDir = None,
) -> None:
    """Add rows with their truth to a model without training it again: the next version, and whether a training pays.
    Datasets of a location (`pursuit dataset register`) are not taken: upload their rows as one file."""
    if local and not wait:
        raise typer.BadParameter("--local has nobody to go on with the job: leave out --no-wait", param_hint="--local")
    spec: Json = {"extra_basis": extra_basis, "forget": _row_numbers(forget)}
    screen = console()
    with opened(file) as source, connect(url, key, local=local, data_dir=data_dir, workers=1) as client:
        if isinstance(source, str):
            job = client.update_by_dataset(model, source, spec)
        else:
            job = client.update(model, source.name, source.body, spec)
        if wait:
            job = wait_for_end(client, job, screen, local=local)
    if as_json:
        print_json(job)
    elif not wait:
        screen.print(f"{job['id']} is {job['state']}: see `pursuit jobs {job['id']}`", highlight=False, soft_wrap=True)
    else:
        report = job["result"]["report"]
        targets = {name: each["update"] for name, each in report.get("targets", {}).items()}
        head = f"{job['result']['model']} version {job['result']['version']}"
        lines = [f"  {name}: {_told(told)}" for name, told in targets.items()]
        text = "\n".join([head, *lines]) if lines else f"{head}: {_told(report['update'])}"
        screen.print(escape(text), highlight=False, soft_wrap=True)
        for name, told in (targets or {"": report["update"]}).items():
            for reason in told["drift"]["reasons"]:
                note(f"a full training may pay{name and f' for {name}'}: {reason}")


def _told(told: Json) -> str:
    copied = f"{told['rows_copied']:,} copies left out, " if told.get("rows_copied") else ""
    return (
        f"{told['rows_added']:,} rows added, {copied}{_left_out(told)}{told['rows_forgotten']:,} forgotten, "
        f"{told['basis_added']:,} basis vectors added"
    )


def _left_out(told: Json) -> str:
    """Words on rows that were left out for an empty cell; nothing without."""
    if not told.get("rows_left_out"):
        return ""
    found, count = told["left_out"], told["rows_left_out"]
    noun, places = ("line", found["lines"]) if found["lines"] else ("row", found["rows"])
    shown = ", ".join(f"{each:,}" for each in places[:_MOST_PLACES])
    more = f" and {count - _MOST_PLACES:,} more" if count > _MOST_PLACES else ""
    return f"{count:,} left out: empty {', '.join(found['columns'])} in {noun}{'s' * (count > 1)} {shown}{more}; "


def _row_numbers(given: list[str] | None) -> list[int]:
    """Row numbers and ranges of them. BadParameter for anything else, and for more than the server takes."""
    numbers: list[int] = []
    for word in split_values(given, "--forget"):
        first, dash, last = word.partition("-")
        ends = (first, last) if dash else (first, first)
        if not all(end.isascii() and end.isdigit() for end in ends) or int(ends[1]) < int(ends[0]):
            raise typer.BadParameter(f"expected row numbers, such as 3 or 3-9; got {word!r}", param_hint="--forget")
        found = range(int(ends[0]), int(ends[1]) + 1)
        if len(numbers) + found.stop - found.start > MOST_FORGOTTEN:
            raise typer.BadParameter(
                f"expected up to {MOST_FORGOTTEN:,} rows; got more with {word!r}", param_hint="--forget"
            )
        numbers += found
    return numbers
