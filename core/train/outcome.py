"""Outcome of a search, and the model that is made of it: as it predicts, and as it is stored."""

from dataclasses import dataclass, field, replace

from core.arrays import FloatArray
from core.predict.compact import Stored, served
from core.predict.float32 import kept_precision
from core.predict.model import Model, log_noise
from core.predict.predictor import Moments
from core.predict.transforms import Transform
from core.sparse.posterior import SparsePosterior
from core.spec import Artefact, TrainSpec
from core.train.calibrate import CalibrationResult
from core.train.compress import kept
from core.train.fit import Fit
from core.train.mean_choice import MeanChoice


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """Outcome of a search: the fit on all rows, its posterior, how it is calibrated, the held-out rows predicted
    by a fit on the others; the mean, where it is not that of the posterior."""

    fit: Fit
    fitted: SparsePosterior
    read: CalibrationResult
    predicted: Moments | None
    choice: MeanChoice = field(default_factory=MeanChoice)
    other_predicted: tuple[Moments, ...] = ()
    """The held-out rows as that fit predicts the other targets."""

    def stored(self, spec: TrainSpec) -> tuple[Stored, str | None]:
        """Return the stored posterior, and a warning where it is not what was asked."""
        noise = None if self.read.noise is None or spec.artefact is not Artefact.COMPACT else self.read.noise.noise
        return kept(
            self.fit.factors,
            self.fitted,
            spec.artefact,
            spec.tolerance,
            calibration=self.read.calibration,
            log_noise=None if noise is None else log_noise(noise, self.fit.subset.dataset.inputs),
            lowest=0.0 if noise is None else noise.lowest,
        )

    def model(
        self, stored: Stored, spec: TrainSpec, inputs: FloatArray, transform: Transform
    ) -> tuple[Model, str | None]:
        """Return the model, and a warning where it will not predict in the precision that was asked. inputs: of the
        run's dataset (n, p). transform: under which the target was learnt."""
        mean = self.choice.mean
        model = Model(
            posterior=self.fitted,
            mean=None
            if mean is None
            else replace(
                self.fitted.without_variance(),
                basis=inputs[self.fit.subset.numbers[mean.places]],
                alpha=mean.alpha,
            ),
            noise=None if self.read.noise is None else self.read.noise.noise,
            calibration=self.read.calibration,
            transform=transform,
        )
        seen = model if spec.artefact is not Artefact.COMPACT else replace(model, posterior=served(stored))
        precision, doubt = kept_precision(seen, self.fit.subset.dataset.inputs, spec.precision)
        return replace(model, precision=precision), doubt
