"""The command line: `servers`, and clients of one over HTTP (`commands`, `client`, `watching`, `showing`).

`service` starts a private service for commands that need one for a moment: `pursuit demo` and `--local`.
"""

import signal
import sys


def main() -> None:
    """Entry point of the `pursuit` command."""
    # What a command started is ended on SIGTERM too; the servers put handlers of their own in its place.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    from app.cli.commands import cli

    cli(prog_name="pursuit")
