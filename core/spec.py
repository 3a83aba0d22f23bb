"""Specification of a training run."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeVar

from core.errors import InvalidSpecError
from core.hyperparameters import Hyperparameters, KernelFamily

Name = TypeVar("Name", bound=StrEnum)


class Method(StrEnum):
    """Method of choosing basis vectors (`core.selection.gains` has the criteria)."""

    RAND = "rand"
    INFO = "info"
    SB = "sb"
    NLPP = "nlpp"
    """Another name of `sb`."""
    KAPPA = "kappa"
    DMAX = "dmax"
    NLML = "nlml"
    VFE = "vfe"
    VARIANCE = "variance"
    LOO_CVE = "loo-cve"
    NLGPP = "nlgpp"
    GPE = "gpe"
    BATCH = "batch"


class KernelChoice(StrEnum):
    """A kernel (`core.hyperparameters.KernelFamily`), or the one of them that predicts left-out rows best."""

    AUTO = "auto"
    GAUSSIAN = "gaussian"
    MATERN52 = "matern52"
    MATERN32 = "matern32"
    MATERN12 = "matern12"


class Gain(StrEnum):
    """Gain that `batch` chooses by."""

    SB = "sb"
    POST_BACKFITTING = "post-backfitting"
    NLML = "nlml"
    VFE = "vfe"
    VARIANCE = "variance"


class Intervals(StrEnum):
    """The shape of intervals."""

    SYMMETRIC = "symmetric"
    ASYMMETRIC = "asymmetric"


class TargetTransform(StrEnum):
    """Transform under which the target is learnt."""

    NONE = "none"
    LOG = "log"
    LOG1P = "log1p"
    YEO_JOHNSON = "yeo-johnson"
    RANK_NORMAL = "rank-normal"
    """The increasing map that makes the targets of training normal."""
    AUTO = "auto"
    """The one of these under which left-out rows are likeliest."""


class InputTransforms(StrEnum):
    """Transform of the input columns of numbers before they are standardized."""

    NONE = "none"
    YEO_JOHNSON = "yeo-johnson"
    """Long tails drawn in by a power of each column (`core.input_transform`)."""
    AUTO = "auto"
    """The one of these under which left-out rows are predicted better."""


class Calibrate(StrEnum):
    """Method of leaving rows out to calibrate the error bars."""

    AUTO = "auto"
    LOO = "loo"
    CROSS_FIT = "cross-fit"


class Noise(StrEnum):
    """Constant noise, or noise that varies with the inputs. AUTO: it may vary wherever error bars are calibrated."""

    AUTO = "auto"
    CONSTANT = "constant"
    INPUT_DEPENDENT = "input-dependent"


class Approximation(StrEnum):
    """Sparse approximation that gives the predictive distribution and the objective."""

    SOR = "sor"
    DTC = "dtc"
    FITC = "fitc"
    VFE = "vfe"
    PEP = "pep"


class Artefact(StrEnum):
    """Part of a trained model that is stored."""

    FULL = "full"
    """Everything: O(d^2)."""
    COMPACT = "compact"
    """Error bars to within a tolerance, in a fraction of the bytes."""
    MEAN = "mean"
    """No error bars: O(d p)."""


class Precision(StrEnum):
    """Floating-point numbers that a model predicts in."""

    FLOAT64 = "float64"
    FLOAT32 = "float32"
    """Error bars, or kernel values of a full process, in single precision: a third to twice as many rows a second; only
    where it changes nothing that matters."""


class MeanRows(StrEnum):
    """Rows that the mean rests on, where it is not a number of them."""

    AUTO = "auto"
    """All or many rows where left-out rows are predicted better so, else the basis vectors."""
    ALL = "all"
    """Every row: the mean of the full Gaussian process."""
    BASIS = "basis"
    """The basis vectors: the mean of the sparse approximation."""


class Variance(StrEnum):
    """Rows that the error bars of a mean on all rows come from."""

    AUTO = "auto"
    """Those of the candidate that predicts left-out rows best."""
    BASIS = "basis"
    """The basis vectors."""
    NEAR = "near"
    """The nearest training rows of each row that is predicted."""


class Effort(StrEnum):
    """Models that are compared before one is published."""

    QUICK = "quick"
    """The sparse model alone, unless `kernel` or `mean_rows` ask for more."""
    NORMAL = "normal"
    """The sparse model and, in tables that are not too large, a full process of the likeliest kernel."""
    BEST = "best"
    """The same with longer searches, none of which ends early, and full processes of several kernels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptation:
    """Budget of the hyperparameter adaptation.

    rounds: how often a basis is chosen and the hyperparameters are moved. steps: objective evaluations a round.
    """

    rounds: int = 5
    steps: int = 20

    def __post_init__(self) -> None:
        _at_least("adapt.rounds", self.rounds, 1)
        _at_least("adapt.steps", self.steps, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refinement:
    """Budget of the basis vectors' own movement after selection: objective evaluations."""

    steps: int = 60

    def __post_init__(self) -> None:
        _at_least("refine.steps", self.steps, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundsRequest:
    """Ask for the bounds of Smola & Bartlett's Theorem 1, and for those of the error bars at some rows."""

    rows: tuple[int, ...] = ()


_CHOICES: dict[str, type[StrEnum]] = {
    "method": Method,
    "gain": Gain,
    "approximation": Approximation,
    "kernel": KernelChoice,
    "intervals": Intervals,
    "target_transform": TargetTransform,
    "input_transform": InputTransforms,
    "noise": Noise,
    "calibrate": Calibrate,
    "artefact": Artefact,
    "precision": Precision,
    "variance": Variance,
    "effort": Effort,
}
"""Fields of a specification that are one of several names; `calibrate` may be None."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainSpec:
    """One training run, checked. Raises InvalidSpecError naming the field.

    basis_size: d, or None for "auto", at most `max_basis_size`: all distinct rows where these are no more than that and
    `core.selection.size.SMALL_TABLE`, else until the criterion no longer improves.
    power: only read by `pep`, 0 < power <= 1. adaptation: None keeps `start` (or the heuristic) fixed.
    kernel: AUTO is the kernel of `start` where that is given.
    candidates: kappa, fresh candidates a step. cache_size: c of `dmax`, default max(d, 500). pool_size: P of
    `batch`, default max(4 d, 1000). holdout: share of rows that the report's scores are measured on.
    calibrate: None leaves the error bars as the Gaussian process gives them.
    mean_rows: rows that the mean rests on, or how many (`core.train.mean_choice`); error bars rest on the basis anyway.
    variance: NEAR is the full process or nothing. effort: see `compares_full`.
    tolerance: only read by artefact `compact`, largest relative change of a training row's standard deviation.
    precision: of predictions; float32 is kept where `core.predict.float32` finds it good enough.
    """

    method: Method = Method.BATCH
    gain: Gain = Gain.SB
    basis_size: int | None = None
    max_basis_size: int = 500
    approximation: Approximation = Approximation.PEP
    power: float = 0.7
    adaptation: Adaptation | None = field(default_factory=Adaptation)
    refinement: Refinement | None = None
    kernel: KernelChoice = KernelChoice.GAUSSIAN
    start: Hyperparameters | None = None
    candidates: int = 59
    cache_size: int | None = None
    pool_size: int | None = None
    gap_tolerance: float = 0.025
    bounds: BoundsRequest | None = None
    calibrate: Calibrate | None = Calibrate.AUTO
    intervals: Intervals = Intervals.SYMMETRIC
    target_transform: TargetTransform = TargetTransform.NONE
    input_transform: InputTransforms = InputTransforms.NONE
    noise: Noise = Noise.AUTO
    standardize: bool = True
    holdout: float = 0.1
    seed: int = 0
    artefact: Artefact = Artefact.FULL
    tolerance: float = 0.01
    precision: Precision = Precision.FLOAT64
    mean_rows: MeanRows | int = MeanRows.BASIS
    variance: Variance = Variance.AUTO
    effort: Effort = Effort.QUICK

    def __post_init__(self) -> None:
        self._check_choices()
        self._check_mean_rows()
        if not 0.0 < self.tolerance < 1.0:
            raise InvalidSpecError("tolerance", f"expected a number between 0 and 1, got {self.tolerance!r}")
        _at_least("max_basis_size", self.max_basis_size, 1)
        _at_least("candidates", self.candidates, 1)
        for name in ("basis_size", "cache_size", "pool_size"):
            value = getattr(self, name)
            if value is not None:
                _at_least(name, value, 1)
        if not 0.0 < self.power <= 1.0:
            raise InvalidSpecError("power", f"expected a number above 0 and at most 1, got {self.power!r}")
        if not 0.0 <= self.holdout <= 0.9:
            raise InvalidSpecError("holdout", f"expected a share from 0 to 0.9, got {self.holdout!r}")
        _at_least("seed", self.seed, 0)
        if not 0.0 < self.gap_tolerance < 2.0:
            raise InvalidSpecError("gap_tolerance", f"expected a number between 0 and 2, got {self.gap_tolerance!r}")
        if self.refinement is not None and self.approximation in (Approximation.SOR, Approximation.DTC):
            raise InvalidSpecError(
                "refine", f"{self.approximation} has no term that holds moving basis vectors; use vfe, fitc or pep"
            )
        if self.variance is Variance.NEAR and not self.compares_full:
            raise InvalidSpecError(
                "variance",
                "near is of a full process: with effort normal or best, mean_rows auto or all, a full artefact, "
                "calibration and adaptation, and without refine, bounds and hyperparameters",
            )
        if self.calibrate is None and self.intervals is Intervals.ASYMMETRIC:
            raise InvalidSpecError("intervals", "each tail is taken from left-out rows: not with calibrate off")
        if self.calibrate is None and self.noise is Noise.INPUT_DEPENDENT:
            raise InvalidSpecError(
                "noise", "input-dependent noise is learnt from left-out rows: not with calibrate off"
            )
        if self.artefact is Artefact.MEAN and self.target_transform not in (TargetTransform.NONE, TargetTransform.AUTO):
            raise InvalidSpecError("artefact", "the mean of a transformed target needs its error bar: not `mean`")
        if self.refinement is not None and self.bounds is not None:
            raise InvalidSpecError("bounds", "they hold for basis vectors that are rows, not with `refine`")

    def _check_choices(self) -> None:
        """Turn names into members of their enums; the kernel of given hyperparameters is the one that was asked for."""
        for name, kind in _CHOICES.items():
            value = getattr(self, name)
            if value is not None or name != "calibrate":
                object.__setattr__(self, name, _member(kind, name, value))
        if self.start is not None and self.kernel is not KernelChoice.AUTO:
            object.__setattr__(self, "start", replace(self.start, kernel=KernelFamily(self.kernel)))

    def _check_mean_rows(self) -> None:
        """Turn a name into a member of its enum, and refuse what a mean on its own rows cannot go with."""
        given: object = self.mean_rows
        if isinstance(given, str):
            object.__setattr__(self, "mean_rows", _member(MeanRows, "mean_rows", given))
        elif not isinstance(given, int) or isinstance(given, bool) or given < 1:
            raise InvalidSpecError(
                "mean_rows", f"expected {', '.join(MeanRows)} or a whole number of at least 1, got {given!r}"
            )
        if self.mean_rows in (MeanRows.AUTO, MeanRows.BASIS):
            return
        for clashes, reason in (
            (self.calibrate is None, "its error bars are learnt from left-out rows: not with calibrate off"),
            (self.refinement is not None, "`refine` moves basis vectors for the mean that rests on them; use basis"),
            (self.artefact is Artefact.COMPACT, "a compact artefact keeps the mean of the basis; use basis, or full"),
        ):
            if clashes:
                raise InvalidSpecError("mean_rows", reason)

    @property
    def fixed_mean(self) -> bool:
        """True where the mean rests on the basis vectors whatever left-out rows say."""
        return self.mean_rows is MeanRows.BASIS or (
            self.mean_rows is MeanRows.AUTO
            and (self.calibrate is None or self.refinement is not None or self.artefact is Artefact.COMPACT)
        )

    @property
    def compares_full(self) -> bool:
        """True where a full process is a candidate: no part of a sparse model is asked for that it does not have."""
        return (
            self.effort is not Effort.QUICK
            and self.mean_rows in (MeanRows.AUTO, MeanRows.ALL)
            and self.variance is not Variance.BASIS
            and self.calibrate is not None
            and self.adaptation is not None
            and self.refinement is None
            and self.start is None
            and self.bounds is None
            and self.artefact is Artefact.FULL
        )

    @property
    def most_basis(self) -> int:
        """The largest basis this run may have."""
        return self.max_basis_size if self.basis_size is None else self.basis_size


def _at_least(name: str, value: int, least: int) -> None:
    if not isinstance(value, int) or value < least:
        raise InvalidSpecError(name, f"expected a whole number of at least {least}, got {value!r}")


def _member(kind: type[Name], name: str, value: str) -> Name:
    try:
        return kind(value)
    except ValueError:
        raise InvalidSpecError(name, f"expected one of {', '.join(kind)}, got {value!r}") from None
