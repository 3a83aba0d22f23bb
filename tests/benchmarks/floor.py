"""The predictor alone: rows per processor second, by rows of a call.

python -m tests.benchmarks.floor ARTEFACT CORE, with OPENBLAS_NUM_THREADS=1; prints one JSON object by rows, and "mean".
"""

import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from app.storage import artefact
from core.prediction import Predictor


def rate(call: Callable[[], object], rows: int, seconds: float = 0.3) -> float:
    """Rows per processor second of a call, on the average, as the server's: noise slows both alike."""
    call()
    calls, began = 0, time.process_time()
    while time.process_time() < began + seconds:
        call()
        calls += 1
    return rows * calls / (time.process_time() - began)


def main(path: str, core: str) -> None:
    """As the module says."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core)})
    predictor = Predictor(artefact.load(Path(path).read_bytes()).model().posterior)
    chance = np.random.default_rng(1)
    found: dict[str, float] = {}
    for rows in (1, 100, 10_000):
        inputs = chance.uniform(-1.0, 1.0, (rows, predictor.columns))
        found[str(rows)] = rate(partial(predictor.predict, inputs), rows, 0.3 if rows < 10_000 else 1.5)
    found["mean"] = rate(partial(predictor.mean, inputs), len(inputs), 0.5)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
