"""A published model in memory, ready to predict."""

from dataclasses import dataclass

from app.errors import BrokenArtefactError, MalformedError
from app.services.predict.row_decoder import RowDecoder
from app.storage import artefact
from app.tables import Schema
from core.errors import CoreError
from core.numeric.workspace import Workspace
from core.predict.model import ModelPredictor

OWN_BYTES = 100_000
"""Bytes that a loaded model holds beside its arrays, about: its columns and what reads them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedModel:
    """A model ready to predict. size: bytes it holds in memory, about."""

    schema: Schema
    predictor: ModelPredictor
    rows: RowDecoder
    size: int


def load_model(data: bytes, workspace: Workspace | None = None) -> LoadedModel:
    """Make an artefact's bytes ready to predict, in memory that models may share. Raises BrokenArtefactError."""
    stored = artefact.load(data)
    try:
        schema = Schema.from_json(stored.schema)
    except MalformedError as error:
        raise BrokenArtefactError(f"the artefact's columns cannot be read: {error}") from error
    inputs = stored.posterior.basis.shape[1]
    if schema.width != inputs:
        raise BrokenArtefactError(f"the artefact's columns make {schema.width} inputs, its model has {inputs}")
    try:
        predictor = ModelPredictor(stored.model(), workspace)
    except CoreError as error:
        raise BrokenArtefactError(f"the artefact's arrays do not make a model: {error}") from error
    size = predictor.nbytes + OWN_BYTES
    return LoadedModel(schema=schema, predictor=predictor, rows=RowDecoder(schema), size=size)
