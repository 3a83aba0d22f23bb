"""The estimate of a training's memory against what trainings took, each in a process of its own."""

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.data import Dataset
from core.spec import MeanRows, Method, Noise, TrainSpec
from core.train.memory import training_bytes
from core.train.run import train

FACTOR = 3.0
"""The estimate is not below what was taken, and not above this many times it, where it is not small."""
SMALL = 64 << 20

CODE = """
import json, sys
from pathlib import Path
import numpy as np
from core.data import Dataset
from core.spec import MeanRows, Method, Noise, TrainSpec
from core.train.run import train
rows, columns = int(sys.argv[1]), int(sys.argv[2])
X = np.random.default_rng(0).normal(size=(rows, columns))
y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=rows)
def peak():
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return 1024 * int(line.split()[1])
Path("/proc/self/clear_refs").write_text("5")  # the peak from here on: it begins with that of who started the process
before = peak()
train(Dataset(inputs=X, targets=y), TrainSpec(**json.loads(sys.argv[3])))
print(peak() - before)
"""


def taken(rows: int, columns: int, spec: dict[str, Any]) -> int:
    """Bytes that the process grew by."""
    command = [sys.executable, "-c", CODE, str(rows), str(columns), json.dumps(spec)]
    return int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="a process's peak is read from Linux's /proc")
@pytest.mark.parametrize(
    ("rows", "columns", "spec"),
    [
        (500, 4, {"basis_size": 20}),
        (20_000, 20, {"basis_size": 20, "method": "rand", "calibrate": None, "noise": "constant"}),
        (6_000, 4, {"basis_size": 20, "method": "rand", "mean_rows": "all", "noise": "constant"}),
        (20_000, 4, {"basis_size": 20, "method": "rand", "mean_rows": 1_500, "noise": "constant"}),
        (2_000, 4, {"basis_size": 20, "method": "rand", "mean_rows": "all", "noise": "constant"}),
    ],
)
def test_a_training_takes_about_what_was_estimated(rows: int, columns: int, spec: dict[str, Any]) -> None:
    spec |= {"adaptation": None}
    found, estimate = taken(rows, columns, spec), training_bytes(rows, columns, TrainSpec(**spec))
    assert found <= estimate + SMALL
    assert estimate <= FACTOR * found + SMALL


def test_more_of_anything_takes_more() -> None:
    spec = TrainSpec(basis_size=100)
    least = training_bytes(10_000, 10, spec)
    assert training_bytes(20_000, 10, spec) > least
    assert training_bytes(10_000, 20, spec) > least
    assert training_bytes(10_000, 10, TrainSpec(basis_size=300)) > least
    assert training_bytes(10_000, 10, TrainSpec(basis_size=100, pool_size=5_000)) > least
    assert training_bytes(10_000, 10, spec, workers=4) > least
    assert training_bytes(10_000, 10, TrainSpec(basis_size=100, mean_rows=2_000)) > least
    everything = training_bytes(10_000, 10, TrainSpec(basis_size=100, mean_rows=MeanRows.ALL))
    assert everything > least + 10_000**2 * 4  # a triangle of kernel values
    assert training_bytes(10_000, 10, TrainSpec(basis_size=100, mean_rows=MeanRows.AUTO)) == everything
    assert training_bytes(500, 10, TrainSpec(mean_rows=MeanRows.ALL)) > training_bytes(500, 10, TrainSpec())


MOST_COPIES = 3.5
"""Copies of a large table that a training holds at once, beside the one that it is given: the rows of a step as they
are and standardized, and the difference that is being taken."""


def test_rows_of_one_step_are_gone_before_those_of_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.train.run_rows.SEARCH_ROWS", 500)
    rows, columns = 20_000, 60
    X = np.random.default_rng(0).normal(size=(rows, columns))
    dataset = Dataset(inputs=X, targets=np.sin(X[:, 0]))
    spec = TrainSpec(basis_size=10, method=Method.RAND, calibrate=None, noise=Noise.CONSTANT, adaptation=None)
    tracemalloc.start()
    try:
        train(dataset, spec)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MOST_COPIES * X.nbytes
