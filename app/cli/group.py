"""The root of the commands: what goes wrong is one line on standard error, and the exit code says what kind it was."""

import os
import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from app.cli import display
from app.cli.client import ClientError
from app.cli.output import FLAG, error_document, json_output, print_json, wants_json

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
"""Exit codes: done; refused, failed or not found; a command line that is wrong; Ctrl-C."""

# Newer releases of typer hold a copy of click, and its classes are theirs.
_PARSING_ERROR: type[Any] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
_COMPLETE_VARIABLE = "_PURSUIT_COMPLETE"


class CommandGroup(TyperGroup):
    """The commands of `pursuit`."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command line and end the program with its exit code."""
        if _COMPLETE_VARIABLE in os.environ:
            from typer.completion import completion_init  # type: ignore[attr-defined]  # as in commands.completion

            completion_init()
            complete_var = _COMPLETE_VARIABLE
        words = sys.argv[1:] if args is None else list(args)
        if words[:1] == [FLAG] and words[1:2] != ["--version"]:
            words = [*words[1:], FLAG]  # before the command it means the same
        with json_output(words):
            try:
                code = super().main(
                    args=words,
                    prog_name=prog_name,
                    complete_var=complete_var,
                    standalone_mode=False,
                    windows_expand_args=windows_expand_args,
                    **extra,
                )
            except ClientError as error:
                code = display.fail(error, hint=True).exit_code
            except _PARSING_ERROR as error:
                code = _refuse(error)
            except typer.Abort:
                display.fail(ClientError("stopped: nothing was changed"))
                code = FAILED
        code = code if isinstance(code, int) else OK
        if standalone_mode:
            sys.exit(code)
        return code


def _refuse(error: Any) -> int:
    """Print what is wrong with a command line; return the exit code."""
    message = " ".join(str(error.format_message()).split())
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(error.format_message(), err=True)
        return USAGE
    typer.echo(f"error: {message}", err=True)
    if context is not None:
        typer.echo(f"see `{context.command_path} --help`", err=True)
    if wants_json():
        print_json(error_document(message))
    return int(getattr(error, "exit_code", USAGE))
