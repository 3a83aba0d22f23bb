"""Smola & Bartlett 2001, Sparse greedy Gaussian process regression: figure 1, the full process, table 2, the large set.

Kernel exp(-|x - x'|^2 / (2 omega^2)) with fixed widths and noise. Abalone's seven numbers are standardized, sex is 1 of
3, and the targets are the rings as they are, not centred: only so is the log posterior what the paper prints (see the
page). Each step scores kappa random rows for Q, and as many for Q*, as in their algorithm 1; columns that say `all`
score every row, which the paper could not afford and `core` can: Q by `batch` with every row in the pool, Q* in O(1) a
row.
"""

import csv
import gzip
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path

import numpy as np

from core.data import Dataset
from core.numeric.linalg import cholesky, solve_lower, solve_vector
from core.process.kernel import Kernel
from core.process.rows import Rows
from tests.benchmarks.papers import smola_bartlett_published as published
from tests.benchmarks.papers.pursuit_defaults import trained_and_scored
from tests.benchmarks.papers.scale import Scale, Size
from tests.benchmarks.papers.smola_bartlett_algorithm import ALL, Pursuit, theta, until
from tests.benchmarks.papers.smola_bartlett_page import page
from tests.benchmarks.papers.units import Found, Unit
from tests.benchmarks.sets import FOLDER, FloatArray

SEX = "MFI"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Abalone:
    """Inputs (n, 10): sex as 1 of 3, seven numbers in their own units; rings (n,)."""

    inputs: FloatArray
    rings: FloatArray

    def rows(self, count: int) -> Rows:
        """The first rows as the paper has them: numbers standardized by all rows, rings as they are."""
        return Rows(X=self.scaled[:count], y=self.rings[:count].copy(), groups=np.arange(self.inputs.shape[1]))

    @property
    def scaled(self) -> FloatArray:
        """Numbers with zero mean and unit variance over all rows; sex keeps its 0 and 1."""
        numbers = self.inputs[:, len(SEX) :]
        return np.column_stack((self.inputs[:, : len(SEX)], (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)))

    def dataset(self, count: int) -> Dataset:
        """The first rows as Pursuit has them: sex is one feature, with one lengthscale."""
        columns = self.inputs.shape[1]
        return Dataset(
            inputs=self.inputs[:count],
            targets=self.rings[:count],
            groups=np.concatenate((np.zeros(len(SEX)), np.arange(1, columns - len(SEX) + 1))).astype(np.int64),
            indicator=np.arange(columns) < len(SEX),
        )


def abalone(order_seed: int | None = None) -> Abalone:
    """All 4,177 rows, in the file's order or shuffled. Raises FileNotFoundError where the data are not there."""
    with gzip.open(FOLDER / "abalone.csv.gz", "rt", encoding="utf-8") as file:
        lines = list(csv.reader(file))[1:]
    sex = np.array([[float(line[0] == level) for level in SEX] for line in lines])
    numbers = np.array([[float(cell) for cell in line[1:]] for line in lines])
    order = np.arange(len(lines)) if order_seed is None else np.random.default_rng(order_seed).permutation(len(lines))
    return Abalone(inputs=np.column_stack((sex, numbers[:, :-1]))[order], rings=numbers[order, -1])


def gap_curve(*, kappa: int, rows: int, steps: int, seed: int) -> Found:
    """Figure 1: the gap after every step, on the first rows of the file."""
    data = abalone().rows(rows)
    hyperparameters = theta(data.X.shape[1], published.WIDTH, published.NOISE_VARIANCE)
    pursuit = Pursuit(rows=data, hyperparameters=hyperparameters, kappa=kappa, steps=steps, seed=seed)
    return {"gaps": pursuit.gaps.tolist()}


def functions_needed(*, width: float, kappa: int, rows: int, most: int, seed: int) -> Found:
    """Table 2, first line."""
    data = abalone().rows(rows)
    hyperparameters = theta(data.X.shape[1], width, published.NOISE_VARIANCE)
    pursuit = Pursuit(rows=data, hyperparameters=hyperparameters, kappa=kappa, steps=min(128, most), seed=seed)
    pursuit, size = until(pursuit, most, attrgetter("gaps"))
    return {"size": size, "gap": float(pursuit.gaps[size - 1])}


def functions_for_error_bars(*, width: float, kappa: int, rows: int, tests: int, most: int, seed: int) -> Found:
    """Table 2, second line: k(x) of a test row in the place of the targets, and the gap that of k'(K + s2 I)^-1 k, for
    each test row. (The gap of section 3 would be small after one to five functions: most of its size is |k|^2 / 2.)"""
    everything = abalone()
    data = everything.rows(rows)
    hyperparameters = theta(data.X.shape[1], width, published.NOISE_VARIANCE)
    sizes = []
    for number, x in enumerate(everything.scaled[rows : rows + tests]):
        aimed = replace(data, y=Kernel.of(hyperparameters, data.groups).cross(x[None], data.X)[0])
        pursuit = Pursuit(
            rows=aimed, hyperparameters=hyperparameters, kappa=kappa, steps=min(16, most), seed=seed + number
        )
        sizes.append(until(pursuit, most, attrgetter("dual_gaps"))[1])
    return {"sizes": sizes}


def against_full(*, noise_variance: float, rows: int, most: int, seed: int) -> Found:
    """The (3000, 1177) split: the full process, algorithm 1 with 59 candidates and with all, test errors and Q.

    The error is the mean squared one, in squared rings.
    """
    shuffled = abalone(seed)
    data, inputs, rings = shuffled.rows(rows), shuffled.scaled[rows:], shuffled.rings[rows:]
    hyperparameters = theta(data.X.shape[1], published.WIDTH, noise_variance)
    K = Kernel.of(hyperparameters, data.groups).gram(data.X)
    L = cholesky(K + noise_variance * np.eye(rows), "K + s2 I")
    alpha = solve_vector(L, solve_vector(L, data.y), transposed=True)
    k = Kernel.of(hyperparameters, data.groups).cross(data.X, inputs)
    missed, along = rings - alpha @ k, solve_lower(L, k)
    variance = 1.0 + noise_variance - np.einsum("nm,nm->m", along, along)
    found: Found = {
        "full/nlpd": 0.5 * float(np.mean(np.square(missed) / variance + np.log(2.0 * np.pi * variance))),
        "full/squared_error": float(np.mean(np.square(missed))),
        "full/absolute_error": float(np.mean(np.abs(missed))),
        "full/log_posterior": -0.5 * float(data.y @ (K @ alpha)),
    }
    for name, kappa in (("sparse", published.CANDIDATES), ("all", ALL)):
        pursuit = Pursuit(rows=data, hyperparameters=hyperparameters, kappa=kappa, steps=min(256, most), seed=seed)
        pursuit, size = until(pursuit, most, attrgetter("gaps"))
        factors = pursuit.factors(size)
        missed = rings - factors.alpha @ Kernel.of(hyperparameters, data.groups).cross(factors.Z, inputs)
        found |= {
            f"{name}/squared_error": float(np.mean(np.square(missed))),
            f"{name}/absolute_error": float(np.mean(np.abs(missed))),
            f"{name}/log_posterior": -float(pursuit.chosen[:size, 1].sum()),
            f"{name}/size": size,
        }
    return found


def with_defaults(*, rows: int, basis_size: int, rounds: int, seed: int) -> Found:
    """The same split, a model trained by Pursuit."""
    shuffled = abalone(seed)
    return trained_and_scored(
        shuffled.dataset(rows),
        shuffled.inputs[rows:],
        shuffled.rings[rows:],
        basis_size=basis_size,
        seed=seed,
        rounds=rounds,
    )


def synthetic(*, kappa: int, rows: int, steps: int, basis_size: int, rounds: int, seed: int) -> Found:
    """The large set: 20 normal columns, 200 Gaussians of 2 omega^2 = 40 with normal centres and coefficients, noise .1;
    the process has 2 omega^2 = 10. `squared_error` is that of the basis on new rows, where `noise` is the least."""
    random = np.random.default_rng(seed)
    centres, coefficients = random.normal(size=(200, 20)), random.normal(size=200)
    inputs, groups = random.normal(size=(rows + 2_000, 20)), np.arange(20)
    f = coefficients @ Kernel.of(theta(20, 40.0, 1.0), groups).cross(centres, inputs)
    targets = f + random.normal(scale=np.sqrt(0.1), size=len(f))
    data = Rows(X=inputs[:rows], y=targets[:rows], groups=groups)
    pursuit = Pursuit(rows=data, hyperparameters=theta(20, 10.0, 0.1), kappa=kappa, steps=steps, seed=seed)
    factors = pursuit.factors(steps)
    mean = factors.alpha @ Kernel.of(pursuit.hyperparameters, groups).cross(factors.Z, inputs[rows:])
    ours = trained_and_scored(
        Dataset(inputs=data.X, targets=data.y),
        inputs[rows:],
        targets[rows:],
        basis_size=basis_size,
        seed=seed,
        rounds=rounds,
    )
    return {
        "gaps": pursuit.gaps.tolist(),
        "squared_error": float(np.mean(np.square(targets[rows:] - mean))),
        "variance": float(np.var(targets[rows:])),
        "power": float(np.mean(np.square(targets[:rows]))),
        "ours": ours,
    }


class SmolaBartlett:
    """The paper for `run`."""

    name = "smola-bartlett"
    title = "Smola & Bartlett (2001): Sparse greedy Gaussian process regression"

    def units(self, scale: Scale) -> list[Unit]:
        """Four experiments."""
        tiny, full = scale.size is Size.TINY, scale.size is Size.FULL
        rows, steps, most = (300, 40, 120) if tiny else (4_000, 300, 1_000)
        units = [
            Unit(
                name=f"figure-1/{kappa}/{seed}",
                call=gap_curve,
                arguments={"kappa": kappa, "rows": rows, "steps": steps, "seed": seed},
                weight=kappa if kappa != ALL else 100,
            )
            for seed in range(scale.trials_of(quick=2, full=10))
            for kappa in ((1, 50, ALL) if tiny else (*published.KAPPAS, ALL))
            if kappa != ALL or seed == 0  # nothing in it is random
        ]
        for width in published.WIDTHS[2:4] if tiny else published.WIDTHS:
            common = {"width": width, "rows": rows}
            for kappa in (published.CANDIDATES, ALL):
                arguments = common | {"kappa": kappa, "most": most, "seed": 0}
                units.append(
                    Unit(name=f"table-2/posterior/{width:g}/{kappa}", call=functions_needed, arguments=arguments)
                )
            tests = 177 if full else 20
            arguments = common | {"kappa": published.CANDIDATES, "tests": 3 if tiny else tests, "most": most, "seed": 0}
            name = f"table-2/error-bars/{width:g}"
            units.append(Unit(name=name, call=functions_for_error_bars, arguments=arguments, weight=200.0 / width))
        for seed in range(scale.trials_of(quick=2, full=10)):
            common = {"rows": 300 if tiny else 3_000, "seed": seed}
            for noise in (published.NOISE_VARIANCE, published.NOISE_VARIANCE / 2.0):
                arguments = common | {"noise_variance": noise, "most": most}
                units.append(Unit(name=f"full/{noise:g}/{seed}", call=against_full, arguments=arguments, weight=50.0))
            arguments = common | {"basis_size": 20 if tiny else 300, "rounds": 1 if tiny else 5}
            units.append(Unit(name=f"full/ours/{seed}", call=with_defaults, arguments=arguments, weight=100.0))
        for seed in range(scale.trials_of(quick=1, full=3)):
            arguments = {"kappa": published.CANDIDATES, "seed": seed}
            arguments |= {"rows": 400, "steps": 40} if tiny else {"rows": 10_000, "steps": published.SYNTHETIC_SIZE}
            arguments |= {"basis_size": 20 if tiny else 500 if full else 200, "rounds": 1 if tiny else 5 if full else 2}
            units.append(Unit(name=f"synthetic/{seed}", call=synthetic, arguments=arguments, weight=300.0))
        return units

    def page(self, found: Mapping[str, Found], scale: Scale, folder: Path) -> str:
        """Section 5, claim by claim."""
        return page(found, scale, folder)
