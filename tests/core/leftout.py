"""Left-out rows at random, and what a calibration's scales make of their variances, one row after the other."""

import numpy as np

from core.arrays import FloatArray
from core.predict.calibration import LeftOut


def rows(
    error: FloatArray,
    latent: FloatArray | float = 0.0,
    noise: FloatArray | float = 1.0,
    far_variance: FloatArray | float = np.inf,
) -> LeftOut:
    """Left-out rows with these errors and variances."""
    count = len(error)
    return LeftOut(
        places=np.arange(count),
        error=error,
        latent_variance=np.broadcast_to(latent, count),
        noise_variance=np.broadcast_to(noise, count),
        far_variance=np.broadcast_to(far_variance, count),
    )


def stretched(latent: float, far_variance: float, a: float) -> float:
    """Stretched latent variance, by the odds of what is left: a times those of the latent variance, as a share of the
    far_variance."""
    if np.isinf(far_variance):
        return a * latent
    if latent >= far_variance:
        return latent
    odds = a * latent / (far_variance - latent)
    return far_variance * odds / (1.0 + odds)


def variance_of(left_out: LeftOut, a: float, b: float) -> FloatArray:
    """Variance of each row, one after the other."""
    parts = zip(left_out.latent_variance, left_out.noise_variance, left_out.far_variance, strict=True)
    return np.array([stretched(latent, far, a) + b * s for latent, s, far in parts])


def random_rows(
    seed: int, count: int, scale: tuple[float, float] = (1.0, 1.0), *, share: float | None = None
) -> LeftOut:
    """Normal errors whose variance is stretch(l) + b s with this (a, b).

    share: of the rows, how many have a latent variance past the far_variance; None where there is no far_variance.
    """
    rng = np.random.default_rng(seed)
    latent, noise = rng.gamma(1.0, 1.0, size=count), rng.gamma(2.0, 0.4, size=count)
    far_variance = np.full(count, np.inf)
    if share is not None:
        far_variance = np.quantile(latent, 1.0 - share) * rng.uniform(1.0, 1.3, size=count)
    plain = rows(np.zeros(count), latent, noise, far_variance)
    return rows(np.sqrt(variance_of(plain, *scale)) * rng.normal(size=count), latent, noise, far_variance)
