"""Functions that stand for computer experiments, without noise: what an emulator is asked to learn.

Borehole (Harper & Gupta 1983), piston (Ben-Ari & Steinberg 2007) and wing weight (Forrester, Sobester & Keane 2008)
are as smooth as any; Friedman's (1991) has five columns of ten that do nothing; the robot arm (An & Owen 2001) has a
kink at its shoulder; `waves` has one across a plane.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from core.arrays import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulator:
    """A function of columns that are uniform between `least` and `most`: (n, p) -> (n,)."""

    function: Callable[[FloatArray], FloatArray]
    least: tuple[float, ...]
    most: tuple[float, ...]

    def draw(self, rows: int, seed: int) -> FloatArray:
        """Return rows with the target as last column, (rows, p + 1)."""
        X = np.random.default_rng(seed).uniform(self.least, self.most, (rows, len(self.least)))
        return np.column_stack([X, self.function(X)])


def _borehole(X: FloatArray) -> FloatArray:
    rw, r, upper, upper_head, lower, lower_head, length, conductivity = X.T
    log = np.log(r / rw)
    slow = 1.0 + 2.0 * length * upper / (log * rw**2 * conductivity) + upper / lower
    return np.asarray(2.0 * np.pi * upper * (upper_head - lower_head) / (log * slow))


def _piston(X: FloatArray) -> FloatArray:
    mass, surface, volume, spring, pressure, ambient, filling = X.T
    force = pressure * surface + 19.62 * mass - spring * volume / surface
    gas = pressure * volume * ambient / filling
    moved = surface / (2.0 * spring) * (np.sqrt(force**2 + 4.0 * spring * gas) - force)
    return np.asarray(2.0 * np.pi * np.sqrt(mass / (spring + surface**2 * gas / moved**2)))


def _wing(X: FloatArray) -> FloatArray:
    area, fuel, aspect, degrees, pressure, taper, thickness, load, gross, paint = X.T
    cosine = np.cos(np.radians(degrees))
    shape = (aspect / cosine**2) ** 0.6 * (100.0 * thickness / cosine) ** -0.3 * taper**0.04
    return np.asarray(
        0.036 * area**0.758 * fuel**0.0035 * shape * pressure**0.006 * (load * gross) ** 0.49 + area * paint
    )


def _friedman(X: FloatArray) -> FloatArray:
    return np.asarray(
        10.0 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20.0 * (X[:, 2] - 0.5) ** 2 + 10.0 * X[:, 3] + 5.0 * X[:, 4]
    )


def _robot(X: FloatArray) -> FloatArray:
    angles, lengths = np.cumsum(X[:, :4], axis=1), X[:, 4:]
    return np.asarray(np.hypot((lengths * np.cos(angles)).sum(axis=1), (lengths * np.sin(angles)).sum(axis=1)))


def _waves(X: FloatArray) -> FloatArray:
    return np.asarray(
        np.sin(3.0 * X[:, 0] + 2.0 * X[:, 1])
        + 0.5 * np.cos(5.0 * X[:, 2] * X[:, 3])
        + 0.1 * np.abs(X[:, 4] - X[:, 5])
        + 0.3 * X[:, 0] * X[:, 4]
    )


EMULATORS: Mapping[str, Emulator] = {
    "borehole": Emulator(
        function=_borehole,
        least=(0.05, 100.0, 63_070.0, 990.0, 63.1, 700.0, 1120.0, 9855.0),
        most=(0.15, 50_000.0, 115_600.0, 1110.0, 116.0, 820.0, 1680.0, 12_045.0),
    ),
    "piston": Emulator(
        function=_piston,
        least=(30.0, 0.005, 0.002, 1000.0, 90_000.0, 290.0, 340.0),
        most=(60.0, 0.020, 0.010, 5000.0, 110_000.0, 296.0, 360.0),
    ),
    "wing": Emulator(
        function=_wing,
        least=(150.0, 220.0, 6.0, -10.0, 16.0, 0.5, 0.08, 2.5, 1700.0, 0.025),
        most=(200.0, 300.0, 10.0, 10.0, 45.0, 1.0, 0.18, 6.0, 2500.0, 0.08),
    ),
    "friedman": Emulator(function=_friedman, least=(0.0,) * 10, most=(1.0,) * 10),
    "robot": Emulator(function=_robot, least=(0.0,) * 8, most=(2.0 * np.pi,) * 4 + (1.0,) * 4),
    "waves": Emulator(function=_waves, least=(-1.0,) * 6, most=(1.0,) * 6),
}
"""Emulators by name, which benchmarks take as that of a set."""
