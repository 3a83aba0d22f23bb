"""The model that a training begins `from`: in the request, and in the child that trains."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from app.errors import Fault, InvalidRequestError, NotFoundError
from app.services.spec_reading import read_spec
from app.services.specification import SpecBody
from app.storage import artefact
from app.storage.artefact import ModelArtefact
from app.storage.blobs import BlobStore
from app.tables import Schema
from app.tables.columns.cell_errors import json_type
from core.predict.compact import CompactPosterior
from core.spec import KernelChoice
from core.train.warm import WarmStart

NOT_SEVERAL = "a training of several targets begins from no model yet"


def read_spec_and_origin(given: object, *, max_basis_size: int) -> tuple[SpecBody, str | None]:
    """Read the specification, and the reference of the model to begin `from`. InvalidRequestError."""
    origin = None
    if isinstance(given, Mapping) and "from" in given:
        origin, given = given["from"], {name: value for name, value in given.items() if name != "from"}
        if origin is not None and not isinstance(origin, str):
            raise _wrong(f"expected `name`, `name@3` or `name@alias`, got {json_type(origin)}")
    body = read_spec(given, max_basis_size=max_basis_size)
    if origin is not None and body.hyperparameters is not None:
        raise _wrong("begins at the model's hyperparameters: leave out spec.hyperparameters")
    if origin is not None and not isinstance(body.target, str | None):
        raise _wrong(NOT_SEVERAL)
    if origin is not None and "kernel" not in body.model_fields_set:
        body = body.model_copy(update={"kernel": KernelChoice.AUTO})  # the model's
    return body, origin


def read_origin(blobs: BlobStore, origin: Mapping[str, Any]) -> ModelArtefact:
    """Return the artefact to begin at. InvalidRequestError where it has gone."""
    try:
        return artefact.load(blobs.read(origin["artefact"]))
    except NotFoundError as error:
        raise InvalidRequestError(f"from: {origin['reference']} was deleted while the job waited") from error


def warm_start(stored: ModelArtefact, schema: Schema) -> WarmStart:
    """Return the start that a model is for a table: lengthscales by the names of columns, and basis vectors where it
    has the same columns. A full process has none: all its rows are."""
    whole = stored.posterior.mean if isinstance(stored.posterior, CompactPosterior) else stored.posterior
    known: Mapping[str, float] = stored.hyperparameters["lengthscales"]
    lengthscales = np.array([known.get(name, np.nan) for name in schema.group_names], np.float64)
    same = stored.basis_columns == schema.column_names and stored.near is None
    return WarmStart.of(whole.hyperparameters, lengthscales, whole.basis if same else whole.basis[:0])


def _wrong(message: str) -> InvalidRequestError:
    text = f"from: {message}"
    return InvalidRequestError(text, [Fault(message=text, column="from")])
