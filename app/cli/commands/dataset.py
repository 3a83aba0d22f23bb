"""`pursuit dataset`: tables that the server keeps, and how each column was read."""

from typing import Annotated, Any

import typer

from app.cli import display
from app.cli.arguments import is_terminal, open_input
from app.cli.client import Json
from app.cli.connection import connect
from app.cli.options import (
    DEFAULT_URL,
    READ,
    AsJson,
    DataDir,
    InputFile,
    Key,
    Local,
    Sheet,
    Target,
    Thousands,
    Url,
    Verbose,
    Yes,
    choice,
)
from app.cli.output import console, note, print_json
from app.cli.spec_values import DECIMALS

dataset = typer.Typer(no_args_is_help=True, help="Upload tables to be kept, look at how they were read, delete them.")

Id = Annotated[str, typer.Argument(metavar="ID", help="Id of the dataset, ds_..")]
_EXAMPLES = 4


@dataset.command("list")
def list_datasets(
    as_json: AsJson = False,
    local: Local = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    data_dir: DataDir = None,
) -> None:
    """List the datasets, the newest first."""
    with connect(url, key, local=local, data_dir=data_dir) as client:
        page = client.datasets()
    if as_json:
        print_json(page)
        return
    screen = console()
    rows = [
        (one["id"], one["name"], one["rows"], one["size_bytes"], display.local_time(screen, one["created_at"]))
        for one in page["datasets"]
    ]
    display.grid(screen, ("dataset", "name", "rows", "bytes", "created"), rows, whole={"dataset"})
    display.more(screen, page)


@dataset.command()
def show(
    dataset_id: Id,
    verbose: Verbose = False,
    as_json: AsJson = False,
    local: Local = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    data_dir: DataDir = None,
) -> None:
    """Show a dataset: how each of its columns was read, and what to know about them."""
    with connect(url, key, local=local, data_dir=data_dir) as client:
        found = client.dataset(dataset_id)
    _show(found, as_json=as_json, verbose=verbose)


@dataset.command()
def upload(
    *,
    file: InputFile,
    target: Target = None,
    decimal: Annotated[
        str | None, choice(DECIMALS, "Decimal mark of numbers in text.", default="as the columns show", panel=READ)
    ] = None,
    thousands: Thousands = None,
    sheet: Sheet = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
    local: Local = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    data_dir: DataDir = None,
) -> None:
    """Upload a table, which is kept, and show how its columns were read. `pursuit predict MODEL ds_..` predicts it."""
    options = {"target": target, "decimal": decimal, "thousands": thousands, "sheet": sheet}
    with open_input(file) as source, connect(url, key, local=local, data_dir=data_dir, workers=1) as client:
        found = client.add_dataset(source.name, source.body, **options)
    _show(found, as_json=as_json, verbose=verbose)


@dataset.command()
def register(
    *,
    location: Annotated[str, typer.Argument(metavar="LOCATION", help="Folder: s3://bucket/folder/, or a path there.")],
    target: Target = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
    local: Local = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    data_dir: DataDir = None,
) -> None:
    """Make a dataset of the Parquet files of a folder that the server sees, and show how their columns were read. The
    files stay where they are; the operator allows folders (PURSUIT_DATASET_LOCATIONS)."""
    with connect(url, key, local=local, data_dir=data_dir, workers=1) as client:
        found = client.register_dataset(location, target=target)
    _show(found, as_json=as_json, verbose=verbose)


@dataset.command()
def append(
    *,
    dataset_id: Id,
    file: InputFile,
    verbose: Verbose = False,
    as_json: AsJson = False,
    local: Local = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    data_dir: DataDir = None,
) -> None:
    """Append the rows of a table with the same columns: a new dataset; the old one stays as it is. A dataset of a
    location (`register`) is not taken: write the rows as a file there, and register it again."""
    with open_input(file) as source, connect(url, key, local=local, data_dir=data_dir, workers=1) as client:
        found = client.append_dataset(dataset_id, source.name, source.body)
    _show(found, as_json=as_json, verbose=verbose)


@dataset.command()
def delete(
    dataset_id: Id,
    yes: Yes = False,
    as_json: AsJson = False,
    local: Local = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    data_dir: DataDir = None,
) -> None:
    """Delete a dataset. Models that were trained on it stay."""
    if not yes:
        if as_json or not is_terminal():
            raise typer.BadParameter("there is nobody to ask whether to delete: add --yes", param_hint="--yes")
        typer.confirm(f"Delete dataset {dataset_id} for good?", abort=True, err=True)
    with connect(url, key, local=local, data_dir=data_dir) as client:
        client.delete("datasets", dataset_id)
    if as_json:
        print_json({"deleted": [dataset_id]})
    else:
        typer.echo(f"dataset {dataset_id} is deleted")


def _show(found: Json, *, as_json: bool, verbose: bool) -> None:
    if as_json:
        print_json(found)
        return
    screen = console()
    screen.print(
        f"{found['id']}: {found['name']}, {found['rows']:,} rows", highlight=False, markup=False, soft_wrap=True
    )
    rows = [(one["name"], one["type"], one["missing"], one["distinct"], _values(one)) for one in found["columns"]]
    display.grid(screen, ("column", "read as", "missing", "distinct", "values"), rows)
    of_columns = [f"column {one['name']!r}: {text}" for one in found["columns"] for text in one["warnings"]]
    for text in display.first_notes([*of_columns, *found["warnings"]], verbose=verbose):  # cells first, then the target
        note(text)


def _values(column: Json) -> str:
    """Return what is in a column: the range of its numbers or dates, the most frequent texts, or the first cells."""
    low, high = column.get("min"), column.get("max")
    if low is not None and high is not None:
        return f"{display.number(low)} to {display.number(high)}"
    top: list[Any] = column.get("top") or []
    if top:
        return ", ".join(f"{one['value']} ({one['count']:,})" for one in top[:_EXAMPLES])
    return ", ".join(str(cell) for cell in (column.get("first") or [])[:_EXAMPLES])
