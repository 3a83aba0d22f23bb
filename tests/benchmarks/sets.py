"""The benchmark sets, split as the papers split them, and what is printed above every measurement."""

import gzip
import json
import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.hyperparameters import Hyperparameters

FOLDER = Path(os.environ.get("PURSUIT_BENCHMARK_DATA", Path(__file__).parents[3] / "shared" / "data"))
"""Folder of the sets: PURSUIT_BENCHMARK_DATA (read when this is imported), or a folder beside the checkout."""

TRAINING_ROWS = {
    "kin40k": 10_000,
    "pumadyn32nm": 7_168,
    "bank8FM": 4_500,
    "bank32nh": 4_500,
    "cpu_small": 4_500,
    "cpu_act": 4_500,
    "cal_housing": 10_000,
    "house_8L": 10_000,
    "house_16H": 10_000,
}
CLASSICAL = frozenset({"kin40k", "pumadyn32nm"})
"""Sets whose first rows are the training rows; of the others they are drawn at random."""

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Split:
    """Column names (the target last), training and test rows with the target as last column."""

    names: tuple[str, ...]
    train: FloatArray
    test: FloatArray


def load(name: str, *, seed: int = 0) -> Split:
    """A set, split; one that is not in TRAINING_ROWS is shuffled and all for training.

    Raises FileNotFoundError where the folder does not have it.
    """
    with gzip.open(FOLDER / f"{name}.csv.gz", "rt", encoding="utf-8") as file:
        names = tuple(file.readline().strip().replace('"', "").split(","))
        table = np.loadtxt(file, delimiter=",")
    if name not in CLASSICAL:
        table = table[np.random.default_rng(seed).permutation(len(table))]
    rows = TRAINING_ROWS.get(name, len(table))
    return Split(names=names, train=table[:rows], test=table[rows:])


def full_gp_of_kin40k() -> Hyperparameters:
    """Hyperparameters of a full GP on 2,000 training rows, in standardized units. Raises FileNotFoundError."""
    found = json.loads((FOLDER / "theta.json").read_text(encoding="utf-8"))["kin40k"]
    return Hyperparameters(
        lengthscales=np.array(found["lengthscales"]),
        signal_variance=found["signal_variance"],
        bias_variance=0.0,
        noise_variance=found["noise_variance"],
    )


def csv(names: tuple[str, ...], rows: FloatArray) -> bytes:
    """The rows as a CSV file whose numbers read back to the same bits."""
    lines = [",".join(names), *(",".join(map(repr, row)) for row in rows.tolist())]
    return ("\n".join(lines) + "\n").encode()


def conditions() -> str:
    """Machine, versions, threads and date, in one line."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    packages = ", ".join(f"{package} {version(package)}" for package in ("numpy", "scipy"))
    core_type = os.environ.get("OPENBLAS_CORETYPE", "as found")
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {_processor()}, {cores} cores, load {load:.1f}, "
        f"Python {platform.python_version()}, {packages}, OpenBLAS kernels {core_type}"
    )


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
