"""Entry point of every process of Pursuit: the `pursuit` command, and the processes that it starts (`app.launch`).

A file under a name that is ours alone: `app` and `core` are common, and a user's `app.py` must be neither run nor taken
for ours. So, before anything else is imported, the current folder leaves the module search path, and the two packages
are those that this file was installed with, whatever comes first on that path. What is imported
on top of this file is loaded already, or frozen into the interpreter: no file of that folder can come in its place.
"""

import os
import runpy
import site
import sys
from importlib.machinery import ModuleSpec, PathFinder


def _root(folder: str) -> str:
    """Return the folder of the packages `app` and `core`: the one that holds `app/entry`; installed, one of `pursuit`,
    where they hide no package of a user's (`pursuit_build`); else that of this file.
    """
    parent, name = os.path.split(folder)
    if (os.path.basename(parent), name) == ("app", "entry"):
        return os.path.dirname(parent)
    installed = os.path.join(folder, "pursuit", "_packages")
    return installed if os.path.isdir(installed) else folder


ROOT = _root(os.path.dirname(os.path.realpath(__file__)))
PACKAGES = ("app", "core")
MODULES = frozenset({"app.cli", "app.worker", "app.services.intake.ingest"})
"""Modules that processes of ours are started with."""


def main() -> None:
    """Run the `pursuit` command."""
    try:
        isolate()
        from app.cli import main as command  # not before `app` is known to be ours

        command()
    except KeyboardInterrupt:  # it was still being loaded
        sys.exit(130)


def isolate() -> None:
    """Take the current folder off the module search path, and take `app` and `core` from ROOT.

    Ends the program with one line on standard error where they are not there, or not ours.
    """
    _leave_current_folder()
    for name in PACKAGES:
        error = _package_error(name)
        if error is not None:
            sys.exit(f"error: {error}: install Pursuit (pursuit-gp) in a virtual environment of its own")
    sys.meta_path.insert(0, _RootFinder())


class _RootFinder:
    """Finder of the packages in ROOT."""

    @staticmethod
    def find_spec(name: str, path: object = None, _target: object = None) -> ModuleSpec | None:
        """Return what is to be imported under this name; None where that is none of our two."""
        return PathFinder.find_spec(name, [ROOT]) if path is None and name in PACKAGES else None


def _leave_current_folder() -> None:
    """Remove the current folder from `sys.path`, unless it is a folder of Python's own."""
    try:
        here = os.path.realpath(os.getcwd())
    except FileNotFoundError:  # it was deleted: nothing can be imported from it
        return
    library = os.path.dirname(os.__file__)
    own = {library, os.path.join(library, "lib-dynload"), *site.getsitepackages(), site.getusersitepackages()}
    if here not in map(os.path.realpath, own):
        sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != here]


def _package_error(name: str) -> str | None:
    """Reason why this package cannot be used; None if it can."""
    folder = os.path.join(ROOT, name)
    loaded = sys.modules.get(name)
    places = [folder] if loaded is None else list(getattr(loaded, "__path__", ()))
    if os.path.realpath(next(iter(places), "")) != folder:
        return f"the package {name!r} was imported from {places or loaded}, and Pursuit's is {folder}"
    try:
        with open(os.path.join(folder, "__init__.py"), encoding="utf-8") as source:
            opening = source.readline()
    except FileNotFoundError:
        return f"Pursuit's package {name!r} is missing in {ROOT}"
    # Of two distributions that hold a package of the same name, the one installed later writes over the other's files.
    return None if "Pursuit" in opening else f"{folder} is not Pursuit's: another distribution wrote over it"


def _run(words: list[str]) -> None:
    """Run a module of ours as the main program."""
    isolate()
    sys.argv[1:] = words[1:]
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] in MODULES:
        _run(sys.argv[1:])
    else:
        main()
