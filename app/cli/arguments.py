"""Values of options and files: text of the command line to what commands work with."""

import json
from collections.abc import Sequence
from pathlib import Path

import typer

from app.cli.client import ClientError, Json


def file_content(file: Path) -> bytes:
    """The bytes of a file. ClientError where it cannot be read."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise ClientError(f"cannot read {file}: {error.strerror}") from None


def json_object(text: str) -> Json:
    """The JSON object in an option. BadParameter."""

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no number of JSON")

    try:
        value = json.loads(text, parse_constant=refuse)
    except ValueError as error:
        raise typer.BadParameter(f"not JSON: {error}", param_hint="--spec") from None
    if not isinstance(value, dict):
        raise typer.BadParameter("expected a JSON object", param_hint="--spec")
    return value


def split_values(values: Sequence[str] | None, option: str) -> list[str]:
    """Split the values of a repeated option at commas and blanks."""
    words = [word for value in values or () for word in value.replace(",", " ").split()]
    if values and not words:
        raise typer.BadParameter("expected at least one", param_hint=option)
    return words


def numbers(values: Sequence[str] | None, option: str) -> list[float]:
    """The numbers of a repeated option, as `split_values` reads it. BadParameter."""
    found = []
    for word in split_values(values, option):
        try:
            found.append(float(word))
        except ValueError:
            raise typer.BadParameter(f"expected a number like 0.9, got {word!r}", param_hint=option) from None
    return found
