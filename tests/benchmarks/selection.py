"""The selection methods against each other: accuracy, time, growth of time with n and d, and the automatic size.

    python -m tests.benchmarks.selection [accuracy | growth | auto]

Runs as the service does: threads over rows, one BLAS thread (OPENBLAS_NUM_THREADS=1 is set unless it was).
"""

import os
import sys
import time
from collections.abc import Iterable
from dataclasses import replace

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # after the setting, which OpenBLAS reads when it loads

from core.arrays import FloatArray
from core.data import Dataset, standardization
from core.hyperparameters import Hyperparameters
from core.predict.distribution import PredictiveDistribution
from core.predict.metrics import Scores, scores
from core.predict.predictor import moments
from core.process.exact import exact_nlml_and_gradient
from core.process.rows import Rows
from core.selection.greedy import select
from core.selection.size import prefix_measures
from core.selection.state import Selection
from core.sparse.factors import factorise
from core.sparse.posterior import posterior
from core.sparse.scheme import scheme
from core.spec import Approximation, Gain, Method, TrainSpec
from core.train.optimise import box, descend, heuristic
from tests.benchmarks.papers.tables import read
from tests.benchmarks.sets import conditions, full_gp_of_kin40k, load

ACCURACY = ("rand", "info", "kappa", "dmax", "sb", "nlml", "vfe", "variance", "loo-cve", "nlgpp", "gpe")
GAINS = ("batch", "batch/post-backfitting", "batch/nlml", "batch/vfe", "batch/variance")


def main(words: Iterable[str]) -> None:
    """Prints Markdown tables for the parts that are named, or all."""
    print(conditions())
    wanted = set(words) or {"accuracy", "growth", "auto"}
    if "accuracy" in wanted:
        accuracy()
    if "growth" in wanted:
        growth()
    if "auto" in wanted:
        auto()


def accuracy() -> None:
    """kin40k, theta of a full GP on 2,000 rows, DTC."""
    split = load("kin40k")
    rows, dataset = _rows(split.train)
    theta = full_gp_of_kin40k()
    print("\n| method | d = 100: NMSE | NLPD | s | d = 500: NMSE | NLPD | s |\n|---|---|---|---|---|---|---|")
    for name in (*ACCURACY, *GAINS):
        cells = []
        for size in (100, 500):
            seconds, found = _timed(rows, theta, _spec(name, size))
            score = _score(rows, dataset, theta, found, split.test)
            cells.append(f"{score.nmse:.4f} | {score.nlpd:.3f} | {seconds:.2f}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def growth() -> None:
    """Exponents of seconds in n and in d, by least squares in logarithms; best of two runs each."""
    rows, _ = _rows(np.concatenate((load("kin40k").train, load("kin40k").test)))
    theta = full_gp_of_kin40k()
    counts, sizes = (5_000, 10_000, 20_000, 40_000), (100, 200, 400, 800)
    print("\n| method | exponent in n (5k..40k, d = 200) | in d (100..800, n = 10k) | s at n = 10k, d = 200 |")
    print("|---|---|---|---|")
    for name in (*ACCURACY, "batch"):
        by_n = [_best(_first(rows, n), theta, replace(_spec(name, 200), pool_size=2_000)) for n in counts]
        by_d = [_best(_first(rows, 10_000), theta, replace(_spec(name, d), pool_size=2_000)) for d in sizes]
        slopes = [np.polyfit(np.log(x), np.log(t), 1)[0] for x, t in ((counts, by_n), (sizes, by_d))]
        print(f"| {name} | {slopes[0]:.2f} | {slopes[1]:.2f} | {by_n[1]:.3f} |", flush=True)


def auto() -> None:
    """The automatic size against a scan of the whole measure up to the largest basis."""
    print("\n| set | method | auto | scan's best | reason |\n|---|---|---|---|---|")
    for label, table in _auto_sets():
        rows, _ = _rows(table)
        theta = _fitted(rows)
        most = min(len(rows), 400)
        for name in ("nlml", "vfe", "loo-cve", "nlgpp", "gpe", "batch", "dmax"):
            spec = TrainSpec(method=Method(name), max_basis_size=most, pool_size=2_000)
            found = select(rows, theta, spec, np.random.default_rng(0))
            whole = select(rows, theta, replace(spec, basis_size=most), np.random.default_rng(0))
            best = _scan(rows, theta, spec, whole)
            print(f"| {label} | {name} | {len(found.indices)} | {best} | {found.reason} |", flush=True)


def _scan(rows: Rows, theta: Hyperparameters, spec: TrainSpec, whole: Selection) -> int:
    """The size with the smallest measure among all prefixes of the whole greedy sequence."""
    measures = whole.measures
    if not len(measures) or spec.method is Method.VFE:
        measures = prefix_measures(rows, theta, whole)
    return 1 + int(np.argmin(measures[1:]))


def _auto_sets() -> Iterable[tuple[str, FloatArray]]:
    random = np.random.default_rng(0)
    n = 600  # a table of up to 500 rows is a basis of its own
    unit = random.random((n, 4)) * [100.0, 520.0 * np.pi, 1.0, 10.0] + [0.0, 40.0 * np.pi, 0.0, 1.0]
    inner = unit[:, 1] * unit[:, 2] - 1.0 / (unit[:, 1] * unit[:, 3])
    friedman2 = np.sqrt(unit[:, 0] ** 2 + inner**2) + 125.0 * random.normal(size=n)
    friedman3 = np.arctan(inner / np.maximum(unit[:, 0], 1e-9)) + 0.1 * random.normal(size=n)
    yield f"Friedman 2, n = {n}", np.column_stack((unit, friedman2))
    yield f"Friedman 3, n = {n}", np.column_stack((unit, friedman3))
    yield "abalone, n = 3,000", _abalone()
    yield "bank8FM, n = 4,500", load("bank8FM").train


def _abalone() -> FloatArray:
    table = read("abalone")
    whole = np.column_stack((table.inputs, table.targets))
    return np.asarray(whole[np.random.default_rng(0).permutation(len(whole))[:3_000]])


def _fitted(rows: Rows) -> Hyperparameters:
    """Theta of a full GP on up to 1,000 of the rows."""
    some = _first(rows, 1_000)
    return descend(lambda theta: exact_nlml_and_gradient(some, theta), heuristic(rows), box(rows), 60)[0]


def _rows(table: FloatArray) -> tuple[Rows, Dataset]:
    dataset = Dataset(inputs=table[:, :-1], targets=table[:, -1])
    unit = standardization(dataset)
    rows = Rows(X=unit.inputs(dataset.inputs), y=unit.targets(dataset.targets), groups=dataset.groups, workers=2)
    return rows, dataset


def _first(rows: Rows, count: int) -> Rows:
    return replace(rows, X=rows.X[:count], y=rows.y[:count])


def _spec(name: str, size: int) -> TrainSpec:
    method, _, gain = name.partition("/")
    return TrainSpec(method=Method(method), gain=Gain(gain or "sb"), basis_size=size)


def _timed(rows: Rows, theta: Hyperparameters, spec: TrainSpec) -> tuple[float, Selection]:
    begin = time.perf_counter()
    found = select(rows, theta, spec, np.random.default_rng(0))
    factorise(rows, rows.X[found.indices], theta, scheme(Approximation.DTC))
    return time.perf_counter() - begin, found


def _best(rows: Rows, theta: Hyperparameters, spec: TrainSpec) -> float:
    return min(_timed(rows, theta, spec)[0] for _ in range(2))


def _score(rows: Rows, dataset: Dataset, theta: Hyperparameters, found: Selection, test: FloatArray) -> Scores:
    factors = factorise(rows, rows.X[found.indices], theta, scheme(Approximation.DTC))
    model = posterior(factors, dataset.inputs[found.indices], dataset.groups, standardization(dataset))
    predicted = moments(model, test[:, :-1])
    return scores(test[:, -1], PredictiveDistribution(centre=predicted.mean, variance=predicted.target_variance))


if __name__ == "__main__":
    main(sys.argv[1:])
