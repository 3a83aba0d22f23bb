"""The prediction of one row, kept with a model: who loads it can tell whether it predicts here what it did there."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from app.errors import BrokenArtefactError


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Mean and standard deviation, in the target's unit, of the basis vector of this number; std is None where the
    model has means alone."""

    row: int
    mean: float
    std: float | None

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Any, rows: int) -> Self:
        """Restore it, of a model of so many basis vectors; BrokenArtefactError."""
        if not isinstance(document, Mapping) or set(document) != {"row", "mean", "std"}:
            raise BrokenArtefactError("the artefact's header has a probe without row, mean and std")
        row, mean, std = (document[name] for name in ("row", "mean", "std"))
        if isinstance(row, bool) or not isinstance(row, int) or not 0 <= row < rows:
            raise BrokenArtefactError(f"probe.row: expected the number of a basis vector, got {row!r:.80}")
        for name, value in (("mean", mean), ("std", std)):
            if (name, value) != ("std", None) and not _is_finite(value):
                raise BrokenArtefactError(f"probe.{name}: expected a finite number, got {value!r:.80}")
        return cls(row=row, mean=float(mean), std=None if std is None else float(std))


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
