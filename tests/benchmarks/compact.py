"""Compact models against full ones on kin40k: size, error of the standard deviation, speed.

python -m tests.benchmarks.compact [TOLERANCE]
"""

import os
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np  # after the setting, which OpenBLAS reads when it loads

from app.storage import artefact
from core.data import Dataset
from core.predict.compact import CompactPosterior, Stored
from core.predict.model import Model, ModelPredictor
from core.spec import Approximation, Artefact, Calibrate, TrainSpec
from core.train.run import train
from tests.benchmarks.sets import FloatArray, conditions, load

APPROXIMATIONS = (Approximation.DTC, Approximation.VFE, Approximation.FITC)
SIZES = (100, 500)
REPEATS = 15
ROWS = 10_000
"""Number of test rows for the speed."""


def main(tolerance: float) -> None:
    """Prints a Markdown table: each model trained once, adapted with the defaults, and stored three ways."""
    split = load("kin40k")
    dataset = Dataset(inputs=split.train[:, :-1], targets=split.train[:, -1])
    test = split.test[:, :-1]
    print(f"{conditions()}, tolerance {tolerance:g}\n")
    print(
        "| model | r | bits | KB full / compact / mean | largest std error: training rows | 30,000 test rows "
        "| certified | load ms full / compact | 1000 rows/s full / compact |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    kept: dict[str, Any] = {"artefact": Artefact.COMPACT, "tolerance": tolerance}
    for size, approximation, calibrate in product(SIZES, APPROXIMATIONS, (None, Calibrate.AUTO)):
        spec = TrainSpec(basis_size=size, approximation=approximation, calibrate=calibrate, **kept)
        label = f"{approximation} {size}{'' if calibrate is None else ', calibrated'}"
        result = train(dataset, spec, workers=2)
        full, compact = result.model.posterior, result.stored
        if not isinstance(compact, CompactPosterior):
            print(f"| {label} | {result.report.warnings[-1]} |")
            continue
        files = [_file(result.model, stored) for stored in (full, compact, full.without_variance())]
        models = [_loaded(data) for data in files[:2]]
        one, two = (model.predict(test).variance for model in models)
        error = float(np.abs(np.sqrt(two / one) - 1.0).max())
        loads = [_seconds(lambda data=data: _loaded(data)) for data in files[:2]]  # type: ignore[misc]
        speeds = _speeds(models, test[:ROWS])
        print(
            f"| {label} | {compact.directions.shape[1]} | {8 * compact.directions.itemsize} "
            f"| {' / '.join(f'{len(data) / 1000:.0f}' for data in files)} "
            f"| {compact.largest_error:.2%} | {error:.2%} | {compact.std_bound:.1%} "
            f"| {' / '.join(f'{1000 * seconds:.1f}' for seconds in loads)} "
            f"| {' / '.join(f'{speed / 1000:,.0f}' for speed in speeds)} |",
            flush=True,
        )


def _file(model: Model, stored: Stored) -> bytes:
    """The artefact, with nothing in it but what predicts."""
    return artefact.save(
        artefact.ModelArtefact(
            posterior=stored,
            schema={},
            spec={},
            hyperparameters={},
            basis_columns=(),
            basis_rows=(),
            gains=(),
            report={},
            noise=model.noise,
            calibration=model.calibration,
            transform=model.transform,
        )
    )


def _loaded(data: bytes) -> ModelPredictor:
    return ModelPredictor(artefact.load(data).model())


def _seconds(work: Callable[[], object]) -> float:
    """The shortest of some runs."""
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def _speeds(models: list[ModelPredictor], inputs: FloatArray) -> list[float]:
    """Rows a second of each, in turns, so that what else the machine does meets both."""
    best = [np.inf] * len(models)
    for _ in range(REPEATS):
        for place, model in enumerate(models):
            begin = time.perf_counter()
            model.predict(inputs)
            best[place] = min(best[place], time.perf_counter() - begin)
    return [len(inputs) / seconds for seconds in best]


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 0.01)
