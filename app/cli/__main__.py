"""`python -m app.cli` is `pursuit`."""

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location


def _main() -> None:
    # By its file: neither the installed module nor one of the current folder is to be taken for that of this checkout.
    place = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "entry", "pursuit_gp.py")
    spec = spec_from_file_location("pursuit_gp", place)
    if spec is None or spec.loader is None:
        sys.exit(f"error: Pursuit is not complete: {place} is missing")
    entry = module_from_spec(spec)
    spec.loader.exec_module(entry)
    entry.main()


_main()
