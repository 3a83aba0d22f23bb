"""A posterior in a fraction of its bytes: what is stored when not every digit of the error bars is wanted.

With l = L^-1 k(x) and B^-1 = U diag(share) U', share = 1 / (1 + lam), a latent variance is kss - l'l + l'B^-1 l (SoR:
the last term alone). Z and theta give L again, so B^-1 is all there is to store, and it is stored as

    B^-1 ~ c I + S S',    S (d, r) in 16, 32 or 64 bits, c >= 0

a multiple of the identity and a few directions (c = 0 is the plain model of size O(d)). The scale c is what the
directions left out have on average; with it fewer are needed. `core.train.compress` chooses S and c and measures what
they change.

Expanded it is a `SparsePosterior` like any other, as fast and through the same code: with A = (1 - c) I - S S' (SoR:
c I + S S') = C'C its factor R is that of a QR of C L^-1, since R'R = L^-T A L^-1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from core.arrays import FloatArray
from core.errors import InvalidDataError
from core.hyperparameters import KernelFamily
from core.numeric.linalg import cholesky, solve_lower
from core.process.kernel import Kernel
from core.sparse.posterior import SparsePosterior

Directions = NDArray[np.float16] | NDArray[np.float32] | NDArray[np.float64]

PRECISIONS = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64))
"""Types that directions may be stored in, the smallest first."""

_LIFT = 4.0 * np.finfo(float).eps
"""Times d, added to the diagonal of A: rounding must not make a direction with no information (share 1) negative."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompactPosterior:
    """Compact form that `core.train.compress` makes of a SparsePosterior.

    mean: the posterior without its R. directions: S (d, r); rest: c; jitter: of Kuu, as a share of the prior variance.
    tolerance: what was asked; largest_error: the largest relative change of a training row's standard deviation (noise
    included) that was measured; variance_bound, std_bound: certified for every x: of the change of a latent variance
    (standardized units, before it is calibrated), and of the relative change of the standard deviation (noise included,
    calibrated).
    """

    mean: SparsePosterior
    directions: Directions
    rest: float
    jitter: float
    tolerance: float
    largest_error: float
    variance_bound: float
    std_bound: float

    def __post_init__(self) -> None:
        for name in _SCALARS:
            object.__setattr__(self, name, float(getattr(self, name)))
        directions = np.array(self.directions)
        directions.flags.writeable = False
        object.__setattr__(self, "directions", directions)
        size = len(self.mean.basis)
        if directions.ndim != 2 or len(directions) != size or directions.shape[1] > size:
            raise InvalidDataError(f"directions: expected shape ({size}, r), r at most {size}, got {directions.shape}")
        if directions.dtype not in PRECISIONS:
            raise InvalidDataError(f"directions: expected 16, 32 or 64 bit numbers, got {directions.dtype}")
        if not self.mean.mean_only:
            raise InvalidDataError("R: a compact model has none")
        if not (0.0 <= self.rest <= 1.0 and self.jitter >= 0.0):
            raise InvalidDataError(
                f"expected rest from 0 to 1 and jitter not negative, got {self.rest!r} and {self.jitter!r}"
            )

    @property
    def basis(self) -> FloatArray:
        """Basis vectors (d, p) in raw units."""
        return self.mean.basis

    @property
    def kernel(self) -> KernelFamily:
        """Family of the kernel."""
        return self.mean.kernel

    def expand(self) -> SparsePosterior:
        """The posterior to predict with. O(d^3): two Cholesky factorisations, a triangular solve and a QR.

        Raises NotPositiveDefiniteError where the numbers are not those of a model.
        """
        mean = self.mean
        hyperparameters, size = mean.hyperparameters, len(mean.basis)
        Z = mean.standardization.inputs(mean.basis)
        Kuu = Kernel.of(hyperparameters, mean.groups.astype(np.int64)).gram(Z)
        Kuu[np.diag_indices(size)] += self.jitter * hyperparameters.prior_variance
        L = cholesky(Kuu, "Kuu")
        S = self.directions.astype(np.float64)
        A = np.asarray(mean.variance_sign * (S @ S.T))
        A[np.diag_indices(size)] += (self.rest if mean.variance_sign > 0 else 1.0 - self.rest) + size * _LIFT
        C = cholesky(A, "A").T
        F = solve_lower(L, np.array(C.T, order="C"), transposed=True)  # L^-T C'
        (R,) = qr(F.T, mode="r", check_finite=False)
        return replace(mean, R=np.triu(R))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Every array by name, for storage."""
        return {**self.mean.arrays(), "directions": self.directions}

    def scalars(self) -> dict[str, float]:
        """Every number by name, for storage."""
        return {**self.mean.scalars(), **{name: getattr(self, name) for name in _SCALARS}}

    @classmethod
    def restore(
        cls,
        arrays: Mapping[str, NDArray[Any]],
        scalars: Mapping[str, float],
        kernel: KernelFamily = KernelFamily.GAUSSIAN,
    ) -> Self:
        """The same again from `arrays()` and `scalars()`, bit for bit; InvalidDataError where they do not fit."""
        missing = [name for name in ("directions", *_SCALARS) if name not in arrays and name not in scalars]
        if missing:
            raise InvalidDataError(f"missing: {', '.join(missing)}")
        mean = SparsePosterior.restore(
            {name: array for name, array in arrays.items() if name != "directions"},
            {name: value for name, value in scalars.items() if name not in _SCALARS},
            kernel,
        )
        own = {name: float(scalars[name]) for name in _SCALARS}
        return cls(mean=mean, directions=arrays["directions"], **own)


_SCALARS = tuple(field.name for field in fields(CompactPosterior) if field.name not in {"mean", "directions"})

Stored = SparsePosterior | CompactPosterior
"""Posterior that an artefact holds."""


def served(stored: Stored) -> SparsePosterior:
    """The posterior that predicts. O(1), or O(d^3) for a compact one."""
    return stored.expand() if isinstance(stored, CompactPosterior) else stored


def stored_bytes(stored: Stored) -> int:
    """Bytes of its arrays in storage."""
    return sum(array.nbytes for array in stored.arrays().values())
