"""Several targets against one: seconds of processor time, in the same run, and what sharing costs in scores.

    python -m tests.benchmarks.targets [rows ..]

Five targets of the same columns, functions of the same smoothness with noise of their own; alone is the first of them.
"""

import sys
import time
from collections.abc import Iterable

import numpy as np
from threadpoolctl import threadpool_limits

from core.arrays import FloatArray
from core.data import Dataset
from core.spec import Effort, KernelChoice, MeanRows, TrainSpec
from core.train.run import train
from core.train.several import TargetTable, train_several
from tests.benchmarks.sets import conditions

ROWS, COLUMNS, TARGETS = (5_000, 10_000), 6, 5
SPARSE = TrainSpec(kernel=KernelChoice.AUTO)
DEFAULT = TrainSpec(kernel=KernelChoice.AUTO, mean_rows=MeanRows.AUTO, effort=Effort.NORMAL)


def main(words: Iterable[str]) -> None:
    """Print a Markdown table for the numbers of rows that are named, or ROWS."""
    print(conditions())
    print("\n| rows | models compared | one target, s | five targets, s | ratio | NMSE of each alone | together |")
    print("|---|---|---|---|---|---|---|")
    for rows in map(int, list(words) or ROWS):
        for name, spec in (("sparse", SPARSE), ("defaults", DEFAULT)):
            with threadpool_limits(1):
                print(_line(rows, name, spec), flush=True)


def targets(rows: int) -> tuple[FloatArray, list[FloatArray]]:
    """Inputs (n, COLUMNS) and TARGETS functions of them, (n,) each."""
    random = np.random.default_rng(0)
    X = random.uniform(-1.0, 1.0, (rows, COLUMNS))
    found = []
    for number in range(TARGETS):
        signal = np.sin(3.0 * X[:, 0] + 0.3 * number) + (1.0 - 0.1 * number) * X[:, 1] ** 2
        signal += np.sin(2.0 * X[:, 2] * X[:, 3] + 0.2 * number) + 0.3 * X[:, 4]
        found.append(signal + 0.2 * random.standard_normal(rows))
    return X, found


def _line(rows: int, name: str, spec: TrainSpec) -> str:
    X, ys = targets(rows)
    began = time.process_time()
    alone = [train(Dataset(inputs=X, targets=ys[0]), spec)]
    one = time.process_time() - began
    began = time.process_time()
    tables = [TargetTable(dataset=Dataset(inputs=X, targets=y), rows=np.arange(rows)) for y in ys]
    together = train_several(tables, spec)
    five = time.process_time() - began
    assert all(len(each.theta_with) == TARGETS for each in together.sharing)
    alone += [train(Dataset(inputs=X, targets=y), spec) for y in ys[1:]]
    scores = (
        " ".join(f"{result.report.holdout.nmse:.4f}" for result in results if result.report.holdout is not None)
        for results in (alone, together.results)
    )
    return f"| {rows:,} | {name} | {one:.1f} | {five:.1f} | {five / one:.2f} | {next(scores)} | {next(scores)} |"


if __name__ == "__main__":
    main(sys.argv[1:])
