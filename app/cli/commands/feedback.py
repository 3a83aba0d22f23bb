"""`pursuit feedback`: the truth that came out, for predictions that were kept or rows that are predicted again."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Annotated

import typer

from app.cli.arguments import open_input
from app.cli.client import Client, ClientError, Json, Truth
from app.cli.client_errors import ProblemError
from app.cli.connection import connect
from app.cli.options import DEFAULT_URL, AsJson, DataDir, InputFile, Key, Local, OneTarget, Url
from app.cli.output import console, note, print_json
from app.cli.truth import read_truth

_COUNTS = ("rows", "covered", "waiting")


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
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of the truth; of several targets again and again, columns with their names.",
            show_default="the only one",
        ),
    ] = None,
    target: OneTarget = None,
    as_json: AsJson = False,
    local: Local = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    data_dir: DataDir = None,
) -> None:
    """Tell the truth of predictions, which gives live coverage and error. FILE: CSV with a header, a line for each row
    that was predicted, an empty cell where the truth is not known yet."""
    columns = column or []
    if target is not None and len(columns) > 1:
        raise typer.BadParameter("it is of one column: name one with --column", param_hint="--target")
    with open_input(file) as source:
        body = source.body.read()
    kept = re.fullmatch("pred_[0-9a-f]{32}", prediction) is not None
    if kept or target is not None:
        truth = read_truth(body, columns, target=target)  # what is wrong with it is told before the server is asked
    with connect(url, key, local=local, data_dir=data_dir) as client:
        if not kept:
            with _named(prediction):
                if target is None:
                    truth = read_truth(body, columns, targets=_targets(client, prediction))
                prediction = _keep(client, prediction, body)
        found = _tell(client, prediction, truth)
    if as_json:
        print_json({"prediction_id": prediction, **found})
    else:
        console().print(_told(found), highlight=False, soft_wrap=True)
        if found.get("message"):
            note(str(found["message"]))


def _tell(client: Client, prediction: str, truth: Truth) -> dict[str, Json]:
    """Send the truth. An id alone does not tell how many targets its model has: the server does."""
    try:
        return client.feedback(prediction, truth)
    except ClientError as error:
        if isinstance(truth, list) and "lists by target" in str(error):
            raise ClientError(
                f"{error}: the predictions are of several targets; say with --target whose truth the column is, or "
                "name the columns of several, called as their targets, with --column for each"
            ) from None
        raise


@contextmanager
def _named(model: str) -> Iterator[None]:
    """Say of a model that is not there, and has a name as ids of predictions begin, what such an id is."""
    try:
        yield
    except ProblemError as error:
        if error.status != HTTPStatus.NOT_FOUND or not model.startswith("pred_"):
            raise
        detail = (
            f"{error}, and {model!r} is no whole id of predictions, which is pred_ and 32 digits or letters a to f: "
            "give it as `pursuit predict --keep-for-feedback` printed it"
        )
        raise ProblemError(error.status, {"detail": detail}, key_sent=error.key_sent) from None


def _targets(client: Client, model: str) -> list[str]:
    """Targets of a model of several; none of a model of one."""
    targets: list[str] = client.version_at(*client.resolve(model)).get("targets", [])
    return targets if len(targets) > 1 else []


def _keep(client: Client, model: str, body: bytes) -> str:
    """Id of the predictions of a file."""
    prediction: str | None = client.predict(model, body, keep_for_feedback=True, keep="none").json()["prediction_id"]
    if prediction is None:
        raise ClientError("the predictions were not kept: the server's database does not answer")
    note(f"kept as {prediction}: if this is cut short, repeat it with this id in place of the model")
    return prediction


def _told(found: Json) -> str:
    model = f"{found['model']}@{found['version']}"
    if not isinstance(found["rows"], dict):
        return f"{model}: {_counted(found['rows'], found['covered'], found['waiting'])}"
    counts = (f"{name}: {_counted(*(found[field][name] for field in _COUNTS))}" for name in found["rows"])
    return "\n".join((model, *(f"  {line}" for line in counts)))


def _counted(rows: int, covered: int | None, waiting: int) -> str:
    left = f"; {waiting:,} rows wait for their truth" if waiting else ""
    if covered is None or not rows:
        return f"{rows:,} rows counted{left}"
    return f"{rows:,} rows counted, {covered / rows:.1%} inside of their 95% interval{left}"
