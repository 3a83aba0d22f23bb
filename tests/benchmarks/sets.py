"""The benchmark sets, split as the papers split them, and what is printed above every measurement."""

import csv as csv_reader
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
from tests.benchmarks.emulators import EMULATORS

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

MIXED = {
    "abalone": (
        *("Sex", "Length", "Diameter", "Height", "WholeWeight", "ShuckedWeight", "VisceraWeight", "ShellWeight"),
        "Rings",
    ),
    "diamonds": ("carat", "cut", "color", "clarity", "depth", "table", "x", "y", "z", "price"),
    "nycflights13": (
        *("month", "day", "sched_dep_time", "dep_delay", "sched_arr_time", "carrier", "origin", "distance"),
        *("air_time", "arr_delay"),
    ),
}
"""Columns that are used of sets with text, the target last."""
MOST_TRAINING_ROWS = 20_000
EMULATOR_ROWS, EMULATOR_TEST_ROWS = 4_500, 5_000
"""Rows that are drawn of an emulator, to train on and to test."""
LEAST_DECIMAL = 1e-3
"""NMSE below which four decimals hide it."""

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Split:
    """Column names (the target last), training and test rows with the target as last column."""

    names: tuple[str, ...]
    train: FloatArray
    test: FloatArray


def load(name: str, *, seed: int = 0) -> Split:
    """A set, split; one that is not in TRAINING_ROWS is shuffled and all for training. Or rows of an emulator, drawn.

    Raises FileNotFoundError where the folder does not have it.
    """
    if name in EMULATORS:
        table = EMULATORS[name].draw(EMULATOR_ROWS + EMULATOR_TEST_ROWS, seed)
        names = (*(f"x{number}" for number in range(1, table.shape[1])), "y")
        return Split(names=names, train=table[:EMULATOR_ROWS], test=table[EMULATOR_ROWS:])
    with gzip.open(FOLDER / f"{name}.csv.gz", "rt", encoding="utf-8") as file:
        names = tuple(file.readline().strip().replace('"', "").split(","))
        table = np.loadtxt(file, delimiter=",")
    if name not in CLASSICAL:
        table = table[np.random.default_rng(seed).permutation(len(table))]
    rows = TRAINING_ROWS.get(name, len(table))
    return Split(names=names, train=table[:rows], test=table[rows:])


def load_split(name: str, *, seed: int = 0) -> Split:
    """A set with training and test rows: those of `load` where it has both; else three quarters of the rows, up to
    MOST_TRAINING_ROWS, and the rest. Text columns are indicators of their levels. Raises FileNotFoundError."""
    split = _load_mixed(name, MIXED[name], seed) if name in MIXED else load(name, seed=seed)
    if len(split.test):
        return split
    rows = min(3 * len(split.train) // 4, MOST_TRAINING_ROWS)
    return Split(names=split.names, train=split.train[:rows], test=split.train[rows:])


def _load_mixed(name: str, columns: tuple[str, ...], seed: int) -> Split:
    """These columns of a set with text, the last one the target; rows that lack one of them are left out."""
    with gzip.open(FOLDER / f"{name}.csv.gz", "rt", encoding="utf-8", newline="") as file:
        found = [[row[column] for column in columns] for row in csv_reader.DictReader(file)]
    complete = [row for row in found if not any(cell in ("", "NA") for cell in row)]
    names: list[str] = []
    parts: list[FloatArray] = []
    for column, cells in zip(columns, zip(*complete, strict=True), strict=True):
        try:
            parts.append(np.array(cells, dtype=np.float64))
            names.append(column)
        except ValueError:
            for level in sorted(set(cells)):
                parts.append(np.array([cell == level for cell in cells], dtype=np.float64))
                names.append(f"{column}={level}")
    table = np.column_stack(parts)
    return Split(names=tuple(names), train=table[np.random.default_rng(seed).permutation(len(table))], test=table[:0])


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


def shown(nmse: float, level: float | None = None) -> str:
    """An NMSE, or one of its size if a level is given, as text: four decimals, or an exponent where these hide it."""
    return format(nmse, ".4f" if (nmse if level is None else level) >= LEAST_DECIMAL else ".2e")


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
