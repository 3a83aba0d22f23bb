"""`pursuit feedback`: the truth that came out, for predictions that were kept or rows that are predicted again."""

import re
from typing import Annotated

import typer

from app.cli.arguments import open_input
from app.cli.client import ClientError, Json
from app.cli.connection import connect
from app.cli.options import DEFAULT_URL, AsJson, DataDir, InputFile, Key, Local, Url
from app.cli.output import console, note, print_json
from app.cli.truth import read_truth


def feedback(
    prediction: Annotated[
        str,
        typer.Argument(
            metavar="PREDICTION|MODEL",
            help="Id that `pursuit predict --keep-for-feedback` printed; or a model, whose version then predicts the "
            "rows of the file.",
        ),
    ],
    file: InputFile,
    column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of the truth.", show_default="the only one")
    ] = None,
    as_json: AsJson = False,
    local: Local = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    data_dir: DataDir = None,
) -> None:
    """Tell the truth of predictions, which gives live coverage and error. FILE: CSV with a header, a line for each row
    that was predicted, an empty cell where the truth is not known yet."""
    with open_input(file) as source:
        body = source.body.read()
    truth = read_truth(body, column)
    with connect(url, key, local=local, data_dir=data_dir) as client:
        if re.fullmatch("pred_[0-9a-f]{32}", prediction) is None:
            answer = client.predict(prediction, body, keep_for_feedback=True, keep="none")
            prediction = answer.json()["prediction_id"]
            if prediction is None:
                raise ClientError("the predictions were not kept: the server's database does not answer")
            note(f"kept as {prediction}: if this is cut short, repeat it with this id in place of the model")
        found = client.feedback(prediction, truth)
    if as_json:
        print_json({"prediction_id": prediction, **found})
    else:
        console().print(_told(found), highlight=False, soft_wrap=True)


def _told(found: Json) -> str:
    waiting = f"; {found['waiting']:,} rows wait for their truth" if found["waiting"] else ""
    model = f"{found['model']}@{found['version']}"
    if found["covered"] is None or not found["rows"]:
        return f"{model}: {found['rows']:,} rows counted{waiting}"
    share = found["covered"] / found["rows"]
    return f"{model}: {found['rows']:,} rows counted, {share:.1%} inside of their 95% interval{waiting}"
