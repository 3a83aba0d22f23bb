"""A Gaussian process as the arrays that a prediction takes, the same for every form that a model is exported in."""

from dataclasses import dataclass

import numpy as np

from core.arrays import FloatArray
from core.hyperparameters import KernelFamily
from core.input_transform import InputTransform
from core.process.families import SMALLEST_R
from core.process.kernel import Kernel
from core.sparse.posterior import SparsePosterior

SHAPES = {KernelFamily.MATERN52: 10.0, KernelFamily.MATERN32: 6.0, KernelFamily.MATERN12: 2.0}
"""Factor of R below the root, of the Matern kernels: see `core.process.families`."""
NEAREST_R = {KernelFamily.MATERN12: SMALLEST_R}
"""R below which two inputs are the same."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Process:
    """Centres and weights of one posterior, ready for c - R = (x, |x|^2, 1) centres'.

    kernel: its numbers. transform: psi of the inputs. shift, scale (p,): x = (psi(inputs) - shift) / scale. roots (p,):
    of the ARD weights. centres (M, p + 2): Kernel.basis of the basis; rows (M, p + 2): its Kernel.rows. alpha (M,).
    target_shift, target_scale: from standardized to the learnt target.
    """

    kernel: Kernel
    transform: InputTransform
    shift: FloatArray
    scale: FloatArray
    roots: FloatArray
    centres: FloatArray
    rows: FloatArray
    alpha: FloatArray
    target_shift: float
    target_scale: float

    @classmethod
    def of(cls, posterior: SparsePosterior) -> "Process":
        """Prepare a posterior; O(M p)."""
        kernel = Kernel.of(posterior.hyperparameters, posterior.groups.astype(np.int64))
        standardized = posterior.standardization.inputs(posterior.basis)
        return cls(
            kernel=kernel,
            transform=posterior.input_transform,
            shift=posterior.input_shift,
            scale=posterior.input_scale,
            roots=np.sqrt(kernel.weights),
            centres=np.ascontiguousarray(kernel.basis(standardized)),
            rows=np.ascontiguousarray(kernel.rows(standardized)),
            alpha=posterior.alpha,
            target_shift=posterior.target_shift,
            target_scale=posterior.target_scale,
        )

    @property
    def constant(self) -> float:
        """Mean where all kernel values without the bias are zero, standardized."""
        return self.kernel.bias_variance * float(self.alpha.sum())
