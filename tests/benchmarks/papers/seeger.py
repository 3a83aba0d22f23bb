"""Seeger, Williams & Lawrence 2003, Fast forward selection: learning curves, seconds, criteria, model selection.

kin40k and pumadyn32nm, already with a linear fit removed and unit variances. Errors are the paper's, (y - mean)^2 / 2.
A full process is fitted to `chosen_rows` random training rows by its marginal likelihood, from core's rule of thumb
(lengthscales of sqrt(p) deviations, noise a tenth); no hyperprior, which the paper does not print.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from core.arrays import FloatArray, IntArray
from core.data import Dataset
from core.hyperparameters import Hyperparameters
from core.numeric.linalg import cholesky, solve_vector
from core.process.exact import exact_nlml_and_gradient
from core.process.kernel import Kernel
from core.process.rows import Rows
from core.selection.greedy import select
from core.sparse.factors import factorise
from core.sparse.likelihood import nlml, nlml_and_gradient
from core.sparse.scheme import scheme
from core.spec import Approximation, Method, TrainSpec
from core.train.optimise import Objective, box, heuristic
from tests.benchmarks.papers import seeger_published as published
from tests.benchmarks.papers.pursuit_defaults import trained_and_scored
from tests.benchmarks.papers.reselecting import Trace, descend
from tests.benchmarks.papers.scale import Scale, Size
from tests.benchmarks.papers.seeger_claims import RELEVANT
from tests.benchmarks.papers.seeger_page import page
from tests.benchmarks.papers.units import Found, Unit
from tests.benchmarks.sets import load

METHODS = ("info", "rand", "sb", "batch")
SELECTED = ("info", "rand", "fixed", "batch", "batch-pep")
CRITERIA = {
    "info": (Method.INFO, Approximation.DTC),
    "rand": (Method.RAND, Approximation.DTC),
    "fixed": (Method.RAND, Approximation.DTC),
    "batch": (Method.BATCH, Approximation.DTC),
    "batch-vfe": (Method.BATCH, Approximation.VFE),
    "batch-pep": (Method.BATCH, Approximation.PEP),
}
"""Selection and objective of what is called so in the units: the paper's three, then ours."""


def learning_curves(
    *, name: str, chosen_rows: int, counts: list[int], sizes: list[int], iterations: int, tests: int, seed: int
) -> Found:
    """Figures 1 and 2, table 1. counts: training rows of the sparse methods, `chosen_rows` for the same as the full
    process, else the first of the set. curves: errors and seconds (selection and fit) by `rows/method`, by size."""
    rows, inputs, targets = _set(name, tests)
    some = _some(rows, chosen_rows, seed)
    begin = time.process_time()
    trace = _fitted(some, iterations)
    theta = trace.hyperparameters
    found: Found = {
        "full/error": _full_error(some, theta, inputs, targets),
        "full/seconds": time.process_time() - begin,
        "full/weights": (2.0 * theta.weights).tolist(),
        "sizes": sizes,
    }
    for count in counts:
        training = some if count == chosen_rows else _first(rows, count)
        for method in METHODS:
            errors, seconds = [], []
            for size in sizes:
                spec = TrainSpec(method=Method(method), basis_size=size, candidates=published.CANDIDATES)
                begin = time.process_time()
                basis = select(training, theta, spec, np.random.default_rng(seed)).indices
                factors = factorise(training, training.X[basis], theta, scheme(Approximation.DTC), keep=False)
                seconds.append(time.process_time() - begin)
                errors.append(_half(targets - _mean(factors.Z, factors.alpha, theta, training.groups, inputs)))
            found |= {f"{count}/{method}/errors": errors, f"{count}/{method}/seconds": seconds}
    return found


def one_lengthscale(*, chosen_rows: int, iterations: int, tests: int, seed: int) -> Found:
    """Footnote 9: the full process with one lengthscale for all columns of pumadyn32nm, and for the relevant four."""
    rows, inputs, targets = _set("pumadyn32nm", tests)
    some, found = _some(rows, chosen_rows, seed), {}
    for label, columns in (("all", np.arange(rows.X.shape[1])), ("relevant", np.array(RELEVANT))):
        part = replace(some, X=np.ascontiguousarray(some.X[:, columns]), groups=np.zeros(len(columns), np.int64))
        theta = _fitted(part, iterations).hyperparameters
        found[label] = _full_error(part, theta, inputs[:, columns], targets)
    return found


def criteria_along(*, chosen_rows: int, sizes: list[int], iterations: int, seed: int) -> Found:
    """Figure 3: the criterion of the full process on its way, and of the sparse ones at the same hyperparameters, the
    basis chosen again at each; in nats."""
    rows, _, _ = _set("pumadyn32nm", 1)
    some = _some(rows, chosen_rows, seed)
    trace = _fitted(some, iterations)
    found: Found = {"full": trace.values, "sizes": sizes}
    for name in ("info", "rand", "batch-vfe", "batch-pep"):
        method, approximation = CRITERIA[name]
        for size in sizes:
            random, spec = np.random.default_rng([seed, size]), TrainSpec(method=method, basis_size=size)
            values = []
            for theta in trace.visited:
                basis = select(some, theta, spec, random).indices
                values.append(nlml(factorise(some, some.X[basis], theta, scheme(approximation))))
            found[f"{name}/{size}"] = values
    return found


def model_selection(*, method: str, size: int, chosen_rows: int, iterations: int, tests: int, seed: int) -> Found:
    """Table 2 and figure 4: a descent of the criterion from the rule of thumb. error: of the sparse process on the same
    rows, with the basis chosen at the end; full_error: of the full process at the same hyperparameters; weights: w."""
    rows, inputs, targets = _set("pumadyn32nm", tests)
    some = _some(rows, chosen_rows, seed)
    begin = time.process_time()
    if method == "full":
        trace = _fitted(some, iterations)
    else:
        criterion = _Reselected(some, method, size, seed)
        trace = descend(criterion.chosen_at, heuristic(some), box(some), iterations)
    seconds, theta = time.process_time() - begin, trace.hyperparameters
    error = full_error = _full_error(some, theta, inputs, targets)
    if method != "full":
        terms = scheme(CRITERIA[method][1])
        factors = factorise(some, some.X[criterion.basis(theta)], theta, terms, keep=False)
        error = _half(targets - _mean(factors.Z, factors.alpha, theta, some.groups, inputs))
    return {
        "rows": chosen_rows,
        "error": error,
        "full_error": full_error,
        "iterations": len(trace.values),
        "criterion": trace.values,
        "weights": (2.0 * theta.weights).tolist(),
        "seconds": seconds,
    }


def with_defaults(*, name: str, rows: int, size: int, rounds: int, refine: int, tests: int, seed: int) -> Found:
    """Pursuit's own training on `rows` rows: random ones, or all of the set."""
    training, inputs, targets = _set(name, tests)
    some = training if rows >= len(training) else _some(training, rows, seed)
    dataset = Dataset(inputs=some.X, targets=some.y)
    return trained_and_scored(dataset, inputs, targets, basis_size=size, seed=seed, rounds=rounds, refine=refine)


class _Reselected:
    """The sparse criterion with a basis that is chosen where it is asked for, or once for `fixed`."""

    def __init__(self, rows: Rows, name: str, size: int, seed: int) -> None:
        method, approximation = CRITERIA[name]
        self._rows, self._scheme = rows, scheme(approximation)
        self._spec = TrainSpec(method=method, basis_size=size)
        self._random = np.random.default_rng([seed, 1])
        self._fixed = name == "fixed"
        self._once: IntArray | None = None

    def basis(self, theta: Hyperparameters) -> IntArray:
        """Row numbers."""
        if self._once is not None:
            return self._once
        basis = select(self._rows, theta, self._spec, self._random).indices
        if self._fixed:
            self._once = basis
        return basis

    def chosen_at(self, theta: Hyperparameters) -> Objective:
        """The criterion around theta."""
        Z = self._rows.X[self.basis(theta)]
        return partial(nlml_and_gradient, self._rows, Z, scheme=self._scheme)


def _fitted(rows: Rows, iterations: int) -> Trace:
    return descend(lambda _: partial(exact_nlml_and_gradient, rows), heuristic(rows), box(rows), iterations)


def _set(name: str, tests: int) -> tuple[Rows, FloatArray, FloatArray]:
    """All training rows, and the first test rows: inputs, targets."""
    split = load(name)
    rows = Rows(
        X=np.ascontiguousarray(split.train[:, :-1]), y=split.train[:, -1].copy(), groups=np.arange(len(split.names) - 1)
    )
    return rows, split.test[:tests, :-1], split.test[:tests, -1]


def _some(rows: Rows, count: int, seed: int) -> Rows:
    picked = np.random.default_rng([seed, 0]).permutation(len(rows))[:count]
    return replace(rows, X=rows.X[picked], y=rows.y[picked])


def _first(rows: Rows, count: int) -> Rows:
    return replace(rows, X=rows.X[:count], y=rows.y[:count])


def _full_error(rows: Rows, theta: Hyperparameters, inputs: FloatArray, targets: FloatArray) -> float:
    K = Kernel.of(theta, rows.groups).gram(rows.X) + theta.noise_variance * np.eye(len(rows))
    L = cholesky(K, "K + s2 I")
    alpha = solve_vector(L, solve_vector(L, rows.y), transposed=True)
    return _half(targets - _mean(rows.X, alpha, theta, rows.groups, inputs))


def _mean(Z: FloatArray, alpha: FloatArray, theta: Hyperparameters, groups: IntArray, inputs: FloatArray) -> FloatArray:
    blocks, kernel = np.array_split(inputs, -(-len(inputs) // 4_096)), Kernel.of(theta, groups)
    return np.concatenate([alpha @ kernel.cross(Z, block) for block in blocks])


def _half(missed: FloatArray) -> float:
    return 0.5 * float(np.mean(np.square(missed)))


class Seeger:
    """The paper for `run`."""

    name = "seeger"
    title = "Seeger, Williams & Lawrence (2003): Fast forward selection to speed up sparse Gaussian process regression"

    def units(self, scale: Scale) -> list[Unit]:
        """Figures 1 to 4 and both tables."""
        return [*_curve_units(scale), *_selection_units(scale), *_default_units(scale)]

    def page(self, found: Mapping[str, Found], _: Scale, folder: Path) -> str:
        """Section 4, claim by claim."""
        return page(found, folder)


def _budget(scale: Scale) -> dict[str, int]:
    """The optimiser's iterations, and how many test rows there are."""
    return {"iterations": 3, "tests": 200} if scale.size is Size.TINY else {"iterations": 200, "tests": 30_000}


def _curve_units(scale: Scale) -> Iterator[Unit]:
    tiny, quick = scale.size is Size.TINY, scale.size is Size.QUICK
    kin = 200 if tiny else 1_000 if quick else 2_000
    few, small = [20, 40], 200 if tiny else 1_024
    for seed in range(scale.trials_of(quick=1, full=published.TRIALS)):
        common: dict[str, Any] = _budget(scale) | {"seed": seed}
        yield Unit(
            name=f"curves/kin40k/{seed}",
            call=learning_curves,
            arguments=common
            | {"name": "kin40k", "chosen_rows": kin, "counts": [kin, 400 if tiny else 10_000]}
            | {"sizes": few if tiny else [100, 200, 500] if quick else list(published.SIZES)},
            weight=400,
        )
        yield Unit(
            name=f"curves/pumadyn32nm/{seed}",
            call=learning_curves,
            arguments=common
            | {"name": "pumadyn32nm", "chosen_rows": small, "counts": [400 if tiny else 7_168]}
            | {"sizes": few if tiny else [25, 50, 75, 100, 125, 150, 200, 300]},
            weight=90,
        )
        arguments = common | {"chosen_rows": small}
        yield Unit(name=f"one-lengthscale/{seed}", call=one_lengthscale, arguments=arguments, weight=30)
    arguments = {"chosen_rows": small, "sizes": few[:1] if tiny else [100, 200], "seed": 0}
    arguments |= {"iterations": common["iterations"]}
    yield Unit(name="figure-3", call=criteria_along, arguments=arguments, weight=90)


def _selection_units(scale: Scale) -> Iterator[Unit]:
    tiny, quick = scale.size is Size.TINY, scale.size is Size.QUICK
    rows = 200 if tiny else 1_024 if quick else 2_048
    sizes = (20,) if tiny else published.SELECTION_SIZES[: 3 if quick else 4]
    runs = [("full", 0), *((method, size) for method in SELECTED for size in sizes)]
    for seed in range(scale.trials_of(quick=2, full=published.TRIALS)):
        for method, size in runs:
            yield Unit(
                name=f"selection/{method}/{size}/{seed}",
                call=model_selection,
                arguments=_budget(scale) | {"method": method, "size": size, "chosen_rows": rows, "seed": seed},
                weight=size or 1_000,
            )
        for size in sizes:
            yield _default_unit(scale, f"selection/pursuit/{size}/{seed}", "pumadyn32nm", rows, size, 0, seed)


def _default_units(scale: Scale) -> Iterator[Unit]:
    """Pursuit's own training on all rows, beside the learning curves."""
    tiny = scale.size is Size.TINY
    runs: tuple[tuple[str, int, tuple[int, ...]], ...] = (
        ("kin40k", 10_000, (100, 500, 1_000)),
        ("pumadyn32nm", 7_168, (100, 200)),
    )
    if scale.size is Size.QUICK:
        runs = (("kin40k", 10_000, (100, 200)), ("pumadyn32nm", 7_168, (100,)))
    for seed in range(scale.trials_of(quick=1, full=3)):
        for name, rows, sizes in runs:
            for refine in (0,) if tiny else (0, 60):
                for size in (20,) if tiny else sizes:
                    label = f"pursuit/{name}/{size}{'/refined' if refine else ''}/{seed}"
                    yield _default_unit(scale, label, name, 300 if tiny else rows, size, refine, seed)


def _default_unit(scale: Scale, label: str, name: str, rows: int, size: int, refine: int, seed: int) -> Unit:
    arguments = {"name": name, "rows": rows, "size": size, "rounds": 1 if scale.size is Size.TINY else 5}
    arguments |= {"refine": refine, "tests": _budget(scale)["tests"], "seed": seed}
    return Unit(name=label, call=with_defaults, arguments=arguments, weight=size / 2)
