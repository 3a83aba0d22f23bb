"""The predictor alone: rows per processor second of calls of so many rows.

python -m tests.benchmarks.floor ARTEFACT CORE ROWS predict|mean, with OPENBLAS_NUM_THREADS=1; prints one number.
"""

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from app.storage import artefact
from core.predict.predictor import Predictor

SECONDS = 0.4


def rate(call: Callable[[], object], rows: int) -> float:
    """Rows per processor second of a call, on the average of SECONDS, as the server's: noise slows both alike."""
    call()
    calls, began = 0, time.process_time()
    while time.process_time() < began + SECONDS:
        call()
        calls += 1
    return rows * calls / (time.process_time() - began)


def main(path: str, core: str, rows: str, what: str) -> None:
    """Run the benchmark that the module describes."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core)})
    predictor = Predictor(artefact.load(Path(path).read_bytes()).model().posterior)
    inputs = np.random.default_rng(1).uniform(-1.0, 1.0, (int(rows), predictor.columns))
    print(rate(partial(predictor.mean if what == "mean" else predictor.moments, inputs), len(inputs)))


if __name__ == "__main__":
    main(*sys.argv[1:])
