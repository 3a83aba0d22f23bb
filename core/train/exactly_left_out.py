"""Left-out predictions of a full Gaussian process on a few hundred rows, by which choices are made before a search."""

import numpy as np

from core.hyperparameters import Hyperparameters
from core.mean.closed import closed_form_mean
from core.mean.folds import each_left_out
from core.predict.calibration import LeftOut
from core.process.kernel import Kernel
from core.process.rows import Rows
from core.row_groups import RowGroups

FOLDS = 10
"""Folds of rows that are left out forward."""


def exactly_left_out(rows: Rows, theta: Hyperparameters, groups: RowGroups) -> LeftOut:
    """Predict each row from all the others, or from those outside its group, in closed form. O(n^3 / 2).

    Args:
        rows: standardized, n of them.
        theta: of the process, with constant noise.
        groups: rows that are left out together.

    Raises:
        NotPositiveDefiniteError: hyperparameters beyond double precision.
    """
    nothing = np.empty(0, np.int64)
    folds = each_left_out(len(rows), nothing, FOLDS, np.random.default_rng(0), groups)
    noise = rows.noises(theta.noise_variance)
    found = closed_form_mean(rows, Kernel.of(theta, rows.groups), noise, folds)
    left = folds.left
    return LeftOut(
        places=left,
        error=(rows.y - found.mean.left_out)[left],
        latent_variance=found.latent_variance[left],
        noise_variance=noise[left],
        far_variance=np.full(len(left), theta.signal_variance),
        group=folds.fold[left] if groups.forward else np.empty(0, np.int64),
    )
