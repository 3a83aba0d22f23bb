"""Summary of what a version was asked in a day: counts, which add up; and what they say of drift.

The population stability index of shares a against those of training e is sum (a - e) ln(a / e): below .1 little has
changed, from .25 on much has (Siddiqi 2006). No share is taken to be below LEAST_SHARE, nor below half a row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from app.services.monitoring.profile import MISSING, OTHERS, OUTSIDE, UNSEEN, TrainingProfile
from core.arrays import FloatArray

LEAST_SHARE = 1e-4
LEAST_ROWS = 100
"""Rows below which nothing is said of drift: chance alone moves shares of fewer."""
MUCH = 0.25
"""Index from which a distribution is another one."""
MUCH_OUTSIDE = 0.05
"""Share of cells out of range, or of unseen levels, that is told."""


@dataclass(slots=True, kw_only=True)
class Summary:
    """Counts of a day. rows: predicted; known: of these with a known support; near_prior: far from all training rows;
    counted: rows whose cells were counted, a sample of all; columns, means: these counts; others: what is known of each
    other target of a model of several, whose columns are empty where they are counted as those of the first."""

    rows: int = 0
    known: int = 0
    near_prior: int = 0
    counted: int = 0
    columns: dict[str, list[int]] = field(default_factory=dict)
    means: list[int] = field(default_factory=list)
    others: list["Summary"] = field(default_factory=list)

    def add(self, other: "Summary") -> None:
        """Add the counts of another one."""
        self.rows += other.rows
        self.known += other.known
        self.near_prior += other.near_prior
        self.counted += other.counted
        for name, counts in other.columns.items():
            self.columns[name] = _sum(self.columns.get(name, []), counts)
        self.means = _sum(self.means, other.means)
        self.others += [Summary() for _ in other.others[len(self.others) :]]
        for one, more in zip(self.others, other.others, strict=False):
            one.add(more)

    def of_target(self, place: int) -> "Summary":
        """Return the numbers of the target at a place, from 0."""
        if not place:
            return self
        own = self.others[place - 1] if place <= len(self.others) else Summary()
        return replace(own, rows=self.rows, counted=self.counted, columns=own.columns or self.columns)

    def to_json(self) -> dict[str, Any]:
        """Plain numbers and lists."""
        return {
            "rows": self.rows,
            "known": self.known,
            "near_prior": self.near_prior,
            "counted": self.counted,
            "columns": self.columns,
            "means": self.means,
            **({"others": [one.to_json() for one in self.others]} if self.others else {}),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Summary":
        """Restore what `to_json` made of one."""
        known = {name: document[name] for name in cls.__slots__ if name in document}
        return cls(**known | {"others": [cls.from_json(one) for one in document.get("others", ())]})


def drift(summary: Summary, profile: TrainingProfile | None) -> dict[str, Any]:
    """Return what a summary says, as JSON: shares, the stability index of each column, and of the predictions."""
    found: dict[str, Any] = {
        "rows": summary.rows,
        "near_prior_share": summary.near_prior / summary.known if summary.known else None,
        "counted_rows": summary.counted,
        "columns": [],
        "prediction_psi": None,
    }
    if profile is None or not summary.counted:
        return found
    for place, feature in enumerate(profile.features):
        counts = summary.columns.get(feature.name, [])
        shares, missing = profile.shares(place)
        if len(counts) != OTHERS + len(shares):
            continue
        expected = np.concatenate(([missing, 0.0], (1.0 - missing) * _normalised(shares)))
        actual = np.array([counts[MISSING], counts[UNSEEN], *counts[OTHERS:]], np.float64)
        found["columns"].append(
            {
                "name": feature.name,
                "psi": stability_index(actual, expected),
                "missing_share": counts[MISSING] / summary.counted,
                "out_of_range_share": counts[OUTSIDE] / summary.counted,
                "unseen_share": counts[UNSEEN] / summary.counted,
            }
        )
    if len(summary.means) == len(profile.target.shares):
        found["prediction_psi"] = stability_index(np.array(summary.means, np.float64), profile.target.shares)
    return found


def messages(found: Mapping[str, Any]) -> list[str]:
    """Say in sentences which columns have drifted."""
    if found["counted_rows"] < LEAST_ROWS:
        return []
    said = []
    for column in found["columns"]:
        name = column["name"]
        if column["psi"] >= MUCH:
            said.append(
                f"column {name!r} is distributed otherwise than in training (population stability index "
                f"{column['psi']:.2f})"
            )
        if column["out_of_range_share"] >= MUCH_OUTSIDE:
            said.append(
                f"column {name!r} is out of the range of training in {column['out_of_range_share']:.1%} of the rows"
            )
        if column["unseen_share"] >= MUCH_OUTSIDE:
            said.append(
                f"column {name!r} has levels that training has not seen in {column['unseen_share']:.1%} of the rows"
            )
    return said


def stability_index(counts: FloatArray, expected: FloatArray) -> float:
    """Population stability index of counts against expected shares; 0 of no counts."""
    total = float(counts.sum())
    if total == 0.0:
        return 0.0
    least = max(LEAST_SHARE, 0.5 / total)
    actual, wanted = np.maximum(counts / total, least), np.maximum(expected, least)
    return float(np.sum((actual - wanted) * np.log(actual / wanted)))


def _normalised(shares: FloatArray) -> FloatArray:
    total = float(shares.sum())
    return shares / total if total > 0.0 else shares


def _sum(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """Sums place by place; a longer list is of a newer profile and goes on alone."""
    if len(one) != len(other):
        return list(other if len(other) > len(one) else one)
    return [a + b for a, b in zip(one, other, strict=True)]
