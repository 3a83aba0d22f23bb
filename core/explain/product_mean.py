"""The mean of a model as a weighted sum over its rows of products of one factor a feature.

    m(x) = constant + sum_j alpha_j k(R_j(x)),     R_j(x) = sum_c R_jc(x),     k(R) = sum_q c_q prod_c exp(-s_q R_c)

R_jc is the part of the squared distance to row j that feature c makes, over all columns of the design matrix that the
feature has (the levels of a category, the cycles of a date). The last sum has one term for the Gaussian kernel
(`core.explain.exponential_sums`).

Explanations compare with features drawn independently, each from a distribution on some points: then the expectation of
a product is the product of expectations,

    m_jc(s) = E exp(-s R_jc(X_c)) = sum_n p_cn exp(-s R_jc(x_cn))
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from core.arrays import FloatArray, IntArray, frozen
from core.errors import InvalidDataError
from core.explain.exponential_sums import exponential_sum
from core.predict.inputs import LARGEST_INPUT, checked_inputs
from core.predict.model import Model
from core.process.families import FAMILIES, LEAST_EXPONENT
from core.process.kernel import Kernel


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Marginal:
    """Distribution of one feature on points (N, width) in raw units, with these probabilities (N,)."""

    points: FloatArray
    probabilities: FloatArray

    def __post_init__(self) -> None:
        points, probabilities = frozen(self.points), frozen(self.probabilities)
        if points.ndim != 2 or not len(points) or probabilities.shape != (len(points),):
            raise InvalidDataError(f"marginal: expected points and a probability of each, got shape {points.shape}")
        if not np.isfinite(points).all() or not (probabilities >= 0.0).all() or not probabilities.sum() > 0.0:
            raise InvalidDataError("marginal: expected finite points and probabilities that are not all zero")
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "probabilities", frozen(probabilities / probabilities.sum()))


class ProductMean:
    """A model's mean of the learnt target made ready to be explained: M (p + f) numbers, safe to share between threads.

    alpha (M,) has the signal variance and the target's scale in it; constant: mean where the kernel is nought.
    """

    def __init__(self, model: Model, starts: IntArray, marginals: Sequence[Marginal]) -> None:
        """Prepare.

        Args:
            model: whose mean is explained.
            starts: where the columns of each feature begin, and p, (f + 1,).
            marginals: distribution of each feature, (f,).

        Raises:
            InvalidDataError: features and marginals that are not those of the model's columns.
        """
        posterior = model.mean or model.posterior
        self._standardization = posterior.standardization
        kernel = Kernel.of(posterior.hyperparameters, posterior.groups.astype(np.int64))
        p = len(kernel.weights)
        if len(starts) != len(marginals) + 1 or starts[0] != 0 or starts[-1] != p or (np.diff(starts) < 1).any():
            raise InvalidDataError(f"features: expected {len(marginals)} that begin at 0 and end at {p}")
        self._roots, self._starts = np.sqrt(kernel.weights), starts
        self.family, self._value = kernel.family, FAMILIES[kernel.family].value
        self.rates, self.weights = exponential_sum(kernel.family)
        self.alpha = posterior.alpha * (kernel.signal_variance * posterior.target_scale)
        bias = kernel.bias_variance * float(posterior.alpha.sum())
        self.constant = bias * posterior.target_scale + posterior.target_shift
        self.centres = self._scaled(posterior.basis)
        self._features = [self._feature(place, marginal) for place, marginal in enumerate(marginals)]

    @property
    def size(self) -> int:
        """M, rows that the mean rests on."""
        return len(self.alpha)

    @property
    def features(self) -> int:
        """f, the number of features."""
        return len(self._features)

    @property
    def probabilities(self) -> list[FloatArray]:
        """Probabilities of the points of each feature, (N,)."""
        return [feature.probabilities for feature in self._features]

    @property
    def table_size(self) -> int:
        """Pairs of a distinct row and a point, over all features: kernel values of one expectation."""
        return sum(len(feature.distinct) * len(feature.points) for feature in self._features)

    def squared_distances(self, inputs: FloatArray) -> Iterator[FloatArray]:
        """Yield R_jc of each row of inputs (m, p), raw units: (f, M). O(M p) each. InvalidDataError as predictions."""
        for row in self.scaled(inputs):
            yield _by_feature(self.centres, row, self._starts)

    def scaled(self, inputs: FloatArray) -> FloatArray:
        """Return inputs (m, p), raw units, in those of `centres`. InvalidDataError as predictions."""
        return self._scaled(checked_inputs(inputs, len(self._roots)))

    def kernel(self, distances: FloatArray) -> FloatArray:
        """Return k(R) / v0 of squared distances of any shape."""
        block = np.negative(distances).reshape(1, -1)
        self._value(block, 1.0, LEAST_EXPONENT)
        return block.reshape(distances.shape)

    def table(self, feature: int) -> tuple[FloatArray, IntArray]:
        """Return R of the distinct rows of one feature at its points, (M', N), and which of them each row is, (M,)."""
        found = self._features[feature]
        distances = np.zeros((len(found.distinct), len(found.points)))
        for column in range(found.points.shape[1]):
            distances += np.square(found.distinct[:, column, None] - found.points[:, column])
        return distances, found.place

    def expected(self, rate: float) -> FloatArray:
        """Return m_jc at one rate, (f, M). O(table_size)."""
        return self.block(slice(0, self.size)).expected(rate)

    def block(self, some: slice) -> "Block":
        """Return some of the rows, with what follows from them at any rate."""
        tables = []
        for place, feature in enumerate(self._features):
            distances, where = self.table(place)
            used, where = np.unique(where[some], return_inverse=True)
            tables.append((distances[used], feature.probabilities, where.ravel()))
        return Block(alpha=self.alpha[some], centres=self.centres[some], starts=self._starts, tables=tables)

    def _feature(self, place: int, marginal: Marginal) -> "_Feature":
        columns = slice(int(self._starts[place]), int(self._starts[place + 1]))
        if marginal.points.shape[1] != columns.stop - columns.start:
            raise InvalidDataError(f"feature {place}: expected points of {columns.stop - columns.start} columns")
        points = np.zeros((len(marginal.points), len(self._roots)))
        points[:, columns] = marginal.points
        distinct, where = np.unique(self.centres[:, columns], axis=0, return_inverse=True)
        return _Feature(
            points=self._scaled(points)[:, columns],
            probabilities=marginal.probabilities,
            distinct=distinct,
            place=where.ravel(),
        )

    def _scaled(self, inputs: FloatArray) -> FloatArray:
        """Raw inputs (m, p) in units in which squared differences add up to R."""
        with np.errstate(over="ignore"):
            standardized = self._standardization.inputs(inputs)
        return np.asarray(np.clip(standardized, -LARGEST_INPUT, LARGEST_INPUT) * self._roots)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Feature:
    """points (N, width) and distinct (M', width), scaled; place (M,): which of the distinct ones each row is."""

    points: FloatArray
    probabilities: FloatArray
    distinct: FloatArray
    place: IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """Some rows B of a mean. alpha (B,); centres (B, p); tables: of each feature R of distinct rows at its points, the
    probabilities of these, and which of the distinct rows each row is."""

    alpha: FloatArray
    centres: FloatArray
    starts: IntArray
    tables: list[tuple[FloatArray, FloatArray, IntArray]]

    def distances(self, scaled: FloatArray) -> FloatArray:
        """Return R_jc of scaled inputs (m, p), (m, f, B)."""
        return np.stack([_by_feature(self.centres, row, self.starts) for row in scaled])

    def expected(self, rate: float) -> FloatArray:
        """Return m_jc at one rate, (f, B)."""
        return np.stack([(np.exp(-rate * R) @ probabilities)[where] for R, probabilities, where in self.tables])


def _by_feature(centres: FloatArray, row: FloatArray, starts: IntArray) -> FloatArray:
    """Squared distances of one scaled row to centres (M, p) by feature, (f, M)."""
    squares = np.square(centres - row)
    return np.ascontiguousarray(np.add.reduceat(squares, starts[:-1], axis=1).T)
