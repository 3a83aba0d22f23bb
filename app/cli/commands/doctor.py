"""`pursuit doctor`: is this installation able to serve, and with which settings."""

import os
from typing import Annotated

import typer
from rich.markup import escape

from app.cli import display
from app.cli.environment import read_settings
from app.cli.options import AsJson, DataDir
from app.cli.output import console, print_json

_STYLES = {"ok": "green", "warning": "yellow", "error": "bold red"}


def doctor(
    data_dir: DataDir = None,
    all_settings: Annotated[
        bool, typer.Option("--all", help="Show all settings, not only those that are set.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check settings, database, store, BLAS and threads, file limits, disk, memory and clock. Exit code 1 where
    something keeps the service from its work. Nothing is changed or made."""
    settings = read_settings(data_dir=data_dir)
    from app.services.diagnosis import diagnose

    found = diagnose(settings, os.environ)
    if as_json:
        print_json(found)
    else:
        screen = console()
        screen.print(f"Pursuit {found['version']}", highlight=False)
        for check in found["checks"]:
            hint = f" ({check['hint']})" if check["hint"] else ""
            style = _STYLES[check["state"]]
            screen.print(
                f"[{style}]{check['state']:<7}[/] {check['name']:<8} {escape(check['detail'])}[dim]{escape(hint)}[/]",
                highlight=False,
                soft_wrap=True,
            )
        shown = [one for one in found["settings"] if all_settings or one["source"] != "default"]
        if shown:
            screen.print()
            rows = [(one["name"], "" if one["value"] is None else str(one["value"]), one["source"]) for one in shown]
            display.grid(screen, ("setting", "value", "from"), rows)
    if not found["ok"]:
        raise typer.Exit(1)
