"""The target's own unit in an ONNX graph: mean, std and interval from centre and variance (m, 1) of the learnt target.

The formulas are those of `core.predict.distribution` and `core.predict.transforms`. ONNX has no expm1 and log1p: both
are taken by Kahan's correction of exp and log, to rounding.
"""

import numpy as np

from app.services.export.graph import Value
from app.services.export.target import MOMENTS_BY_SUM, NORMAL_HALF, TargetNumbers
from core.predict.calibration import STD_RANGE
from core.predict.distribution import LEAST_STD
from core.predict.ranks import FARTHEST
from core.predict.transforms import LARGEST_TARGET, NO_POWER
from core.spec import TargetTransform


class GraphTarget:
    """Answers of one model."""

    def __init__(self, numbers: TargetNumbers) -> None:
        self._numbers, self._transform = numbers, numbers.transform

    def mean(self, centre: Value, variance: Value | None) -> Value:
        """Return the mean; without a variance, of a target that is learnt as it is."""
        if variance is None or self._transform.kind is TargetTransform.NONE:
            return self._within(centre)
        return self._moments(centre, variance)[0]

    def std(self, centre: Value, variance: Value) -> Value:
        """Return the standard deviation, agreeing with the interval."""
        graph = centre.graph
        if self._numbers.plain:
            return graph.op("Sqrt", variance) * self._numbers.calibration.std_factor
        raw = graph.op("Sqrt", self._moments(centre, variance)[1])
        lower, upper = (self._at(centre, variance, each) for each in self._numbers.std_interval)
        normal = ((upper - lower) * (0.5 / NORMAL_HALF)).at_least(raw * LEAST_STD)
        return raw.at_least(normal * STD_RANGE[0]).at_most(normal * STD_RANGE[1])

    def interval(self, centre: Value, variance: Value) -> tuple[Value, Value]:
        """Return both ends of the interval."""
        below, above = self._numbers.interval
        return self._at(centre, variance, below), self._at(centre, variance, above)

    def inverse(self, learnt: Value) -> Value:
        """Return the target of which the learnt one is this, of any shape."""
        return self._within(self._unbounded(learnt))

    def _at(self, centre: Value, variance: Value, deviations: float) -> Value:
        start = self._within(centre) if self._transform.kind is TargetTransform.NONE else centre
        return self.inverse(start + deviations * centre.graph.op("Sqrt", variance))

    def _within(self, target: Value) -> Value:
        if self._transform.lowest > -np.inf:
            target = target.at_least(self._transform.lowest)
        return target.at_most(self._transform.highest) if self._transform.highest < np.inf else target

    def _mean_within(self, mean: Value) -> Value:
        if self._transform.least_mean > -np.inf:
            mean = mean.at_least(self._transform.least_mean)
        if self._transform.greatest_mean < np.inf:
            mean = mean.at_most(self._transform.greatest_mean)
        return self._within(mean)

    def _unbounded(self, t: Value) -> Value:
        match self._transform.kind:
            case TargetTransform.NONE:
                return t
            case TargetTransform.LOG:
                return t.graph.op("Exp", t).at_most(LARGEST_TARGET)
            case TargetTransform.LOG1P:
                return expm1(t).at_most(LARGEST_TARGET)
            case TargetTransform.YEO_JOHNSON:
                power = self._transform.power
                above = _box_cox_inverse(t.at_least(0.0), power)
                below = _box_cox_inverse((-t).at_least(0.0), 2.0 - power)
                return above.otherwise(t.below(0.0), -below) * self._transform.scale + self._transform.shift
            case _:
                return self._from_normal(t)

    def _from_normal(self, t: Value) -> Value:
        numbers, graph = self._numbers, t.graph
        first, last = float(numbers.knots[0]), float(numbers.knots[-1])
        inside = t.at_least(first).at_most(last)
        steps = inside.extended(-1).reaches(numbers.knots[1:-1]).to_integer()
        place = graph.op("ReduceSum", steps, np.array([-1]), keepdims=0)
        past = inside - place.taken_from(numbers.knots)
        value = place.taken_from(numbers.coefficients[:, 0])
        for power in range(1, 4):
            value = value * past + place.taken_from(numbers.coefficients[:, power])
        low = (t - first).at_most(0.0).at_least(-FARTHEST)
        high = (t - last).at_least(0.0).at_most(FARTHEST)
        return value + low * numbers.slopes[0] + high * numbers.slopes[1]

    def _moments(self, centre: Value, variance: Value) -> tuple[Value, Value]:
        graph, kind = centre.graph, self._transform.kind
        if kind is TargetTransform.NONE:
            return self._within(centre), variance
        if self._transform.widest < np.inf:
            variance = variance.at_most(self._transform.widest**2)
        if kind in MOMENTS_BY_SUM:
            values = self._unbounded(centre + graph.op("Sqrt", variance) * self._numbers.nodes)  # (m, nodes)
            weights = self._numbers.weights[:, None]
            level = values @ weights
            off = values - level
            return self._mean_within(level), (off * off) @ weights
        level = graph.op("Exp", centre + 0.5 * variance).at_most(LARGEST_TARGET)
        growth = variance + graph.op("Log", -expm1(-variance))
        spread = graph.op("Exp", 2.0 * centre + variance + growth).at_most(LARGEST_TARGET**2)
        return self._mean_within(level if kind is TargetTransform.LOG else level - 1.0), spread


def expm1(x: Value) -> Value:
    """Return e^x - 1."""
    graph = x.graph
    u = graph.op("Exp", x)
    less = u - 1.0
    corrected = less * (x / graph.op("Log", u))
    plain = u.below(0.25).either(u.above(4.0))  # no digits to lose; the logarithm of 0 or infinity is not looked at
    return corrected.otherwise(plain, less).otherwise(u.equals(1.0), x)


def log1p(x: Value) -> Value:
    """Return log(1 + x), x > -1."""
    u = x + 1.0
    return (x.graph.op("Log", u) * (x / (u - 1.0))).otherwise(u.equals(1.0), x)


def _box_cox_inverse(t: Value, power: float) -> Value:
    if abs(power) < NO_POWER:
        return expm1(t).at_most(LARGEST_TARGET)
    base = t * power
    reached = base.above(-1.0)
    beyond = t.graph.op("Not", reached)
    logarithm = log1p(base.otherwise(beyond, 0.0)) / power
    return expm1(logarithm).at_most(LARGEST_TARGET).otherwise(beyond, LARGEST_TARGET)
