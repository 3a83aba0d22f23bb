"""Terms that tell the sparse approximations apart."""

from dataclasses import dataclass
from enum import Enum

from core.spec import Approximation


class Penalty(Enum):
    """Term of the objective for the variance that the basis leaves unexplained."""

    NONE = 0
    TRACE = 1
    """VFE: sum(e) / (2 s2)"""
    POWER = 2
    """Power EP: (1 - a) / (2 a) sum log(1 + a e / s2)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """An approximation in three terms: `power` a in D = s2 + a e, the objective's penalty, and whether the prior has
    variance outside the span of the basis, as all but SoR do."""

    power: float
    penalty: Penalty
    full_prior: bool = True


def scheme(approximation: Approximation, power: float = 0.7) -> Scheme:
    """Return the terms of an approximation; `power` is read for power EP only."""
    match approximation:
        case Approximation.SOR:
            return Scheme(power=0.0, penalty=Penalty.NONE, full_prior=False)
        case Approximation.DTC:
            return Scheme(power=0.0, penalty=Penalty.NONE)
        case Approximation.VFE:
            return Scheme(power=0.0, penalty=Penalty.TRACE)
        case Approximation.FITC:
            return Scheme(power=1.0, penalty=Penalty.NONE)
        case Approximation.PEP:
            return Scheme(power=power, penalty=Penalty.POWER)
