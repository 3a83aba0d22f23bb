"""Values for missing cells, and predictions that integrate over them.

A row with missing cells is predicted by the mixture over K completed rows. Their values come from donors, complete rows
of the training table, the more likely the more the donor's known columns say of the missing ones what the row's do
(predictive mean matching, Little 1988), all missing cells of a row from one donor:

    z = normal scores of each column,   C = their correlations, shrunk (Schaefer & Strimmer 2005)
    B = C_oo^-1 C_om,   S = cov(z_m - z_o B)                         o known, m missing columns
    weight of donor j = exp(-|z_j B - z B|_S^2 / (2 h^2)),           |u|_S^2 = u S^-1 u'

Columns that say nothing of the missing ones, by an F test, leave all donors alike: the column's own distribution. Where
they say much few donors are near, and the values of plain numbers are moved by what is left of the difference,
z_j + (z - z_j) B, and mapped back through the column's own quantiles (local residual draws, Schenker & Taylor 1996). K
donors are taken at equal steps of the cumulative weight, in the order in which they are stored: that of their predicted
targets, so that they are quantiles of what is predicted.

Rows are completed ROW_UNIT at a time, padded: the products have one shape, and a row the same values in any table.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import ndtri

from core.arrays import BoolArray, FloatArray, IntArray, frozen
from core.errors import InvalidDataError
from core.numeric.linalg import ROW_UNIT
from core.predict.distribution import PredictiveDistribution
from core.predict.mixture import Mixture, PartlyMixed, joined
from core.predict.model import ModelPredictor

MOST_DONORS, DONOR_NUMBERS = 512, 1 << 16
"""Rows that are kept to take values from, at most, and their numbers in all: half a megabyte."""
COMPONENTS = 64
"""Completed rows of a prediction, at most."""
COPIED_BANDWIDTH, MOVED_BANDWIDTH = 0.5, 0.75
"""h, of columns whose values are copied and of those whose values are moved: donors as near as half of what is not
known of the missing columns are nearly as good as equal ones, and more of them show more of the tails."""
LEAST_F = 2.0
"""F below which known columns say nothing of a missing one: as in Akaike's criterion."""
LEAST_DONORS = 20.0
"""Effective number of donors, 1 / sum w^2, below which h grows."""
LEAST_SHRINKAGE = 1e-3
WIDENINGS, WIDER = 24, 1.4
MOST_PLANS = 1_000
"""Patterns of missing columns whose B and donors are held ready."""
ROUNDING = 1e-13
"""Values of a column nearer than this, as a share of its largest, are the same."""
CHUNK_NUMBERS = 1 << 21
"""Numbers of completed rows that are held at a time."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Donors:
    """Complete rows (D, p) in raw units to take values from.

    starts (f + 1,): where the columns of each feature begin, and p: the columns of a feature are missing together.
    fixed (p,): columns whose values are only ever copied, such as the 0 and 1 of categories. shifts (f,): what is added
    to the mean of the learnt target where a feature is missing, for being missing may tell of it (empty: nothing).
    """

    rows: FloatArray
    starts: IntArray
    fixed: BoolArray
    shifts: FloatArray = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        rows = frozen(self.rows)
        starts, fixed = np.array(self.starts, np.int64), np.array(self.fixed, np.bool_)
        if rows.ndim != 2 or not len(rows) or not np.isfinite(rows).all():
            raise InvalidDataError(f"donors: expected rows of finite numbers, got shape {rows.shape}")
        p = rows.shape[1]
        if starts.ndim != 1 or len(starts) < 2 or starts[0] != 0 or starts[-1] != p or (np.diff(starts) < 1).any():
            raise InvalidDataError(f"donors: expected features that begin at 0 and end at {p}, got {starts.tolist()}")
        if fixed.shape != (p,):
            raise InvalidDataError(f"donors: expected one mark for each of the {p} columns, got {fixed.shape}")
        shifts = frozen(self.shifts) if len(self.shifts) else frozen(np.zeros(len(starts) - 1))
        if shifts.shape != (len(starts) - 1,) or not np.isfinite(shifts).all():
            raise InvalidDataError(f"donors: expected a shift for each of the {len(starts) - 1} features")
        object.__setattr__(self, "shifts", shifts)
        starts.flags.writeable = fixed.flags.writeable = False
        for name, value in (("rows", rows), ("starts", starts), ("fixed", fixed)):
            object.__setattr__(self, name, value)

    @property
    def components(self) -> int:
        """K, completed rows of a prediction."""
        return min(COMPONENTS, len(self.rows))

    def ordered(self, keys: FloatArray) -> Self:
        """Return the donors in the order of these keys, (D,)."""
        return replace(self, rows=self.rows[np.argsort(keys, kind="stable")])

    def missing_features(self, inputs: FloatArray) -> BoolArray:
        """Return which features of each row are missing, (m, f): all columns of such a feature are NaN."""
        return np.isnan(inputs[:, self.starts[:-1]])


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """A pattern of missing columns made ready. known (o,), missing (m,): the columns; slopes (o, m), scaled (D, m): B
    and Z B times S^-1/2 / h, in which distances are taken; moved: columns whose values are moved, and their B, Z B."""

    known: IntArray
    missing: IntArray
    slopes: FloatArray
    scaled: FloatArray
    moved: IntArray
    moved_slopes: FloatArray
    moved_mean: FloatArray


class Completion:
    """Donors made ready: the values of missing cells given the known ones. Safe to share between threads.

    values, scores: distinct values of each column and their normal scores; centre, scale (p,): of columns that are
    fixed. z (D, p): scores of the donors; C (p, p): their correlations. features (p,): the feature of each column;
    movable (p,): columns whose values may be moved.
    """

    def __init__(self, donors: Donors) -> None:
        self.donors = donors
        self.values, self.scores = zip(*map(_quantiles, donors.rows.T), strict=True)
        centre, scale = donors.rows.mean(axis=0), donors.rows.std(axis=0)
        self.centre, self.scale = centre, np.where(scale > 0.0, scale, 1.0)
        self.z = self._standardized(donors.rows)
        self.C = _correlations(self.z)
        self.features = np.repeat(np.arange(len(donors.starts) - 1), np.diff(donors.starts))
        single = np.diff(donors.starts)[self.features] == 1
        self.movable = single & ~donors.fixed
        self._plans: dict[bytes, _Plan] = {}

    def complete(self, inputs: FloatArray, size: int | None = None) -> FloatArray:
        """Return `size` completed rows of each row, (m, size, p), all as likely as each other.

        Args:
            inputs: (m, p) in raw units, NaN in all columns of each missing feature.
            size: by default `Donors.components`.

        O(m (D (o + m) + size p)), and O(o^3) for a pattern that is new.
        """
        size = self.donors.components if size is None else size
        out = np.empty((len(inputs), size, inputs.shape[1]))
        absent = self.donors.missing_features(inputs)
        patterns, which = np.unique(absent, axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            places = np.flatnonzero(which.ravel() == number)
            plan = self._plan(pattern)
            for start in range(0, len(places), ROW_UNIT):
                some = places[start : start + ROW_UNIT]
                out[some] = self._completed(inputs[some], plan, size)
        return out

    def _completed(self, inputs: FloatArray, plan: _Plan, size: int) -> FloatArray:
        """Up to ROW_UNIT rows of one pattern."""
        rows, donors = len(inputs), self.donors.rows
        out = np.repeat(inputs[:, None, :], size, axis=1)
        z = np.zeros((ROW_UNIT, len(plan.known)))
        z[:rows] = self._standardized(inputs, plan.known)
        steps = (np.arange(size) + 0.5) / size
        cumulated = np.cumsum(_weights((z @ plan.slopes)[:, None, :] - plan.scaled), axis=1)
        moved_mean = z @ plan.moved_slopes
        for row in range(rows):
            taken = np.searchsorted(cumulated[row], steps * cumulated[row, -1])
            out[row][:, plan.missing] = donors[taken][:, plan.missing]
            left = moved_mean[row] - plan.moved_mean[taken]  # (size, moved)
            for place, column in enumerate(plan.moved):
                score = self.z[taken, column] + left[:, place]
                out[row][:, column] = np.interp(score, self.scores[column], self.values[column])
        return out

    def _plan(self, pattern: BoolArray) -> _Plan:
        key = pattern.tobytes()
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            plan = self._plans[key] = self._planned(pattern[self.features])
        return plan

    def _planned(self, absent: BoolArray) -> _Plan:
        known, missing = np.flatnonzero(~absent), np.flatnonzero(absent)
        C_oo, C_om = self.C[np.ix_(known, known)], self.C[np.ix_(known, missing)]
        B = cho_solve(cho_factor(C_oo), C_om) if len(known) else np.zeros((0, len(missing)))
        B *= _trust(np.einsum("om,om->m", C_om, B), len(known), len(self.z))
        crossed = C_om.T @ B
        L = np.linalg.cholesky(self.C[np.ix_(missing, missing)] - crossed - crossed.T + B.T @ C_oo @ B)
        moved = self.movable[missing]
        slopes = np.linalg.solve(L, (B / np.where(moved, MOVED_BANDWIDTH, COPIED_BANDWIDTH)).T).T
        Z = self.z[:, known]
        return _Plan(
            known, missing, slopes, Z @ slopes, missing[moved], np.ascontiguousarray(B[:, moved]), Z @ B[:, moved]
        )

    def _standardized(self, rows: FloatArray, columns: IntArray | None = None) -> FloatArray:
        """Normal scores of these columns; the 0 and 1 of categories in units of their spread."""
        columns = np.arange(rows.shape[1]) if columns is None else columns
        values = rows[:, columns]
        z = (values - self.centre[columns]) / self.scale[columns]
        for place, column in enumerate(columns):
            own = self.values[column]
            if self.donors.fixed[column]:  # an unseen level is like none of them
                z[(values[:, place] < own[0]) | (values[:, place] > own[-1]), place] = 0.0
            else:
                z[:, place] = np.interp(values[:, place], own, self.scores[column])
        return np.asarray(z)


class IntegratedPredictor:
    """A model made ready for rows with missing cells, NaN; rows without one are predicted as the model does."""

    def __init__(self, predictor: ModelPredictor, completion: Completion) -> None:
        self._predictor, self._completion = predictor, completion

    @property
    def components(self) -> int:
        """K, completed rows that are predicted for a row with missing cells."""
        return self._completion.donors.components

    def completed(self, inputs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the rows (m K, p) that stand for rows (m, p) with missing cells, those of a row one after the other,
        and what each of its features adds to the mean of the learnt target by being missing, (m, f)."""
        donors = self._completion.donors
        rows = self._completion.complete(inputs).reshape(-1, inputs.shape[1])
        return rows, np.asarray(donors.missing_features(inputs) * donors.shifts)

    def predict(self, inputs: FloatArray) -> PredictiveDistribution | PartlyMixed:
        """Predict inputs (m, p) in raw units; NaN in all columns of a missing feature. O(K) plain rows for each row
        with missing cells. Raises as `ModelPredictor.predict` does."""
        if not has_missing(inputs):
            return self._predictor.predict(inputs)
        mixed = np.asarray(np.isnan(inputs).any(axis=1))
        components = joined([self._predictor.predict(some) for some in self._completed(inputs[mixed])])
        if self._shifted:
            shifts = np.repeat(self._shifts(inputs[mixed]), self.components)
            components = replace(components, centre=components.centre + shifts)
        return PartlyMixed(
            plain=self._predictor.predict(inputs[~mixed]),
            mixtures=Mixture(components=components, size=self.components),
            mixed=mixed,
        )

    def mean(self, inputs: FloatArray) -> FloatArray:
        """The mean (m,) of the target alone, integrated as `predict` does."""
        if not has_missing(inputs):
            return self._predictor.mean(inputs)
        mixed = np.asarray(np.isnan(inputs).any(axis=1))
        if self._shifted and not self._predictor.mean_only:
            return self.predict(inputs).moments()[0]
        mean = np.empty(len(inputs))
        mean[~mixed] = self._predictor.mean(inputs[~mixed])
        each = np.concatenate([self._predictor.mean(some) for some in self._completed(inputs[mixed])])
        mean[mixed] = each.reshape(-1, self.components).mean(axis=1) + self._shifts(inputs[mixed])
        return mean

    @property
    def _shifted(self) -> bool:
        return bool(self._completion.donors.shifts.any())

    def _shifts(self, inputs: FloatArray) -> FloatArray:
        """Return the term added to the mean of each row, (m,)."""
        donors = self._completion.donors
        return np.asarray((donors.missing_features(inputs) * donors.shifts).sum(axis=1))

    def _completed(self, inputs: FloatArray) -> Iterator[FloatArray]:
        """Completed rows, those of a row one after the other, some at a time."""
        columns, K = inputs.shape[1], self.components
        step = max(1, CHUNK_NUMBERS // (K * columns * ROW_UNIT)) * ROW_UNIT
        for start in range(0, len(inputs), step):
            yield self._completion.complete(inputs[start : start + step]).reshape(-1, columns)


def has_missing(inputs: FloatArray) -> bool:
    """Return whether a cell is NaN."""
    return bool(np.isnan(inputs).any())


def _quantiles(column: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Distinct values of a column, and their normal scores; (k,) each, increasing.

    Values that differ by rounding alone, such as the sines of mirrored times, are one: between two of them the scores
    would rise by a whole rank, and what is predicted hang on the last bit of a cell.
    """
    values, counts = np.unique(column, return_counts=True)
    apart = np.diff(values) > ROUNDING * np.abs(values).max()
    starts = np.concatenate(([0], np.flatnonzero(apart) + 1))
    values, counts = values[starts], np.add.reduceat(counts, starts)
    ranks = np.cumsum(counts) - 0.5 * counts
    return values, ndtri(ranks / len(column))


def _correlations(z: FloatArray) -> FloatArray:
    """Correlations of scores (D, p), shrunk towards none as far as D rows leave them uncertain."""
    z = z - z.mean(axis=0)
    scale = z.std(axis=0)
    z = z / np.where(scale > 0.0, scale, 1.0)
    count = len(z)
    C = z.T @ z / count
    off = ~np.eye(len(C), dtype=bool)
    squares = float(np.square(C[off]).sum())
    doubt = float((np.square(z).T @ np.square(z) / count - np.square(C))[off].sum()) / max(count - 1, 1)
    shrinkage = min(1.0, max(LEAST_SHRINKAGE, doubt / squares if squares > 0.0 else 1.0))
    C *= 1.0 - shrinkage
    np.fill_diagonal(C, 1.0)
    return np.asarray(C)


def _trust(explained: FloatArray, known: int, rows: int) -> FloatArray:
    """Factors of the columns of B, (m,): 0 where F says that the known columns tell no more than chance would have it,
    1 where they tell much.

    explained: R^2 of each missing column by the known ones, of so many rows.
    """
    if not known or rows <= known + 1:
        return np.zeros(len(explained))
    R2 = np.clip(explained, 0.0, 1.0 - 1e-12)
    F = np.maximum(R2 / known, 1e-12) / ((1.0 - R2) / (rows - known - 1))
    return np.asarray(np.maximum(0.0, 1.0 - np.square(LEAST_F / F)))


def _weights(differences: FloatArray) -> FloatArray:
    """Weights of the donors (r, D), from differences (r, D, m) in units of h S^1/2; h grows until there are enough."""
    squares = np.square(differences).sum(axis=2)
    squares -= squares.min(axis=1, keepdims=True)
    least = min(LEAST_DONORS, 0.5 * squares.shape[1])
    scale = np.full((len(squares), 1), 0.5)
    for _ in range(WIDENINGS):
        weights = np.exp(-scale * squares)
        few = np.square(weights.sum(axis=1)) < least * np.square(weights).sum(axis=1)
        if not few.any():
            break
        scale[few] /= WIDER * WIDER
    return np.asarray(np.exp(-scale * squares))
