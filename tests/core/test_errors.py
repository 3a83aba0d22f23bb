"""core/errors.py: one tree, drawn in the docstring as it is."""

import inspect
import pickle
import re

import core.errors
from core.errors import CoreError, InvalidSpecError, MeanOnlyError, NonFiniteError, NotPositiveDefiniteError


def test_the_docstring_draws_every_class_under_its_parent() -> None:
    drawn: dict[str, str] = {}
    path: list[str] = []
    indent = 0
    for line in inspect.cleandoc(core.errors.__doc__ or "").splitlines():
        found = re.match(r"([\s│├└─]*)(\w+Error)\b", line)
        if found:
            indent = len(found[1]) if not path else indent
            depth = (len(found[1]) - indent) // 4
            path = [*path[:depth], found[2]]
            drawn[found[2]] = path[depth - 1] if depth else "Exception"
    classes = [c for _, c in inspect.getmembers(core.errors, inspect.isclass) if issubclass(c, Exception)]
    assert {c.__name__: c.__bases__[0].__name__ for c in classes} == drawn
    assert all(issubclass(c, CoreError) for c in classes)


def test_errors_come_from_other_processes_as_they_were_raised() -> None:
    """Their constructors take other arguments than the message."""
    for error in (
        NotPositiveDefiniteError("Kuu", 7, 1e-4),
        NonFiniteError(3, None),
        InvalidSpecError("seed", "no"),
        MeanOnlyError(),
    ):
        other = pickle.loads(pickle.dumps(error))  # noqa: S301  as Dask sends it
        assert type(other) is type(error)
        assert str(other) == str(error)
        assert vars(other) == vars(error)
