"""`pursuit predict`: the rows of a table, by a version of a model."""

from collections.abc import Mapping
from typing import Annotated

import typer

from app.cli import display
from app.cli.addresses import is_dataset
from app.cli.arguments import (
    FORMS,
    levels,
    media_type,
    numbers,
    open_input,
    refuse_terminal,
    split_words,
    table_file,
    write_content,
)
from app.cli.client import Json
from app.cli.connection import connect
from app.cli.options import DEFAULT_URL, AsJson, DataDir, Key, Local, Output, Reference, TableOrDataset, Url, choice
from app.cli.output import console, note, print_json
from app.cli.progress import wait_for_end
from app.cli.spec_values import AGGREGATES, EXTRAS, KEEP, ON_ERROR, OVER

_TEXT = frozenset((FORMS["csv"], FORMS["json"]))


def predict(
    *,
    model: Reference,
    table: TableOrDataset,
    interval: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LEVEL[,LEVEL..]|false",
            help="Coverage of lower and upper; may be repeated. false: the mean alone.",
            show_default="0.95",
        ),
    ] = None,
    quantile: Annotated[
        list[str] | None, typer.Option(metavar="P[,P..]", help="Probabilities of quantiles to add; may be repeated.")
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[,NAME..]",
            help=f"More columns: {', '.join(EXTRAS)}; may be repeated.",
            autocompletion=lambda: list(EXTRAS),
        ),
    ] = None,
    keep: Annotated[
        str | None,
        choice(KEEP, "Columns of the table to keep: none, others (as an id), or all.", default="others"),
    ] = None,
    on_error: Annotated[
        str | None,
        choice(ON_ERROR, "Rows that cannot be predicted: refuse the table, or leave them empty.", default="refuse"),
    ] = None,
    aggregate: Annotated[
        str | None,
        choice(AGGREGATES, "One total of all rows in place of the rows, with an error bar of its own.", default="none"),
    ] = None,
    over: Annotated[
        str | None,
        choice(
            OVER, "What that total is over, of several targets: rows, the targets of each row, or both.", default="rows"
        ),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="NUMBER", help="Draws over all rows together to add: sample_0, ..", show_default="0"
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, metavar="NUMBER", help="Of the draws.", show_default="0")] = None,
    keep_for_feedback: Annotated[
        bool,
        typer.Option(
            "--keep-for-feedback", help="Keep them on the server, so that `pursuit feedback` tells the truth."
        ),
    ] = False,
    form: Annotated[
        str | None,
        choice(
            tuple(FORMS),
            "Form of the predictions; those of a dataset are parquet alone.",
            "--format",
            default="by the name of the output, else csv",
        ),
    ] = None,
    output: Output = None,
    as_json: AsJson = False,
    local: Local = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    data_dir: DataDir = None,
) -> None:
    """Predict the rows of a table: mean, standard deviation, intervals and quantiles. Those of a dataset by a job, as
    Parquet."""
    to_file = output is not None and str(output) != "-"
    if as_json and not to_file:
        if form not in (None, "json"):
            raise typer.BadParameter(
                "with --json standard output is for the document: name a file with --output", param_hint="--format"
            )
        form = "json"
    options: Json = {
        "interval": levels(interval, "--interval"),
        "quantiles": numbers(quantile, "--quantile"),
        "include": split_words(include, EXTRAS, "--include"),
        "on_error": on_error,
        "keep": keep,
        "aggregate": aggregate,
        "over": over,
        "samples": samples,
        "seed": seed,
    }
    found: Json = {}
    dataset = is_dataset(table)
    if dataset and as_json and not to_file:
        raise typer.BadParameter(
            "the predictions of a dataset are a Parquet file: name it with --output", param_hint="--json"
        )
    accept = media_type(form, output, is_dataset=dataset)
    if accept not in _TEXT:
        refuse_terminal(output)
    if dataset:
        with connect(url, key, local=local, data_dir=data_dir, workers=1) as client:
            screen = console() if as_json else display.errors()
            asked = options | ({"keep_for_feedback": True} if keep_for_feedback else {})
            job = wait_for_end(client, client.predict_dataset(model, table, asked), screen, local=local)
            told = _told(job["result"])
            prediction = job["result"].get("prediction_id")
            content = client.predictions(job["id"])
    else:
        with open_input(table_file(table)) as source:
            body = source.body.read()
        with connect(url, key, local=local, data_dir=data_dir) as client:
            answer = client.predict(model, body, accept=accept, keep_for_feedback=keep_for_feedback, **options)
            content = answer.content
            found = answer.json() if accept == FORMS["json"] else {}
            told = _told(found) if found else _told_by_headers(answer.headers, model)
            prediction = found.get("prediction_id") if found else answer.headers.get("x-prediction-id")
    if keep_for_feedback:
        told["prediction_id"] = prediction
        note(
            "the database of the server did not keep the predictions"
            if prediction is None
            else f"the predictions wait for their truth: pursuit feedback {prediction} FILE --column COLUMN "
            "(of several targets: --target NAME, or --column for each)"
        )
    for warning in told["warnings"]:
        note(warning)
    if as_json and not to_file:
        print_json(found)
        return
    write_content(output, content)
    if as_json:
        print_json({**told, "output": str(output), "size_bytes": len(content)})


def _told(answer: Json) -> Json:
    """Return the version that predicted and its warnings, out of a JSON answer or the result of a job."""
    warnings = [warning["message"] for warning in answer.get("warnings", ())]
    return {"model": f"{answer['model']}@{answer['version']}", "warnings": warnings}


def _told_by_headers(headers: Mapping[str, str], model: str) -> Json:
    """Return the same out of the headers of a file. model: as it was asked for, where they do not say."""
    return {
        "model": headers.get("x-model", model),
        "warnings": [headers["x-warnings"]] if "x-warnings" in headers else [],
    }
