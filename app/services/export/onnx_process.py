"""The process in an ONNX graph: mean and latent variance of the learnt target from inputs (m, p).

Every product is the one that the service computes (`core.predict`), in float64. The variance from the nearest rows is
the last pivot of a Gaussian elimination of the m + 1 rows, for ONNX has no Cholesky factor. Powers of the inputs are
taken by exp and log as in `core.input_transform`, and end before they overflow.
"""

import numpy as np

from app.services.export.graph import Value
from app.services.export.onnx_target import expm1, log1p
from app.services.export.process import NEAREST_R, SHAPES, Process
from core.arrays import FloatArray
from core.hyperparameters import KernelFamily
from core.input_transform import LARGEST_LOGARITHM, InputTransform
from core.mean.near import NEAREST
from core.predict.inputs import LARGEST_INPUT
from core.predict.model import Model, VaryingNoise
from core.process.families import LEAST_EXPONENT
from core.sparse.posterior import SparsePosterior

_LARGEST = float(np.finfo(np.float64).max)


def process_mean(posterior: SparsePosterior, inputs: Value) -> Value:
    """Return the mean (m, 1), in the posterior's unit."""
    process = Process.of(posterior)
    return _unit(process, _values(process, _rows(process, inputs)) @ process.alpha[:, None])


def process_moments(model: Model, inputs: Value) -> tuple[Value, Value]:
    """Return mean and latent variance, uncalibrated, (m, 1) each, in the unit of the learnt target."""
    process = Process.of(model.posterior)
    rows = _rows(process, inputs)
    scale = process.target_scale**2
    if model.near is not None:
        distances = rows @ process.centres.T  # c - R
        mean = _unit(process, _kernel(process, distances) @ process.alpha[:, None])
        return mean, _near_variance(process, model.near, rows, distances) * scale
    k = _values(process, rows)
    mean = _unit(process, k @ process.alpha[:, None]) if model.mean is None else process_mean(model.mean, inputs)
    with_bias = k + process.kernel.bias_variance
    product = with_bias @ model.posterior.R.T
    norms = (product * product).total(1)
    latent = model.posterior.variance_base + model.posterior.variance_sign * norms
    return mean, latent.at_least(0.0) * scale


def noise_variance(model: Model, inputs: Value) -> Value | float:
    """Return the noise variance, uncalibrated, in the unit of the learnt target."""
    constant = model.posterior.noise_variance * model.posterior.target_scale**2
    return constant if model.noise is None else constant * _noise_factor(model.noise, inputs)


def transformed_inputs(transform: InputTransform, inputs: Value) -> Value:
    """Return psi of the inputs, (m, p)."""
    graph, columns = inputs.graph, transform.columns
    if not len(columns):
        return inputs
    centre, unit, power = transform.chosen
    u = (graph.value(columns).taken_from(inputs, axis=1) - centre) / unit
    negative, size = u.below(0.0), graph.op("Abs", u)
    exponent = graph.op("Where", negative, 2.0 - power, power)
    logarithm = log1p(size.at_most(_LARGEST)).otherwise(size.above(_LARGEST), np.inf)
    psi = expm1((exponent * logarithm).at_most(LARGEST_LOGARITHM)) / exponent
    places = np.arange(transform.table.shape[1])
    places[columns] = len(places) + np.arange(len(columns))
    both = graph.joined([inputs, psi.otherwise(negative, -psi)])
    return graph.value(places).taken_from(both, axis=1)


def _noise_factor(noise: VaryingNoise, inputs: Value) -> Value:
    logarithm = process_mean(noise.posterior, inputs).at_least(noise.lowest).at_most(noise.highest)
    return logarithm.graph.op("Exp", logarithm)


def _unit(process: Process, weighted: Value) -> Value:
    """Return what k'alpha without the bias is in the target's unit."""
    return (weighted + process.constant) * process.target_scale + process.target_shift


def _rows(process: Process, inputs: Value) -> Value:
    """Return (x, |x|^2, 1), (m, p + 2)."""
    standardized = (transformed_inputs(process.transform, inputs) - process.shift) / process.scale
    scaled = standardized.at_least(-LARGEST_INPUT).at_most(LARGEST_INPUT) * process.roots
    squares = (scaled * scaled).total(1)
    return inputs.graph.joined([scaled, squares, squares * 0.0 + 1.0])


def _values(process: Process, rows: Value) -> Value:
    """Return the kernel with the centres, without bias, (m, M)."""
    return _kernel(process, rows @ process.centres.T)


def _kernel(process: Process, distances: Value) -> Value:
    """Return the kernel without bias of c - R, of any shape."""
    graph, family, v0 = distances.graph, process.kernel.family, process.kernel.signal_variance
    if family is KernelFamily.GAUSSIAN:
        return graph.op("Exp", distances.at_least(LEAST_EXPONENT).at_most(float(np.log(v0))))
    squares = (distances * -SHAPES[family]).at_least(0.0)
    if family in NEAREST_R:
        squares = squares.otherwise(squares.below(SHAPES[family] * NEAREST_R[family]), 0.0)
    c = graph.op("Sqrt", squares).at_most(max(-LEAST_EXPONENT + min(float(np.log(v0)), 0.0), 0.0))
    exponential = graph.op("Exp", -c) * v0
    if family is KernelFamily.MATERN12:
        return exponential
    return exponential * ((c if family is KernelFamily.MATERN32 else c * (c / 3.0 + 1.0)) + 1.0)


def _near_variance(process: Process, noise: FloatArray, rows: Value, distances: Value) -> Value:
    """Return the variance from the nearest rows, standardized, (m, 1)."""
    graph, kernel, m = rows.graph, process.kernel, min(NEAREST, len(process.alpha))
    _, near = graph.ops("TopK", distances, np.array([m]), results=2, axis=1, largest=1, sorted=0)
    crossed = graph.op("GatherElements", distances, near, axis=1)  # (rows, m)
    centres, others = near.taken_from(process.centres), near.taken_from(process.rows)
    among = centres @ others.swapped(0, 2, 1)  # (rows, m, m)
    joint = graph.joined([among, crossed.extended(1)], axis=1)
    corner = crossed.cut(1, 0, 1) * 0.0
    joint = graph.joined([joint, graph.joined([crossed, corner]).extended(2)], axis=2)
    values = _kernel(process, joint) + kernel.bias_variance
    off = 1.0 - np.eye(m + 1)
    own = graph.joined([near.taken_from(noise), corner]) + kernel.diagonal
    matrix = values * off + own.extended(2) * np.eye(m + 1)
    for left in range(m, 0, -1):
        pivot, row, column = matrix.cut(1, 0, 1).cut(2, 0, 1), matrix.cut(1, 0, 1), matrix.cut(2, 0, 1)
        row = row.cut(2, 1, left + 1)
        column = column.cut(1, 1, left + 1)
        matrix = matrix.cut(1, 1, left + 1).cut(2, 1, left + 1) - column * (row / pivot)
    return matrix.reshaped(-1, 1).at_least(0.0)
