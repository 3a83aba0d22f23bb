"""Output of the commands: models, jobs, a training report, an error."""

import math
import re
import sys
from collections.abc import Container, Iterable, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any

import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from app.cli.client import KEY_VARIABLE, ClientError, Json, ProblemError, UnreachableError
from app.cli.client_errors import FaultsError
from app.cli.missing_advice import is_about_missing, missing_hint
from app.cli.output import error_document, print_json, wants_json

_MIN_WIDTH = 10
_GAP = 2  # between two columns
SHOWN_NOTES = 5
"""Notes that are shown of many."""
_NUMERIC = re.compile(r"-?[0-9.]+(e[+-]?[0-9]+)?|[0-9.]+%( \+- [0-9.]+%)?|-|nan")
KEY_HINT = f"send one with {KEY_VARIABLE} or --key"
WRONG_KEY_HINT = f"that is the key of {KEY_VARIABLE} or --key: `pursuit keys list` on the server shows which are valid"
START_HINT = "start one with `pursuit serve`, name another with --url or PURSUIT_URL, or work without one with --local"


def errors() -> Console:
    """Return standard error."""
    return Console(file=sys.stderr, soft_wrap=True, highlight=False)


def fail(error: ClientError, *, hint: bool = True) -> typer.Exit:
    """Print an error on standard error, and as a document where that is wanted; return the exception to raise, with
    its exit code."""
    console = errors()
    console.print(f"[bold red]error:[/] {escape(str(error))}")
    if isinstance(error, ProblemError):
        in_detail = error.total == 1 and all(str(fault.get("message")) in str(error) for fault in error.faults)
        for fault in () if in_detail else error.faults:
            console.print(f"  {escape(fault_line(fault))}")
        if error.total > len(error.faults):
            console.print(f"  ... {error.total} in all")
    if isinstance(error, UnreachableError) and hint:
        console.print(f"[dim]{escape(START_HINT)}[/]")
    if is_about_missing(error):
        console.print(f"[dim]{escape(missing_hint(error))}[/]")
    if isinstance(error, ProblemError) and error.status == HTTPStatus.UNAUTHORIZED:
        console.print(f"[dim]{escape(WRONG_KEY_HINT if error.key_sent else KEY_HINT)}[/]")
    if wants_json():
        refused = error if isinstance(error, ProblemError | FaultsError) else None
        print_json(
            error_document(
                str(error),
                status=None if refused is None else refused.status,
                errors=() if refused is None else refused.faults,
                total=0 if refused is None else refused.total,
            )
        )
    return typer.Exit(error.exit_code)


def fault_line(fault: Json) -> str:
    """One fault in one line: where, what stands there, what is wrong."""
    places = [f"{name} {fault[name]}" for name in ("line", "row") if fault.get(name) is not None][:1]
    if fault.get("column") is not None:
        places.append(f"column {fault['column']}")
    if fault.get("value") is not None:
        places.append(repr(fault["value"]))
    message = str(fault.get("message") or "")
    return f"{', '.join(places)}: {message}" if places else message


def number(value: object, digits: int = 4) -> str:
    """A figure for reading: `digits` significant digits, a dash for what is not there."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "-" if value is None else str(value)
    return str(value) if isinstance(value, int) else f"{value:.{digits}g}"


def grid(
    console: Console, head: Sequence[str], rows: Iterable[Sequence[object]], *, whole: Container[str] = ()
) -> None:
    """A plain table; columns of figures, and of nothing but text made of figures, to the right.

    On a terminal it is as wide as that at most: long text is folded, except figures and the columns that are to stay
    `whole`, and what does not fit even so is shown row by row. Into a pipe every row is one line, whatever its length.
    """
    body = [[number(cell) for cell in row] for row in rows]
    columns = [_Column(name, [row[place] for row in body], whole=name in whole) for place, name in enumerate(head)]
    space = console.width - _GAP * (len(head) - 1)
    if console.is_terminal and sum(column.least for column in columns) > space:
        _records(console, head, body)
        return
    widths = [column.natural for column in columns]
    while console.is_terminal and sum(widths) > space:
        place = max(range(len(widths)), key=lambda place: widths[place] * (widths[place] > columns[place].least))
        widths[place] -= 1
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column, width in zip(columns, widths, strict=True):
        table.add_column(column.name, justify="right" if column.figures else "left", overflow="fold", width=width)
    for row in body:
        table.add_row(*map(escape, row))
    table.width = sum(widths) + _GAP * (len(head) - 1)
    console.print(table, crop=False)


class _Column:
    """Widths of a column: natural, and the least that breaks no figure and nothing that is to stay whole."""

    def __init__(self, name: str, cells: Sequence[str], *, whole: bool) -> None:
        self.name = name
        self.figures = all(_NUMERIC.fullmatch(cell) for cell in cells)
        self.natural = max(map(cell_len, (name, *cells)))
        unbroken = [word for cell in cells for word in (cell.split() if self.figures else [cell])]
        least = max(map(cell_len, unbroken), default=0)
        head = min(_MIN_WIDTH, max(map(cell_len, name.split()), default=1))
        self.least = max(head, least if whole or self.figures else min(least, _MIN_WIDTH))


def _records(console: Console, head: Sequence[str], body: Sequence[Sequence[str]]) -> None:
    """A table row by row: the first cell on a line of its own, the others below it."""
    for first, *others in body:
        console.print(f"{escape(head[0])} [bold]{escape(first)}[/]", highlight=False, soft_wrap=True)
        facts = ", ".join(f"{name} {cell}".strip() for name, cell in zip(head[1:], others, strict=True) if cell)
        console.print(Padding(Text(facts), (0, 0, 0, 2)))


def local_time(console: Console, text: str) -> str:
    """A time of the server; on a terminal short and in local time: the hour of today, the date of another day."""
    try:
        time = datetime.fromisoformat(text).astimezone()
    except ValueError:
        return text
    if not console.is_terminal:
        return text
    return f"{time:%H:%M:%S}" if time.date() == datetime.now().astimezone().date() else f"{time:%Y-%m-%d}"


def report(console: Console, job: Json, *, verbose: bool = False) -> None:
    """Print the result of a job: of a training the model's name, its scores, the kinds of its columns, the warnings; of
    predictions how many there are and where."""
    result: dict[str, Any] = job.get("result") or {}
    _headline(console, result.get("model"), result.get("version"))
    if address := result.get("predictions"):
        console.print(f"{result.get('rows'):,} rows predicted: GET {address}", highlight=False, soft_wrap=True)
        for warning in result.get("warnings") or ():
            console.print(escape(f"note: {warning['message']}"), highlight=False, soft_wrap=True)
        return
    told: Json = result.get("report") or {}
    if "targets" in told:
        _targets(console, told["targets"])
    _facts(console, told, verbose=verbose)


def _targets(console: Console, reports: Json) -> None:
    """Scores of each of several targets, and with which it shares hyperparameters; what follows is of the first."""
    rows = []
    for name, told in reports.items():
        scores: Json = told.get("holdout") or told.get("leave_one_out") or {}
        shared = ", ".join(told["sharing"]["with"]) or "none"
        rows.append((name, f"{told['rows']:,}", number(scores.get("nmse")), number(scores.get("nlpd")), shared))
    grid(console, ("target", "rows", "NMSE", "NLPD", "shares hyperparameters with"), rows)


def version(console: Console, details: Json, *, verbose: bool = False) -> None:
    """Print the details of one version."""
    _headline(console, details["model"], details["version"])
    aliases = f", {', '.join(details['aliases'])}" if details["aliases"] else ""
    facts = f"created {details['created_at']}{aliases}; {details['size_bytes']:,} bytes"
    console.print(escape(facts), highlight=False, soft_wrap=not console.is_terminal)
    _facts(console, details["report"], verbose=verbose)


def _headline(console: Console, model: object, numbered: object) -> None:
    console.print(f"[bold]{escape(str(model))}[/] version {numbered}", highlight=False, soft_wrap=True)


def _facts(console: Console, facts: Json, *, verbose: bool) -> None:
    """A training's report. verbose: all notes, however many."""
    of = f", of version {facts['scores_of']}" if "scores_of" in facts else ""
    grid(
        console,
        ("scored on", "rows", "NMSE", "RMSE", "NLPD", "95% coverage"),
        [
            (
                label,
                scores.get("rows"),
                scores.get("nmse"),
                scores.get("rmse"),
                scores.get("nlpd"),
                coverage(scores, "0.95"),
            )
            for label, scores in (
                (f"rows held out{of}", facts.get("holdout")),
                (f"leave one out{of}", facts.get("leave_one_out")),
            )
            if scores
        ],
    )
    for line in (
        kernel(facts),
        calibration(facts),
        weights(facts),
        missing_cells(facts, verbose=verbose),
        *columns(facts),
    ):
        if line is not None:
            console.print(escape(line), highlight=False, soft_wrap=not console.is_terminal)
    for warning in first_notes(map(str, facts.get("warnings") or ()), verbose=verbose):
        console.print(f"[yellow]note:[/] {escape(warning)}", highlight=False, soft_wrap=not console.is_terminal)


def kernel(facts: Json) -> str | None:
    """The kernel of a report, the size of its basis and the rows of a mean that does not rest on it, in one line; None
    for a report that does not tell."""
    family, size = facts.get("kernel"), facts.get("basis_size")
    artefact = facts.get("artefact") or {}
    rows = artefact.get("mean_rows")
    if family is not None and artefact.get("variance") == "near":
        return f"kernel {family}, a full process on {rows:,} rows"
    mean = "" if rows is None or rows == size else f", mean of {rows:,} rows"
    return None if family is None or size is None else f"kernel {family}, {size:,} basis vectors{mean}"


def weights(facts: Json) -> str | None:
    """Return which rows' error bars a report with weights has, and how many rows these amount to, in one line; None
    where all rows count the same."""
    found = facts.get("weights")
    if not found:
        return None
    return (
        f"weights by {found['column']}, {number(found['least'])} to {number(found['greatest'])}: error bars are those "
        f"of a row of mean weight, {number(found['mean'])}; {facts['rows']:,} rows say as much as "
        f"{number(float(found['effective_rows']), 3)} of equal weight"
    )


def first_notes(notes: Iterable[str], *, verbose: bool) -> list[str]:
    """Return the notes that are shown: all, or of many the first few and how many more there are."""
    given = list(notes)
    if verbose or len(given) <= SHOWN_NOTES + 1:
        return given
    return [*given[:SHOWN_NOTES], f"and {len(given) - SHOWN_NOTES:,} more notes: --verbose, or --json"]


def _first_few(names: Sequence[str], *, verbose: bool) -> str:
    if verbose or len(names) <= SHOWN_NOTES + 1:
        return ", ".join(names)
    return f"{', '.join(names[:SHOWN_NOTES])} and {len(names) - SHOWN_NOTES:,} more columns"


def missing_cells(facts: Json, *, verbose: bool = False) -> str | None:
    """Treatment of the missing cells of a report in one line; None for a table without any, or that may have none."""
    facts = facts.get("missing") or {}
    if not facts.get("cells"):
        return None
    ways: dict[str, list[str]] = {}
    for name, column in facts["columns"].items():
        ways.setdefault(column["treated"], []).append(f"{name} ({column['cells']:,})")
    treated = "; ".join(f"{way}: {_first_few(names, verbose=verbose)}" for way, names in ways.items())
    found = f"{facts['cells']:,} missing cells in {facts['rows']:,} rows, {treated}"
    if not facts["rows_left_out"]:
        return found
    inside = coverage(facts["left_out"] or {}, "0.95")
    return f"{found}; {facts['rows_left_out']:,} rows not learnt from" + (
        "" if inside is None else f", {inside} of them within their 95% interval"
    )


def columns(facts: Json) -> list[str]:
    """Columns of a report by kind, a line for each kind."""
    kinds: dict[str, list[str]] = {}
    for column in facts.get("columns") or ():
        levels = column.get("levels")
        others = " and others" if column.get("others_grouped") else ""
        details = [f"{len(levels)} levels{others}"] if levels else []
        if column.get("missing_replaced_by") is not None and column["kind"] == "number":
            details.append(f"{number(column['missing_replaced_by'])} where missing")
        if column.get("missing") == "marked":
            details.append("missing cells marked")
        kinds.setdefault(column["kind"], []).append(column["name"] + (f" ({', '.join(details)})" if details else ""))
    lines = [f"read as {kind}: {', '.join(names)}" for kind, names in kinds.items() if kind != "unused"]
    return lines + ([f"left out: {', '.join(kinds['unused'])}"] if "unused" in kinds else [])


def coverage(scores: Json, level: str) -> str | None:
    """The share of rows inside their intervals of a level, with its standard error; None where that is not told."""
    share = (scores.get("coverage") or {}).get(level)
    if share is None:
        return None
    error = (scores.get("coverage_standard_error") or {}).get(level)
    return f"{share:.1%}" if error is None else f"{share:.1%} +- {error:.1%}"


def calibration(facts: Json) -> str | None:
    """Calibration of a report's error bars in one line; None for a report without one."""
    used: Json | None = facts.get("calibration")
    if used is None:
        return None
    if not used["rows"]:
        return "error bars are not calibrated: intervals are those of a normal distribution"
    factors = f"latent variance x {used['latent_scale']:.3g}, noise x {used['noise_scale']:.3g}"
    most, freedom = used["most_level"], used.get("tail_freedom")
    tail = "" if freedom is None else f"by a t distribution of {freedom:.3g} degrees of freedom"
    ranks = f"intervals up to {math.floor(1000 * most) / 10:g}%{' by rank, beyond ' if tail else ''}"
    reach = (ranks if 0 < most < 1 else "all intervals " if tail else "too few for intervals of their own") + tail
    varies = "" if used["noise_gain"] is None else "; the noise varies with the inputs"
    return f"error bars calibrated by {used['by']} on {used['rows']:,} rows: {factors}; {reach}{varies}"


def job_error(job: Json) -> ClientError:
    """The reason why a job did not succeed, in the server's words."""
    error = job.get("error") or {}
    if job["state"] != "failed":
        return ClientError(f"job {job['id']} was {job['state']}")
    return ClientError(f"job {job['id']} failed: {error.get('message') or 'no reason was recorded'}")


def cancelled(console: Console, job: Json) -> None:
    """Print the state of a job after a request to cancel it. Raises ClientError if it has ended otherwise."""
    if job["state"] in {"succeeded", "failed"}:
        raise ClientError(f"job {job['id']} has {job['state']}: there is nothing to cancel")
    if job["state"] == "cancelled":
        console.print(f"{job['id']} is cancelled", highlight=False, soft_wrap=True)
    else:
        message = f"{job['id']} will be cancelled, and is still {job['state']}: see `pursuit jobs {job['id']}`"
        console.print(message, highlight=False, soft_wrap=True)


def models(console: Console, page: Json) -> None:
    """A page of models."""
    rows = [
        (item["name"], item["latest"], item["versions"], local_time(console, item["created_at"]))
        for item in page["models"]
    ]
    grid(console, ("model", "latest", "versions", "created"), rows)
    more(console, page)


def versions(console: Console, model: Json) -> None:
    """The versions of one model, the newest first."""
    rows = []
    for item in model["versions"]:
        summary: Json = item["summary"]
        scores: Json = summary.get("holdout") or summary.get("leave_one_out") or {}
        aliases = ", ".join(item["aliases"])
        target = ", ".join(summary.get("target_names") or [str(summary.get("target"))])
        of = f" (version {summary['scores_of']})" if scores and "scores_of" in summary else ""
        told = (f"{number(scores.get(name))}{of}" if of else scores.get(name) for name in ("nmse", "nlpd"))
        facts = (target, summary.get("basis_size"), *told)
        rows.append((item["version"], aliases, *facts, local_time(console, item["created_at"])))
    grid(console, ("version", "aliases", "target", "basis", "NMSE", "NLPD", "created"), rows)
    more(console, model)


def jobs(console: Console, page: Json) -> None:
    """A page of jobs, the newest first."""
    rows = [
        (
            item["id"],
            item.get("kind", "train"),
            item["model"],
            item["state"],
            f"{100 * fraction(item):.0f}%",
            local_time(console, item["created_at"]),
        )
        for item in page["jobs"]
    ]
    grid(console, ("job", "kind", "model", "state", "done", "created"), rows, whole={"job", "state"})
    more(console, page)


def fraction(job: Json) -> float:
    """Fraction of a job that is done, 0 to 1."""
    if job["state"] == "succeeded":
        return 1.0
    return float((job.get("progress") or {}).get("fraction") or 0.0)


def more(console: Console, page: Json) -> None:
    """Tell that a page is not the last one."""
    if page.get("next_cursor"):
        console.print("[dim]there are more: ask the API for the next page[/]")
