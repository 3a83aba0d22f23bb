"""A published model in memory, ready to predict."""

from dataclasses import dataclass, field

import numpy as np

from app.errors import BrokenArtefactError, InvalidRequestError, MalformedError
from app.services.predict.far_rows import knows_far_rows
from app.services.predict.probe import check_probe
from app.services.predict.row_decoder import RowDecoder
from app.services.predict.row_weights import TrainedWeights
from app.storage import artefact
from app.storage.artefact import ERROR_CORRELATION, TRAINING_PROFILE, ModelArtefact
from app.tables import Schema
from core.arrays import FloatArray
from core.errors import CoreError
from core.numeric.workspace import Workspace
from core.predict.missing import Completion, Donors, IntegratedPredictor, has_missing
from core.predict.model import ModelPredictor

OWN_BYTES = 100_000
"""Bytes that a loaded model holds beside its arrays, about: its columns and what reads them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedModel:
    """A model ready to predict. integrated: the same for rows with missing cells, None where it takes none; size: bytes
    it holds in memory, about; knows_far: it tells rows far from the training rows; profile: of the rows that it was
    trained on, as JSON that nobody has checked (`app.services.monitoring`); weights: of these rows, None where they all
    counted the same; others: the other targets of a model of
    several, which may be one, None for a single one; error_correlation (t, t): of the targets' errors, NaN where two
    have too few rows in common."""

    schema: Schema
    predictor: ModelPredictor
    rows: RowDecoder
    size: int
    integrated: IntegratedPredictor | None = None
    knows_far: bool = False
    profile: object = None
    weights: TrainedWeights | None = None
    others: "tuple[LoadedModel, ...] | None" = None
    error_correlation: FloatArray = field(default_factory=lambda: np.eye(1))

    @property
    def every_target(self) -> "tuple[LoadedModel, ...]":
        """The models of all targets, this one first."""
        return (self, *(self.others or ()))

    @property
    def row_work(self) -> int:
        """Multiply-adds of a row, about, for all targets."""
        return sum(each.predictor.row_work for each in self.every_target)

    def of_one_target(self, what: str) -> "LoadedModel":
        """Return the model. InvalidRequestError where it is one of several targets, which `what` cannot be yet."""
        if self.others is not None:
            names = ", ".join(repr(each.schema.target) for each in self.every_target)
            raise InvalidRequestError(f"{what}: not yet for a model of several targets ({names}): train each by itself")
        return self

    def of_target(self, target: str | None) -> "LoadedModel":
        """Return the model of the target of this name, which the only one need not be called by. InvalidRequestError
        that names the targets."""
        names = [each.schema.target for each in self.every_target]
        if target is None and len(names) == 1:
            return self
        if target not in names:
            found = "got none" if target is None else f"got {target[:80]!r}"
            raise InvalidRequestError(f"target: expected one of {', '.join(map(repr, names))}; {found}")
        return self.every_target[names.index(target)]

    def counted_rows(self, inputs: FloatArray) -> int:
        """Return the rows that are predicted for these (m, p): each of some missing cell for many."""
        if self.integrated is None or not has_missing(inputs):
            return len(inputs)
        return len(inputs) + self.integrated.components * int(np.isnan(inputs).any(axis=1).sum())


def load_model(data: bytes, workspace: Workspace | None = None) -> LoadedModel:
    """Make an artefact's bytes ready to predict, in memory that models may share. Raises BrokenArtefactError."""
    return prepare_model(artefact.load(data), workspace)


def prepare_model(stored: ModelArtefact, workspace: Workspace | None = None) -> LoadedModel:
    """Make an artefact ready to predict. Raises BrokenArtefactError."""
    try:
        schema = Schema.from_json(stored.schema)
    except MalformedError as error:
        raise BrokenArtefactError(f"the artefact's columns cannot be read: {error}") from error
    inputs = stored.posterior.basis.shape[1]
    if schema.width != inputs:
        raise BrokenArtefactError(f"the artefact's columns make {schema.width} inputs, its model has {inputs}")
    try:
        with np.errstate(all="ignore"):  # predictions look for numbers that are not finite
            predictor = ModelPredictor(stored.model(), workspace)
            check_probe(stored, predictor)
            knows_far = knows_far_rows(predictor, stored.posterior.basis)
    except CoreError as error:
        raise BrokenArtefactError(f"the artefact's arrays do not make a model: {error}") from error
    others = None if stored.others is None else tuple(prepare_model(each, workspace) for each in stored.others)
    size, integrated = predictor.nbytes + OWN_BYTES + sum(each.size for each in others or ()), None
    if stored.donors is not None and stored.shifts is not None:
        try:
            donors = Donors(rows=stored.donors, starts=schema.starts, fixed=schema.indicator, shifts=stored.shifts)
        except CoreError as error:
            raise BrokenArtefactError(f"the artefact's donors are not rows of its columns: {error}") from error
        integrated = IntegratedPredictor(predictor, Completion(donors))
        size += 4 * donors.rows.nbytes
    elif schema.integrates:
        raise BrokenArtefactError("the artefact's columns take missing cells, and it has no rows to take values from")
    return LoadedModel(
        schema=schema,
        predictor=predictor,
        rows=RowDecoder(schema),
        size=size,
        integrated=integrated,
        knows_far=knows_far,
        profile=stored.report.get(TRAINING_PROFILE),
        weights=None if integrated is not None else TrainedWeights.of(stored.report),
        others=others,
        error_correlation=_error_correlation(stored),
    )


def _error_correlation(stored: ModelArtefact) -> FloatArray:
    """Correlation of the targets' errors as the report has it; of what it does not say, NaN."""
    count = 1 + len(stored.others or ())
    found = np.full((count, count), np.nan)
    try:
        told = np.array(stored.report[ERROR_CORRELATION]["correlation"], np.float64)  # null is NaN
    except (KeyError, TypeError, ValueError):
        told = found
    if told.shape == found.shape:
        found = np.where(np.abs(told) <= 1.0, told, np.nan)
    np.fill_diagonal(found, 1.0)
    return np.asarray(0.5 * (found + found.T))
