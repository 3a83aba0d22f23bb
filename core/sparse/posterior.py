"""The posterior as prediction needs it: no training row is left in it.

The variance of the latent function has the form kss - l'l + l'B^-1 l with l = L^-1 k(x). Instead of two triangular
solves a row, write B - I = V D^-1 V' = U diag(lam) U'; then l'l - l'B^-1 l = |R k|^2, where R is upper triangular with
R'R = F F', F = L^-T U diag(sqrt(lam / (lam + 1))), by a QR of F'. One triangular product for a whole block of rows, as
accurate as the solves; the form k' (Kuu^-1 - A^-1) k loses all its digits where the noise is small.
SoR has l'B^-1 l alone: the same with F = L^-T U diag(sqrt(1 / (lam + 1))), added instead of subtracted.

Where only the mean is wanted R is left out, O(d p) instead of O(d^2).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
from scipy.linalg import eigh, qr

from core.arrays import FloatArray, IntArray, frozen
from core.data import Standardization
from core.errors import InvalidDataError
from core.hyperparameters import Hyperparameters, KernelFamily
from core.input_transform import InputTransform
from core.numeric.linalg import pack_upper, solve_lower, unpack_upper
from core.sparse.factors import Factors

_ARRAYS = ("basis", "lengthscales", "groups", "alpha", "R", "input_shift", "input_scale")
_TRANSFORM = "input_transform"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparsePosterior:
    """d basis vectors and what follows from them.

    basis (d, p) in raw units; groups (p,) as float64; lengthscales (g,); alpha (d,); R (d, d) upper triangular, or
    (0, 0) where the mean alone was kept;
    input_transform: what inputs are before they are standardized;
    latent variance = variance_base + variance_sign |R k|^2, in standardized units; far_variance: what it is far from
    all data, 0 for SoR, whose prior ends where its basis does.
    """

    basis: FloatArray
    lengthscales: FloatArray
    groups: FloatArray
    alpha: FloatArray
    R: FloatArray
    input_shift: FloatArray
    input_scale: FloatArray
    target_shift: float
    target_scale: float
    signal_variance: float
    bias_variance: float
    noise_variance: float
    variance_base: float
    variance_sign: float
    far_variance: float
    kernel: KernelFamily = KernelFamily.GAUSSIAN
    input_transform: InputTransform = field(default_factory=InputTransform)

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            object.__setattr__(self, name, frozen(getattr(self, name)))
        if self.basis.ndim != 2:
            raise InvalidDataError(f"basis: expected two dimensions, got {self.basis.ndim}")
        size, columns = self.basis.shape
        expected = {
            "lengthscales": (len(self.lengthscales),),
            "groups": (columns,),
            "alpha": (size,),
            "R": (0, 0) if self.mean_only else (size, size),
            "input_shift": (columns,),
            "input_scale": (columns,),
        }
        for name, shape in expected.items():
            if getattr(self, name).shape != shape:
                raise InvalidDataError(f"{name}: expected shape {shape}, got {getattr(self, name).shape}")
        if self.input_transform.table.shape[1] not in (0, columns):
            raise InvalidDataError(f"{_TRANSFORM}: expected {columns} columns, got {self.input_transform.table.shape}")

    @property
    def mean_only(self) -> bool:
        """True where there is a mean and no error bar."""
        return self.R.shape == (0, 0)

    @property
    def hyperparameters(self) -> Hyperparameters:
        """Hyperparameters of training, in standardized units."""
        return Hyperparameters(
            lengthscales=self.lengthscales,
            signal_variance=self.signal_variance,
            bias_variance=self.bias_variance,
            noise_variance=self.noise_variance,
            kernel=self.kernel,
        )

    @property
    def standardization(self) -> Standardization:
        """Between raw and standardized units."""
        return Standardization(
            input_shift=self.input_shift,
            input_scale=self.input_scale,
            target_shift=self.target_shift,
            target_scale=self.target_scale,
            input_transform=self.input_transform,
        )

    def without_variance(self) -> Self:
        """The same mean and no error bar: O(d p) numbers are left."""
        return replace(self, R=np.empty((0, 0)))

    def arrays(self) -> dict[str, FloatArray]:
        """Every array by name, for storage: of R the triangle, (d (d + 1) / 2,) by rows; no R for a mean alone; the
        transform's table where there is one."""
        arrays: dict[str, FloatArray] = {name: getattr(self, name) for name in _ARRAYS if name != "R"}
        if len(self.input_transform.columns):
            arrays[_TRANSFORM] = self.input_transform.table
        return arrays if self.mean_only else arrays | {"R": pack_upper(self.R)}

    def scalars(self) -> dict[str, float]:
        """Return every number by its stored name."""
        return {_STORED.get(name, name): getattr(self, name) for name in _scalar_names()}

    @classmethod
    def restore(
        cls,
        arrays: Mapping[str, FloatArray],
        scalars: Mapping[str, float],
        kernel: KernelFamily = KernelFamily.GAUSSIAN,
    ) -> Self:
        """Return the posterior with these `arrays()` and `scalars()`, bit for bit.

        R may be missing for a mean alone, and be a square, as it was in older files, which have no variance far away.
        Raises InvalidDataError where the names or shapes do not fit.
        """
        R = arrays.get("R", np.empty((0, 0)))
        optional = {"R", _TRANSFORM, *([_STORED["far_variance"]] if R.ndim == 2 and len(R) else [])}
        names = {*_ARRAYS, _TRANSFORM, *(_STORED.get(name, name) for name in _scalar_names())}
        given = set(arrays) | set(scalars)
        for what, odd in (("missing", names - given - optional), ("unknown", given - names)):
            if odd:
                raise InvalidDataError(f"{what}: {', '.join(sorted(odd))}; expected exactly {sorted(names)}")
        arrays = {**arrays, "R": unpack_upper(R) if R.ndim == 1 else R}
        own = {stored: name for name, stored in _STORED.items()}
        values: dict[str, Any] = {**arrays, **{own.get(name, name): float(value) for name, value in scalars.items()}}
        if _TRANSFORM in values:
            values[_TRANSFORM] = InputTransform(table=values[_TRANSFORM])
        if "far_variance" not in values:
            values["far_variance"] = _variance_far_away(**{name: values[name] for name in _OF_FAR_VARIANCE})
        return cls(**values, kernel=kernel)


_STORED = {"far_variance": "farthest"}
"""Numbers that artefacts have under another name."""
_OF_FAR_VARIANCE = ("R", "bias_variance", "variance_base", "variance_sign")


def _scalar_names() -> list[str]:
    return [each.name for each in fields(SparsePosterior) if each.name not in (*_ARRAYS, _TRANSFORM, "kernel")]


def _variance_far_away(R: FloatArray, bias_variance: float, variance_base: float, variance_sign: float) -> float:
    """The latent variance where of the kernel only the bias is left."""
    if variance_sign > 0.0 or not len(R):
        return 0.0
    return max(variance_base - float(np.square(R.sum(axis=1) * bias_variance).sum()), 0.0)


def posterior(
    factors: Factors,
    basis: FloatArray,
    groups: IntArray,
    standardization: Standardization,
) -> SparsePosterior:
    """Return the posterior of fitted factors. O(d^3).

    Args:
        factors: of one theta and basis.
        basis: the same vectors as factors.Z, (d, p) in raw units.
        groups: which lengthscale each column uses, (p,).
        standardization: between raw and standardized units.

    Returns:
        The posterior; without variance outside the span of the basis where the scheme's prior has none.
    """
    hyperparameters = factors.hyperparameters
    lam, U = eigh(factors.information)
    lam = np.maximum(lam, 0.0)
    reduced = not factors.scheme.full_prior
    shares = 1.0 / (lam + 1.0) if reduced else lam / (lam + 1.0)
    F = solve_lower(factors.L, np.ascontiguousarray(U * np.sqrt(shares)), transposed=True)
    (R,) = qr(F.T, mode="r", check_finite=False)
    base, sign = (0.0, 1.0) if reduced else (hyperparameters.prior_variance, -1.0)
    return SparsePosterior(
        basis=basis,
        lengthscales=hyperparameters.lengthscales,
        groups=groups.astype(np.float64),
        alpha=factors.alpha,
        R=np.triu(R),
        input_shift=standardization.input_shift,
        input_scale=standardization.input_scale,
        target_shift=standardization.target_shift,
        target_scale=standardization.target_scale,
        signal_variance=hyperparameters.signal_variance,
        bias_variance=hyperparameters.bias_variance,
        noise_variance=hyperparameters.noise_variance,
        variance_base=base,
        variance_sign=sign,
        far_variance=_variance_far_away(np.triu(R), hyperparameters.bias_variance, base, sign),
        kernel=hyperparameters.kernel,
        input_transform=standardization.input_transform,
    )
