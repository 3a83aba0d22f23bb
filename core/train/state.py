"""State that an update needs beside the model: the sums over its training rows, and the rows where they are few.

    information = V D^-1 V',   b = V D^-1 y            (`core.sparse.factors`)

New rows add to both, rows that are forgotten are taken off, and alpha and the error bars follow in O(d^3), whatever the
number of rows. Rows themselves are needed by what more basis vectors, and a mean on rows of its own, ask of them.
"""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from core.arrays import FloatArray, IntArray
from core.errors import InvalidDataError
from core.predict.calibration import LeftOut
from core.sparse.factors import Factors

KEPT_NUMBERS = 2_000_000
"""Numbers of training rows that are kept, 16 MB; of more rows the sums alone are."""
MOST_LEFT_OUT = 20_000
"""Left-out rows that are kept for the calibration, evenly spaced where there are more."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingState:
    """State of a model of rows that stand alone, after its training or after an update.

    numbers (n,): row numbers of the upload, and of rows that came later those after them. beyond: how many rows more
    are in the sums, whose numbers nobody kept. inputs (n, p), raw, and targets (n,), as they are learnt and not
    standardized: empty where the rows are too many. information (d, d), b (d,): sums of a sparse posterior, empty of a
    full process. left_out: what the calibration comes from, in places of `numbers`; None where there is nothing of it.
    trained: rows of the last full training; added: rows since.
    """

    numbers: IntArray
    inputs: FloatArray
    targets: FloatArray
    information: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    b: FloatArray = field(default_factory=lambda: np.empty(0))
    left_out: LeftOut | None = None
    trained: int = 0
    added: int = 0
    beyond: int = 0

    @classmethod
    def of(
        cls,
        inputs: FloatArray,
        targets: FloatArray,
        factors: Factors | None,
        left_out: LeftOut | None,
        *,
        numbers: IntArray | None = None,
        trained: int | None = None,
        added: int = 0,
        beyond: int = 0,
    ) -> Self:
        """Return the state of a fit. factors: None of a full process, whose rows are always kept."""
        rows = beyond + (len(targets) if numbers is None else len(numbers))
        keep = factors is None or (not beyond and inputs.size + targets.size <= KEPT_NUMBERS)
        if left_out is not None and len(left_out.places) > MOST_LEFT_OUT:
            steps = (np.arange(MOST_LEFT_OUT) * len(left_out.places)) // MOST_LEFT_OUT
            left_out = left_out.take(steps)
        if left_out is not None:
            left_out = replace(left_out, others=np.empty((0, 0)))  # a state is of one target
        sums = {} if factors is None else {"information": factors.information, "b": right_side(factors)}
        return cls(
            numbers=np.arange(len(targets)) if numbers is None else numbers,
            inputs=inputs if keep else inputs[:0],
            targets=targets if keep else targets[:0],
            left_out=left_out,
            trained=rows if trained is None else trained,
            added=added,
            beyond=beyond,
            **sums,
        )

    @property
    def rows(self) -> int:
        """Return the number of rows that the model has learnt from."""
        return len(self.numbers) + self.beyond

    @property
    def has_rows(self) -> bool:
        """True where the rows themselves are kept."""
        return len(self.targets) == self.rows

    def numbered(self, numbers: IntArray) -> Self:
        """Return the state with these row numbers, (n,)."""
        return replace(self, numbers=numbers)

    def places(self, numbers: IntArray) -> IntArray:
        """Return the places of rows with these numbers. InvalidDataError naming the first that is not there."""
        order = np.argsort(self.numbers, kind="stable")
        at = np.minimum(np.searchsorted(self.numbers, numbers, sorter=order), len(order) - 1)
        absent = np.flatnonzero(self.numbers[order[at]] != numbers)
        if len(absent):
            raise InvalidDataError(
                f"forget: row {numbers[absent[0]]} is not among the {len(order):,} rows of the model"
                + (f", nor are {len(absent) - 1} more" if len(absent) > 1 else "")
            )
        return np.asarray(order[at])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NewRows:
    """Rows to learn from: inputs (k, p), raw; targets (k,), in their own unit; numbers (k,): of no row before."""

    inputs: FloatArray
    targets: FloatArray
    numbers: IntArray


def right_side(factors: Factors) -> FloatArray:
    """Return b = V D^-1 y of factors, (d,)."""
    return np.asarray(factors.LB @ (factors.LB.T @ factors.c))
