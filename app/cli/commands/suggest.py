"""`pursuit suggest`: which rows to measure next."""

import json
from typing import Annotated, Any

import typer

from app.cli import display
from app.cli.client import Json
from app.cli.connection import connect
from app.cli.options import DEFAULT_URL, AsJson, DataDir, Key, Local, OneTarget, Reference, Url, choice
from app.cli.output import console, print_json
from app.cli.spec_values import CRITERIA, GOALS


def suggest(
    *,
    model: Reference,
    range_: Annotated[
        list[str] | None,
        typer.Option(
            "--range",
            metavar="COLUMN=LOW..HIGH",
            help="Values to try of a column: LOW..HIGH, A,B,C or one; may be repeated.",
            show_default="as in the training rows",
        ),
    ] = None,
    criterion: Annotated[str | None, choice(CRITERIA, "What makes a row worth measuring.", default="variance")] = None,
    goal: Annotated[str | None, choice(GOALS, "What improvement is.", default="max")] = None,
    best: Annotated[
        float | None,
        typer.Option(metavar="NUMBER", help="What improvement has to beat.", show_default="the best mean so far"),
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=100, metavar="NUMBER", help="How many rows.")] = 5,
    candidates: Annotated[
        int, typer.Option(min=1, max=5_000, metavar="NUMBER", help="How many rows are looked at.")
    ] = 1_000,
    seed: Annotated[int, typer.Option(min=0, metavar="NUMBER", help="Of the candidates.")] = 0,
    target: OneTarget = None,
    as_json: AsJson = False,
    local: Local = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    data_dir: DataDir = None,
) -> None:
    """Suggest rows to measure next: those after which the model knows most, or those that may be the best yet."""
    question: Json = {"ranges": _ranges(range_ or []), "count": count, "candidates": candidates, "seed": seed}
    more = {"criterion": criterion, "goal": goal, "best": best, "target": target}
    question |= {name: value for name, value in more.items() if value is not None}
    with connect(url, key, local=local, data_dir=data_dir) as client:
        found = client.suggest(model, question)
    if as_json:
        print_json(found)
        return
    screen = console()
    names = list(found["suggestions"][0]["row"]) if found["suggestions"] else []
    rows = [
        (
            *(_shown(one["row"][name]) for name in names),
            *(display.number(one[name]) for name in ("mean", "std", "gain")),
        )
        for one in found["suggestions"]
    ]
    display.grid(screen, (*names, "mean", "std", "gain"), rows)
    if region := found.get("region"):
        before, after = region["latent_std_before"], region["latent_std_after"]
        screen.print(
            f"error bar of the mean over {region['rows']:,} rows: {display.number(before)} now, "
            f"{display.number(after)} once these are measured",
            highlight=False,
            soft_wrap=True,
        )


def _shown(value: Any) -> str:
    """A value to set something to, with more digits than a result."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _ranges(given: list[str]) -> Json:
    """Ranges by column. BadParameter for what is none."""
    found: Json = {}
    for text in given:
        name, equals, values = text.partition("=")
        if not (name and equals and values):
            raise typer.BadParameter(f"expected COLUMN=LOW..HIGH or COLUMN=A,B; got {text!r}", param_hint="--range")
        low, dots, high = values.partition("..")
        if dots:
            try:
                found[name] = [float(low), float(high)]
            except ValueError:
                raise typer.BadParameter(
                    f"expected numbers at both ends; got {values!r}", param_hint="--range"
                ) from None
        else:
            found[name] = {"values": [_cell(value.strip()) for value in values.split(",")]}
    return found


def _cell(text: str) -> Any:
    """A number or true or false, else the text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, int | float) else text
