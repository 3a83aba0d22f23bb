"""Families of series: counters, gauges and histograms of one process, by label values.

Recording takes well under a microsecond, as predictions do it several times each; the text that Prometheus reads is
made when it asks (`app.telemetry.exposition`). A family holds a bounded number of series: label values that come beyond
it are counted under OTHER, so that names which clients think of cannot fill the memory.
"""

import threading
from bisect import bisect_left
from collections.abc import Iterator

OTHER = "other"
"""Label value of all series that a family has no room for."""

Labels = tuple[str, ...]


class Family:
    """Name, help and label names of some series; values by label values, in the order of the names."""

    kind = "untyped"

    def __init__(self, name: str, help_text: str, labels: Labels = (), *, max_series: int = 500) -> None:
        self.name = name
        self.help = help_text
        self.labels = labels
        self._max_series = max_series
        self._lock = threading.Lock()
        self._values: dict[Labels, list[float]] = {}

    def series(self) -> Iterator[tuple[Labels, list[float]]]:
        """Yield copies of all series: label values and numbers."""
        with self._lock:
            copied = [(labels, list(numbers)) for labels, numbers in self._values.items()]
        yield from copied

    def _numbers(self, labels: Labels) -> list[float]:
        """The numbers of a series, made at its first use; call it under the lock."""
        numbers = self._values.get(labels)
        if numbers is None:
            if len(labels) != len(self.labels):
                raise ValueError(f"{self.name} has the labels {self.labels}, got {labels}")
            if len(self._values) >= self._max_series:
                labels = (OTHER,) * len(labels)
            numbers = self._values.setdefault(labels, self._zeros())
        return numbers

    def _zeros(self) -> list[float]:
        return [0.0]


class Counter(Family):
    """Number that only rises."""

    kind = "counter"

    def add(self, labels: Labels = (), amount: float = 1.0) -> None:
        """Add an amount, 1 by default."""
        with self._lock:
            self._numbers(labels)[0] += amount


class Gauge(Family):
    """Number as it is now."""

    kind = "gauge"

    def set(self, value: float, labels: Labels = ()) -> None:
        """Set the value."""
        with self._lock:
            self._numbers(labels)[0] = value


class Histogram(Family):
    """Counts of values by ranges: up to each of `bounds`, and beyond the last; then the sum of all values."""

    kind = "histogram"

    def __init__(
        self, name: str, help_text: str, labels: Labels = (), *, bounds: tuple[float, ...], max_series: int = 500
    ) -> None:
        super().__init__(name, help_text, labels, max_series=max_series)
        self.bounds = bounds

    def observe(self, value: float, labels: Labels = ()) -> None:
        """Count a value."""
        with self._lock:
            numbers = self._numbers(labels)
            numbers[bisect_left(self.bounds, value)] += 1.0
            numbers[-1] += value

    def _zeros(self) -> list[float]:
        return [0.0] * (len(self.bounds) + 2)
