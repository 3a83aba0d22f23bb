"""All that predicts: a posterior, how its noise varies, how its error bars were calibrated, what the target was learnt
as. No training row is left in it.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from core.arrays import FloatArray, frozen
from core.errors import InvalidDataError
from core.numeric.workspace import Workspace
from core.predict.calibration import Calibration
from core.predict.distribution import PredictiveDistribution
from core.predict.full_predictor import FullPredictor
from core.predict.mean import MeanPredictor
from core.predict.predictor import Predictor
from core.predict.transforms import Transform
from core.sparse.posterior import SparsePosterior
from core.spec import Precision, TargetTransform

NEAR_WORK = 50_000
"""Multiply-adds that the variance of a row from its nearest rows takes as long as, beside the kernel values."""
CENTRE_WORK = 64
"""Multiply-adds that take as long as one kernel value: measured, 10,000 of them as 500 basis vectors' d^2 by 2.5."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VaryingNoise:
    """log of the noise variance over the constant one, as a function of the inputs.

    posterior: its mean. lowest, highest: of it at the training rows, past which no input takes it.
    """

    posterior: SparsePosterior
    lowest: float
    highest: float

    def __post_init__(self) -> None:
        if not -np.inf < self.lowest <= self.highest < np.inf:
            raise InvalidDataError(f"noise: expected a range, got {self.lowest!r} to {self.highest!r}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Model:
    """All that predicts.

    posterior: of the learnt target. noise: None where it is the same everywhere. precision: to predict in. mean: rows
    and weights of the mean where it does not rest on the posterior's basis, as a posterior without variance, of the
    same theta and units.
    """

    posterior: SparsePosterior
    noise: VaryingNoise | None = None
    calibration: Calibration = field(default_factory=Calibration)
    transform: Transform = field(default_factory=Transform)
    precision: Precision = Precision.FLOAT64
    mean: SparsePosterior | None = None
    near: FloatArray | None = None

    def __post_init__(self) -> None:
        if self.near is not None:
            object.__setattr__(self, "near", frozen(self.near))
            self._check_near(self.near)
        if self.mean is None:
            return
        theirs, ours = self.mean, self.posterior
        if not theirs.mean_only or theirs.kernel is not ours.kernel or theirs.scalars() != ours.scalars():
            raise InvalidDataError("mean: expected weights alone, of the same kernel, noise and units as the posterior")
        for name in ("lengthscales", "groups", "input_shift", "input_scale"):
            if not np.array_equal(getattr(theirs, name), getattr(ours, name)):
                raise InvalidDataError(f"mean: expected the {name} of the posterior")
        if not np.array_equal(theirs.input_transform.table, ours.input_transform.table):
            raise InvalidDataError("mean: expected the input_transform of the posterior")

    def _check_near(self, near: FloatArray) -> None:
        if not self.posterior.mean_only or self.mean is not None:
            raise InvalidDataError("near: expected a posterior without variance, and no other mean")
        if near.shape != (len(self.posterior.basis),):
            raise InvalidDataError(f"near: expected a number for each row, got shape {near.shape}")
        if not ((near > 0.0) & np.isfinite(near)).all():
            raise InvalidDataError("near: expected finite noise variances above zero")

    @property
    def mean_rows(self) -> int:
        """Rows that the mean rests on, or basis vectors."""
        return len((self.mean or self.posterior).basis)


class _Noise:
    """A VaryingNoise made ready."""

    def __init__(self, noise: VaryingNoise, workspace: Workspace | None, precision: Precision) -> None:
        self.predictor = Predictor(noise.posterior, workspace, precision)
        self._range = (noise.lowest, noise.highest)

    def logarithm(self, inputs: FloatArray) -> FloatArray:
        return np.clip(self.predictor.mean(inputs), *self._range)


class ModelPredictor:
    """A model made ready, of which it keeps no array: no state that prediction changes, safe to share between threads.
    workspace: `Predictor`'s."""

    def __init__(self, model: Model, workspace: Workspace | None = None) -> None:
        self.predictor: Predictor | FullPredictor
        if model.near is None:
            self.predictor = Predictor(model.posterior, workspace, model.precision)
        else:
            self.predictor = FullPredictor(model.posterior, model.near, workspace, model.precision)
        self.calibration, self.transform = model.calibration, model.transform
        self._noise = None if model.noise is None else _Noise(model.noise, workspace, model.precision)
        self._mean = None if model.mean is None else MeanPredictor(model.mean, workspace)

    @property
    def columns(self) -> int:
        """p, the number of input columns."""
        return self.predictor.columns

    @property
    def row_work(self) -> int:
        """Multiply-adds of a row, about, at least 1: d^2, and for each row of a mean that has its own, or of a full
        process, CENTRE_WORK."""
        if isinstance(self.predictor, FullPredictor):
            return CENTRE_WORK * self.predictor.basis_size + NEAR_WORK
        return max(1, self.predictor.basis_size**2 + (0 if self._mean is None else CENTRE_WORK * self._mean.size))

    @property
    def mean_only(self) -> bool:
        """True where there is a mean and no error bar."""
        return self.predictor.mean_only

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        others = (self._mean, None if self._noise is None else self._noise.predictor)
        return self.predictor.nbytes + sum(other.nbytes for other in others if other is not None)

    def predict(self, inputs: FloatArray, weights: FloatArray | None = None) -> PredictiveDistribution:
        """Predict inputs (m, p) in raw units. O(m d^2 / 2), and O(m M p) for a mean from M rows.

        weights (m,): of the rows, above zero, over the mean weight of the training: each row's noise variance is
        divided by its own, as that of left-out rows is where error bars are calibrated; default all of mean weight.
        Raises InvalidDataError as `Predictor.moments` does, MeanOnlyError where the model has a mean alone.
        """
        found, calibration = self.predictor.moments(inputs), self.calibration
        if self._mean is not None:
            found = replace(found, mean=self._mean.mean(inputs))
        noise: FloatArray | float = self.predictor.noise_variance
        if self._noise is not None:
            noise = noise * np.exp(self._noise.logarithm(inputs))
        if weights is not None:
            noise = noise / weights
        latent = calibration.latent(found.latent_variance, found.far_variance)
        return PredictiveDistribution(
            centre=found.mean,
            variance=latent + calibration.noise_scale * noise,
            calibration=calibration,
            transform=self.transform,
            latent_variance=latent,
            support=np.minimum(found.latent_variance / found.far_variance, 1.0),
        )

    def mean(self, inputs: FloatArray) -> FloatArray:
        """The mean (m,) of the target alone, to the bits of `predict`: O(m d p), or as much as all the rest where it is
        a moment of a transformed target. Raises InvalidDataError as `predict` does."""
        if self.transform.kind is TargetTransform.NONE or self.mean_only:
            return self.transform.within((self._mean or self.predictor).mean(inputs))
        return self.predict(inputs).moments()[0]


def log_noise(noise: VaryingNoise, inputs: FloatArray) -> FloatArray:
    """log of the noise variance over the constant one at inputs (m, p) in raw units, (m,), for a single use."""
    return _Noise(noise, None, Precision.FLOAT64).logarithm(inputs)
