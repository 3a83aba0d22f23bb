"""Rows that a run holds out for its report."""

from dataclasses import replace

import numpy as np

from core.arrays import IntArray
from core.data import Dataset
from core.row_groups import groups_of_equal_rows
from core.spec import TrainSpec
from core.train.search import Stage, random_of


def grouped_rows(dataset: Dataset) -> Dataset:
    """Return the rows with those of equal inputs as groups, where no others are given."""
    if not dataset.row_groups.alone:
        return dataset
    equal = groups_of_equal_rows(dataset.inputs)
    return dataset if equal.alone else replace(dataset, row_groups=equal)


def held_out_rows(dataset: Dataset, spec: TrainSpec) -> IntArray:
    """Return rows for the report, whole groups of them: none where fewer than two would be left on either side."""
    rows = len(dataset.targets)
    count = int(rows * spec.holdout)
    if count < 2 or rows - count < 2:
        return np.empty(0, np.int64)
    held_out = dataset.row_groups.held_out(rows, count, random_of(spec, Stage.HOLDOUT))
    rest = np.setdiff1d(np.arange(rows), held_out)
    constant = any(np.ptp(y[rest]) == 0.0 for y in (dataset.targets, *dataset.others.T)) if len(rest) else True
    return np.empty(0, np.int64) if len(held_out) < 2 or len(rest) < 2 or constant else held_out
