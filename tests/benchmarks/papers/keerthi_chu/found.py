"""Results of the units of Figure 1 and Table 1, by question."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import ranksums

from tests.benchmarks.papers.paper import Spread
from tests.benchmarks.papers.units import Found

LEAST_P = 0.01
"""Level of Wilcoxon's rank sum test, as in the paper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureFound:
    """Figure 1. methods as in its units; trials: how many partitions."""

    found: Mapping[str, Found]
    methods: Sequence[str]
    trials: int

    @property
    def sizes(self) -> list[int]:
        """Numbers of basis vectors that were scored."""
        return [int(size) for size in self._unit(self.methods[0], 0)["sizes"]]

    def timed(self, method: str) -> list[int]:
        """Numbers of basis vectors that were timed."""
        return [int(size) for size in self._unit(method, 0)["timed"]]

    def each(self, method: str, size: int, key: str, approximation: str = "dtc") -> list[float]:
        """One score on every partition."""
        place = self.sizes.index(size)
        return [float(self._unit(method, trial)["scores"][approximation][place][key]) for trial in range(self.trials)]

    def mean(self, method: str, size: int, key: str, approximation: str = "dtc") -> float:
        """Mean of a score over partitions."""
        return Spread.of(self.each(method, size, key, approximation)).mean

    def seconds(self, method: str, *, one_by_one: bool = True) -> dict[int, float]:
        """Mean seconds of choosing and fitting, by number of basis vectors.

        one_by_one: for `rand`, whose rows can be taken in all at once, the seconds of taking them in one by one.
        """
        parts = ("choosing", "growing") if method == "rand" and one_by_one else ("choosing", "fitting")
        trials = [self._unit(method, trial) for trial in range(self.trials)]
        return {
            size: Spread.of([sum(found[part][place] for part in parts) for found in trials]).mean
            for place, size in enumerate(self.timed(method))
        }

    def exponent(self, method: str, *, one_by_one: bool = True) -> float:
        """Slope of log seconds over log d, by least squares."""
        seconds = self.seconds(method, one_by_one=one_by_one)
        return float(np.polyfit(np.log(list(seconds)), np.log(list(seconds.values())), 1)[0])

    def _unit(self, method: str, trial: int) -> Found:
        return self.found[f"figure-1/{method}/{trial}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFound:
    """Table 1. sets as in its units; trials: how many partitions of each, of which some columns have the first few."""

    found: Mapping[str, Found]
    sets: Sequence[str]
    trials: int

    def partitions(self, name: str, column: str) -> list[int]:
        """Partitions on which the column was run."""
        return [trial for trial in range(self.trials) if f"table-1/{name}/{column}/{trial}" in self.found]

    def each(self, name: str, column: str, key: str, bars: str = "plain") -> list[float]:
        """One score on every partition of the column; bars: `plain` or `calibrated`."""
        return [float(unit[bars][key]) for unit in self._units(name, column)]

    def spread(self, name: str, column: str, key: str, bars: str = "plain") -> Spread:
        """Mean and deviation of a score; NMSE in percent."""
        scale = 100.0 if key == "nmse" else 1.0
        return Spread.of([scale * value for value in self.each(name, column, key, bars)])

    def coverage(self, name: str, column: str, bars: str, level: str = "0.95") -> Spread:
        """Share of test targets inside the intervals of this level, in percent."""
        found = [unit[bars]["coverage"] for unit in self._units(name, column)]
        return Spread.of([100.0 * float(shares[level]) for shares in found if level in shares])

    def seconds(self, name: str, column: str) -> Spread:
        """Processor seconds of training."""
        return Spread.of([float(unit["training_seconds"]) for unit in self._units(name, column)])

    def unit(self, name: str, column: str, trial: int) -> dict[str, Any]:
        """All of one unit."""
        return self.found[f"table-1/{name}/{column}/{trial}"]

    def _units(self, name: str, column: str) -> list[dict[str, Any]]:
        return [self.unit(name, column, trial) for trial in self.partitions(name, column)]


def significantly_worse(values: Sequence[float], winner: Sequence[float]) -> bool:
    """True if `values` are higher than the winner's, by the rank sum test."""
    if sum(values) / len(values) <= sum(winner) / len(winner):
        return False
    return float(ranksums(values, winner).pvalue) < LEAST_P
