"""Training with and without basis vectors that move, by approximation: the grounds of the defaults.

python -m tests.benchmarks.refinement [SET ..]
"""

import os
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # after the setting, which OpenBLAS reads when it loads

from core.data import Dataset
from core.predict.distribution import PredictiveDistribution
from core.predict.metrics import scores
from core.predict.predictor import moments
from core.spec import Approximation, Refinement, TrainSpec
from core.train.run import train
from tests.benchmarks.sets import conditions, load

SETS = ("kin40k", "bank8FM", "bank32nh", "cpu_small", "cpu_act", "cal_housing", "house_8L", "house_16H")
SETTINGS = (
    ("vfe", Approximation.VFE, 0.5, 0),
    ("fitc", Approximation.FITC, 0.5, 0),
    ("fitc, moved", Approximation.FITC, 0.5, 60),
    ("pep 0.5", Approximation.PEP, 0.5, 0),
    ("pep 0.5, moved", Approximation.PEP, 0.5, 60),
    ("pep 0.7", Approximation.PEP, 0.7, 0),
    ("pep 0.7, moved", Approximation.PEP, 0.7, 60),
)
"""Label, approximation, its power (read by pep alone), evaluations of refinement."""


def main(names: tuple[str, ...]) -> None:
    """Prints a Markdown table: d = 500, one split, defaults otherwise."""
    print(conditions())
    print("\n| set | setting | NMSE, % | NLPD, unit variance | 95% coverage | LOO NLPD | s |")
    print("|---|---|---|---|---|---|---|")
    for name in names:
        split = load(name)
        dataset = Dataset(inputs=split.train[:, :-1], targets=split.train[:, -1])
        unit = float(np.log(np.std(split.test[:, -1])))
        for label, approximation, power, steps in SETTINGS:
            refinement = Refinement(steps=steps) if steps else None
            spec = TrainSpec(basis_size=500, approximation=approximation, power=power, refinement=refinement)
            begin = time.perf_counter()
            result = train(dataset, spec, workers=2)
            seconds = time.perf_counter() - begin
            found = moments(result.model.posterior, split.test[:, :-1])
            score = scores(split.test[:, -1], PredictiveDistribution(centre=found.mean, variance=found.target_variance))
            left_out = result.report.leave_one_out.nlpd - unit
            nmse = 100.0 * (score.nmse or 0.0)
            print(
                f"| {name} | {label} | {nmse:.2f} | {score.nlpd - unit:.3f} | {score.coverage['0.95']:.3f} "
                f"| {left_out:.3f} | {seconds:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or SETS)
