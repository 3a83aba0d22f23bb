"""Tables that `tests.benchmarks.sets` does not have, and random partitions of any table by trial.

Boston housing and Abalone are files; Friedman's second and third function are drawn anew for every trial.
"""

import csv
import gzip
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from core.arrays import BoolArray, FloatArray
from core.data import Dataset
from tests.benchmarks.sets import FOLDER

SEXES = "MFI"
FRIEDMAN_NOISE = {"friedman2": 125.0, "friedman3": 0.1}
"""Standard deviations, a third of the functions' own (Friedman 1991)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """inputs (m, p), targets (m,); indicator (p,), True for the 0/1 columns of one category; truths (m,): the targets
    without noise, where they are known."""

    inputs: FloatArray
    targets: FloatArray
    indicator: BoolArray
    truths: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.targets)

    def dataset(self) -> Dataset:
        """Dataset for training with a lengthscale for each column."""
        return Dataset(inputs=self.inputs, targets=self.targets)

    def grouped(self) -> Dataset:
        """Dataset for training as the service reads a table: one lengthscale for the columns of a category."""
        shared = int(np.argmax(self.indicator))
        place = np.where(self.indicator, shared, np.arange(len(self.indicator)))
        groups = np.unique(place, return_inverse=True)[1].astype(np.int64)
        return Dataset(inputs=self.inputs, targets=self.targets, groups=groups, indicator=self.indicator)

    def take(self, rows: slice | np.ndarray[tuple[int], np.dtype[np.int64]]) -> "Table":
        """Table of these rows."""
        return Table(
            inputs=self.inputs[rows],
            targets=self.targets[rows],
            indicator=self.indicator,
            truths=None if self.truths is None else self.truths[rows],
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Partition:
    """Training rows and test rows."""

    train: Table
    test: Table


def partition(name: str, trial: int, train: int, test: int | None = None) -> Partition:
    """Draw random rows to train with, and so many of the others (all, by default) to test with.

    The permutation is that of the trial: two sizes of one trial share their first rows. Raises FileNotFoundError where
    the folder does not have the table.
    """
    if name in FRIEDMAN_NOISE:
        whole = friedman(name, train + (5_000 if test is None else test), np.random.default_rng(trial))
        return Partition(train=whole.take(slice(train)), test=whole.take(slice(train, None)))
    whole = read(name)
    order = np.random.default_rng(trial).permutation(len(whole))
    last = None if test is None else train + test
    return Partition(train=whole.take(order[:train]), test=whole.take(order[train:last]))


def read(name: str) -> Table:
    """A file of the folder, the target last; the letters of Abalone's sex as three 0/1 columns, M, F, I."""
    with gzip.open(FOLDER / f"{name}.csv.gz", "rt", encoding="utf-8") as file:
        lines = list(csv.reader(file))[1:]
    if name != "abalone":
        table = np.array(lines, np.float64)
        return Table(inputs=table[:, :-1], targets=table[:, -1], indicator=np.zeros(table.shape[1] - 1, bool))
    sex = np.array([[line[0] == letter for letter in SEXES] for line in lines], np.float64)
    rest = np.array([line[1:] for line in lines], np.float64)
    indicator = np.arange(rest.shape[1] - 1 + len(SEXES)) < len(SEXES)
    return Table(inputs=np.column_stack((sex, rest[:, :-1])), targets=rest[:, -1], indicator=indicator)


def friedman(name: str, rows: int, random: np.random.Generator) -> Table:
    """`friedman2` or `friedman3`: impedance and phase of an alternating current circuit (Friedman 1991, eq. 63)."""
    X = random.uniform([0.0, 40.0 * np.pi, 0.0, 1.0], [100.0, 560.0 * np.pi, 1.0, 11.0], (rows, 4))
    reactance = X[:, 1] * X[:, 2] - 1.0 / (X[:, 1] * X[:, 3])
    functions: dict[str, Callable[[], FloatArray]] = {
        "friedman2": lambda: np.hypot(X[:, 0], reactance),
        "friedman3": lambda: np.arctan2(reactance, X[:, 0]),
    }
    truths = functions[name]()
    targets = truths + FRIEDMAN_NOISE[name] * random.standard_normal(rows)
    return Table(inputs=X, targets=targets, indicator=np.zeros(4, bool), truths=truths)
