"""Profile of the training rows: how each column and the target are distributed, as shares of bins or levels.

Counting takes rows of the design matrix, so that a number is what the model sees, and costs nothing to read again.
Bins of numbers end at the deciles of the training rows, each once where several are equal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.services.background import column_points
from app.tables import Feature, Kind, Schema
from core.arrays import FloatArray, IntArray

BINS = 10
MISSING, OUTSIDE, UNSEEN, OTHERS = 0, 1, 2, 3
"""Places of a column's counts: missing cells, numbers out of the training range, unseen levels; then bins or levels."""
_DIGITS = 9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bins:
    """Distribution of numbers in training: edges (k,), shares (k + 1,), the ends, and the share of missing cells."""

    edges: FloatArray
    shares: FloatArray
    lowest: float
    highest: float
    missing: float = 0.0

    @classmethod
    def of(cls, values: FloatArray, missing: float = 0.0) -> "Bins":
        """Deciles of values (n,), n >= 1, none of them NaN."""
        edges = _rounded(np.unique(np.quantile(values, np.linspace(0.0, 1.0, BINS + 1)[1:-1])))
        shares = np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1) / len(values)
        return cls(
            edges=edges,
            shares=_rounded(shares),
            lowest=float(values.min()),
            highest=float(values.max()),
            missing=missing,
        )

    def count(self, values: FloatArray, missing: Any) -> IntArray:
        """Counts of values (m,) of which some are missing: see OTHERS."""
        known = values[~missing]
        found = np.zeros(OTHERS + len(self.shares), np.int64)
        found[MISSING] = len(values) - len(known)
        found[OUTSIDE] = np.count_nonzero((known < self.lowest) | (known > self.highest))
        found[OTHERS:] = np.bincount(np.searchsorted(self.edges, known, side="right"), minlength=len(self.shares))
        return found

    def to_json(self) -> dict[str, Any]:
        """Plain numbers and lists."""
        return {
            "edges": self.edges.tolist(),
            "shares": self.shares.tolist(),
            "lowest": self.lowest,
            "highest": self.highest,
            "missing": self.missing,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Bins":
        """Restore what `to_json` made of one. KeyError, TypeError, ValueError."""
        edges, shares = (np.array(document[name], np.float64) for name in ("edges", "shares"))
        if (
            edges.ndim != 1
            or shares.shape != (len(edges) + 1,)
            or (np.diff(edges) < 0).any()
            or not (shares >= 0).all()
        ):
            raise ValueError("edges and shares do not fit")
        lowest, highest, missing = (float(document[name]) for name in ("lowest", "highest", "missing"))
        return cls(edges=edges, shares=shares, lowest=lowest, highest=highest, missing=missing)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingProfile:
    """columns: of each used feature its bins, or the shares of its levels and of missing cells; target: of the rows
    that were trained on; variance: of these."""

    features: tuple[Feature, ...]
    blocks: tuple[slice, ...]
    columns: tuple[Bins | FloatArray, ...]
    missing: tuple[float, ...]
    target: Bins
    variance: float

    def count(self, inputs: FloatArray) -> dict[str, list[int]]:
        """Counts of rows of the design matrix (m, p) by column."""
        found = {}
        for feature, block, column in zip(self.features, self.blocks, self.columns, strict=True):
            cells = inputs[:, block]
            if isinstance(column, Bins):
                found[feature.name] = column.count(cells[:, 0], _missing(feature, cells)).tolist()
            else:
                found[feature.name] = _count_levels(feature, cells).tolist()
        return found

    def shares(self, place: int) -> tuple[FloatArray, float]:
        """Shares of the bins or levels of a column in training, and of its missing cells."""
        column = self.columns[place]
        return (column.shares if isinstance(column, Bins) else column), self.missing[place]

    @classmethod
    def from_json(cls, schema: Schema, document: object) -> "TrainingProfile | None":
        """The profile that lies with a model; None for one without, or that does not fit the model's columns."""
        try:
            if not isinstance(document, Mapping):
                return None
            columns: list[Bins | FloatArray] = []
            missing: list[float] = []
            for feature in schema.used:
                part = document["columns"][feature.name]
                missing.append(float(part["missing"]))
                if feature.kind is not Kind.CATEGORY:
                    columns.append(Bins.from_json(part))
                    continue
                shares = np.array(part["shares"], np.float64)
                if shares.shape != (len(feature.levels) + feature.other,) or not (shares >= 0).all():
                    return None
                columns.append(shares)
            target = Bins.from_json(document["target"])
            variance = float(document["target"]["variance"])
            return cls(
                features=schema.used,
                blocks=schema.blocks,
                columns=tuple(columns),
                missing=tuple(missing),
                target=target,
                variance=variance,
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            return None


def target_profiles(stored: Sequence[tuple[Schema, object]]) -> tuple[TrainingProfile | None, ...]:
    """Profiles of a model's targets, each from its columns and what lies with it. One whose rows are those of the first
    has the first's `columns`."""
    documents = [document for _, document in stored]
    first, *others = (TrainingProfile.from_json(schema, document) for schema, document in stored)
    found = [first]
    for profile, document in zip(others, documents[1:], strict=True):
        if first is not None and profile is not None and _columns(document) == _columns(documents[0]):
            found.append(replace(profile, columns=first.columns, missing=first.missing))
        else:
            found.append(profile)
    return tuple(found)


def training_profile(schema: Schema, inputs: FloatArray, targets: FloatArray) -> dict[str, Any]:
    """Profile of the rows of a training as JSON, with the points of `app.services.background`. inputs: (n, p), the
    design matrix; targets: (n,)."""
    columns: dict[str, Any] = {}
    for feature, block in zip(schema.used, schema.blocks, strict=True):
        cells = inputs[:, block]
        missing = _missing(feature, cells)
        share = float(missing.mean())
        if feature.kind is Kind.CATEGORY:
            levels = _count_levels(feature, cells)[OTHERS:]
            columns[feature.name] = {"shares": _rounded(levels / max(1, len(cells))).tolist(), "missing": share}
        else:
            values = cells[~missing, 0]
            known = values if len(values) else np.zeros(1)
            columns[feature.name] = Bins.of(known, share).to_json() | column_points(known)
    return {"columns": columns, "target": Bins.of(targets).to_json() | {"variance": float(np.var(targets))}}


def _columns(document: object) -> object:
    return document["columns"] if isinstance(document, Mapping) else None


def _missing(feature: Feature, cells: FloatArray) -> Any:
    """Return which cells are missing, (m,): integrated over, or marked."""
    missing = np.isnan(cells[:, 0])
    return missing | (cells[:, -1] == 1.0) if feature.indicator else missing


def _count_levels(feature: Feature, cells: FloatArray) -> IntArray:
    levels = cells[:, : len(feature.levels) + feature.other] == 1.0
    missing = _missing(feature, cells)
    unseen = ~(levels.any(axis=1) | missing)
    return np.concatenate(([missing.sum(), 0, unseen.sum()], levels.sum(axis=0))).astype(np.int64)


def _rounded(values: FloatArray | Sequence[float]) -> FloatArray:
    """Numbers of so many digits: they are read by people, and there are many."""
    return np.array([float(f"{value:.{_DIGITS}g}") for value in values])
