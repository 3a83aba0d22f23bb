"""A picture of what a training learnt, in characters: predictions against the truth, or which columns matter.

In Unicode on a terminal; in ASCII where the output is no terminal, NO_COLOR is set, or its encoding has no more.
"""

import math
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from app.cli.client import Client, ClientError, Json
from app.cli.display import number

MAX_WIDTH, HEIGHT = 72, 16
_MIN_WIDTH = 24
_MOST_BARS = 8
_CUT = 200  # the axes leave out one in so many of the values at either end


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """Characters of a picture."""

    inside: str
    outside: str
    diagonal: str
    bar: str
    upright: str
    corner: str
    level: str


UNICODE = Signs(inside="•", outside="◆", diagonal="╱", bar="█", upright="│", corner="└", level="─")
ASCII = Signs(inside="o", outside="x", diagonal="/", bar="#", upright="|", corner="+", level="-")
_STYLES = {UNICODE.inside: "blue", UNICODE.outside: "red", UNICODE.diagonal: "dim"}


def signs_for(console: Console) -> Signs:
    """Return the characters that this output is to have."""
    plain = not console.is_terminal or bool(os.environ.get("NO_COLOR")) or not console.encoding.startswith("utf")
    return ASCII if plain else UNICODE


def show_learnt(console: Console, client: Client, job: Json, *, target_given: bool, where: str) -> None:
    """Print the picture of a training that has succeeded, and what may be done next.

    where: options of these commands that say where they work.
    """
    name, version = str(job["result"]["model"]), int(job["result"]["version"])
    signs, lines, target = signs_for(console), [], None
    width = min(console.width, MAX_WIDTH)
    try:
        rows = client.held_out(name, version)
        target = rows["name"]
        lines = against_truth(rows, width, signs)
    except ClientError:  # an older server, or a model that keeps no such rows
        try:
            lines = importance_bars(client.importance(name, version), width, signs)
        except ClientError:
            lines = []
    console.print()
    for line in lines:
        _print(console, line, signs)
    if target is not None and not target_given:
        console.print(
            f"It predicts {target!r}, the last column: --target names another.", highlight=False, markup=False
        )
    targets = [*(job["result"].get("report") or {}).get("targets", ())]
    of_one = f" --target {shlex.quote(targets[0])}" if targets else ""  # the one that the picture shows
    steps = (
        ("predict new rows", f"pursuit predict {shlex.quote(name)} NEW.csv{where}"),
        ("score rows with the truth", f"pursuit evaluate {shlex.quote(name)} MORE.csv{of_one}{where}"),
        ("see all of it", f"pursuit report {shlex.quote(name)} -o {shlex.quote(name)}.html{where}"),
    )
    console.print("Next:", highlight=False)
    for what, command in steps:
        console.print(f"  {command}   # {what}", highlight=False, markup=False, soft_wrap=True)


def against_truth(rows: Json, width: int, signs: Signs) -> list[str]:
    """Return the lines of a plot of predicted against true targets of held-out rows."""
    truth, mean = rows["target"], rows["mean"]
    low, high = _limits([*truth, *mean])
    labels = [number(value, 3) for value in (high, (low + high) / 2, low)]
    margin = max(map(len, labels)) + 1
    columns = max(_MIN_WIDTH, width - margin - 2)
    cells = [[" "] * columns for _ in range(HEIGHT)]
    for place in range(columns):
        row = round((HEIGHT - 1) * place / (columns - 1))
        cells[HEIGHT - 1 - row][place] = signs.diagonal
    missed = 0
    for y, m, lower, upper in zip(truth, mean, rows["lower"], rows["upper"], strict=True):
        outside = not lower <= y <= upper
        missed += outside
        at, row = _place(y, low, high, columns), HEIGHT - 1 - _place(m, low, high, HEIGHT)
        if cells[row][at] != signs.outside:
            cells[row][at] = signs.outside if outside else signs.inside
    kind = "held-out" if rows["held_out"] else "left-out"
    level = f"{100 * rows['interval']:g}%"
    head = f"predicted {rows['name']} against the truth, {len(truth):,} {kind} rows"
    by_row = {0: labels[0], HEIGHT // 2: labels[1], HEIGHT - 1: labels[2]}
    body = [f"{by_row.get(row, ''):>{margin}}{signs.upright}{''.join(line)}".rstrip() for row, line in enumerate(cells)]
    right = f"{labels[0]:>{columns - len(labels[2])}}"
    return [
        head,
        *body,
        f"{'':>{margin}}{signs.corner}{signs.level * columns}",
        f"{'':>{margin}} {labels[2]}{right}",
        f"{signs.inside} inside of its {level} interval: {len(truth) - missed:,}   {signs.outside} outside: {missed:,}",
    ]


def importance_bars(told: Json, width: int, signs: Signs) -> list[str]:
    """Return the lines of a bar chart of the columns that move the prediction most."""
    features = told["features"][:_MOST_BARS]
    if not features:
        return []
    margin = min(max(len(feature["name"]) for feature in features), width // 3)
    most = max(feature["importance"] for feature in features) or 1.0
    space = max(8, width - margin - 12)
    lines = ["how far each column moves the prediction"]
    for feature in features:
        bar = signs.bar * max(1, round(space * feature["importance"] / most))
        lines.append(f"{feature['name'][:margin]:<{margin}} {bar} {number(feature['importance'], 3)}")
    return lines


def _limits(values: Sequence[float]) -> tuple[float, float]:
    """Return limits of both axes: all but the most extreme values."""
    ordered = sorted(values)
    cut = len(ordered) // _CUT
    low, high = ordered[cut], ordered[-1 - cut]
    return (low, high) if high > low else (low - 1.0, high + 1.0)


def _place(value: float, low: float, high: float, count: int) -> int:
    return min(count - 1, max(0, math.floor(count * (value - low) / (high - low))))


def _print(console: Console, line: str, signs: Signs) -> None:
    text = Text(line, no_wrap=True, overflow="ignore")
    if signs is UNICODE:
        for sign, style in _STYLES.items():
            text.highlight_words([sign], style)
    console.print(text, crop=False, soft_wrap=True)
