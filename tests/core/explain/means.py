"""Means with random weights that the tests of explanations share, and the same for the oracles."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.arrays import FloatArray
from core.explain.product_mean import Marginal, ProductMean
from core.hyperparameters import KernelFamily
from core.predict.model import Model
from core.sparse.posterior import SparsePosterior
from tests.dense.explain import Feature
from tests.dense.kernel import Params, kernel

WIDTHS, POINTS = (1, 2, 1, 3), (3, 2, 4, 2)


@dataclass(frozen=True, kw_only=True, eq=False)
class Example:
    """A mean in both forms: core's, and a function with the features that it depends on."""

    model: Model
    form: ProductMean
    features: list[Feature]
    columns: int

    def mean(self, inputs: FloatArray) -> FloatArray:
        """The mean at inputs (m, p) from the dense kernel, in the target's unit."""
        own = self.model.mean or self.model.posterior
        unit = own.standardization
        params = Params(
            w=own.hyperparameters.weights[own.groups.astype(int)],
            v0=own.signal_variance,
            vb=own.bias_variance,
            s2=own.noise_variance,
            family=own.kernel.value,
        )
        plain = kernel(params, unit.inputs(inputs), unit.inputs(own.basis)) @ own.alpha
        return np.asarray(plain * unit.target_scale + unit.target_shift)


def example(
    family: KernelFamily = KernelFamily.GAUSSIAN,
    widths: Sequence[int] = WIDTHS,
    points: Sequence[int] = POINTS,
    *,
    rows: int = 30,
    seed: int = 0,
) -> Example:
    """A mean on random rows, with features of these widths and so many points each."""
    random = np.random.default_rng(seed)
    p, shift = sum(widths), 100.0 * random.normal(size=sum(widths))
    scale = random.uniform(0.1, 20.0, p)
    posterior = SparsePosterior(
        basis=shift + scale * random.normal(size=(rows, p)),
        lengthscales=random.uniform(0.8, 3.0, len(widths)),
        groups=np.repeat(np.arange(len(widths), dtype=np.float64), widths),
        alpha=random.normal(size=rows),
        R=np.empty((0, 0)),
        input_shift=shift,
        input_scale=scale,
        target_shift=-7.0,
        target_scale=3.0,
        signal_variance=1.7,
        bias_variance=0.4,
        noise_variance=0.1,
        variance_base=2.1,
        variance_sign=-1.0,
        far_variance=2.0,
        kernel=family,
    )
    ends = np.cumsum([0, *widths])
    features = []
    for start, stop, count in zip(ends[:-1].tolist(), ends[1:].tolist(), points, strict=True):
        own = shift[start:stop] + scale[start:stop] * random.normal(size=(count, stop - start))
        probabilities = random.uniform(0.2, 1.0, count)
        features.append(Feature(slice(start, stop), own, probabilities / probabilities.sum()))
    marginals = [Marginal(points=each.points, probabilities=each.probabilities) for each in features]
    model = Model(posterior=posterior)
    return Example(model=model, form=ProductMean(model, ends, marginals), features=features, columns=p)


def inputs(found: Example, rows: int = 4, seed: int = 5) -> FloatArray:
    """Rows near those of the mean, (rows, p)."""
    own, random = found.model.posterior, np.random.default_rng(seed)
    return np.asarray(own.input_shift + own.input_scale * random.normal(size=(rows, found.columns)))
