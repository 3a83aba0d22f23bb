"""Rows with missing cells in an ONNX graph: completed, predicted and mixed as `core.predict.missing` and `mixture` do.

Which cells are missing differs by row, so that the systems of known columns are solved row by row, all at a time: those
of other columns are rows of the identity. ONNX has no solver; Gauss and Jordan's steps are a loop.
"""

from collections.abc import Sequence

import numpy as np

from app.services.export.graph import Value
from app.services.export.onnx_target import GraphTarget
from app.services.export.target import table_of_cdf
from core.arrays import FloatArray
from core.predict import missing
from core.predict.calibration import Calibration
from core.predict.missing import Completion

_HALVINGS = 60


class GraphMixtures:
    """Mixtures of one model over what its missing cells may be."""

    def __init__(self, completion: Completion, calibration: Calibration) -> None:
        self._completion, self._donors = completion, completion.donors
        self._calibration = calibration
        self._size = completion.donors.components

    def complete(self, inputs: Value, absent: Value) -> Value:
        """Return completed rows, those of a row one after the other, (n size, p).

        Args:
            inputs: (n, p), finite.
            absent: (n, f), 1 where a feature is missing.
        """
        graph, own, donors = inputs.graph, self._completion, self._donors.rows
        p = donors.shape[1]
        columns_of = np.equal(own.features, np.arange(len(self._donors.starts) - 1)[:, None])  # (f, p)
        gone = absent @ columns_of.astype(np.float64)  # (n, p)
        known = 1.0 - gone
        z = self._scores(inputs) * known
        B = self._slopes(known, gone)
        h = np.where(own.movable, missing.MOVED_BANDWIDTH, missing.COPIED_BANDWIDTH)
        zB, ZB = z.extended(1) @ B, graph.value(own.z[None]) @ B  # (n, 1, p) and (n, D, p)
        off = (zB - ZB) / h
        S = self._unexplained(known, gone, B)
        squares = ((off @ _solved(S, S * 0.0 + np.eye(p), p)) * off).total(2, keep=False)
        taken = self._taken(_weights(squares))  # (n, size)
        moved = zB - _entries(ZB, taken, p) + taken.taken_from(own.z)  # (n, size, p)
        values = taken.taken_from(donors)
        columns = [
            _interpolated(_column(moved, j), own.scores[j], own.values[j]) if own.movable[j] else _column(values, j)
            for j in range(p)
        ]
        filled = graph.joined(columns, axis=2)
        chosen = filled * gone.extended(1) + (inputs * known).extended(1)
        return chosen.reshaped(-1, p)

    def shifts(self, absent: Value) -> Value:
        """Return what is added to the centre of each completed row, (n size, 1)."""
        each = absent @ self._donors.shifts[:, None]
        return (each + np.zeros(self._size)).reshaped(-1, 1)

    def mean(self, means: Value) -> Value:
        """Return the mean (n, 1) of components (n size, 1)."""
        return self._rows(means).total(1) / float(self._size)

    def std(self, means: Value, stds: Value) -> Value:
        """Return the standard deviation (n, 1) by the law of total variance."""
        each, deviations = self._rows(means), self._rows(stds)
        off = each - self.mean(means)
        within = (deviations * deviations).total(1)
        return means.graph.op("Sqrt", ((off * off).total(1) + within) / float(self._size))

    def quantile(self, target: GraphTarget, centre: Value, variance: Value, probability: float) -> Value:
        """Return a quantile (n, 1): where the mean of the components' distribution functions is the probability."""
        graph = centre.graph
        t, sd = self._rows(centre), self._rows(graph.op("Sqrt", variance))
        each = t + sd * self._calibration.quantile(probability)
        ends = [graph.op(name, each, axes=[1]) for name in ("ReduceMin", "ReduceMax")]
        scores, cdf = table_of_cdf(self._calibration)

        def halved(_: Value, ends: Sequence[Value]) -> Sequence[Value]:
            low, high = ends
            middle = low + (high - low) * 0.5
            found = _interpolated((middle - t) / sd, scores, cdf).total(1) / float(self._size)
            rises = found.below(probability)
            return low.otherwise(rises, middle), middle.otherwise(rises, high)

        return target.inverse(graph.repeat(_HALVINGS, ends, halved)[1])

    def _rows(self, each: Value) -> Value:
        return each.reshaped(-1, self._size)

    def _scores(self, inputs: Value) -> Value:
        """Return normal scores of the columns, those of categories in units of their spread, (n, p)."""
        own, columns = self._completion, []
        for j, (values, scores) in enumerate(zip(own.values, own.scores, strict=True)):
            x = inputs.cut(1, j, j + 1)
            if not self._donors.fixed[j]:
                columns.append(_interpolated(x, values, scores))
                continue
            unlike = x.below(float(values[0])).either(x.above(float(values[-1])))
            columns.append(((x - float(own.centre[j])) / float(own.scale[j])).otherwise(unlike, 0.0))
        return inputs.graph.joined(columns)

    def _slopes(self, known: Value, gone: Value) -> Value:
        """Return B, (n, p, p): zero but in rows of known and columns of missing ones."""
        graph, C, count = known.graph, self._completion.C, len(self._donors.rows)
        p = len(C)
        among, towards = _pairs(known, known) * C, _pairs(known, gone) * C
        B = _solved(among + gone.extended(2) * np.eye(p), towards, p)
        number = known.total(1)  # (n, 1)
        left = (count - 1.0) - number
        R2 = (towards * B).total(1, keep=False).at_least(0.0).at_most(1.0 - 1e-12)
        F = (R2 / number.at_least(1.0)).at_least(1e-12) / ((1.0 - R2) / left.at_least(1.0))
        ratio = missing.LEAST_F / F
        trust = (1.0 - ratio * ratio).at_least(0.0)
        told = graph.op("And", number.above(0.0), left.above(0.0)).to_float()
        return B * (trust * told).extended(1)

    def _unexplained(self, known: Value, gone: Value, B: Value) -> Value:
        """Return S among missing columns, and the identity among known ones, (n, p, p)."""
        C = self._completion.C
        crossed = (_pairs(gone, known) * C) @ B
        turned = B.swapped(0, 2, 1)
        S = C - crossed - crossed.swapped(0, 2, 1) + turned @ ((_pairs(known, known) * C) @ B)
        return S * _pairs(gone, gone) + known.extended(2) * np.eye(len(C))

    def _taken(self, weights: Value) -> Value:
        """Return the donors at equal steps of the cumulated weights (n, D), (n, size)."""
        graph, count = weights.graph, len(self._donors.rows)
        sums = graph.op("CumSum", weights, 1)
        steps = (np.arange(self._size) + 0.5) / self._size
        wanted = sums.cut(1, count - 1, count) * steps
        place = (wanted * 0.0).to_integer()
        for step in _steps(count):
            probe = place + (step - 1)
            value = graph.op("GatherElements", sums, probe.at_most(count - 1), axis=1)
            moves = graph.op("And", value.below(wanted), probe.below(count))
            place = place + moves.to_integer() * step
        return place.at_most(count - 1)


def _solved(matrix: Value, right: Value, size: int) -> Value:
    """Return matrix^-1 right, (n, p, q), of positive definite matrices (n, p, p) of a size p."""
    graph, units = matrix.graph, np.eye(size)

    def eliminated(number: Value, carried: Sequence[Value]) -> Sequence[Value]:
        (whole,) = carried
        row, column = number.taken_from(whole, axis=1), number.taken_from(whole, axis=2)
        pivot = row.graph.op("Unsqueeze", number.taken_from(row, axis=1), np.array([1]))
        less = column - number.taken_from(units)
        return (whole - less.extended(2) * (row / pivot).extended(1),)

    (done,) = graph.repeat(size, [graph.joined([matrix, right], axis=2)], eliminated)
    return done.cut(2, size, 2 * size)


def _pairs(one: Value, other: Value) -> Value:
    """Return the products of each entry (n, p) with each other one, (n, p, p)."""
    return one.extended(2) * other.extended(1)


def _column(values: Value, column: int) -> Value:
    return values.cut(2, column, column + 1)


def _entries(values: Value, places: Value, columns: int) -> Value:
    """Return rows (n, k, p) of (n, D, p) at places (n, k)."""
    index = places.extended(2) + np.zeros(columns, np.int64)
    return values.graph.op("GatherElements", values, index, axis=1)


def _weights(squares: Value) -> Value:
    """Return weights of the donors (n, D); see `core.predict.missing`."""
    graph = squares.graph
    least = graph.op("ReduceMin", squares, axes=[1])
    excess = squares - least

    def weights(scale: Value) -> Value:
        return graph.op("Exp", -(scale * excess))

    def widened(_: Value, carried: Sequence[Value]) -> Sequence[Value]:
        (scale,) = carried
        w = weights(scale)
        total = w.total(1)
        few = (total * total).below((w * w).total(1) * enough)
        return (scale.otherwise(few, scale / (missing.WIDER * missing.WIDER)),)

    count = (excess * 0.0 + 1.0).total(1)
    enough = (count * 0.5).at_most(missing.LEAST_DONORS)
    (scale,) = graph.repeat(missing.WIDENINGS, [least * 0.0 + 0.5], widened)
    return weights(scale)


def _steps(count: int) -> list[int]:
    """Return powers of two, falling, whose sum is at least `count`."""
    return [1 << power for power in reversed(range(count.bit_length()))]


def _interpolated(x: Value, knots: FloatArray, values: FloatArray) -> Value:
    """Return numpy's `interp`, of any shape."""
    if len(knots) == 1:
        return x * 0.0 + float(values[0])
    inner = knots[1:-1]
    steps = _steps(len(inner))
    padded = np.append(inner, np.full(2 ** len(steps) - len(inner), np.inf))
    place = (x.graph.op("IsNaN", x)).to_integer() * 0
    for step in steps:
        reached = x.reaches((place + (step - 1)).taken_from(padded))
        place = place + reached.to_integer() * step
    within = x.at_least(float(knots[0])).at_most(float(knots[-1]))
    slopes = np.diff(values) / np.diff(knots)
    return place.taken_from(values) + (within - place.taken_from(knots)) * place.taken_from(slopes)
