"""The command line: `servers`, and clients of one over HTTP (`commands`, `client`, `watching`, `showing`).

`service` starts a private service for commands that need one for a moment: `pursuit demo` and `--local`.
"""


def main() -> None:
    """Entry point of the `pursuit` command."""
    from app.cli.commands import cli  # noqa: PLC0415 -- importing app.cli.client must not cost typer and rich

    cli(prog_name="pursuit")
