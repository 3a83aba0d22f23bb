"""The probe row of a model: predicted when it is stored, and again when it is loaded."""

import math

import numpy as np

from app.errors import BrokenArtefactError
from app.storage.artefact import ModelArtefact
from app.storage.probe import Probe
from core.arrays import FloatArray
from core.predict.model import ModelPredictor
from core.spec import Precision

TOLERANCE = {Precision.FLOAT64: 1e-6, Precision.FLOAT32: 1e-2}
"""Differences that other processors and libraries make, in standard deviations; for a mean alone, of its size."""


def probe_of(stored: ModelArtefact) -> Probe | None:
    """Predict the first basis vector; None where that is no finite number. Costs what loading the model does."""
    with np.errstate(all="ignore"):  # what is not finite is no probe
        mean, std = _predict(ModelPredictor(stored.model()), stored.posterior.basis[:1])
    if not math.isfinite(mean) or not (std is None or math.isfinite(std)):
        return None
    return Probe(row=0, mean=mean, std=std)


def check_probe(stored: ModelArtefact, predictor: ModelPredictor) -> None:
    """Raise BrokenArtefactError where the model does not predict what it did when it was stored. An artefact of an
    older release has no probe."""
    probe = stored.probe
    if probe is None:
        return
    mean, std = _predict(predictor, stored.posterior.basis[probe.row : probe.row + 1])
    scale = abs(probe.mean) if probe.std is None else probe.std
    allowed = TOLERANCE[stored.precision] * scale + 1e-12 * abs(probe.mean)
    same_kind = (std is None) is (probe.std is None)
    if not (same_kind and abs(mean - probe.mean) <= allowed and abs((std or 0.0) - (probe.std or 0.0)) <= allowed):
        raise BrokenArtefactError(
            f"predictions are not those that the model made when it was stored: its probe row has mean {mean!r} "
            f"instead of {probe.mean!r}, std {std!r} instead of {probe.std!r}; this machine computes other numbers, or "
            "the file was changed"
        )


def _predict(predictor: ModelPredictor, row: FloatArray) -> tuple[float, float | None]:
    if predictor.mean_only:
        return float(predictor.mean(row)[0]), None
    distribution = predictor.predict(row)
    return float(distribution.moments()[0][0]), float(distribution.std()[0])
