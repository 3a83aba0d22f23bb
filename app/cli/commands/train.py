"""`pursuit train`: a table in, a model out, and a picture of what it learnt."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from app.cli import display
from app.cli.addresses import is_dataset
from app.cli.arguments import InputSource, json_object, open_input, table_file
from app.cli.client import Client, ClientError, Json
from app.cli.connection import connect
from app.cli.missing import ask_about_missing
from app.cli.missing_advice import is_about_missing
from app.cli.options import (
    DEFAULT_URL,
    READ,
    AsJson,
    DataDir,
    Key,
    Local,
    Sheet,
    Spec,
    TableOrDataset,
    Targets,
    Thousands,
    Url,
    Verbose,
    choice,
    repeated_options,
)
from app.cli.output import console, print_json
from app.cli.picture import show_learnt
from app.cli.progress import wait_for_end
from app.cli.spec_values import DECIMALS, EFFORTS, KERNELS, MEAN_ROWS, METHODS, MISSING

MODEL = "What is trained"
MissingOption = Annotated[
    str | None,
    choice(
        MISSING,
        "Missing cells: refuse the table, leave the rows out, or integrate over what they may be.",
        "--missing",
        default="error; a terminal is asked",
        panel=READ,
    ),
]


def train(
    *,
    file: TableOrDataset,
    target: Targets = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name to publish under.", show_default="the file's stem")
    ] = None,
    missing: MissingOption = None,
    method: Annotated[
        str | None, choice(METHODS, "How basis vectors are chosen.", default="batch", panel=MODEL)
    ] = None,
    basis_size: Annotated[
        str | None, choice(("auto",), "How many basis vectors.", default="auto", number=True, panel=MODEL)
    ] = None,
    effort: Annotated[
        str | None, choice(EFFORTS, "How many models are compared.", default="normal", panel=MODEL)
    ] = None,
    kernel: Annotated[str | None, choice(KERNELS, "Kernel.", default="auto", panel=MODEL)] = None,
    mean_rows: Annotated[
        str | None, choice(MEAN_ROWS, "Rows that the mean rests on.", default="auto", number=True, panel=MODEL)
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of what rows belong to, if new rows will belong to others.",
            show_default="none",
            rich_help_panel=READ,
        ),
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of dates or numbers, if new rows will be later ones.",
            show_default="none",
            rich_help_panel=READ,
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of how much each row counts; a larger weight is a smaller noise variance.",
            show_default="all the same",
            rich_help_panel=READ,
        ),
    ] = None,
    decimal: Annotated[
        str | None, choice(DECIMALS, "Decimal mark of numbers in text.", default="as the columns show", panel=READ)
    ] = None,
    thousands: Thousands = None,
    sheet: Sheet = None,
    origin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="MODEL",
            help="Begin at the hyperparameters and basis vectors of a model: name, name@3 or name@alias.",
            show_default="none",
            rich_help_panel=MODEL,
        ),
    ] = None,
    spec: Spec = "{}",
    wait: Annotated[bool, typer.Option(help="Show the progress until the job has ended.")] = True,
    verbose: Verbose = False,
    as_json: AsJson = False,
    local: Local = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    data_dir: DataDir = None,
) -> None:
    """Train a model on a table: CSV, JSON Lines, Parquet, Arrow or Excel, plain, gzip or zstd."""
    fields = json_object(spec)
    size, rows = (
        int(text) if text is not None and re.fullmatch("-?[0-9]+", text) else text for text in (basis_size, mean_rows)
    )
    asked = target[0] if target is not None and len(target) == 1 else target or None
    given = {"target": asked, "model": model, "method": method, "basis_size": size, "missing": missing}
    given |= {"effort": effort, "kernel": kernel, "mean_rows": rows}
    given |= {"groups": groups, "order": order, "weights": weights}
    given |= {"decimal": decimal, "thousands": thousands, "sheet": sheet}
    fields |= {name: value for name, value in given.items() if value is not None}
    if local and not wait:
        raise typer.BadParameter("--local has nobody to go on with the job: leave out --no-wait", param_hint="--local")
    screen = console()
    with opened(file) as source, connect(url, key, local=local, data_dir=data_dir, workers=1) as client:
        while True:
            try:
                job = _train(client, source, fields, origin, wait=wait, local=local)
                break
            except ClientError as error:
                if "missing" in fields or not is_about_missing(error) or not (way := ask_about_missing(error)):
                    raise
                fields["missing"] = way
        if as_json:
            print_json(job)
        elif not wait:
            screen.print(
                f"{job['id']} is {job['state']}: see `pursuit jobs {job['id']}`", highlight=False, soft_wrap=True
            )
        else:
            display.report(screen, job, verbose=verbose)
            show_learnt(
                screen,
                client,
                job,
                where=repeated_options(local=local, url=url, data_dir=data_dir),
                target_given="target" in fields,
            )


@contextmanager
def opened(table: str) -> Iterator[InputSource | str]:
    """Open a file to train on; the id of a dataset stays what it is."""
    if is_dataset(table):
        yield table
    else:
        with open_input(table_file(table)) as source:
            yield source


def _train(
    client: Client, source: InputSource | str, fields: Json, origin: str | None, *, wait: bool, local: bool
) -> Json:
    """Train and wait for the end, unless that is not wanted; return the job. ClientError where it does not succeed."""
    if isinstance(source, str):
        job = client.train_dataset(source, fields, origin=origin)
    else:
        source.body.seek(0)
        job = client.train_on(source.name, source.body, fields, origin=origin)
    return wait_for_end(client, job, console(), local=local) if wait else job
