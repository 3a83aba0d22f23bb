"""Training against its floors, measured in the same run: matrix products, kernel values, memory traffic.

    python -m tests.benchmarks.training [floors | objective | selection | large]

Threads as in the service: two over rows, one BLAS thread each; the floors use as many cores, by whichever of the two
ways of using them is the faster. Unset OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE before.
"""

import os
import resource
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from core.arrays import FloatArray
from core.data import Dataset
from core.hyperparameters import Hyperparameters
from core.process.kernel import Kernel
from core.process.rows import Rows
from core.selection.greedy import select
from core.sparse.factors import factorise
from core.sparse.likelihood import nlml_and_gradient
from core.sparse.scheme import scheme
from core.spec import Approximation, Gain, Method, TrainSpec
from core.train.run import train
from tests.benchmarks.sets import FOLDER, conditions, load

WORKERS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
ROWS, SIZE, COLUMNS, POOL = 10_000, 500, 8, 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """Seconds: of a multiply-add in a large matrix product; of a kernel value (product of p + 2 columns, clip, exp)
    into a block that is there; of a byte read by a matrix-vector product over a matrix that fits no cache."""

    product: float
    value: float
    byte: float


def main(words: Iterable[str]) -> None:
    """Prints Markdown tables for the parts that are named, or all."""
    print(conditions())
    wanted = set(words) or {"floors", "objective", "selection", "large"}
    found = floors()
    print(
        f"\n{WORKERS} threads: {1e-9 / found.product:.0f} G multiply-adds/s in a matrix product, "
        f"{1e9 * found.value:.2f} ns a kernel value, {1e-9 / found.byte:.1f} GB/s read by matrix-vector products"
    )
    with threadpool_limits(1):
        if "objective" in wanted:
            objective(found)
        if "selection" in wanted:
            selection(found)
        if "large" in wanted:
            large(found)


def floors() -> Floors:
    """The best of a few tries each."""
    size = 3000
    left, out = np.random.default_rng(0).standard_normal((size, size)), np.empty((size, size))
    with threadpool_limits(WORKERS):
        product = best(lambda: np.matmul(left, left, out=out), tries=5) / size**3  # not left.T: that would be syrk
    with threadpool_limits(1):
        rows, theta = problem()
        kernel = Kernel.of(theta, rows.groups)
        basis, inputs = kernel.basis(rows.X[:SIZE]), kernel.rows(rows.X[:1000])
        block = [np.empty((SIZE, 1000)) for _ in range(WORKERS)]
        value = best(lambda: on_every_thread(lambda i: kernel.stationary(basis, inputs, block[i])), tries=20)
        tall = [np.random.default_rng(i).standard_normal((SIZE, ROWS)) for i in range(WORKERS)]
        ones = np.ones(ROWS)
        traffic = best(lambda: on_every_thread(lambda i: tall[i] @ ones), tries=20)
    return Floors(product=product, value=value / (WORKERS * SIZE * 1000), byte=traffic / (8 * WORKERS * SIZE * ROWS))


def objective(found: Floors) -> None:
    """One evaluation with its gradient, and a fit, against 1.5 n d^2 multiply-adds."""
    rows, theta = problem()
    Z, floor = rows.X[:SIZE], 1.5 * ROWS * SIZE**2 * found.product
    print(f"\n1.5 n d^2 multiply-adds (n = {ROWS:,}, d = {SIZE}, p = {COLUMNS}): {1e3 * floor:.1f} ms\n")
    print("| approximation | NLML and gradient, ms | of the floor | n d^2 multiply-adds it needs | fit alone, ms |")
    print("|---|---|---|---|---|")
    for approximation, needs in (("dtc", 2.0), ("vfe", 2.0), ("fitc", 3.0), ("pep", 3.0)):
        kind = scheme(Approximation(approximation))
        whole = best(lambda: nlml_and_gradient(rows, Z, theta, kind), tries=15)  # noqa: B023  called at once
        fit = best(lambda: factorise(rows, Z, theta, kind, keep=False), tries=15)  # noqa: B023
        print(f"| {approximation} | {1e3 * whole:.0f} | {whole / floor:.2f} | {needs} | {1e3 * fit:.0f} |", flush=True)


def selection(found: Floors) -> None:
    """Choices of d = 500 rows of 10,000 against what they must compute or read."""
    rows, theta = problem()
    n, d, pool = ROWS, SIZE, POOL
    batch = 0.5 * n * pool**2 * found.product + n * pool * found.value
    cached = TrainSpec(method=Method.DMAX, basis_size=d)
    most = max(d, 500)
    # a step reads the cache once (K w), W twice (W k and W'z), and makes the columns of one fresh candidate
    step_bytes = 8.0 * n * (most + 2 * d / 2)
    traffic = d * step_bytes * found.byte + n * (d * cached.candidates + most) * found.value
    fit = n * d**2 * found.product + n * d * found.value
    print("\n| choice | floor | ms | of the floor |\n|---|---|---|---|")
    for name, floor, spec in (
        ("batch", batch, TrainSpec(method=Method.BATCH, gain=Gain.SB, basis_size=d, pool_size=pool)),
        ("dmax", traffic, cached),
    ):
        seconds = best(lambda: select(rows, theta, spec, np.random.default_rng(0)), tries=3)  # noqa: B023
        print(f"| {name} | {1e3 * floor:.0f} | {1e3 * seconds:.0f} | {seconds / floor:.2f} |", flush=True)
    kind = scheme(Approximation.DTC)

    def chosen_and_fitted() -> None:
        spec = TrainSpec(method=Method.RAND, basis_size=d)
        basis = select(rows, theta, spec, np.random.default_rng(0)).indices
        factorise(rows, rows.X[basis], theta, kind, keep=False)

    seconds = best(chosen_and_fitted, tries=10)
    print(f"| rand, and the fit | {1e3 * fit:.0f} | {1e3 * seconds:.0f} | {seconds / fit:.2f} |", flush=True)


def large(found: Floors) -> None:
    """flights_delay_2m, d = 500, defaults: seconds by phase, memory, and a pass over the rows against its floor."""
    if not (FOLDER / "flights_delay_2m.csv.gz").exists():
        print("\nflights_delay_2m: not in the folder")
        return
    begin = time.perf_counter()
    split = load("flights_delay_2m")
    read = time.perf_counter() - begin
    dataset = Dataset(inputs=split.train[:, :-1], targets=split.train[:, -1])
    n, p = dataset.inputs.shape
    begin = time.perf_counter()
    result = train(dataset, TrainSpec(basis_size=SIZE), workers=WORKERS)
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    floor = n * SIZE**2 * found.product + n * SIZE * found.value
    holdout = result.report.holdout
    print(
        f"\nflights_delay_2m, n = {n:,}, p = {p}, d = {SIZE}: {seconds:.0f} s, peak {peak:.1f} GiB with the table "
        f"({read:.0f} s to read); holdout NMSE {holdout.nmse if holdout else None}; "
        f"a fit's products and kernel values at the floor {floor:.1f} s; phases "
        + ", ".join(f"{name} {value:.1f}" for name, value in result.report.seconds.items())
    )


def problem() -> tuple[Rows, Hyperparameters]:
    """Random rows and a smooth target."""
    random = np.random.default_rng(0)
    X = random.standard_normal((ROWS, COLUMNS))
    y: FloatArray = np.sin(X).sum(axis=1) + 0.1 * random.standard_normal(ROWS)
    theta = Hyperparameters(
        lengthscales=np.full(COLUMNS, 2.0), signal_variance=1.0, bias_variance=0.1, noise_variance=0.01
    )
    return Rows(X=X, y=(y - y.mean()) / y.std(), groups=np.arange(COLUMNS), workers=WORKERS), theta


def best(work: Callable[[], object], *, tries: int) -> float:
    """Seconds of the quickest of a few calls."""
    seconds = []
    for _ in range(tries):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def on_every_thread(work: Callable[[int], object]) -> None:
    """work(number) on as many threads as there are cores, at once."""
    list(_THREADS.map(work, range(WORKERS)))


_THREADS = ThreadPoolExecutor(WORKERS)


if __name__ == "__main__":
    main(sys.argv[1:])
