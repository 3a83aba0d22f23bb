"""Parts of a paper's reproduction, and the writing of its page."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.benchmarks.papers.scale import Scale
from tests.benchmarks.papers.units import Found, Unit


class Paper(Protocol):
    """One paper: its units, and its page made of what they returned."""

    name: str
    """Name on the command line: `keerthi-chu`."""
    title: str

    def units(self, scale: Scale) -> list[Unit]:
        """Units to run, each unit's name beginning with the table or figure."""
        ...

    def page(self, found: Mapping[str, Found], scale: Scale, folder: Path) -> str:
        """Markdown beneath the paper's heading: every table and figure beside the published numbers, the choices that
        the paper leaves open, and what agrees. CSV files and PNG pictures are written into `folder`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Mean and standard deviation over trials; the deviation is None for a single one."""

    mean: float
    deviation: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Mean and deviation of at least one value; the deviation with n - 1."""
        mean = sum(values) / len(values)
        if len(values) == 1:
            return cls(mean=mean, deviation=None)
        square = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
        return cls(mean=mean, deviation=square**0.5)

    def text(self, digits: int = 2) -> str:
        """`3.52 ± 0.08`."""
        if self.deviation is None:
            return f"{self.mean:.{digits}f}"
        return f"{self.mean:.{digits}f} ± {self.deviation:.{digits}f}"


def verdict(ours: Spread, published: Spread) -> str:
    """Lower is better: `within one deviation`, `better` or `worse`, by the published spread (or a tenth of the mean
    where none was published)."""
    least = published.deviation if published.deviation is not None else 0.1 * abs(published.mean)
    if abs(ours.mean - published.mean) <= least:
        return "within one deviation"
    return "better" if ours.mean < published.mean else "worse"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def write_csv(file: Path, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV file with a header; the folder is made."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(head)
        writer.writerows(rows)
