"""Options that commands share, and options that take one of a few words."""

import os
import shlex
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.output import FLAG

_WIDEST = 24
URL_VARIABLE = "PURSUIT_URL"
DEFAULT_URL = "http://127.0.0.1:8000"

STANDARD = Path("-")
"""Standard input or output, wherever a file is taken."""


def existing_file(value: Path | None) -> Path | None:
    """Return the path of a file that is there. BadParameter; typer's own check does not let `-` pass."""
    if value is None or value == STANDARD or value.is_file():
        return value
    raise typer.BadParameter(f"{str(value)!r} is a folder" if value.is_dir() else f"file {str(value)!r} does not exist")


Url = Annotated[str, typer.Option(envvar=URL_VARIABLE, help="The server.", rich_help_panel="Server")]
Key = Annotated[
    str | None,
    typer.Option(envvar="PURSUIT_API_KEY", help="An API key of the server.", rich_help_panel="Server"),
]
Local = Annotated[
    bool,
    typer.Option("--local", help="Work on the data directory, without a running server.", rich_help_panel="Server"),
]
DataDir = Annotated[
    Path | None,
    typer.Option(help="Directory of the embedded store.", show_default="./pursuit-data", rich_help_panel="Server"),
]
AsJson = Annotated[bool, typer.Option(FLAG, help="Print one JSON document on standard output, and nothing else there.")]
"""Every command takes it. `output.wants_json()` tells whether it is there, also to what prints an error."""
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="All notes, however many.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Spec = Annotated[str, typer.Option(metavar="JSON", help="Any other fields of the spec, as a JSON object.")]
Target = Annotated[str | None, typer.Option(metavar="COLUMN", help="Column to predict.", show_default="the last")]
READ = "How the table is read"
"""Heading of the options that say so."""
Thousands = Annotated[
    str | None,
    typer.Option(
        metavar="SIGN",
        help="What groups the digits of numbers by three: a comma, point, blank or ', or empty for nothing.",
        show_default="as the columns show",
        rich_help_panel=READ,
    ),
]
Sheet = Annotated[
    str | None,
    typer.Option(metavar="NAME|NUMBER", help="Sheet of a workbook.", show_default="the first", rich_help_panel=READ),
]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        metavar="COLUMN",
        help='Column to predict; several by commas, a pattern ("y*"), or again and again.',
        show_default="the last",
    ),
]
OneTarget = Annotated[
    str | None,
    typer.Option("--target", metavar="COLUMN", help="Which of several targets.", show_default="the only one"),
]
FirstTarget = Annotated[
    str | None,
    typer.Option("--target", metavar="COLUMN", help="Which of several targets.", show_default="the first"),
]
Reference = Annotated[str, typer.Argument(metavar="MODEL", help="name, name@3 or name@alias.")]
ModelOrFile = Annotated[
    str, typer.Argument(metavar="MODEL", help="name, name@3 or name@alias; or an artefact file, without a server.")
]
TableOrDataset = Annotated[
    str, typer.Argument(metavar="FILE", help="A table of any format, the id of a dataset, or - for standard input.")
]
InputFile = Annotated[Path, typer.Argument(metavar="FILE", callback=existing_file, help="A file; -: standard input.")]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write here; -: standard output.",
        show_default="standard output",
    ),
]


def repeated_options(*, local: bool, url: str, data_dir: Path | None) -> str:
    """Return the options that say where a command works, for one to be typed next; nothing where the environment says
    it, and never a key."""
    words = ["--local"] if local else []
    if local and data_dir is not None:
        words += ["--data-dir", shlex.quote(str(data_dir))]
    if not local and url != (os.environ.get(URL_VARIABLE) or DEFAULT_URL):
        words += ["--url", shlex.quote(url)]
    return "".join(f" {word}" for word in words)


def choice(
    words: Sequence[str],
    help: str,
    *flags: str,
    default: str | None = None,
    number: bool = False,
    panel: str | None = None,
) -> Any:
    """Return an option that takes one of these words, named in its help and offered by the shell's completion.

    default: shown in its help. number: a whole number will do too. panel: heading that the help has it under.
    """
    known = tuple(words)

    def check(value: str | None) -> str | None:
        if value is None or value in known or (number and value.removeprefix("-").isdigit()):
            return value
        expected = ", ".join(known) + (" or a number" if number else "")
        raise typer.BadParameter(f"expected one of {expected}; got {value!r}{did_you_mean(value, known)}")

    def complete(incomplete: str) -> list[str]:
        return [word for word in known if word.startswith(incomplete)]

    metavar = "|".join((*known, *(["NUMBER"] if number else [])))
    if len(metavar) > _WIDEST:  # the help would break it anywhere
        metavar, help = "WORD", f"{help} One of {', '.join(known)}."
    return typer.Option(
        *flags,
        help=help,
        metavar=metavar,
        callback=check,
        autocompletion=complete,
        show_default=default or False,
        rich_help_panel=panel,
    )


def did_you_mean(value: str, known: Sequence[str]) -> str:
    """Return the end of a sentence that names the word that was meant, if one is close."""
    by_case = {word.casefold(): word for word in known}
    near = get_close_matches(value.casefold(), by_case, n=1)
    return f". Did you mean {by_case[near[0]]!r}?" if near else ""
