"""`pursuit demo`: start a service, train, predict and score, as any client could do it over HTTP."""

import math
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from app.cli import display
from app.cli.client import Client, ClientError, Json, ProblemError
from app.cli.missing import ask_about_missing, can_ask, columns_with_missing
from app.cli.missing_advice import is_about_missing
from app.cli.progress import watch
from app.cli.service import Service, start
from app.demo.scores import Scores, score, standard_error
from app.demo.table import BUNDLED, Split, split
from app.plots.predicted import predicted_against_true

INTERVAL = 0.95
SPEC: Json = {"unseen": "prior", "max_basis_size": 200}
"""Defaults of the demo: any table may have rare categories; 200 basis vectors keep it short."""
UNASKED = "impute"
"""Treatment of missing cells where nobody can be asked."""

_SHOWN_ROWS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictions:
    """Answer of /predict for the rows held back, one entry per row, in the target's unit."""

    mean: list[float]
    std: list[float]
    lower: list[float]
    upper: list[float]


def run(
    console: Console,
    *,
    file: Path | None,
    target: str | None,
    spec: Mapping[str, Any],
    picture: Path,
    keep: bool,
    port: int,
) -> Scores:
    """Start a service, train, predict and print the scores; the picture stays, and with `keep` the service.

    spec: fields that override SPEC. Raises ClientError.
    """
    if picture.suffix.lower() not in ("", ".svg"):
        raise ClientError(
            f"the picture is an SVG, which browsers show: give it a name ending in .svg, not {picture.name}"
        )
    if picture.is_dir() or not os.access(picture if picture.exists() else picture.parent, os.W_OK):
        raise ClientError(f"cannot write the picture to {picture}: choose another place with --picture")
    try:
        folder = Path(tempfile.mkdtemp(prefix="pursuit-demo-"))
    except OSError as error:
        raise ClientError(f"cannot make a folder for the demo: {error.strerror}") from None
    service = None
    kept = False
    try:
        source = file or BUNDLED
        try:
            table = split(source, folder, target=target)
        except OSError as error:
            raise ClientError(f"cannot split {source} into {folder}: {error.strerror}") from None
        _print(
            console,
            f"[bold]{escape(source.name)}[/]: {table.training_rows:,} rows to learn "
            f"[bold]{escape(table.target)}[/] from, {len(table.truth):,} rows held back",
        )
        with console.status("starting the API and a worker"):
            service = start(folder / "data", folder / "serve.log", port=port, stay=keep)
        _print(console, f"API and worker run at {service.url}")
        with service.client() as client:
            job = _train_asking(console, client, service, table, {**SPEC, **spec, "target": table.target})
            scores = _predict(console, client, table, job, picture)
        kept = keep
    finally:
        if service is not None and not kept:
            service.stop()
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
    if kept:
        _print_kept_service(console, service, folder)
    return scores


def _train_asking(console: Console, client: Client, service: Service, table: Split, spec: Json) -> Json:
    """Train; where cells are missing and nothing was said about them, explain and ask, or take UNASKED."""
    try:
        return _train(console, client, service, table, spec)
    except ClientError as error:
        if "missing" in spec or not is_about_missing(error):
            raise
        way = ask_about_missing(error, places=False) if can_ask() else UNASKED  # lines of the part that is sent
        if way is None:
            raise
        if not can_ask():
            _print(
                console,
                f"{escape(columns_with_missing(error))}: they are learnt from too (--missing {way}); "
                "--missing drop leaves such rows out",
            )
    return _train(console, client, service, table, {**spec, "missing": way})


def _train(console: Console, client: Client, service: Service, table: Split, spec: Json) -> Json:
    began = time.monotonic()
    job = client.train(table.training, spec)
    job = watch(client, job["id"], console)
    if job["state"] != "succeeded":
        error = display.job_error(job)
        if (job.get("error") or {}).get("type") == "internal":  # the log goes with the service: show its end
            error = ClientError(f"{error}\n{service.last_lines()}")
        raise error
    result: dict[str, Any] = job["result"]
    report: dict[str, Any] = result["report"]
    _print(
        console,
        f"trained [bold]{escape(str(result['model']))}[/] version {result['version']} in "
        f"{time.monotonic() - began:.1f} s: {report['basis_size']} basis vectors stand for "
        f"{table.training_rows:,} rows",
    )
    line = display.calibration(report)
    if line is not None:
        _print(console, line)
    for warning in display.first_notes(map(str, report.get("warnings") or ()), verbose=False):
        _print(console, f"[yellow]note:[/] {escape(warning)}")
    return job


def _predict(console: Console, client: Client, table: Split, job: Json, picture: Path) -> Scores:
    began = time.monotonic()
    table, answer = _answer(console, client, table, job["result"]["model"])
    seconds = time.monotonic() - began
    predictions = Predictions(**{name: answer[name] for name in ("mean", "std", "lower", "upper")})
    scores = score(table.truth, predictions.mean, predictions.std, predictions.lower, predictions.upper)
    console.print()
    _print(
        console,
        f"{len(table.truth):,} rows the model has not seen, predicted in {1000 * seconds:.0f} ms. Some:",
    )
    _rows(console, table, predictions)
    console.print()
    _print(
        console,
        f"NMSE [bold]{scores.nmse:.4f}[/]   NLPD [bold]{scores.nlpd:.3f}[/]   "
        f"{100 * INTERVAL:g}% intervals hold the truth in [bold]{scores.coverage:.1%}[/] "
        f"+- {standard_error(INTERVAL, len(table.truth)):.1%} of the rows",
    )
    try:
        _draw(table, predictions, scores, picture)
    except OSError as error:
        raise ClientError(f"cannot write the picture to {picture}: {error.strerror}") from None
    _print(console, f"picture: {escape(str(picture.resolve()))}")
    return scores


def _answer(console: Console, client: Client, table: Split, model: str) -> tuple[Split, Json]:
    """Predict the rows held back; those that the model cannot take, as they have holes that it never met, are left out.

    Raises ClientError where none is left, or where it is not the rows that are refused.
    """
    left_out: list[str] = []
    count = len(table.rows)
    while True:
        try:
            answer: Json = client.predict(model, table.held_back, interval=INTERVAL).json()
            break
        except ProblemError as error:
            faults = {fault["row"]: fault for fault in error.faults if isinstance(fault.get("row"), int)}
            if len(faults) == 0 or len(faults) == len(table.rows):
                raise
            left_out += [
                display.fault_line({**fault, "line": None, "row": table.numbers[row]}) for row, fault in faults.items()
            ]
            table = table.without(faults)
    if left_out:
        _print(
            console,
            f"[yellow]note:[/] {len(left_out)} of the {count:,} rows held back cannot be predicted; "
            f"the first is {escape(left_out[0])}",
        )
    return table, answer


def _rows(console: Console, table: Split, predictions: Predictions) -> None:
    step = max(1, len(table.truth) // _SHOWN_ROWS)
    rows = []
    for place in range(0, len(table.truth), step)[:_SHOWN_ROWS]:
        low, high, truth = predictions.lower[place], predictions.upper[place], table.truth[place]
        figures = (_figure(value, 0.5 * (high - low)) for value in (predictions.mean[place], low, high))
        rows.append(
            (table.numbers[place], display.number(truth, 12), *figures, "" if low <= truth <= high else "outside")
        )
    display.grid(console, ("row", f"true {table.target}", "mean", "from", "to", ""), rows)


def _figure(value: float, error: float) -> str:
    """A figure with the decimals that its error bar leaves room for: three digits of the bar."""
    decimals = 2 - math.floor(math.log10(error)) if error > 0 else 3
    return f"{value:.{max(0, decimals)}f}" if -4 <= decimals <= 6 else f"{value:.4g}"


def _draw(table: Split, predictions: Predictions, scores: Scores, picture: Path) -> None:
    text = predicted_against_true(
        target=table.target,
        truth=table.truth,
        mean=predictions.mean,
        lower=predictions.lower,
        upper=predictions.upper,
        interval=INTERVAL,
        scores=f"NMSE {scores.nmse:.3f}, NLPD {scores.nlpd:.2f}, {100 * scores.coverage:.1f}% inside",
    )
    picture.write_text(text, encoding="utf-8")


def _print_kept_service(console: Console, service: Service, folder: Path) -> None:
    _print(
        console,
        f"the server goes on at [bold]{service.url}[/] (docs at {service.url}/docs), its files in {folder}",
    )
    _print(console, f"to stop it: kill {service.process.pid}")


def _print(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True)
