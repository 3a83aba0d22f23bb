"""What is promised and what is got, on ten made-up kinds of table, over HTTP.

    python -m tests.benchmarks.coverage [--draws 20] [KIND ..]

Promised is the report's own estimate, on the rows held out or, where it held none out, by leave-one-out; got is the
share of fresh rows inside of their intervals. Both are means over the draws. NLPD is that of the predictive
distribution, and of a normal one with the mean and std that were answered.
"""

import argparse
import io
import tempfile
from csv import reader
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.cli.client import Client
from app.cli.service import start
from tests.benchmarks.coverage_tables import KINDS, Columns
from tests.benchmarks.sets import conditions

LEVELS = (0.5, 0.8, 0.95, 0.99)

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One draw. promised, got: share at each of LEVELS; ratio: 1.96 std over the half-width at 95%, least and most of
    the fresh rows; nlpd: as reported; normal: of N(mean, std^2) on fresh rows."""

    promised: list[float]
    got: list[float]
    nmse: float
    nlpd: float
    normal: float
    ratio: tuple[float, float]


def main() -> None:
    """Print a Markdown table, a line as soon as it is known."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("kinds", nargs="*", metavar="KIND")
    asked = parser.parse_args()
    print(conditions())
    print(f"\n{asked.draws} draws of each; shares at 50/80/95/99%, in %.\n")
    print("| kind | promised | got | NMSE | NLPD promised | NLPD of N(mean, std) got | 1.96 std / half-width |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        service = start(Path(folder, "data"), Path(folder, "log"))
        try:
            with service.client() as client:
                for name in asked.kinds or KINDS:
                    draws = [measure(client, Path(folder), name, seed) for seed in range(asked.draws)]
                    print(line(name, draws), flush=True)
        finally:
            service.stop()


def measure(client: Client, folder: Path, name: str, seed: int) -> Measured:
    """Train on one draw and predict its fresh rows."""
    kind = KINDS[name]
    training, fresh = kind.draw(np.random.default_rng([seed, len(name)]))
    file = folder / "table.csv"
    file.write_bytes(csv(training))
    *_, job = client.follow(client.train(file, {"target": "y", **kind.spec})["id"])
    if job["state"] != "succeeded":
        raise RuntimeError(f"{name}, draw {seed}: {job['error']}")
    result = job["result"]
    scores = result["report"]["holdout"] or result["report"]["leave_one_out"]
    known = [level for level in LEVELS if str(level) in scores["coverage"]]
    answer = predicted(client, f"{result['model']}@{result['version']}", fresh, known)
    y = fresh["y"]
    ends = {level: (answer[f"lower_{level!r}"], answer[f"upper_{level!r}"]) for level in known}
    inside = {level: float(np.mean((low <= y) & (y <= high))) for level, (low, high) in ends.items()}
    low, high = ends[0.95] if 0.95 in ends else ends[known[-1]]
    ratio = 2.0 * 1.96 * answer["std"] / (high - low)
    error = y - answer["mean"]
    return Measured(
        promised=[scores["coverage"].get(str(level), np.nan) for level in LEVELS],
        got=[inside.get(level, np.nan) for level in LEVELS],
        nmse=float(np.mean(np.square(error)) / np.var(y)),
        nlpd=scores["nlpd"],
        normal=float(np.mean(0.5 * (np.square(error / answer["std"]) + np.log(2.0 * np.pi * answer["std"] ** 2)))),
        ratio=(float(ratio.min()), float(ratio.max())),
    )


def predicted(client: Client, model: str, rows: Columns, levels: list[float]) -> dict[str, FloatArray]:
    """Every column of the answer, by name."""
    answer = client.predict(model, csv(rows), interval=levels, accept="text/csv")
    names, *lines = list(reader(io.StringIO(answer.text)))
    columns: dict[str, Any] = dict(zip(names, zip(*lines, strict=True), strict=True))
    wanted = [name for name in names if name in ("mean", "std") or name.startswith(("lower", "upper"))]
    return {name: np.array(columns[name], np.float64) for name in wanted}


def csv(columns: Columns) -> bytes:
    """The columns as a CSV file; a number that is missing is an empty cell."""
    lines = [",".join(columns)]
    rows = zip(*columns.values(), strict=True)
    lines += [",".join("" if np.isnan(cell) else repr(float(cell)) for cell in row) for row in rows]
    return ("\n".join(lines) + "\n").encode()


def line(name: str, draws: list[Measured]) -> str:
    """One row of the table."""

    def shares(which: str) -> str:
        values = np.array([getattr(draw, which) for draw in draws])
        known = ~np.isnan(values).all(axis=0)
        means = np.full(values.shape[1], np.nan)
        means[known] = np.nanmean(values[:, known], axis=0)
        return " ".join("-" if np.isnan(mean) else f"{100 * mean:.1f}" for mean in means)

    def mean(which: str) -> float:
        return float(np.mean([getattr(draw, which) for draw in draws]))

    ratios = [draw.ratio for draw in draws]
    return (
        f"| {name} | {shares('promised')} | {shares('got')} | {mean('nmse'):.3f} | {mean('nlpd'):.3f} "
        f"| {mean('normal'):.3f} | {min(r[0] for r in ratios):.2f} to {max(r[1] for r in ratios):.2f} |"
    )


if __name__ == "__main__":
    main()
