"""The unit of Table 1: one column on one random partition of one set."""

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from core.data import Dataset, standardization
from core.hyperparameters import Hyperparameters
from core.predict.model import ModelPredictor
from core.predict.predictor import moments
from core.process.exact import exact_nlml_and_gradient
from core.process.rows import Rows
from core.spec import Adaptation, Approximation, Method, Noise, TrainSpec
from core.train.optimise import box, descend, heuristic
from core.train.run import train
from tests.benchmarks.papers.keerthi_chu.scoring import numbers_of, scored, scored_plainly
from tests.benchmarks.papers.units import Found
from tests.benchmarks.sets import load

SUBSET, SUBSET_STEPS = 2_000, 30
"""Rows of the full GP that fixes the hyperparameters of FIXED-SB, and its evaluations."""
SCREEN, SCREEN_STEPS, SCREEN_REACHES = 500, 30, (1.0, 0.5)
"""Rows, steps and reaches of the two short descents of which the better is the start of that GP."""
SETTLED = 1e-4
"""Nats a row; two accepted steps in a row that gain less end a descent."""

_PAPER = TrainSpec(approximation=Approximation.DTC, calibrate=None, noise=Noise.CONSTANT, holdout=0.0)
COLUMNS: Mapping[str, TrainSpec] = {
    "fixed-sb": replace(_PAPER, method=Method.SB, adaptation=None),
    "adapt-info": replace(_PAPER, method=Method.INFO),
    "adapt-dmax": replace(_PAPER, method=Method.DMAX),
    "batch-dtc": _PAPER,
    "batch-fitc": replace(_PAPER, approximation=Approximation.FITC),
    "batch-vfe": TrainSpec(approximation=Approximation.VFE, holdout=0.0),
    "batch-pep": TrainSpec(),
}
"""The paper's three and ours. Of the last two the calibrated error bars are scored beside the plain ones; the last is
what a user gets who asks for nothing but the size."""

DEFAULT = "batch-pep"
ASIDE = frozenset({"batch-dtc", "batch-fitc"})
"""Run on a quarter of the partitions, at least two."""


def table_1(
    name: str, column: str, trial: int, training_rows: int, test_rows: int, basis_size: int, rounds: int, steps: int
) -> Found:
    """One column on one partition of the set `name`; the partition is the same for every column.

    `plain`: scores with the error bars of the Gaussian process; `calibrated`: with those that are published, None where
    there is no calibration. training_seconds: of this processor; phases: seconds of a clock.
    """
    split = load(name, seed=trial)
    rows, test = split.train[:training_rows], split.test[:test_rows]
    dataset = Dataset(inputs=rows[:, :-1], targets=rows[:, -1])
    spec = replace(COLUMNS[column], basis_size=basis_size, seed=trial)
    begin = time.process_time()
    start = None
    if spec.adaptation is None:
        start = full_gp(dataset, trial)
        spec = replace(spec, start=start)
    else:
        spec = replace(spec, adaptation=Adaptation(rounds=rounds, steps=steps))
    start_seconds = time.process_time() - begin
    result = train(dataset, spec)
    seconds = time.process_time() - begin
    report, inputs, targets = result.report, test[:, :-1], test[:, -1]
    predicted = moments(result.model.posterior, inputs)
    calibrated = None if spec.calibrate is None else ModelPredictor(result.model).predict(inputs)
    return {
        "plain": scored_plainly(targets, predicted),
        "calibrated": None if calibrated is None else scored(targets, calibrated),
        "calibrate_on": report.calibration.by,
        "noise_gain": report.calibration.noise_gain,
        "training_rows": len(rows),
        "training_deviation": float(np.std(rows[:, -1])),
        "basis_size": report.basis_size,
        "stop_reason": report.stop_reason,
        "hyperparameters": numbers_of(report.hyperparameters),
        "objectives": list(report.objectives),
        "training_seconds": seconds,
        "start_seconds": start_seconds,
        "phases": {str(phase): spent for phase, spent in report.seconds.items()},
        "warnings": list(report.warnings),
    }


def full_gp(dataset: Dataset, trial: int) -> Hyperparameters:
    """Hyperparameters of a full GP on SUBSET random rows, standardized by all rows. O(SUBSET^3) an evaluation."""
    unit = standardization(dataset)
    some = np.random.default_rng([trial, 2]).permutation(len(dataset.targets))[:SUBSET]
    rows = Rows(X=unit.inputs(dataset.inputs[some]), y=unit.targets(dataset.targets[some]), groups=dataset.groups)
    few = Rows(X=rows.X[:SCREEN], y=rows.y[:SCREEN], groups=rows.groups)
    tried = [_descent(few, rows, heuristic(rows, reach=reach), SCREEN_STEPS) for reach in SCREEN_REACHES]
    return _descent(rows, rows, min(tried, key=lambda found: found[1])[0], SUBSET_STEPS)[0]


def _descent(rows: Rows, all_rows: Rows, start: Hyperparameters, steps: int) -> tuple[Hyperparameters, float]:
    settled = SETTLED * len(rows)
    return descend(lambda theta: exact_nlml_and_gradient(rows, theta), start, box(all_rows), steps, settled=settled)
