"""What left-out rows gain by a mean on more rows than the basis, and whether that pays.

`auto` compares both on the same rows: the mean of the basis has to lose by more than a standard error of the paired
differences of the predictive loss (Breiman et al. 1984), and by LEAST_GAIN or with squared errors that are larger by
more than LEAST_FALL, and than their own standard error.
"""

from dataclasses import dataclass

import numpy as np

from core.arrays import FloatArray
from core.predict.calibration import loss_of
from core.train.calibrate import CalibrationResult

LEAST_GAIN, LEAST_FALL = 0.01, 0.02
"""Nats a row, or share of the squared errors, below which a mean on more rows, which makes every prediction slower, is
not worth it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """How much less the same left-out rows lose by the new mean, nats a row, and by which share of the old ones its
    squared errors are smaller, with the standard error of each."""

    loss: float
    loss_doubt: float
    fall: float
    fall_doubt: float

    @classmethod
    def of(cls, basis: CalibrationResult, mean: CalibrationResult) -> "Gain":
        """Compare two calibrated means by the rows that both left out. O(m log m)."""
        assert basis.left_out is not None
        assert mean.left_out is not None
        _, before, now = np.intersect1d(basis.left_out.places, mean.left_out.places, return_indices=True)
        less = row_losses(basis)[before] - row_losses(mean)[now]
        squares = _squares(basis)[before]
        falls = (squares - _squares(mean)[now]) / squares.mean()
        root = float(np.sqrt(len(less)))
        return cls(
            loss=float(less.mean()),
            loss_doubt=float(less.std()) / root,
            fall=float(falls.mean()),
            fall_doubt=float(falls.std()) / root,
        )

    @property
    def pays(self) -> bool:
        """Return whether `auto` takes the new mean."""
        return self.loss > max(self.loss_doubt, LEAST_GAIN) or self._pays_by_squares

    @property
    def _pays_by_squares(self) -> bool:
        return self.loss > self.loss_doubt and self.fall > max(self.fall_doubt, LEAST_FALL)

    @property
    def told(self) -> str:
        """Return what is gained, in words."""
        verb = "gains" if self.loss > 0.0 else "loses"
        return (
            f"the mean of more rows {verb} {abs(self.loss):.4f} nats a left-out row, standard error "
            f"{self.loss_doubt:.4f}"
        )

    @property
    def reason(self) -> str:
        """Return why `auto` takes it, or does not."""
        least = f"one standard error and {LEAST_GAIN:g}"
        if self.loss > max(self.loss_doubt, LEAST_GAIN):
            return f"{self.told}: more than {least}"
        if self._pays_by_squares:
            return f"{self.told}: more than that, and its squared errors are smaller by {self.fall:.1%}"
        return f"{self.told}: not a gain of more than {least}"


def row_losses(read: CalibrationResult) -> FloatArray:
    """Return the predictive loss of each left-out row by its own calibration, (m,), nats."""
    assert read.left_out is not None
    return loss_of(read.left_out, read.calibration.latent_scale, read.calibration.noise_scale)


def _squares(read: CalibrationResult) -> FloatArray:
    """Squared error of each left-out row times its weight, (m,)."""
    left_out = read.left_out
    assert left_out is not None
    squares = np.square(left_out.error)
    return np.asarray(left_out.weights * squares if len(left_out.weights) else squares)
