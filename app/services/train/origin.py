"""The model that a training begins `from`: in the request, and in the child that trains."""

from collections.abc import Mapping
from dataclasses import dataclass
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
    if origin is not None and "kernel" not in body.model_fields_set:
        body = body.model_copy(update={"kernel": KernelChoice.AUTO})  # the model's
    return body, origin


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Start:
    """The model that a training begins at. reference: its version."""

    reference: str
    stored: ModelArtefact

    def of_target(self, target: str) -> ModelArtefact:
        """Return what a target begins at: the model's target of the same name, else its first."""
        names = [each.schema["target"] for each in (self.stored, *(self.stored.others or ()))]
        return self.stored.of_target(target if target in names else None)

    def told(self, target: str) -> dict[str, Any]:
        """Return what the report of a target says of it."""
        return {"from": self.reference, "from_target": self.of_target(target).schema["target"]}

    def warm(self, schema: Schema, target: str) -> WarmStart:
        """Return the start of a target for a table: lengthscales by the names of columns, and basis vectors where the
        model has the same columns. A full process has none: all its rows are."""
        stored = self.of_target(target)
        whole = stored.posterior.mean if isinstance(stored.posterior, CompactPosterior) else stored.posterior
        known: Mapping[str, float] = stored.hyperparameters["lengthscales"]
        lengthscales = np.array([known.get(name, np.nan) for name in schema.group_names], np.float64)
        same = stored.basis_columns == schema.column_names and stored.near is None
        return WarmStart.of(whole.hyperparameters, lengthscales, whole.basis if same else whole.basis[:0])


def read_start(blobs: BlobStore, origin: Mapping[str, Any]) -> Start:
    """Return the start of a job. InvalidRequestError where its model has gone."""
    try:
        return Start(reference=origin["reference"], stored=artefact.load(blobs.read(origin["artefact"])))
    except NotFoundError as error:
        raise InvalidRequestError(f"from: {origin['reference']} was deleted while the job waited") from error


def _wrong(message: str) -> InvalidRequestError:
    text = f"from: {message}"
    return InvalidRequestError(text, [Fault(message=text, column="from")])
