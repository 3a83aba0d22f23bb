"""The commands, a file each or a few that belong together; this is where they are put under their names."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from app.cli.commands.backup import backup, restore
from app.cli.commands.completion import completion
from app.cli.commands.dataset import dataset
from app.cli.commands.demo import demo
from app.cli.commands.doctor import doctor
from app.cli.commands.evaluate import evaluate
from app.cli.commands.feedback import feedback
from app.cli.commands.jobs import jobs
from app.cli.commands.keys import keys
from app.cli.commands.models import alias, artefact, delete, import_, models
from app.cli.commands.predict import predict
from app.cli.commands.report import report
from app.cli.commands.serve import api, migrate, serve, worker
from app.cli.commands.suggest import suggest
from app.cli.commands.train import train
from app.cli.commands.update import update
from app.cli.group import CommandGroup
from app.cli.output import FLAG, print_json, wants_json

COMMANDS: dict[str, dict[str, Callable[..., Any] | typer.Typer]] = {
    "Train and predict": {
        "demo": demo,
        "train": train,
        "predict": predict,
        "feedback": feedback,
        "evaluate": evaluate,
        "report": report,
        "update": update,
        "suggest": suggest,
    },
    "Look after models": {
        "models": models,
        "jobs": jobs,
        "dataset": dataset,
        "alias": alias,
        "delete": delete,
        "artefact": artefact,
        "import": import_,
    },
    "Serve": {
        "serve": serve,
        "api": api,
        "worker": worker,
        "migrate": migrate,
        "keys": keys,
        "backup": backup,
        "restore": restore,
        "doctor": doctor,
        "completion": completion,
    },
}
"""Commands and groups of commands by their names, under the headings of `pursuit --help`. Each takes `--json`."""

EXIT_CODES = (
    "Exit codes: 0 done; 1 refused, failed or not found; 2 a wrong command line; 130 Ctrl-C. With --json every command "
    'prints one JSON document on standard output; a failure prints {"error": {..}}. Rows are counted from 0, lines of '
    "a file from 1."
)

cli = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for heading, members in COMMANDS.items():
    for name, member in members.items():
        if isinstance(member, typer.Typer):
            cli.add_typer(member, name=name, rich_help_panel=heading)
        else:
            cli.command(name, rich_help_panel=heading)(member)


def _print_version(value: bool) -> None:
    if value:
        from importlib.metadata import PackageNotFoundError, version

        try:
            number: str | None = version("pursuit-gp")
        except PackageNotFoundError:  # a checkout that is not installed
            number = None
        if wants_json():
            print_json({"version": number})
        else:
            typer.echo(f"pursuit {number}" if number else "pursuit, of no known version")
        raise typer.Exit


@cli.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version and exit.")
    ] = False,
    as_json: Annotated[bool, typer.Option(FLAG, hidden=True)] = False,  # `pursuit --version --json`
) -> None:
    """Regression with honest error bars, as a service."""
