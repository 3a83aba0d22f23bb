"""Rows of a table that are trained on, and their design matrix."""

from dataclasses import dataclass, replace

import numpy as np

from app.tables.columns.cells import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingRows:
    """Rows to train on.

    rows (n,): 0-based row numbers of the upload; dropped: how many of its rows are not here; warnings: in words.
    """

    rows: IntArray
    dropped: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DesignMatrix:
    """A table ready to train on, in the target's and the inputs' own units.

    inputs (n, p); targets (n,); groups (p,): the lengthscale of each column; indicator (p,): columns of 0 and 1;
    rows (n,): 0-based row numbers of the upload; dropped: how many of its rows are not here; warnings: in plain words.
    """

    inputs: FloatArray
    targets: FloatArray
    groups: IntArray
    indicator: BoolArray
    rows: IntArray
    dropped: int
    warnings: tuple[str, ...] = ()

    def without(self, places: IntArray, reason: str) -> "DesignMatrix":
        """Return it without some of its rows. reason: for the warnings, in plain words."""
        kept = np.setdiff1d(np.arange(len(self.targets)), places)
        return replace(
            self,
            inputs=self.inputs[kept],
            targets=self.targets[kept],
            rows=self.rows[kept],
            dropped=self.dropped + len(places),
            warnings=(*self.warnings, reason),
        )

    def __post_init__(self) -> None:
        for name in ("inputs", "targets", "groups", "indicator", "rows"):
            view = getattr(self, name).view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)
