"""Exit codes and error messages of the command line, also where the output cannot be written.

Exit codes: 1 where the output could not be written, 130 after Ctrl-C.
"""

import errno
import os
import signal
import sys
from collections.abc import Callable

_WRITING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.ENXIO})


def run(command: Callable[[], None]) -> None:
    """Run the command line; flush the output while a failure to write it can still be reported."""
    _open_streams()
    try:
        try:
            command()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # whoever reads has seen enough
        discard_output()
        sys.exit(1)
    except OSError as error:
        if error.filename is not None or error.errno not in _WRITING:
            raise
        discard_output()
        print(f"error: cannot write the output: {error.strerror}", file=sys.stderr, flush=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


def _open_streams() -> None:
    """Open the null device in place of closed standard streams: the next file to be opened must not take their place.

    What the encoding of the output does not have is written as an escape.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)  # the lowest that is free
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")


def discard_output() -> None:
    """Redirect standard output to the null device: the interpreter flushes once more at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
