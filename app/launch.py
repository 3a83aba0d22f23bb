"""Command lines of processes of our own.

They do not import from the current folder (`-P`), and take `app` from where this process has it: see `pursuit_gp`.
"""

import sys
from pathlib import Path

_ENTRY = Path(__file__).resolve().parent / "entry" / "pursuit_gp.py"


def python_command(module: str, *arguments: str) -> list[str]:
    """Return the command line that runs a module of ours in a process of its own, isolated as this one is.

    Args:
        module: one of `pursuit_gp.MODULES`.
        arguments: its command line.
    """
    flags = ["-P"]
    if sys.flags.ignore_environment:
        flags.append("-E")
    if sys.flags.no_user_site:
        flags.append("-s")
    return [sys.executable, *flags, str(_ENTRY), module, *arguments]
