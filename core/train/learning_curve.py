"""The learning curve between left-out rows and all rows: errors that fall as rows are added.

Rows left out with a fold are predicted from fewer rows than there are, and their errors are larger than those of the
model that has all. Mostly the latent variance says so itself. Where a function has next to no noise, and what few rows
do not tell of it is taken for noise, the noise has to fall too. Squared errors with one fold left out, E_1 from n_1
rows, and those of the same rows with two, E_2 from n_2, give the power of n by which they fall (learning curves of
Gaussian processes: Sollich 1999; as a power of the number of rows: Hestness et al. 2017), and so E from all n rows:

    E / E_1 = (n / n_1)^-a,    a = log(E_2 / E_1) / log(n_1 / n_2)

Errors are in units of each row's standard deviation, and E is the square of their mean size, which a few large ones do
not decide. What is within a standard error of no growth is none.
"""

from dataclasses import dataclass

import numpy as np

from core.arrays import FloatArray

LEAST_KEPT = 0.5
"""Share of the noise that is kept at least."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LearningCurve:
    """All rows of two folds of one size, (m,) each: errors without their own fold and without both; calibrated variance
    and latent variance without their own fold; and the latent variance of each without itself alone."""

    one: FloatArray
    both: FloatArray
    variance: FloatArray
    latent: FloatArray
    latent_of_all: FloatArray

    def fall(self, rows: int) -> float:
        """Return E / E_1, 1 at most. rows: n, of which these are some."""
        left, sd = len(self.one), np.sqrt(self.variance)
        one, both = np.abs(self.one) / sd, np.abs(self.both) / sd
        if not one.mean() > 0.0:  # nothing to fall
            return 1.0
        times = float(both.mean() / one.mean())
        doubt = float(np.std(both / both.mean() - one / one.mean()) / np.sqrt(len(one)))  # of log times
        power = 2.0 * max(np.log(max(times, 1.0)) - doubt, 0.0) / np.log((rows - 0.5 * left) / (rows - left))
        return float((1.0 - 0.5 * left / rows) ** power)

    def noise_kept(self, rows: int) -> float:
        """Return the share of the noise that is left of it with all n rows: what E / E_1 asks for beside the latent
        variance that falls by itself; 1 at most, and LEAST_KEPT at least."""
        noise = np.mean((self.variance - self.latent) / self.variance)
        wanted = self.fall(rows) - np.mean(self.latent_of_all / self.variance)
        return float(np.clip(wanted / noise, LEAST_KEPT, 1.0)) if noise > 0.0 else 1.0
