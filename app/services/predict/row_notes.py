"""Notes of an answer on its rows beside their numbers: those far from all training rows, those without a prediction.

Notes are gathered part by part; of each sort the rows are counted and the first TOLD_ROWS named.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.services.predict.far_rows import TOLD_ROWS, far_message, far_rows
from core.arrays import FloatArray, IntArray


@dataclass(slots=True, kw_only=True)
class _Rows:
    count: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, rows: IntArray, first_row: int) -> None:
        self.count += len(rows)
        self.first += (rows[: TOLD_ROWS - len(self.first)] + first_row).tolist()


@dataclass(slots=True, kw_only=True)
class RowNotes:
    """Notes of an answer. reason: place and reason of the first row without a prediction."""

    far: _Rows = field(default_factory=_Rows)
    failed: _Rows = field(default_factory=_Rows)
    reason: str | None = None

    def add(
        self,
        arrays: Mapping[str, FloatArray],
        *,
        first_row: int = 0,
        reason: str | None = None,
        tolerated: bool = False,
    ) -> None:
        """Add the rows of a part of the answer. tolerated: there may be some without a prediction; reason: why the
        first of them could not be read."""
        far = far_rows(arrays)
        if far is not None:
            self.far.add(far, first_row)
        failed = np.flatnonzero(np.isnan(arrays["mean"])) if tolerated else None
        if failed is not None and len(failed):
            if self.reason is None:
                self.reason = reason or f"row {first_row + int(failed[0])}: its prediction is not a finite number"
            self.failed.add(failed, first_row)

    def to_json(self) -> list[dict[str, Any]]:
        """The `warnings` of an answer."""
        found = []
        if self.far.count:
            message = far_message(self.far.count, self.far.first)
            found.append({"kind": "far", "message": message, "count": self.far.count, "rows": self.far.first})
        if self.failed.count:
            found.append(
                {
                    "kind": "failed",
                    "message": self._failed_message(),
                    "count": self.failed.count,
                    "rows": self.failed.first,
                }
            )
        return found

    def sentence(self) -> str | None:
        """The same in one line; None where there is nothing to tell."""
        return "; ".join(note["message"] for note in self.to_json()) or None

    def _failed_message(self) -> str:
        some = "1 row has" if self.failed.count == 1 else f"{self.failed.count} rows have"
        return f"{some} no prediction, the first because of {self.reason}"
