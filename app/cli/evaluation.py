"""Output of an evaluation."""

from typing import Any

from rich.console import Console
from rich.markup import escape

from app.cli.client import Json
from app.cli.display import coverage, grid, number


def show_evaluation(console: Console, answer: Json) -> None:
    """Print the scores of all rows, of groups, and the worst rows."""
    version = "" if answer["version"] is None else f" version {answer['version']}"
    console.print(f"[bold]{escape(str(answer['model']))}[/]{version}", highlight=False, soft_wrap=True)
    without = [
        f"{answer[name]:,} {what}"
        for name, what in (
            ("rows_without_truth", "without the truth"),
            ("rows_failed", "cannot be predicted"),
            ("rows_of_weight_zero", "of weight 0"),
        )
        if answer.get(name)
    ]
    left = f" ({', '.join(without)})" if without else ""
    console.print(escape(f"{answer['rows']:,} rows of {answer['target']}{left}"), highlight=False, soft_wrap=True)
    scores: Json = answer["scores"]
    head, cells = _figures(scores)
    grid(console, head, [cells])
    if scores.get("coverage"):
        console.print()
        rows = [
            (f"{100 * float(level):g}%", coverage(scores, level), scores["mean_width"][level])
            for level in scores["coverage"]
        ]
        grid(console, ("interval", "holds", "mean width"), rows)
    groups: list[Json] = answer["groups"]
    for column in dict.fromkeys(group["column"] for group in groups):
        console.print()
        members = [group for group in groups if group["column"] == column]
        rows_of = [
            (
                "(missing)" if group["value"] is None else group["value"],
                *_figures(group)[1],
                *([coverage(group, "0.95")] if scores.get("coverage") else []),
            )
            for group in members
        ]
        grid(console, (column, *head, *(["95% holds"] if scores.get("coverage") else [])), rows_of)
    if answer["worst"]:
        console.print()
        _worst(console, answer["worst"], answer["target"])


def _figures(scores: Json) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    names = ("rows", "nmse", "rmse", "mae", "r2", *(["nlpd"] if scores.get("nlpd") is not None else []))
    heads = {"nmse": "NMSE", "rmse": "RMSE", "mae": "MAE", "r2": "R2", "nlpd": "NLPD"}
    return tuple(heads.get(name, name) for name in names), tuple(scores[name] for name in names)


def _worst(console: Console, rows: list[Json], target: str) -> None:
    """Rows with the largest errors: their lines in the file where it has lines, and their rows."""
    lined = all(row["line"] is not None for row in rows)
    barred = all(row.get("lower") is not None for row in rows)
    head = (
        *(["line"] if lined else []),
        "row",
        f"true {target}",
        "mean",
        "error",
        *(["from", "to", ""] if barred else []),
    )
    body = [
        (
            *([row["line"]] if lined else []),
            row["row"],
            number(row["target"], 6),
            number(row["mean"]),
            number(row["error"]),
            *(
                [
                    number(row["lower"]),
                    number(row["upper"]),
                    "" if row["lower"] <= row["target"] <= row["upper"] else "outside",
                ]
                if barred
                else []
            ),
        )
        for row in rows
    ]
    console.print("The worst rows (lines of the file from 1, rows from 0):" if lined else "The worst rows (from 0):")
    grid(console, head, body)
