"""A search that begins at another model: its theta, and its basis where the table has the same rows.

Lengthscales and variances are taken in units of spread, as both trainings standardize: a table to which rows were
appended has nearly the spread that it had. Basis vectors are looked for among the rows by their exact values; the
first round has those that are found among its candidates, and keeps them where no other choice has a lower objective.
"""

from dataclasses import dataclass, replace

import numpy as np

from core.arrays import FloatArray
from core.hyperparameters import Hyperparameters
from core.process.theta import Box, Theta
from core.row_groups import row_hashes
from core.selection.state import Selection
from core.train.fit import Subset


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WarmStart:
    """theta of another model, with a lengthscale for each feature of this table, NaN where the other has none; basis
    (d, p): its basis vectors, raw, none where its columns are others."""

    theta: Hyperparameters
    basis: FloatArray

    @classmethod
    def of(cls, theta: Hyperparameters, lengthscales: FloatArray, basis: FloatArray) -> "WarmStart":
        """Return the start with these lengthscales (g,): those that are not known are as the median of the others."""
        known = lengthscales[np.isfinite(lengthscales)]
        middle = float(np.median(known)) if len(known) else float(np.median(theta.lengthscales))
        filled = np.where(np.isfinite(lengthscales), lengthscales, middle)
        return cls(theta=replace(theta, lengthscales=filled), basis=basis)

    def within(self, bounds: Box) -> Hyperparameters:
        """Return theta, held within the bounds of a search."""
        return Theta(values=bounds.clip(Theta.of(self.theta).values)).hyperparameters(self.theta.kernel)

    def selection(self, subset: Subset) -> Selection:
        """Return the rows of a subset that were basis vectors, in the order of these. O(n p)."""
        inputs = subset.dataset.inputs
        if self.basis.shape[1:] != inputs.shape[1:] or not len(self.basis):
            return _selection(np.empty(0, np.int64))
        hashes = row_hashes(inputs)
        order = np.argsort(hashes, kind="stable")
        wanted = row_hashes(self.basis)
        at = np.minimum(np.searchsorted(hashes, wanted, sorter=order), len(order) - 1)
        places = order[at][hashes[order[at]] == wanted]
        return _selection(subset.numbers[np.array([*dict.fromkeys(places.tolist())], np.int64)])


def _selection(indices: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Selection:
    return Selection(
        indices=indices, gains=np.full(len(indices), np.nan), reason="the basis of the model that it began from"
    )
