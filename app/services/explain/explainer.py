"""Explanations of a model's predictions, in the user's own columns.

The parts of a row's columns add up, with the baseline, to the mean of the learnt target (`core.explain.shapley`): that
is the target itself unless it was transformed, and then the answer names the scale and has its ends in the target's
unit too. The baseline is the mean where nothing is known of a row: its columns are drawn independently, each from its
distribution in training (`app.services.background`). A row with missing cells is the average over the completed rows
that it is predicted by, and what being missing says by itself is part of the column.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from app.errors import InvalidRequestError
from app.services.background import product_mean
from app.services.predict.far_rows import FAR
from app.services.predict.loaded_model import LoadedModel
from app.storage.artefact import ModelArtefact
from app.tables import Feature, Kind
from app.tables.schema.feature_cells import cell_of
from core.arrays import FloatArray
from core.explain.neighbours import neighbours
from core.explain.product_mean import ProductMean
from core.explain.shapley import ShapleyValues, common_work, row_work, shapley_values
from core.predict.missing import has_missing
from core.spec import TargetTransform

NEAREST, MOST_NEAREST = 5, 50
MOST_ROWS = 100
MOST_WORK = 500_000_000
"""Factors that are computed for one request: one to five seconds of one core. A single row is always answered."""
TOO_MANY = "are explained at once"
"""Words of the refusal of more rows than that."""
TARGET_SCALE = "target"
"""Name of the scale of a target that was not transformed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Explainer:
    """A version ready to be explained. mean: its mean; basis (M, p): the rows that it rests on, raw units; numbers:
    their row numbers in the upload, empty where these are not known; ranges: of numbers and dates in training, in the
    design matrix's units, by place of the feature."""

    model: LoadedModel
    mean: ProductMean
    basis: FloatArray
    numbers: tuple[int, ...]
    ranges: dict[int, tuple[float, float]]

    @classmethod
    def of(cls, stored: ModelArtefact, model: LoadedModel) -> "Explainer":
        """Return the explainer of an artefact and of the same made ready to predict. CoreError."""
        own = stored.mean or stored.model().posterior
        known = stored.mean is None and not stored.report.get("moved") and len(stored.basis_rows) == len(own.basis)
        return cls(
            model=model,
            mean=product_mean(stored),
            basis=own.basis,
            numbers=stored.basis_rows if known else (),
            ranges=_ranges(model),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays, about."""
        return 3 * self.basis.nbytes + self.model.size

    def explain(self, inputs: FloatArray, nearest: int = NEAREST) -> dict[str, Any]:
        """Explain the predictions of inputs (m, p), raw units, as JSON. nearest: rows to name.

        Raises InvalidRequestError: none, or more rows than MOST_ROWS or MOST_WORK; a number of rows that is none.
        """
        if not 0 <= nearest <= MOST_NEAREST:
            raise InvalidRequestError(f"nearest: expected 0 to {MOST_NEAREST}, got {nearest}")
        self._check_rows(inputs)
        completed, shifts, counts = self._completed(inputs)
        found = shapley_values(self.mean, completed)
        parts, centre = _averaged(found, counts)
        parts, centre = parts + shifts, centre + shifts.sum(axis=1)
        means, support = self._predicted(inputs)
        near = self._nearest(completed, counts, nearest)
        transform = self.model.predictor.transform
        ends = transform.inverse(np.append(found.baseline, centre)).tolist()
        rows = [
            {
                "mean": float(means[row]),
                "centre": float(centre[row]),
                "centre_target": ends[row + 1],
                "parts": self._parts(inputs[row], parts[row]),
                "support": None if support is None else float(support[row]),
                "far": bool(self.model.knows_far and support is not None and support[row] >= FAR),
                "outside": self._outside(inputs[row]),
                **near[row],
            }
            for row in range(len(inputs))
        ]
        return {
            "target": self.model.schema.target,
            "columns": [feature.name for feature in self.model.schema.used],
            "scale": TARGET_SCALE if transform.kind is TargetTransform.NONE else transform.kind.value,
            "baseline": found.baseline,
            "baseline_target": ends[0],
            "rows_of_mean": self.mean.size,
            "remainder": found.remainder,
            "rows": rows,
        }

    def _check_rows(self, inputs: FloatArray) -> None:
        if not len(inputs):
            raise InvalidRequestError("rows: expected at least one row to explain, got none")
        if len(inputs) > MOST_ROWS:
            raise InvalidRequestError(f"rows: at most {MOST_ROWS} {TOO_MANY}, got {len(inputs)}")
        work, each = common_work(self.mean), row_work(self.mean)
        if len(inputs) > 1 and work + each * self.model.counted_rows(inputs) > MOST_WORK:
            fitting = max(1, (MOST_WORK - work) * len(inputs) // (each * self.model.counted_rows(inputs)))
            raise InvalidRequestError(
                f"rows: this model's mean rests on {self.mean.size} rows, so that {min(fitting, len(inputs) - 1)} such "
                f"rows {TOO_MANY}, got {len(inputs)}: send them in several requests"
            )

    def _completed(self, inputs: FloatArray) -> tuple[FloatArray, FloatArray, list[int]]:
        """Rows that are averaged, what being missing adds (m, f), and how many of the rows each one has."""
        shifts = np.zeros((len(inputs), self.mean.features))
        if self.model.integrated is None or not has_missing(inputs):
            return inputs, shifts, [1] * len(inputs)
        blocks, counts = [], []
        for row in range(len(inputs)):
            block = inputs[[row]]
            if has_missing(block):
                block, shifts[[row]] = self.model.integrated.completed(block)
            blocks.append(block)
            counts.append(len(block))
        return np.vstack(blocks), shifts, counts

    def _predicted(self, inputs: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        predictor = self.model.integrated or self.model.predictor
        if self.model.predictor.mean_only:
            return predictor.mean(inputs), None
        found = predictor.predict(inputs)
        support = None if self.model.predictor.predictor.reduced else found.support
        return found.moments()[0], support

    def _nearest(self, completed: FloatArray, counts: list[int], count: int) -> list[dict[str, Any]]:
        found, start = [], 0
        for components in counts:
            near = neighbours(self.mean, completed[start : start + components], max(1, count), components)
            start += components
            found.append(
                {
                    "distance": float(near.distances[0, 0]),
                    "nearest": [
                        {
                            "row": self.numbers[place] if self.numbers else None,
                            "distance": float(near.distances[0, rank]),
                            "similarity": float(near.similarity[0, rank]),
                            "adds": float(near.added[0, rank]),
                            "values": self._cells(self.basis[place]),
                        }
                        for rank, place in enumerate(near.places[0, :count].tolist())
                    ],
                    "others_add": float(near.rest[0]) + (0.0 if count else float(near.added[0].sum())),
                    "prior": near.constant,
                }
            )
        return found

    def _parts(self, row: FloatArray, parts: FloatArray) -> list[dict[str, Any]]:
        values = self._cells(row)
        named = zip(values.items(), parts.tolist(), strict=True)
        found = [{"column": column, "value": value, "part": part} for (column, value), part in named]
        return sorted(found, key=lambda each: -abs(each["part"]))

    def _cells(self, row: FloatArray) -> dict[str, Any]:
        schema = self.model.schema
        return {
            feature.name: cell_of(feature, row[block])
            for feature, block in zip(schema.used, schema.blocks, strict=True)
        }

    def _outside(self, row: FloatArray) -> list[str]:
        """Columns whose value training did not reach, or whose level it has not seen."""
        schema, found = self.model.schema, []
        for place, (feature, block) in enumerate(zip(schema.used, schema.blocks, strict=True)):
            cells = row[block]
            if _is_missing(feature, cells):
                continue
            if feature.kind is Kind.CATEGORY:
                beyond = cell_of(feature, cells) is None
            else:
                lowest, highest = self.ranges.get(place, (-np.inf, np.inf))
                beyond = not lowest <= cells[0] <= highest
            if beyond:
                found.append(feature.name)
        return found


def _averaged(found: ShapleyValues, counts: list[int]) -> tuple[FloatArray, FloatArray]:
    starts = np.cumsum([0, *counts[:-1]])
    each = np.array(counts, np.float64)
    return np.add.reduceat(found.parts, starts, axis=0) / each[:, None], np.add.reduceat(found.mean, starts) / each


def _is_missing(feature: Feature, cells: FloatArray) -> bool:
    return bool(np.isnan(cells[0]) or (feature.indicator and cells[-1] == 1.0))


def _ranges(model: LoadedModel) -> dict[int, tuple[float, float]]:
    profile, found = model.profile, {}
    for place, feature in enumerate(model.schema.used):
        try:
            part = profile["columns"][feature.name]  # type: ignore[index]  # nobody has checked it
            found[place] = float(part["lowest"]), float(part["highest"])
        except (KeyError, TypeError, ValueError):
            continue
    return found
