"""Benchmark of the efforts: test rows scored after trainings on random partitions of the benchmark sets.

    python -m tests.benchmarks.effort [--partitions 5] [--efforts quick normal best] [--transforms none] [--rows N]
                                      [--kernel auto] [SET | EMULATOR ..]

The partitions are those of Table 1 of Keerthi & Chu 2005 for its seven sets, whose best NMSE there stands beside ours.
NLPD is of a target of unit variance. Seconds are of the clock, with a thread for each core; microseconds a row are
those of a batch of up to BATCH test rows on one thread.
"""

import argparse
import os
import time
from dataclasses import dataclass, replace

import numpy as np
from threadpoolctl import threadpool_limits

from core.data import Dataset
from core.predict.metrics import scores
from core.predict.model import ModelPredictor
from core.spec import (
    Adaptation,
    Effort,
    InputTransforms,
    KernelChoice,
    MeanRows,
    Refinement,
    TargetTransform,
    TrainSpec,
)
from core.train.report import TrainReport
from core.train.run import train
from tests.benchmarks.papers.keerthi_chu import published
from tests.benchmarks.sets import TRAINING_ROWS, conditions, load, shown

BATCH = 20_000
LEVELS = ("0.5", "0.8", "0.95", "0.99")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One training: scores on test rows, coverage at LEVELS, seconds, microseconds a row, and what was published."""

    nmse: float
    nlpd: float
    coverage: tuple[float, ...]
    seconds: float
    row: float
    kind: str


def main() -> None:
    """Print a Markdown table, a line as soon as it is known."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--partitions", type=int, default=5)
    parser.add_argument("--efforts", nargs="+", choices=[*Effort], default=["quick", "normal"])
    parser.add_argument("--transforms", choices=["auto", "none"], default="auto", help="of target and inputs")
    parser.add_argument("--rows", type=int, help="of training, at most")
    parser.add_argument(
        "--kernel", type=KernelChoice, choices=[*KernelChoice], default="auto", help="of efforts above quick"
    )
    parser.add_argument("sets", nargs="*", metavar="SET", default=[*TRAINING_ROWS])
    asked = parser.parse_args()
    print(f"{conditions()}\n\n{asked.partitions} partitions; mean ± standard deviation.\n")
    print(
        "| set, rows | effort | NMSE | NLPD | inside 50/80/95/99%, % | s | us a row | published | paper's best NMSE |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name in asked.sets:
        for effort in map(Effort, asked.efforts):
            found = [
                measure(name, seed, effort, asked.rows, kernel=asked.kernel, transformed=asked.transforms == "auto")
                for seed in range(asked.partitions)
            ]
            print(line(name, effort, found), flush=True)


def specification(effort: Effort, seed: int) -> TrainSpec:
    """The service's default of this effort."""
    if effort is Effort.QUICK:
        rounds, steps = Adaptation(rounds=1, steps=10), Refinement(steps=18)
        return TrainSpec(adaptation=rounds, refinement=steps, power=0.6, max_basis_size=600, seed=seed)
    return TrainSpec(
        effort=effort,
        kernel=KernelChoice.AUTO,
        mean_rows=MeanRows.AUTO,
        target_transform=TargetTransform.AUTO,
        input_transform=InputTransforms.AUTO,
        seed=seed,
    )


def measure(
    name: str,
    seed: int,
    effort: Effort,
    most: int | None = None,
    *,
    kernel: KernelChoice = KernelChoice.AUTO,
    transformed: bool = True,
) -> Measured:
    """Train on one partition, on at most so many rows, and score its test rows.

    kernel: of efforts above quick. transformed: whether target and inputs may be.
    """
    split = load(name, seed=seed)
    rows = split.train if len(split.test) else split.train[: 3 * len(split.train) // 4]
    test = split.test if len(split.test) else split.train[len(rows) :]
    rows = rows[:most]
    began = time.perf_counter()
    dataset = Dataset(inputs=rows[:, :-1], targets=rows[:, -1])
    spec = specification(effort, seed)
    if effort is not Effort.QUICK:
        spec = replace(spec, kernel=kernel)
    if not transformed:
        spec = replace(spec, target_transform=TargetTransform.NONE, input_transform=InputTransforms.NONE)
    with threadpool_limits(1):
        result = train(dataset, spec, workers=os.cpu_count() or 1)
    seconds = time.perf_counter() - began
    new, targets = test[:BATCH, :-1], test[:BATCH, -1]
    predictor = ModelPredictor(result.model)
    predictor.predict(new[:100])
    began = time.thread_time()
    predicted = predictor.predict(new)
    row = 1e6 * (time.thread_time() - began) / len(targets)
    found, unit = scores(targets, predicted), float(np.std(rows[:, -1]))
    return Measured(
        nmse=found.rmse**2 / float(np.var(targets)),
        nlpd=found.nlpd - float(np.log(unit)),
        coverage=tuple(100.0 * found.coverage[level] for level in LEVELS),
        seconds=seconds,
        row=row,
        kind=kind(result.report),
    )


def kind(report: TrainReport) -> str:
    """Return what was published, in a few words."""
    taken = next((each for each in report.candidates if each.taken), None)
    kernel = report.hyperparameters.kernel.value
    changed = f", {report.target_transform.kind}" if report.target_transform.kind != TargetTransform.NONE else ""
    if report.input_transform.columns:
        changed += f", {len(report.input_transform.columns)} tails drawn in"
    if taken is None or taken.mean == MeanRows.BASIS.value:
        return f"sparse, {kernel}{changed}"
    return f"{'full' if taken.variance == 'near' else 'mean of all rows'}, {kernel}{changed}"


def line(name: str, effort: Effort, found: list[Measured]) -> str:
    """One row of the table."""
    nmse, nlpd = [each.nmse for each in found], [each.nlpd for each in found]
    mean, deviation = float(np.mean(nmse)), float(np.std(nmse, ddof=1)) if len(nmse) > 1 else 0.0
    squares = f"{shown(mean)} ± {shown(deviation, mean)}"
    coverage = " ".join(f"{mean:.1f}" for mean in np.mean([each.coverage for each in found], axis=0))
    kinds = [each.kind for each in found]
    told = ", ".join(f"{kinds.count(each)} {each}" for each in dict.fromkeys(kinds))
    rows = TRAINING_ROWS.get(name)
    best = published.NMSE.get(name)
    theirs = "" if best is None else f"{min(best.values(), key=lambda each: each.mean).mean / 100:.4f}"
    return (
        f"| {name}{'' if rows is None else f', {rows:,}'} | {effort} | {squares} "
        f"| {np.mean(nlpd):.3f} ± {np.std(nlpd, ddof=1) if len(nlpd) > 1 else 0.0:.3f} | {coverage} "
        f"| {np.mean([each.seconds for each in found]):.0f} | {np.mean([each.row for each in found]):.0f} "
        f"| {told} | {theirs} |"
    )


if __name__ == "__main__":
    main()
