"""Rows of a table that are trained on, and their design matrix."""

from dataclasses import dataclass, field, replace

import numpy as np

from app.tables.columns.cells import BoolArray, FloatArray, IntArray
from app.tables.columns.row_set import RowSet
from app.tables.schema.row_groups import RowGroupColumn


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingRows:
    """Rows to train on.

    kept: those of the upload; warnings: in words; row_groups: the column that rows are left out by; weights: the column
    of how much each counts.
    """

    kept: RowSet
    warnings: tuple[str, ...] = ()
    row_groups: RowGroupColumn | None = None
    weights: str | None = None

    @property
    def rows(self) -> IntArray:
        """Return their 0-based row numbers in the upload, (n,): made anew, 8 bytes each."""
        return self.kept.numbers

    @property
    def dropped(self) -> int:
        """Return how many rows of the upload are not here."""
        return self.kept.left_out


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DesignMatrix:
    """A table ready to train on, in the target's and the inputs' own units.

    inputs (n, p); targets (n,); groups (p,): the lengthscale of each column; indicator (p,): columns of 0 and 1;
    rows (n,): 0-based row numbers of the upload; dropped: how many of its rows are not here; warnings: in plain words.
    row_groups: the column that rows are left out by, group_values (n,) what it says of each row, and group_names the
    names of groups by these; none and empty without. weight_column: the column of weights, and weights (n,) what each
    row counts, above zero; None and empty without.
    """

    inputs: FloatArray
    targets: FloatArray
    groups: IntArray
    indicator: BoolArray
    rows: IntArray
    dropped: int
    warnings: tuple[str, ...] = ()
    row_groups: RowGroupColumn | None = None
    group_values: FloatArray | IntArray = field(default_factory=lambda: np.empty(0))
    group_names: tuple[str, ...] = ()
    weight_column: str | None = None
    weights: FloatArray = field(default_factory=lambda: np.empty(0))

    def take(self, places: IntArray, *reasons: str) -> "DesignMatrix":
        """Return some of its rows. reasons: why the others are left out, for the warnings, in plain words."""
        return replace(
            self,
            inputs=self.inputs[places],
            targets=self.targets[places],
            rows=self.rows[places],
            group_values=self.group_values if self.row_groups is None else self.group_values[places],
            weights=self.weights[places] if len(self.weights) else self.weights,
            dropped=self.dropped + len(self.targets) - len(places),
            warnings=(*self.warnings, *reasons),
        )

    def without(self, places: IntArray, reason: str) -> "DesignMatrix":
        """Return it without some of its rows. reason: for the warnings, in plain words."""
        return self.take(np.setdiff1d(np.arange(len(self.targets)), places), reason)

    def __post_init__(self) -> None:
        for name in ("inputs", "targets", "groups", "indicator", "rows", "group_values", "weights"):
            view = getattr(self, name).view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)
