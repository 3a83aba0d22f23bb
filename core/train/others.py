"""Other targets of a run: models of more targets at the theta, the basis and the candidate that the run has found.

What does not depend on the target is there already: the factors of the fit and of each fold, the variances of left-out
rows, the kernel matrix of a mean on more rows. Each target has right-hand sides of its own there, and from the errors
of its own left-out rows a noise, scales of both variances and quantiles: the scales are its amplitude.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from core.arrays import FloatArray
from core.predict.predictor import Moments, Predictor
from core.sparse.posterior import SparsePosterior
from core.spec import TrainSpec
from core.train.calibrate import CalibrationResult, calibrate_by
from core.train.fit import Fit
from core.train.fold_fits import Seed
from core.train.full_choice import FullModel
from core.train.mean_choice import MeanChoice, ServedMean
from core.train.other_processes import processes_of
from core.train.outcome import Outcome
from core.train.report import TrainResult
from core.train.results import Results


def posterior_of(fitted: SparsePosterior, fit: Fit, place: int) -> SparsePosterior:
    """Return the posterior of another of the fit's targets: the mean is its own, the variance in its unit."""
    unit = fit.subset.other_units[place]
    return replace(
        fitted,
        alpha=fit.factors.other_alphas[:, place],
        target_shift=unit.target_shift,
        target_scale=unit.target_scale,
    )


def moments_of(fitted: SparsePosterior, fit: Fit, inputs: FloatArray) -> tuple[Moments, ...]:
    """Return what the fit predicts at inputs (m, p) in raw units, for each of its other targets."""
    count = fit.factors.other_alphas.shape[1]
    return tuple(Predictor(posterior_of(fitted, fit, place)).moments(inputs) for place in range(count))


def reads_of(fit: Fit, read: CalibrationResult, spec: TrainSpec, seed: Seed) -> list[CalibrationResult]:
    """Return the calibration of each other target, by the rows that were left out for the first one's."""
    plain = read.plain
    assert plain is not None  # what is not calibrated shares nothing
    workers = fit.subset.rows.workers
    return [
        calibrate_by(fit.subset.dataset.of_other(place), plain.of_other(place), spec, seed, read.by, workers)
        for place in range(plain.others.shape[1])
    ]


def sparse_results(
    outcome: Outcome, reads: Sequence[CalibrationResult], served: Sequence[ServedMean], others: Sequence[Results]
) -> list[TrainResult | None]:
    """Return the result of each other target; None where it is predicted no better than by a constant.

    Args:
        outcome: of the first target.
        reads: calibration of the sparse fit of each other target, none where the mean rests on more rows.
        served: their means on more rows, none where the mean rests on the basis.
        others: each other target as its result needs it.
    """
    found: list[TrainResult | None] = []
    for place, results in enumerate(others):
        fit, choice = outcome.fit.of_other(place), MeanChoice()
        predicted = outcome.other_predicted[place] if outcome.other_predicted else None
        if served:
            choice, read = MeanChoice(mean=served[place]), served[place].read
            predicted = results.with_mean(predicted, fit.subset, served[place])
        else:
            read = reads[place]
        if read.no_better_than_constant(fit.subset.rows):
            found.append(None)
            continue
        fitted = posterior_of(outcome.fitted, outcome.fit, place)
        own = Outcome(fit=fit, fitted=fitted, read=read, predicted=predicted, choice=choice)
        found.append(results.of_sparse(own, ()))
    return found


def full_results(
    full: FullModel,
    others: Sequence[Results],
    spec: TrainSpec,
    seed: Seed,
    random: np.random.Generator,
    reason: str,
    tell: Callable[[float], None],
) -> list[TrainResult | None]:
    """Return the result of each other target as a full process at the first one's theta; None where it is predicted no
    better than by a constant.

    Args:
        full: of the first target.
        others: each other target as its result needs it.
        spec: of the run.
        seed: of the noise models.
        random: draws the preconditioner's rows.
        reason: why it is a full process.
        tell: hears the share that is done; may raise to cancel.
    """
    subsets = [full.subset.of_other(place) for place in range(len(others))]
    processes = processes_of(subsets, full.held_out, full.process, spec, seed, random, tell)
    found: list[TrainResult | None] = []
    for subset, process, results in zip(subsets, processes, others, strict=True):
        if process.read.no_better_than_constant(subset.rows):
            found.append(None)
            continue
        own = FullModel(process=process, subset=subset, held_out=full.held_out, seconds=full.seconds)
        found.append(results.of_full(own, (), reason))
    return found
