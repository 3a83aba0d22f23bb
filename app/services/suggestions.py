"""Rows to measure next: candidates as rows or as ranges of columns, picked by variance or by improvement.

Candidates from ranges are a scrambled Halton sequence (Owen 2017), so that they fill the ranges evenly; a column that
is not named has the range or the levels of the training rows. What improvement has to beat is, unless it is said, the
best mean at the rows that the model rests on: its basis vectors, or of a full process all its training rows.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from app.errors import Fault, InvalidRequestError
from app.services.decoding import check_whole_numbers
from app.services.models import Models
from app.services.predict.loaded_model import LoadedModel
from app.services.predict.registry import ResolvedModel
from app.storage.artefact import ModelArtefact
from app.tables import Feature, Kind, Schema
from core.arrays import FloatArray
from core.errors import MeanOnlyError
from core.predict.compact import CompactPosterior
from core.predict.suggest import MOST_CANDIDATES, MOST_REGION, MOST_SUGGESTED, Suggestions, improve, reduce_variance
from core.spec import TargetTransform

DEFAULT_CANDIDATES = 1_000
DEFAULT_COUNT = 5
MOST_VALUES = 1_000
"""Values of a column that candidates may have."""
_REACH = 1e6
"""Spreads of the learnt target that may be between its mean and what is to be beaten: further off, rows have gains
that hardly differ."""
_MEAN_ROWS = 2_000
"""Rows that the best mean so far is looked for at, at most."""

Row = Mapping[str, Any]


class Criterion(StrEnum):
    """Criterion that makes a row worth measuring."""

    VARIANCE = "variance"
    IMPROVEMENT = "improvement"


class Goal(StrEnum):
    """Direction of improvement."""

    MAX = "max"
    MIN = "min"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Options of a request. rows, ranges: candidates, one of them, by default the ranges of training;
    candidates: how many of ranges. region: rows, or ranges,
    over which the function is to be known, by default the candidates. best: in the target's unit; target: of
    several the one that is to be known."""

    rows: Sequence[Row] | None = None
    ranges: Mapping[str, Any] | None = None
    candidates: int = DEFAULT_CANDIDATES
    region_rows: Sequence[Row] | None = None
    region_ranges: Mapping[str, Any] | None = None
    count: int = DEFAULT_COUNT
    criterion: Criterion = Criterion.VARIANCE
    goal: Goal = Goal.MAX
    best: float | None = None
    seed: int = 0
    target: str | None = None

    def __post_init__(self) -> None:
        if self.rows is not None and self.ranges is not None:
            raise InvalidRequestError("expected the candidates as one of `rows` and `ranges`")
        if not 1 <= self.candidates <= MOST_CANDIDATES:
            raise _wrong("candidates", f"expected 1 to {MOST_CANDIDATES:,}, got {self.candidates}")
        if not 1 <= self.count <= MOST_SUGGESTED:
            raise _wrong("count", f"expected 1 to {MOST_SUGGESTED}, got {self.count}")
        if not 0 <= self.seed < 2**63:
            raise _wrong("seed", f"expected a whole number from 0, got {self.seed}")
        regional = self.region_rows is not None or self.region_ranges is not None
        if regional and self.criterion is not Criterion.VARIANCE:
            raise _wrong("region", "goes with the criterion `variance`")
        if self.best is not None and self.criterion is not Criterion.IMPROVEMENT:
            raise _wrong("best", "goes with the criterion `improvement`")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Rows:
    """Rows as cells and as inputs (m, p). numbers: of the request, None where they were drawn."""

    cells: Sequence[Row]
    inputs: FloatArray
    numbers: bool


@dataclass(frozen=True, slots=True)
class Suggester:
    """Answers for published versions."""

    models: Models

    def suggest(self, resolved: ResolvedModel, asked: Question) -> dict[str, Any]:
        """Return rows to measure next, in order, as JSON. Raises InvalidRequestError, CoreError."""
        model = resolved.model.of_target(asked.target)
        if model.predictor.mean_only:
            raise MeanOnlyError
        _, stored = self.models.version(resolved.name, resolved.version, model.schema.target)
        ranges = _Ranges(model.schema, stored.report.get("columns", []))
        candidates = _rows(model, ranges, asked.rows, asked.ranges, asked, "rows", 0)
        answer: dict[str, Any] = {
            "model": resolved.name,
            "version": resolved.version,
            "target": model.schema.target,
            "criterion": asked.criterion,
            "scale": _scale(model),
        }
        if asked.criterion is Criterion.VARIANCE:
            region = candidates
            if asked.region_rows is not None or asked.region_ranges is not None:
                region = _rows(model, ranges, asked.region_rows, asked.region_ranges, asked, "region", 1)
            found = reduce_variance(model.predictor, candidates.inputs, region.inputs, asked.count)
            assert found.before is not None
            assert found.after is not None
            answer["region"] = {
                "rows": len(region.inputs),
                "latent_std_before": float(np.sqrt(found.before)),
                "latent_std_after": float(np.sqrt(found.after)),
            }
        else:
            best = self._best(model, stored, asked)
            found = improve(model.predictor, candidates.inputs, asked.count, best=best, largest=asked.goal is Goal.MAX)
            transform = model.predictor.transform
            beaten = float(transform.inverse(np.array([best]))[0]) if asked.best is None else asked.best
            answer |= {"goal": asked.goal, "best": beaten}
        return answer | {"suggestions": _suggested(model, candidates, found)}

    def _best(self, model: LoadedModel, stored: ModelArtefact, asked: Question) -> float:
        """Return what is to be beaten, of the learnt target."""
        if asked.best is not None:
            transform = model.predictor.transform
            with np.errstate(all="ignore"):  # looked for
                best = float(transform.forward(np.array([asked.best]))[0])
            if not np.isfinite(best):
                raise _wrong("best", f"{asked.best!r} is no value of a target that is learnt as {_scale(model)}")
            lowest, highest = transform.lowest, transform.highest
            if not lowest <= asked.best <= highest:
                message = f"{asked.best!r} is out of reach: the target is from {lowest:g} to {highest:g}"
                raise _wrong("best", message)
            known = stored.posterior.mean if isinstance(stored.posterior, CompactPosterior) else stored.posterior
            if abs(best - known.target_shift) > _REACH * known.target_scale:
                message = f"{asked.best!r} is out of reach: all rows are far from it, and compare alike"
                raise _wrong("best", message)
            return best
        basis = stored.posterior.basis
        steps = np.unique(np.linspace(0, len(basis) - 1, min(_MEAN_ROWS, len(basis))).astype(np.int64))
        centre = model.predictor.predict(basis[steps]).centre
        return float(centre.max() if asked.goal is Goal.MAX else centre.min())


def _suggested(model: LoadedModel, candidates: _Rows, found: Suggestions) -> list[dict[str, Any]]:
    picked = model.predictor.predict(candidates.inputs[found.places])
    mean, std, latent_std = picked.moments()[0], picked.std(), picked.latent_std()
    return [
        {
            "row": candidates.cells[place],
            "number": place if candidates.numbers else None,
            "gain": float(found.gains[number]),
            "mean": float(mean[number]),
            "std": float(std[number]),
            "latent_std": float(latent_std[number]),
        }
        for number, place in enumerate(found.places.tolist())
    ]


def _scale(model: LoadedModel) -> str:
    """Return the scale that gains are on: that of the target, or of the transform it is learnt as."""
    kind = model.predictor.transform.kind
    return "target" if kind is TargetTransform.NONE else kind.value


def _rows(
    model: LoadedModel,
    ranges: "_Ranges",
    rows: Sequence[Row] | None,
    asked_ranges: Mapping[str, Any] | None,
    asked: Question,
    what: str,
    stream: int,
) -> _Rows:
    """Read rows, or draw them from ranges. stream: of the seed."""
    given = rows is not None
    if rows is None:
        named = "ranges" if what == "rows" else what
        rows = ranges.draw(asked_ranges or {}, asked.candidates, asked.seed + stream, named)
    most = MOST_CANDIDATES if what == "rows" else MOST_REGION
    if not 1 <= len(rows) <= most:
        raise _wrong(what, f"expected 1 to {most:,} rows, got {len(rows):,}")
    inputs = model.schema.encode_rows(list(rows))
    missing = np.flatnonzero(np.isnan(inputs).any(axis=1))
    if len(missing):
        raise _wrong(what, f"row {missing[0]} has a missing cell, and rows together need every value")
    return _Rows(cells=rows, inputs=inputs, numbers=given)


class _Ranges:
    """Values that candidates may have, by column: a range of numbers, some values, or one."""

    def __init__(self, schema: Schema, columns: Sequence[Mapping[str, Any]]) -> None:
        self._features = {feature.name: feature for feature in schema.used}
        self._columns = {str(column.get("name")): column for column in columns}

    def draw(self, asked: Mapping[str, Any], count: int, seed: int, what: str) -> list[dict[str, Any]]:
        """Return so many rows that fill the ranges evenly. InvalidRequestError naming the column."""
        check_whole_numbers(asked, what)
        from scipy.stats import qmc  # noqa: PLC0415  half a second to import, and few servers are asked

        unknown = [name for name in asked if name not in self._features]
        if unknown:
            known = ", ".join(map(repr, self._features))
            raise _wrong(f"{what}.{unknown[0]}", f"there is no such column; the model reads {known}")
        free = {name: self._choice(name, asked, what) for name in self._features}
        varied = [name for name, choice in free.items() if len(choice) > 1]
        points = qmc.Halton(max(len(varied), 1), seed=seed).random(count)
        rows = [{name: choice[0] for name, choice in free.items()} for _ in range(count)]
        for place, name in enumerate(varied):
            values = free[name].at(points[:, place])
            for row, value in zip(rows, values, strict=True):
                row[name] = value
        return rows

    def _choice(self, name: str, asked: Mapping[str, Any], what: str) -> "_Choice":
        feature = self._features[name]
        if name not in asked:
            return self._of_training(feature, what)
        value, where = asked[name], f"{what}.{name}"
        if isinstance(value, Mapping):
            if set(value) != {"values"} or not isinstance(value["values"], list):
                raise _wrong(where, 'expected [lowest, highest], {"values": [..]} or one value')
            value = value["values"]
        elif isinstance(value, list) and len(value) == 2 and all(map(_is_number, value)):
            if feature.kind is not Kind.NUMBER:
                raise _wrong(where, f'a {feature.kind} has no range: expected {{"values": [..]}} or one value')
            if not value[0] <= value[1]:
                raise _wrong(where, f"expected the lowest first, got {value[0]!r} and {value[1]!r}")
            return _Choice(low=float(value[0]), high=float(value[1]))
        values = value if isinstance(value, list) else [value]
        if not 1 <= len(values) <= MOST_VALUES or any(isinstance(each, list | dict) for each in values):
            raise _wrong(where, f"expected 1 to {MOST_VALUES:,} values")
        return _Choice(values=tuple(values))

    def _of_training(self, feature: Feature, what: str) -> "_Choice":
        known = self._columns.get(feature.name, {})
        if feature.kind is Kind.CATEGORY:
            return _Choice(values=feature.levels)
        if feature.kind is Kind.NUMBER and _is_number(known.get("lowest")) and _is_number(known.get("highest")):
            return _Choice(low=float(known["lowest"]), high=float(known["highest"]))
        ends = [known[name] for name in ("lowest", "highest") if known.get(name) is not None]
        if feature.kind is Kind.BOOLEAN and ends:
            return _Choice(values=tuple(dict.fromkeys(ends)))
        if known.get("typical") is not None:
            return _Choice(values=(known["typical"],))
        raise _wrong(f"{what}.{feature.name}", "the model does not know its range in training: say it")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """Values of a column: some, or a range where there are none."""

    values: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0

    def __len__(self) -> int:
        return len(self.values) or (1 if self.low == self.high else 2)

    def __getitem__(self, place: int) -> Any:
        return self.values[place] if self.values else self.low

    def at(self, shares: FloatArray) -> list[Any]:
        """Return the values at these shares of the way, (m,)."""
        if self.values:
            places = np.minimum((shares * len(self.values)).astype(np.int64), len(self.values) - 1)
            return [self.values[place] for place in places.tolist()]
        between = (1.0 - shares) * self.low + shares * self.high  # the width may be more than a float64 holds
        found: list[float] = np.clip(between, self.low, self.high).tolist()
        return found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _wrong(field: str, message: str) -> InvalidRequestError:
    text = f"{field}: {message}"
    return InvalidRequestError(text, [Fault(message=text, column=field)])
