"""The settings of the servers' commands: the environment, under the command line."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from app.settings import Settings


def read_settings(**given: Any) -> "Settings":
    """Read the settings, those that are given first. Ends the program with one line where they are wrong."""
    from pydantic import ValidationError

    from app.settings import Settings

    try:
        from app import posix  # noqa: F401  says where the service runs

        Path.cwd()  # a relative folder begins there
    except ImportError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    except FileNotFoundError:
        typer.echo("error: the current folder does not exist any more: go to another one", err=True)
        raise typer.Exit(1) from None
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        lines = []
        for fault in error.errors():
            field = str(fault["loc"][0])
            name = f"PURSUIT_{field.upper()}" if given.get(field) is None else f"--{field.replace('_', '-')}"
            lines.append(f"{name}: {fault['msg'].removeprefix('Value error, ')}")
        typer.echo(f"error: {'; '.join(lines)}", err=True)
        raise typer.Exit(2) from None
