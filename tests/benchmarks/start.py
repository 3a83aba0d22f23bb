"""Start of the adaptation: a rule of thumb against a full GP on random rows, everything else the same.

python -m tests.benchmarks.start [SET ..]
"""

import sys
import time

import numpy as np

from core.data import Dataset, standardization
from core.hyperparameters import Hyperparameters
from core.predict.distribution import PredictiveDistribution
from core.predict.metrics import scores
from core.predict.predictor import moments
from core.process.rows import Rows
from core.spec import Adaptation, TrainSpec
from core.train.optimise import heuristic
from core.train.run import train
from tests.benchmarks.sets import conditions, load

SETS = ("kin40k", "pumadyn32nm", "cal_housing")


def main(names: tuple[str, ...]) -> None:
    """Prints a Markdown table: after so many rounds from each start, test NMSE, NLPD and seconds."""
    print(conditions())
    print("\n| set | start | rounds | NMSE | NLPD, unit variance | processor seconds |\n|---|---|---|---|---|---|")
    for name in names:
        split = load(name)
        dataset = Dataset(inputs=split.train[:, :-1], targets=split.train[:, -1])
        thumb = _rule_of_thumb(dataset)
        for label, start in (("rule of thumb", thumb), ("full GP on 500 then 1,000 rows", None)):
            for rounds in (2, 5):
                spec = TrainSpec(basis_size=300, adaptation=Adaptation(rounds=rounds), start=start, holdout=0.0)
                begin = time.process_time()
                posterior = train(dataset, spec, workers=2).model.posterior
                seconds = time.process_time() - begin
                found = moments(posterior, split.test[:, :-1])
                score = scores(
                    split.test[:, -1], PredictiveDistribution(centre=found.mean, variance=found.target_variance)
                )
                nlpd = score.nlpd - np.log(np.std(split.test[:, -1]))
                print(f"| {name} | {label} | {rounds} | {score.nmse:.4f} | {nlpd:.3f} | {seconds:.0f} |", flush=True)


def _rule_of_thumb(dataset: Dataset) -> Hyperparameters:
    unit = standardization(dataset)
    return heuristic(Rows(X=unit.inputs(dataset.inputs), y=unit.targets(dataset.targets), groups=dataset.groups))


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or SETS)
