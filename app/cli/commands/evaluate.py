"""`pursuit evaluate`: how good a model is on rows whose truth is known."""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.arguments import open_input
from app.cli.client import Json
from app.cli.connection import connect
from app.cli.evaluation import show_evaluation
from app.cli.options import (
    DEFAULT_URL,
    STANDARD,
    AsJson,
    DataDir,
    InputFile,
    Key,
    Local,
    ModelOrFile,
    OneTarget,
    Url,
    choice,
)
from app.cli.output import console, note, print_json
from app.cli.spec_values import ON_ERROR


def evaluate(
    *,
    model: ModelOrFile,
    file: InputFile,
    by: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Score the groups of this column too; may be repeated."),
    ] = None,
    worst: Annotated[int, typer.Option(min=0, max=1_000, help="How many of the worst rows are shown.")] = 10,
    on_error: Annotated[
        str | None,
        choice(ON_ERROR, "Rows that cannot be predicted: refuse the table, or leave them out.", default="refuse"),
    ] = None,
    target: OneTarget = None,
    as_json: AsJson = False,
    local: Local = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    data_dir: DataDir = None,
) -> None:
    """Score a model on a table that has the column of the target: NMSE, RMSE, MAE, R2, NLPD, coverage by level, groups
    and the worst rows. MODEL is one of a server, or an artefact file, which needs none."""
    with open_input(file) as source:
        body = source.body.read()
    artefact = Path(model)
    if artefact.is_file() or artefact == STANDARD:
        from app.cli import local_models

        with open_input(artefact) as source:
            found = local_models.evaluate(
                source.body.read(), body, by=by or (), worst=worst, on_error=on_error, target=target
            )
        answer: Json = {"model": model, "version": None, **found}
    else:
        with connect(url, key, local=local, data_dir=data_dir) as client:
            answer = client.evaluate(model, body, by=by or (), worst=worst, on_error=on_error, target=target)
    if as_json:
        print_json(answer)
        return
    show_evaluation(console(), answer)
    for warning in answer["warnings"]:
        note(warning)
