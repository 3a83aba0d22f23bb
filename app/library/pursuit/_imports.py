"""Imports of Pursuit's own packages `app` and `core` under names that are nobody else's.

Both names are common: a user's folder may hold an `app.py` or a package `core`, which must neither be taken for ours
nor be hidden by them. So in a program that imports `pursuit` ours are `pursuit._app` and `pursuit._core`, whatever
`app` and `core` are there. Their modules, and those of this package, run with an `__import__` of their own, by which
`from core.spec import TrainSpec` is `from pursuit._core.spec import TrainSpec`; no other module notices. Files and
compiled files are the same as those of the `pursuit` command, whose processes are ours alone (`pursuit_gp`).
"""

import builtins
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from types import ModuleType
from typing import Any

_NAME = __name__.rpartition(".")[0]
_HERE = os.path.dirname(os.path.realpath(__file__))
PRIVATE = {"app": f"{_NAME}._app", "core": f"{_NAME}._core"}


def _root(folder: str) -> str:
    """Return the folder of `app` and `core`: one of this package, in a checkout the one that holds `app/library`."""
    installed = os.path.join(folder, "_packages")
    if os.path.isdir(installed):
        return installed
    parent = os.path.dirname(folder)
    grandparent, name = os.path.split(parent)
    return os.path.dirname(grandparent) if (os.path.basename(grandparent), name) == ("app", "library") else parent


_FOLDERS = {f"_{name}": os.path.join(_root(_HERE), name) for name in PRIVATE}


def install() -> None:
    """Take the modules of this package from here, once."""
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


def _import(
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> Any:
    """Import as the statement does, `app` and `core` under their private names."""
    top, dot, rest = name.partition(".")
    if level == 0 and top in PRIVATE:
        name = PRIVATE[top] + dot + rest
        if not fromlist:  # `import core.spec` binds the name of the package
            importlib.import_module(name)
            return sys.modules[PRIVATE[top]]
    return builtins.__import__(name, globals, locals, fromlist or (), level)


_BUILTINS = {**vars(builtins), "__import__": _import}


class _Loader(SourceFileLoader):
    """Loader of a module whose import statements are `_import`."""

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = _BUILTINS
        super().exec_module(module)


class _Finder:
    """Finder of the modules of this package, and of `app` and `core` inside of it."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """Return what is to be imported under this name; None where that is none of ours."""
        package, _, rest = name.partition(".")
        if package != _NAME or not rest:
            return None
        first, *others = rest.split(".")
        place = os.path.join(_FOLDERS.get(first, os.path.join(_HERE, first)), *others)
        opening = os.path.join(place, "__init__.py")
        if os.path.isfile(opening):
            if first in _FOLDERS and not others:
                _check_ours(opening)
            loader = _Loader(name, opening)
            return spec_from_file_location(name, opening, loader=loader, submodule_search_locations=[place])
        file = f"{place}.py"
        return spec_from_file_location(name, file, loader=_Loader(name, file)) if os.path.isfile(file) else None


def _check_ours(opening: str) -> None:
    """Raise ImportError where another distribution wrote over a package of ours, as the one installed later does."""
    with open(opening, encoding="utf-8") as source:
        if "Pursuit" not in source.readline():
            raise ImportError(
                f"{os.path.dirname(opening)} is not Pursuit's: another distribution wrote over it; install Pursuit "
                "(pursuit-gp) in a virtual environment of its own"
            )
