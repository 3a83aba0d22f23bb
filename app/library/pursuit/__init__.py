"""Regression with honest error bars: a client of the service, models without one, a scikit-learn estimator.

    from pursuit import Client

    with Client("http://127.0.0.1:8000") as client:
        model = client.train(frame, target="mpg", model="cars").wait()
        predicted = model.predict(new_rows)                         # mean, std, lower, upper

    from pursuit import load

    predicted = load("cars-1.safetensors").predict(new_rows)        # without a server

    from pursuit import SparseGPRegressor                           # pip install 'pursuit-gp[sklearn]'

    mean, std = SparseGPRegressor().fit(X, y).predict(X_new, return_std=True)

Rows are a pandas, polars or pyarrow frame, a matrix of numpy in the order of the model's columns, or a list of dicts
or lists; predictions come back as the same, with the caller's index. Every error is a PursuitError (scikit-learn's own
of its estimator aside); where cells are at fault its text lists row, column and value.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from . import _imports

_imports.install()

if TYPE_CHECKING:
    from .aio import AsyncClient, AsyncJob, AsyncModel
    from .client import Client, Model
    from .datasets import Dataset
    from .errors import (
        AccessError,
        ArgumentError,
        ColumnError,
        ConflictError,
        FileError,
        InvalidError,
        JobError,
        NotFoundError,
        PredictionWarning,
        PursuitError,
        RefusalError,
        TooLargeError,
        UnavailableError,
    )
    from .estimator import SparseGPRegressor
    from .explanation import Explanation
    from .feedback import KeptPrediction
    from .job import Job
    from .local import LocalModel, load

_MODULES = {
    "aio": ("AsyncClient", "AsyncJob", "AsyncModel"),
    "client": ("Client", "Model"),
    "job": ("Job",),
    "datasets": ("Dataset",),
    "errors": (
        "AccessError",
        "ArgumentError",
        "ColumnError",
        "ConflictError",
        "FileError",
        "InvalidError",
        "JobError",
        "NotFoundError",
        "PredictionWarning",
        "PursuitError",
        "RefusalError",
        "TooLargeError",
        "UnavailableError",
    ),
    "estimator": ("SparseGPRegressor",),
    "explanation": ("Explanation",),
    "feedback": ("KeptPrediction",),
    "local": ("LocalModel", "load"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "AccessError",
    "ArgumentError",
    "AsyncClient",
    "AsyncJob",
    "AsyncModel",
    "Client",
    "ColumnError",
    "ConflictError",
    "Dataset",
    "Explanation",
    "FileError",
    "InvalidError",
    "Job",
    "JobError",
    "KeptPrediction",
    "LocalModel",
    "Model",
    "NotFoundError",
    "PredictionWarning",
    "PursuitError",
    "RefusalError",
    "SparseGPRegressor",
    "TooLargeError",
    "UnavailableError",
    "load",
]
if find_spec("sklearn") is None:  # what looks at everything, such as help(), must not stumble over it
    del __all__[__all__.index("SparseGPRegressor")]  # type checkers would take `remove` for always


def __getattr__(name: str) -> Any:
    """Load what is asked for: a client needs no numerics, and scikit-learn only who uses the estimator."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
