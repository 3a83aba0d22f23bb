"""Values of options and files: text of the command line to what commands work with."""

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import typer

from app.cli.client import ClientError, Json
from app.cli.options import STANDARD, did_you_mean

FORMS = {
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.stream",
    "npy": "application/x-npy",
    "json": "application/json",
}
"""Media types of predictions by the names of their forms, which are suffixes of files too."""
OTHER_FORMS = frozenset(("xlsx", "xls", "ods", "feather", "ipc", "h5", "pkl", "pickle", "zip", "gz", "zst", "db"))
"""Suffixes of files that are none of these and not read as text: CSV under such a name would not be opened."""


_STANDARD_NAME = "table"  # of what came through a pipe: the stem is the name of a model


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSource:
    """An open file that can be read again from its start. name: of the file, without its folder."""

    name: str
    body: BinaryIO


@contextmanager
def open_input(file: Path) -> Iterator[InputSource]:
    """Open a file, or standard input for `-`, for the length of the block. ClientError where it cannot be read."""
    with ExitStack() as stack:
        try:
            if file == STANDARD:
                body: BinaryIO = stack.enter_context(tempfile.TemporaryFile())
                shutil.copyfileobj(sys.stdin.buffer, body)
                body.seek(0)
            else:
                body = stack.enter_context(file.open("rb"))
        except OSError as error:
            raise ClientError(f"cannot read {file}: {error.strerror or error}") from None
        yield InputSource(name=_STANDARD_NAME if file == STANDARD else file.name, body=body)


def is_terminal() -> bool:
    """Return whether a person can be asked: who types, and sees the question."""
    return sys.stdin.isatty() and sys.stderr.isatty()


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


def levels(values: Sequence[str] | None, option: str) -> list[float] | Literal[False]:
    """The levels of a repeated option, or False for the word `false`. BadParameter."""
    return False if split_values(values, option) == ["false"] else numbers(values, option)


def split_words(values: Sequence[str] | None, known: Sequence[str], option: str) -> list[str]:
    """The words of a repeated option, all of them known. BadParameter that names the one that was meant."""
    words = split_values(values, option)
    for word in words:
        if word not in known:
            raise typer.BadParameter(
                f"expected one of {', '.join(known)}; got {word!r}{did_you_mean(word, known)}", param_hint=option
            )
    return words


def refuse_terminal(output: Path | None) -> None:
    """BadParameter where bytes that are no text would go to a terminal."""
    if (output is None or output == STANDARD) and sys.stdout.isatty():
        raise typer.BadParameter("bytes are not for a terminal: name a file, or - for a pipe", param_hint="--output")


def write_content(output: Path | None, content: bytes) -> None:
    """Write to a file, or to standard output. ClientError where the file cannot be written."""
    if output is None or output == STANDARD:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        output.write_bytes(content)
    except OSError as error:
        raise ClientError(f"cannot write {output}: {error.strerror}") from None


def table_file(name: str) -> Path:
    """The path of a file. BadParameter where there is none."""
    path = Path(name)
    if path != STANDARD and not path.is_file():
        wrong = f"{name!r} is a folder" if path.is_dir() else f"file {name!r} does not exist"
        raise typer.BadParameter(f"{wrong}; nor is it the id of a dataset", param_hint="FILE")
    return path


def media_type(form: str | None, output: Path | None, *, is_dataset: bool) -> str:
    """The media type of predictions in a form by its name, else by that of the output. BadParameter."""
    if form is not None and form not in FORMS:
        raise typer.BadParameter(f"expected one of {', '.join(FORMS)}; got {form!r}", param_hint="--format")
    suffix = "" if output is None else output.suffix.removeprefix(".").lower()
    if is_dataset:
        if form not in (None, "parquet") or (form is None and suffix not in ("", "parquet")):
            hint = "--output" if form is None else "--format"
            got = suffix if form is None else form
            message = f"the predictions of a dataset are a Parquet file: expected parquet, got {got}"
            raise typer.BadParameter(message, param_hint=hint)
        return FORMS["parquet"]
    if form is None and suffix in OTHER_FORMS:
        message = f"predictions are not written as .{suffix}: expected {', '.join(f'.{name}' for name in FORMS)}"
        raise typer.BadParameter(message, param_hint="--output")
    return FORMS[form or (suffix if suffix in FORMS else "csv")]
