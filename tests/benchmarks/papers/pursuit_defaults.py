"""Pursuit's own column: a model trained with the defaults on a paper's training rows, scored on its test rows."""

import time

import numpy as np

from core.data import Dataset
from core.predict.metrics import scores
from core.predict.model import ModelPredictor
from core.spec import Adaptation, Refinement, TrainSpec
from core.train.run import train
from tests.benchmarks.papers.units import Found
from tests.benchmarks.sets import FloatArray


def trained_and_scored(
    training: Dataset,
    inputs: FloatArray,
    targets: FloatArray,
    *,
    basis_size: int,
    seed: int,
    rounds: int = 5,
    refine: int = 0,
) -> Found:
    """squared_error (mean, no factor 1/2), nmse, nlpd in the target's unit, coverage of 95% intervals, basis_size
    found, lengthscales in deviations of the columns, seconds of training.

    refine: objective evaluations in which the basis vectors move too; a tenth of the training rows is held out then,
    which calibrates the error bars.
    """
    begin = time.process_time()
    spec = TrainSpec(
        basis_size=basis_size,
        adaptation=Adaptation(rounds=rounds),
        refinement=Refinement(steps=refine) if refine else None,
        holdout=0.1 if refine else 0.0,
        seed=seed,
    )
    result = train(training, spec)
    seconds = time.process_time() - begin
    score = scores(targets, ModelPredictor(result.model).predict(inputs))
    return {
        "squared_error": score.rmse**2,
        "nmse": score.rmse**2 / float(np.var(targets)),
        "nlpd": score.nlpd,
        "coverage": score.coverage.get("0.95"),
        "basis_size": result.report.basis_size,
        "lengthscales": result.report.hyperparameters.lengthscales.tolist(),
        "seconds": seconds,
    }
