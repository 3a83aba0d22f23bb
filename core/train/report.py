"""Result of a training run: the model, its basis rows and the report."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from core.arrays import FloatArray, IntArray
from core.hyperparameters import Hyperparameters
from core.predict.calibration import Calibration
from core.predict.compact import CompactPosterior, Stored, stored_bytes
from core.predict.distribution import PredictiveDistribution
from core.predict.metrics import Scores
from core.predict.model import Model
from core.predict.transforms import Transform
from core.selection.state import Selection
from core.spec import Precision, Variance
from core.train.local_coverage import LocalCoverage
from core.train.predicted_rows import PredictedRows
from core.train.state import TrainingState


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundsReport:
    """Theorem 1 of Smola & Bartlett 2001 at the published hyperparameters: Qmin of the full GP is between lower and
    upper (standardized targets). rows: of the dataset; std_lower, std_upper: bounds on the full GP's standard
    deviation of a new target at each, in the target's unit."""

    upper: float
    lower: float
    gap: float
    dual_size: int
    rows: tuple[int, ...]
    std_lower: tuple[float, ...]
    std_upper: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationReport:
    """Calibration of the error bars: by which left-out rows, how many, and the factors of the latent
    variance and of the noise; the largest level of an interval that the ranks of their errors support; tail_freedom:
    degrees of freedom of the t distribution beyond that, the heavier tail's of two, None without one; std_factor: of
    the standard deviations, so that they agree with the intervals; noise_gain: by how much noise that varies lowered
    the predictive loss of left-out rows, nats a row, None where it does not vary."""

    by: str
    rows: int
    latent_scale: float
    noise_scale: float
    most_level: float
    tail_freedom: float | None
    std_factor: float
    noise_gain: float | None

    @classmethod
    def of(cls, by: str, calibration: Calibration, noise_gain: float | None) -> "CalibrationReport":
        """Return the report on a calibration."""
        return cls(
            by=by,
            rows=calibration.rows,
            latent_scale=calibration.latent_scale,
            noise_scale=calibration.noise_scale,
            most_level=calibration.most_level,
            tail_freedom=min((tail.freedom for tail in calibration.tails), default=None),
            std_factor=calibration.std_factor,
            noise_gain=noise_gain,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformReport:
    """Form in which the target was learnt. looks: of its values; lowest, highest: bounds that no mean and no end
    of an interval is past, since no target of training was, None without; reason: why this one, where it was chosen."""

    kind: str
    looks: str
    lowest: float | None
    highest: float | None
    reason: str | None

    @classmethod
    def of(cls, transform: Transform, looks: str, reason: str | None) -> "TransformReport":
        """Return the report on a transform."""
        lowest, highest = (end if np.isfinite(end) else None for end in (transform.lowest, transform.highest))
        return cls(kind=transform.kind.value, looks=looks, lowest=lowest, highest=highest, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTransformReport:
    """Form in which the inputs were learnt. columns: those that were transformed, powers: of each; reason: why, where
    it was chosen."""

    kind: str
    columns: tuple[int, ...]
    powers: tuple[float, ...]
    reason: str | None

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, text and lists."""
        return asdict(self) | {"columns": list(self.columns), "powers": list(self.powers)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A model that was compared.

    kernel: of its theta, found by the `sparse` objective, by `blocks` of near rows, or `exact`. mean: rests on the
    basis, on all or on chosen rows, mean_rows of them. variance: comes from the basis or from near rows.

    nmse, nlpd: of `rows` left-out rows, in the target's unit; seconds: that it took, of the basis those of the whole
    sparse model; taken: it is served; reason: why, or why the search for it ended early, None for the others.
    """

    kernel: str
    mean: str
    mean_rows: int
    variance: str
    theta: str
    rows: int
    nmse: float | None
    nlpd: float
    seconds: float
    taken: bool
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitsReport:
    """Splits by which rows were held out and left out: by rows, or by so many groups of equal inputs, of a column or of
    times; of times, squared errors as a share of the target's variance of rows between others and of later ones."""

    by: str
    groups: int | None = None
    between_nmse: float | None = None
    later_nmse: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtefactReport:
    """Stored part of the model. kind: full, compact or mean; bytes: of its arrays; precision: it predicts in;
    mean_rows: that its mean rests on, basis vectors or more rows. variance: of its error bars, basis or near (rows),
    None without them.

    Of a compact one: directions, how many; bits of their numbers; tolerance, as asked; largest_std_error, the largest
    relative change of a training row's standard deviation (noise included) against the full one; bound, the same for
    every row there can be, certified. None for the others.
    """

    kind: str
    bytes: int
    mean_rows: int
    variance: Variance | None = Variance.BASIS
    precision: Precision = Precision.FLOAT64
    directions: int | None = None
    bits: int | None = None
    tolerance: float | None = None
    largest_std_error: float | None = None
    bound: float | None = None

    @classmethod
    def of(cls, stored: Stored, model: Model) -> "ArtefactReport":
        """Return the report on a stored posterior of this model, and on its mean where that is stored beside it."""
        size = stored_bytes(stored) + (0 if model.mean is None else model.mean.basis.nbytes + model.mean.alpha.nbytes)
        size += 0 if model.near is None else model.near.nbytes
        if not isinstance(stored, CompactPosterior):
            variance = Variance.NEAR if model.near is not None else None if stored.mean_only else Variance.BASIS
            return cls(
                kind="mean" if variance is None else "full",
                bytes=size,
                mean_rows=model.mean_rows,
                variance=variance,
                precision=model.precision,
            )
        return cls(
            kind="compact",
            bytes=size,
            mean_rows=model.mean_rows,
            precision=model.precision,
            directions=stored.directions.shape[1],
            bits=8 * stored.directions.itemsize,
            tolerance=stored.tolerance,
            largest_std_error=stored.largest_error,
            bound=stored.std_bound,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainReport:
    """Findings of a run. hyperparameters in standardized units; objectives: phi per round, in nats.

    holdout: scores of rows that this theta and basis never saw, None where none were held out; leave_one_out: of the
    published model, closed form, or by folds where its mean rests on more rows; measures: what the method minimises,
    for 0, 1, .. basis vectors, where it was followed; candidates: models that were compared, none where there was one
    alone; target_transform, input_transform: what the target and the inputs were learnt as; splits: what was left out
    together; local_coverage: of left-out rows, by part; seconds by phase; warnings in plain words.
    """

    rows: int
    basis_size: int
    hyperparameters: Hyperparameters
    objectives: tuple[float, ...]
    holdout: Scores | None
    leave_one_out: Scores
    calibration: CalibrationReport
    stop_reason: str
    measures: tuple[float, ...]
    bounds: BoundsReport | None
    artefact: ArtefactReport
    seconds: dict[str, float]
    warnings: tuple[str, ...]
    target_transform: TransformReport
    input_transform: InputTransformReport
    local_coverage: LocalCoverage
    predicted_rows: PredictedRows
    splits: SplitsReport
    candidates: tuple[Candidate, ...] = ()

    @property
    def _feature_names(self) -> list[str]:
        return [f"feature {number}" for number in range(len(self.hyperparameters.lengthscales))]

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, text, lists and dictionaries; without single rows."""
        hyperparameters = self.hyperparameters
        return {
            "rows": self.rows,
            "basis_size": self.basis_size,
            "kernel": hyperparameters.kernel.value,
            "hyperparameters": {
                "lengthscales": hyperparameters.lengthscales.tolist(),
                "signal_variance": hyperparameters.signal_variance,
                "bias_variance": hyperparameters.bias_variance,
                "noise_variance": hyperparameters.noise_variance,
            },
            "objectives": list(self.objectives),
            "holdout": None if self.holdout is None else asdict(self.holdout),
            "leave_one_out": asdict(self.leave_one_out),
            "calibration": asdict(self.calibration),
            "target_transform": asdict(self.target_transform),
            "input_transform": self.input_transform.to_json(),
            "splits": asdict(self.splits),
            "local_coverage": self.local_coverage.to_json(self._feature_names),
            "stop_reason": self.stop_reason,
            "measures": list(self.measures),
            "bounds": None if self.bounds is None else asdict(self.bounds),
            "artefact": asdict(self.artefact),
            "candidates": [asdict(candidate) for candidate in self.candidates],
            "seconds": dict(self.seconds),
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeftOutErrors:
    """rows (m,): of the dataset, each left out; standardized (m,): their errors over the standard deviations they were
    predicted with, of the learnt target."""

    rows: IntArray
    standardized: FloatArray

    @classmethod
    def of(cls, rows: IntArray, targets: FloatArray, predicted: PredictiveDistribution) -> "LeftOutErrors":
        """Return the errors of predictions of these rows; targets (m,) in their own unit."""
        errors = predicted.transform.forward(targets) - predicted.centre
        return cls(rows=rows, standardized=errors / np.sqrt(predicted.variance))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainResult:
    """The published model, its basis (rows of the dataset, in the order chosen) and the report.

    stored: what is kept of the posterior, itself or a smaller form.
    moved: the basis vectors are rows no longer; the selection is where each started. errors: of left-out rows.
    state: what an update needs beside the model, in places of the dataset.
    """

    model: Model
    stored: Stored
    selection: Selection
    report: TrainReport
    moved: bool
    errors: LeftOutErrors
    state: TrainingState | None = None
