"""The command line: `servers`, and clients of one over HTTP (`commands`, `client`, `progress`, `display`).

`service` starts a private service for commands that need one for a moment: `pursuit demo` and `--local`.
"""


def main() -> None:
    """Run the `pursuit` command; `pursuit_gp` is where it starts."""
    import signal  # here: `python -m app.cli` loads this file before the current folder is off the search path
    import sys

    # What a command started is ended on SIGTERM too; the servers put handlers of their own in its place.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    from app.cli.exits import run

    def command() -> None:
        from app.cli.commands import cli

        cli(prog_name="pursuit")

    run(command)
