"""Units of Sundararajan, Keerthi & Shevade: each function is one unit, and loads its data itself.

    fixed      theta of a full GP on some of the training rows, then every measure chooses a basis (Tables 2 and 3)
    adapted    the same start, then choosing and moving theta in turns (Tables 4 and 5)
    pursuit    Pursuit with its defaults, or refined, on the same rows

The model is the paper's: no bias, DTC (sec. 3.3), the error bars as they come.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from core.arrays import FloatArray, IntArray
from core.data import Dataset, Standardization, standardization
from core.hyperparameters import Hyperparameters
from core.predict.model import ModelPredictor
from core.predict.predictor import moments
from core.process.exact import exact_nlml_and_gradient
from core.process.rows import Rows
from core.process.theta import Box
from core.selection.greedy import select
from core.selection.size import PATIENCE_SHARE, PATIENCE_STEPS
from core.selection.state import Selection
from core.sparse.factors import factorise
from core.sparse.likelihood import nlml_and_gradient
from core.sparse.posterior import posterior
from core.sparse.scheme import scheme
from core.spec import Approximation, Method, Refinement, TrainSpec
from core.train.optimise import box, descend, heuristic
from core.train.run import train
from tests.benchmarks.papers.tables import Partition, Table, partition
from tests.benchmarks.papers.units import Found

MEASURES = (Method.NLPP, Method.NLML, Method.LOO_CVE, Method.NLGPP, Method.GPE)
"""Measures in the paper's order."""
CANDIDATES = 59
SETTLED = 0.01
"""Rounds end when the smallest measure moved by less than this share of its whole fall from the empty basis."""
_DTC = scheme(Approximation.DTC)


def fixed(
    name: str,
    trial: int,
    train_rows: int,
    test_rows: int | None,
    subset: int,
    evaluations: int,
    most: int,
    working_set: int,
    methods: Sequence[str] = MEASURES,
    curve: Sequence[int] = (),
) -> Found:
    """Results of each method: size, scores; for its `curve`, the measure of every size and the scores of some sizes.

    most: d_max, and the size of NLPP, which has none of its own. working_set: candidates a step, 59 of them fresh.
    """
    task = _Task(partition(name, trial, train_rows, test_rows))
    theta = task.start(subset, evaluations, trial)
    found: Found = {}
    for method in methods:
        spec = _spec(method, most, working_set, whole=bool(curve))
        random = np.random.default_rng((trial, MEASURES.index(Method(method))))
        whole = select(task.rows, theta, spec, random)
        measures = measures_of(whole, spec, task.rows, theta)
        size = _size(spec, whole, measures)
        found[method] = {"size": size, **task.score(theta, whole.indices[:size])}
        if curve:
            sizes = [count for count in curve if count <= len(whole.indices)]
            scores = [task.score(theta, whole.indices[:count]) for count in sizes]
            found[method]["curve"] = {"measures": measures.tolist(), "sizes": sizes, "scores": scores}
    return found


def adapted(
    name: str,
    trial: int,
    train_rows: int,
    test_rows: int | None,
    subset: int,
    evaluations: int,
    most: int,
    rounds: int,
    steps: int,
    methods: Sequence[str] = MEASURES,
    traced: bool = False,
) -> Found:
    """Results of each method: size, scores, rounds; where `traced`, the measure of every size in every round."""
    task = _Task(partition(name, trial, train_rows, test_rows))
    start = task.start(subset, evaluations, trial)
    found: Found = {}
    for method in methods:
        theta, lowest, traces = start, [], []
        spec = _spec(method, most, CANDIDATES, whole=traced)
        for number in range(rounds):
            random = np.random.default_rng((trial, MEASURES.index(Method(method)), number))
            whole = select(task.rows, theta, spec, random)
            measures = measures_of(whole, spec, task.rows, theta)
            chosen = whole.indices[: _size(spec, whole, measures)]
            theta = task.move(theta, chosen, steps)
            traces.append(measures.tolist())
            lowest.append(float(np.min(measures)))
            if number and abs(lowest[-1] - lowest[-2]) < SETTLED * (measures[0] - lowest[-1]):
                break
        found[method] = {"size": len(chosen), "rounds": len(lowest), **task.score(theta, chosen)}
        if traced:
            found[method]["traces"] = traces
    return found


def pursuit(name: str, trial: int, train_rows: int, test_rows: int | None, *, refined: bool, holdout: float) -> Found:
    """Pursuit's own defaults; a basis that moves is calibrated by rows held out of training."""
    split = partition(name, trial, train_rows, test_rows)
    spec = TrainSpec(refinement=Refinement() if refined else None, holdout=holdout, seed=trial)
    result = train(split.train.grouped(), spec)
    forecast = ModelPredictor(result.model).predict(split.test.inputs)
    mean, variance = forecast.moments()
    return {"size": result.report.basis_size, **_scores(split.test, mean, variance, split.train)}


def measures_of(found: Selection, spec: TrainSpec, rows: Rows, theta: Hyperparameters) -> FloatArray:
    """Measure that the method minimises, for every size from the empty basis on, (d + 1,), as a mean over rows.

    NLPP: half the penalised squares over s2, that is the posterior's exponent at its mode, up to a constant.
    """
    if spec.method is Method.NLPP:
        fall = np.concatenate(([0.0], np.cumsum(found.gains)))
        return np.asarray((0.5 * rows.y @ rows.y - fall) / (theta.noise_variance * len(rows)))
    return found.measures / len(rows) if spec.method is Method.NLML else found.measures


def stop(measures: FloatArray) -> int:
    """The size that the automatic rule of `core.selection.size` finds on a measure that was followed further: the
    first minimum past which nothing lower comes for so long."""
    best = 0
    for size, value in enumerate(measures.tolist()):
        if value < measures[best]:
            best = size
        elif size - best >= max(PATIENCE_STEPS, PATIENCE_SHARE * best):
            break
    return max(best, 1)


class _Task:
    """A partition, standardized by its training rows."""

    def __init__(self, split: Partition) -> None:
        self.split = split
        self.dataset: Dataset = split.train.dataset()
        self.unit: Standardization = standardization(self.dataset)
        self.rows = Rows(
            X=self.unit.inputs(self.dataset.inputs),
            y=self.unit.targets(self.dataset.targets),
            groups=self.dataset.groups,
        )
        bounds = box(self.rows)
        upper = bounds.upper.copy()
        upper[-2] = bounds.lower[-2]
        self.box = Box(lower=bounds.lower, upper=upper)  # the paper's kernel has no bias

    def start(self, subset: int, evaluations: int, trial: int) -> Hyperparameters:
        """Hyperparameters of a full GP on `subset` random rows: two starts, the better one taken further."""
        order = np.random.default_rng((trial, subset)).permutation(len(self.rows))[:subset]
        some = replace(self.rows, X=self.rows.X[order], y=self.rows.y[order])

        def fitted(begin: Hyperparameters, steps: int) -> tuple[Hyperparameters, float]:
            return descend(lambda theta: exact_nlml_and_gradient(some, theta), begin, self.box, steps)

        first = max(evaluations // 5, 2)
        tried = [fitted(heuristic(self.rows, reach=reach), first) for reach in (1.0, 0.5)]
        return fitted(min(tried, key=lambda outcome: outcome[1])[0], evaluations - 2 * first)[0]

    def move(self, theta: Hyperparameters, chosen: IntArray, steps: int) -> Hyperparameters:
        """A short descent of DTC's marginal likelihood with the basis held."""
        Z = self.rows.X[chosen]
        return descend(lambda at: nlml_and_gradient(self.rows, Z, at, _DTC), theta, self.box, steps)[0]

    def score(self, theta: Hyperparameters, chosen: IntArray) -> dict[str, float]:
        """Scores on the test rows, by DTC with these basis vectors."""
        factors = factorise(self.rows, self.rows.X[chosen], theta, _DTC)
        model = posterior(factors, self.dataset.inputs[chosen], self.dataset.groups, self.unit)
        predicted = moments(model, self.split.test.inputs)
        return _scores(self.split.test, predicted.mean, predicted.target_variance, self.split.train)


def _scores(test: Table, mean: FloatArray, variance: FloatArray, learnt: Table) -> dict[str, float]:
    """nmse: over the test targets' variance. npdl: in the raw unit; `scale` is the training targets' deviation. For a
    table that knows its truths, clean_nmse and clean_npdl: against them instead of the noisy targets.
    whole_nmse: over the variance of all rows' targets."""

    def against(targets: FloatArray) -> tuple[float, float]:
        squares = np.square(targets - mean)
        loss = 0.5 * np.mean(squares / variance + np.log(2.0 * np.pi * variance))
        return float(squares.mean()), float(loss)

    mse, npdl = against(test.targets)
    everything = np.concatenate((learnt.targets, test.targets))
    found = {
        "nmse": mse / float(np.var(test.targets)),
        "whole_nmse": mse / float(np.var(everything)),
        "npdl": npdl,
        "scale": float(np.std(learnt.targets)),
    }
    if test.truths is not None:
        clean, loss = against(test.truths)
        found |= {"clean_nmse": clean / float(np.var(test.truths)), "clean_npdl": loss}
    return found


def _spec(method: str, most: int, working_set: int, *, whole: bool) -> TrainSpec:
    """whole: all of d_max, whatever the measure does. NLPP always: it never rises."""
    options: dict[str, Any] = {"basis_size": most} if whole or method == Method.NLPP else {"max_basis_size": most}
    return TrainSpec(
        method=Method(method),
        candidates=CANDIDATES,
        cache_size=working_set - CANDIDATES if working_set > CANDIDATES else None,
        approximation=Approximation.DTC,
        adaptation=None,
        calibrate=None,
        **options,
    )


def _size(spec: TrainSpec, found: Selection, measures: FloatArray) -> int:
    """Number of the chosen that are kept."""
    if spec.method is Method.NLPP:
        return len(found.indices)
    return min(stop(measures), len(found.indices))
