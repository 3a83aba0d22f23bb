"""`pursuit completion`: the script that completes commands, options and their words in a shell."""

from typing import Annotated

import typer

from app.cli.options import AsJson, did_you_mean
from app.cli.output import print_json

SHELLS = ("bash", "zsh", "fish")


def completion(
    shell: Annotated[
        str,
        typer.Argument(metavar="|".join(SHELLS), help="The shell.", autocompletion=lambda: list(SHELLS)),
    ],
    as_json: AsJson = False,
) -> None:
    """Print the completion script of a shell: `source <(pursuit completion bash)`, `source <(pursuit completion zsh)`,
    `pursuit completion fish | source`."""
    if shell not in SHELLS:
        raise typer.BadParameter(
            f"expected {', '.join(SHELLS)}; got {shell!r}{did_you_mean(shell, SHELLS)}", param_hint="SHELL"
        )
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # typer's own, by the place it has in all releases

    script = get_completion_script(prog_name="pursuit", complete_var="_PURSUIT_COMPLETE", shell=shell)
    if as_json:
        print_json({"shell": shell, "script": script})
    else:
        typer.echo(script)
