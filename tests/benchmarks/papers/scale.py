"""Scales of a reproduction."""

from dataclasses import dataclass
from enum import StrEnum


class Size(StrEnum):
    """TINY: seconds, for the tests. QUICK: minutes, one or two trials. FULL: as the paper has it, hours."""

    TINY = "tiny"
    QUICK = "quick"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The size, and the trials that were asked for (None: as many as the size has)."""

    size: Size = Size.FULL
    trials: int | None = None

    def trials_of(self, *, quick: int, full: int) -> int:
        """Independent partitions to run; one where the size is tiny."""
        if self.trials is not None:
            return self.trials
        return {Size.TINY: 1, Size.QUICK: quick, Size.FULL: full}[self.size]
