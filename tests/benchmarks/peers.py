"""Pursuit against other libraries for Gaussian processes: accuracy, error bars, seconds, memory, on the same rows.

    python -m tests.benchmarks.peers [SET ..] [--peer NAME ..] [--seconds N] [--rows N]

Each runs alone in a process of its own, on two threads: Pursuit by the Python that runs this, the others by the one
that PURSUIT_BENCHMARK_PEERS names, in whose environment `pip install --group peers` has put them and nothing else.
One that is not installed, fails, or takes longer than --seconds is a row that says so. Seconds are those of training,
from the table to a model that can predict, of the clock and of the processor; the last ratio is how many times the
processor's seconds of the fastest of our efforts with a better NMSE and a better NLPD a peer takes. A peer that
iterates is also scored at an eighth, a quarter and a half of its iterations, in a table below: so it is seen which
scores it has reached after how many seconds. Bytes are those of what has to be kept to predict.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.peer_runs import PEERS, THREADS
from tests.benchmarks.sets import TRAINING_ROWS, Split, conditions, load_split, shown

SETS = (*TRAINING_ROWS, "abalone", "boston_housing", "diamonds", "nycflights13")
MOST_TEST_ROWS = 30_000
OURS = tuple(name for name in PEERS if name.startswith("pursuit"))
PEERS_PYTHON = os.environ.get("PURSUIT_BENCHMARK_PEERS", sys.executable)
ROOT = Path(__file__).parents[2]
MOST_SECONDS = 400.0
HEAD = (
    "| peer | seconds: clock, processor | NMSE | NLPD, unit variance | inside 50/80/95/99%, % | us a row, one "
    "| us a row, of 10,000 | bytes | peak MiB | its processor's seconds over ours | note |\n" + "|---" * 11 + "|"
)

WAY = "| on the way | seconds | NMSE | NLPD, unit variance |\n|---|---|---|---|"

Figures = dict[str, Any]
"""Output of one child, or why there is none: `seconds`, `nmse`, `nlpd`, .. or `failed`."""


def main(names: tuple[str, ...], peers: tuple[str, ...], seconds: float, most_rows: int | None = None) -> None:
    """Prints a Markdown table a set. Ours come first, so that a peer's row can be measured against them."""
    print(conditions())
    chosen = [name for name in PEERS if name in peers]
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            split = load_split(name)
            split = replace(split, train=split.train[:most_rows])
            file = Path(folder, f"{name}.npz")
            _write(split, file)
            rows, columns = split.train.shape
            print(f"\n{name}: {rows:,} rows, {columns - 1} columns, {len(split.test):,} test rows")
            print(f"\n{HEAD}", flush=True)
            ours: dict[str, Figures] = {}
            way: list[str] = []
            for peer in chosen:
                figures = _run(peer, file, seconds)
                if peer in OURS and "failed" not in figures:
                    ours[peer] = figures
                print(_row(peer, figures, ours), flush=True)
                way += [_stop(peer, stop) for stop in figures.get("on_the_way", ())]
            if way:
                print("\n".join(("", WAY, *way)), flush=True)


def _write(split: Split, file: Path) -> None:
    """All rows in units of the training rows' spread; a constant column stays zero."""
    centre, spread = split.train.mean(axis=0), split.train.std(axis=0)
    spread[spread == 0.0] = 1.0
    train, test = (split.train - centre) / spread, (split.test - centre) / spread
    test = test[:MOST_TEST_ROWS]
    np.savez(file, X=train[:, :-1], y=train[:, -1], Xs=test[:, :-1], ys=test[:, -1])


def _run(peer: str, file: Path, seconds: float) -> Figures:
    """One peer in a process of its own."""
    python, threads = (sys.executable, 1) if peer in OURS else (PEERS_PYTHON, THREADS)
    limits = {f"{library}_NUM_THREADS": str(threads) for library in ("OPENBLAS", "OMP", "MKL")}
    try:
        child = subprocess.run(
            [python, "-m", "tests.benchmarks.peer_runs", peer, str(file)],
            cwd=ROOT,
            env=os.environ | limits | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"stopped at {seconds:.0f} s"}
    except OSError as error:
        return {"failed": f"{python} does not start: {error.strerror}"}
    if child.returncode != 0:
        said = child.stderr.strip().splitlines() or [f"ended with {child.returncode}"]
        return {"failed": f"failed: {said[-1]}"}
    figures: Figures = json.loads(child.stdout.strip().splitlines()[-1])
    return {"failed": f"not installed ({figures['missing']})"} if "missing" in figures else figures


def _row(peer: str, figures: Figures, ours: dict[str, Figures]) -> str:
    label = PEERS[peer].label
    if "failed" in figures:
        return f"| {label} {'| – ' * 9}| {figures['failed'].replace('|', '/')} |"
    certain = figures["certain"]
    coverage = "–" if certain else " ".join(f"{share:.1f}" for share in figures["coverage"])
    return (
        f"| {' '.join((label, figures['version'])).strip()} | {figures['seconds']:.1f}, {figures['processor']:.1f} "
        f"| {shown(figures['nmse'])} | {'–' if certain else format(figures['nlpd'], '.3f')} | {coverage} "
        f"| {figures['single_us']:.0f} | {figures['batch_us']:.1f} | {figures['bytes'] or '–'} "
        f"| {figures['peak_mib']:.0f} | {'' if peer in OURS else _ratio(figures, ours)} | {figures['note']} |"
    )


def _stop(peer: str, figures: Figures) -> str:
    return f"| {PEERS[peer].label} | {figures['seconds']:.1f} | {shown(figures['nmse'])} | {figures['nlpd']:.3f} |"


def _ratio(figures: Figures, ours: dict[str, Figures]) -> str:
    """A peer's processor seconds over those of our fastest effort that is better on all the scores that it has."""
    better = [
        (found["processor"], name)
        for name, found in ours.items()
        if found["nmse"] < figures["nmse"] and (figures["certain"] or found["nlpd"] < figures["nlpd"])
    ]
    if not ours:
        return "–"
    if not better:
        return "none of ours is better"
    seconds, name = min(better)
    return f"{figures['processor'] / seconds:.1f} ({PEERS[name].label})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.peers")
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"of {', '.join(SETS)}, or any other of sets.py")
    parser.add_argument("--peer", action="append", choices=tuple(PEERS), help="only this one; may be repeated")
    parser.add_argument("--seconds", type=float, default=MOST_SECONDS, help="after which a peer is stopped")
    parser.add_argument("--rows", type=int, help="training rows at most")
    asked = parser.parse_args()
    main(tuple(asked.sets) or SETS, tuple(asked.peer or PEERS), asked.seconds, asked.rows)
