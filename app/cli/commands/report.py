"""`pursuit report`: a version as one HTML file, with its plots inside."""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.arguments import open_input, write_content
from app.cli.connection import connect
from app.cli.options import DEFAULT_URL, STANDARD, AsJson, DataDir, FirstTarget, Key, Local, ModelOrFile, Url
from app.cli.output import print_json


def report(
    model: ModelOrFile,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write here; -: standard output.", show_default="NAME.html"
        ),
    ] = None,
    target: FirstTarget = None,
    as_json: AsJson = False,
    local: Local = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    data_dir: DataDir = None,
) -> None:
    """Write a report of a version: one HTML file with predicted against true, reliability, residuals, importance,
    scores, columns and how it was trained. MODEL is one of a server, or an artefact file, which needs none."""
    if output == STANDARD and as_json:
        raise typer.BadParameter("with --json standard output is for the document: name a file", param_hint="--output")
    artefact = Path(model)
    if artefact.is_file() or artefact == STANDARD:
        from app.cli import local_models

        name, version = artefact.stem if artefact != STANDARD else "model", None
        with open_input(artefact) as source:
            page = local_models.report(source.body.read(), name, target)
    else:
        with connect(url, key, local=local, data_dir=data_dir) as client:
            name, version = client.resolve(model)
            page = client.report(name, version, target)
    place = output or Path(f"{name}.html")
    write_content(place, page)
    if as_json:
        print_json({"model": name, "version": version, "output": str(place), "size_bytes": len(page)})
    elif place != STANDARD:
        typer.echo(f"the report is in {place}: open it in a browser")
