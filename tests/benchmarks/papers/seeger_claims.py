"""Claims of Seeger, Williams & Lawrence 2003 in words, and if they hold here."""

from collections.abc import Mapping, Sequence

import numpy as np

from tests.benchmarks.papers import seeger_published as published
from tests.benchmarks.papers.paper import Spread
from tests.benchmarks.papers.units import Found
from tests.benchmarks.sets import FloatArray

LABELS = {
    "full": "full GP",
    "info": "info-gain",
    "rand": "random",
    "sb": "smo-bart",
    "fixed": "fixed",
    "batch": "batch (DTC)",
    "batch-vfe": "batch (VFE)",
    "batch-pep": "batch (PEP 0.7)",
    "pursuit": "Pursuit, defaults",
}
"""Names of the methods on the page."""
RELEVANT = (3, 4, 14, 15)
"""Columns of pumadyn32nm that a full process singles out."""
Claims = list[tuple[str, bool, str]]
Medians = Mapping[tuple[str, ...], FloatArray]
"""Errors by (rows, method), by size."""


def claims_of_figure_1(
    medians: Medians,
    sizes: Sequence[int],
    full: Sequence[float],
    trials: Sequence[Found],
    claims: Claims,
) -> None:
    counts = sorted({count for count, _ in medians}, key=int)
    for count in counts:
        first = {method: float(medians[count, method][0]) for method in ("info", "rand", "sb")}
        last = {method: float(medians[count, method][-1]) for method in ("info", "rand", "sb")}
        claims.append(
            (
                f"figure 1, n = {count}: smo-bart is best at small d",
                first["sb"] < min(first["info"], first["rand"]),
                f"d = {sizes[0]}: {listed(first)}",
            )
        )
        claims.append(
            (
                f"figure 1, n = {count}: random is less effective at large d",
                last["rand"] > max(last["info"], last["sb"]),
                f"d = {sizes[-1]}: {listed(last)}",
            )
        )
    best = {method: float(medians[counts[-1], method][-1]) for method in ("info", "sb", "batch")}
    claims.append(
        (
            "figure 1: sparse methods on all rows beat the full process on its subset, at the largest d",
            max(best["info"], best["sb"]) < float(np.median(full)),
            f"d = {sizes[-1]}: {listed(best)}; full {np.median(full):.4f} on {_chosen(trials)}",
        )
    )


def _chosen(trials: Sequence[Found]) -> str:
    return min((key.split("/")[0] for key in trials[0] if key.endswith("/errors")), key=int) + " rows"


def claims_of_figure_2(
    medians: Medians,
    sizes: Sequence[int],
    full: Sequence[float],
    trials: Sequence[Found],
    claims: Claims,
) -> None:
    (count,) = {count for count, _ in medians}
    found = [largest(trial["full/weights"]) for trial in trials]
    claims.append(
        (
            "pumadyn: the full process singles out four attributes, error 0.0225",
            all(columns == RELEVANT for columns in found) and abs(float(np.median(full)) / 0.0225 - 1.0) < 0.1,
            f"columns {sorted(set(found))}, error {np.median(full):.4f}",
        )
    )
    enough = min(sizes, key=lambda size: abs(size - published.PUMADYN_ENOUGH))
    there = {method: float(medians[count, method][sizes.index(enough)]) for method in ("info", "rand", "sb", "batch")}
    claims.append(
        (
            "figure 2: all methods are comparable to the full process after d = 125 (within a tenth)",
            max(there.values()) < 1.1 * float(np.median(full)),
            f"d = {enough}: {listed(there)}; full {np.median(full):.4f}",
        )
    )
    smallest = {method: float(medians[count, method][0]) for method in ("info", "rand")}
    claims.append(
        (
            "figure 2: at very small d info-gain is worse than random",
            smallest["info"] > smallest["rand"],
            f"d = {sizes[0]}: {listed(smallest)}",
        )
    )
    seconds = {
        method: float(np.median([trial[f"{count}/{method}/seconds"][sizes.index(enough)] for trial in trials]))
        for method in ("info", "rand", "sb")
    }
    seconds["full"] = float(np.median([trial["full/seconds"] for trial in trials]))
    claims.append(
        (
            "pumadyn, d = 125: full 1102.5 s, info-gain 3, random 2, smo-bart 66: full > smo-bart > info-gain > random",
            seconds["full"] > seconds["sb"] > seconds["info"] > seconds["rand"],
            listed(seconds, 2),
        )
    )


def claims_of_footnote_9(found: Mapping[str, Found], claims: Claims) -> None:
    trials = results(found, "one-lengthscale/")
    every, relevant = (Spread.of([trial[key] for trial in trials]) for key in ("all", "relevant"))
    for label, ours, printed in (
        ("one lengthscale for all attributes of pumadyn: 0.4730", every, published.PUMADYN_RBF),
        ("one lengthscale, the four relevant attributes: 0.024", relevant, published.PUMADYN_RBF_RELEVANT),
    ):
        claims.append((f"footnote 9: {label}", abs(ours.mean / printed - 1.0) < 0.1, ours.text(4)))


def claims_of_table_2(
    groups: Mapping[tuple[str, int], Sequence[Found]], successes: Mapping[tuple[str, int], float], claims: Claims
) -> None:
    small = [size for method, size in successes if method == "info" and size < 500]
    failed = {key: share for key, share in successes.items() if key[0] in ("rand", "fixed") and key[1] < 500}
    claims.append(
        (
            "table 2: random and fixed fail in all runs with d = 50, 100, 200",
            not any(failed.values()),
            ", ".join(f"{LABELS[method]} {size}: {share:.0%}" for (method, size), share in sorted(failed.items())),
        )
    )
    reliable = {size: successes["info", size] for size in small if size >= 100}
    if reliable:
        claims.append(
            (
                "table 2: info-gain is reliable even for d = 100, 200 (9 and 10 of 10)",
                min(reliable.values()) >= 0.8,
                ", ".join(f"d = {size}: {share:.0%}" for size, share in sorted(reliable.items())),
            )
        )
    if ("info", 50) in successes:
        share = successes["info", 50]
        claims.append(("table 2: info-gain with d = 50 succeeds once in ten", share <= 0.2, f"{share:.0%}"))
    if ("info", 500) in successes:
        ends = {size: np.median([trial["error"] for trial in groups["info", size]]) for size in (100, 200, 500)}
        claims.append(
            (
                "table 2: info-gain with d = 500 has a larger error than with less",
                bool(ends[500] > max(ends[100], ends[200])),
                listed({f"d = {size}": float(error) for size, error in ends.items()}),
            )
        )
        below = np.median([trial["criterion"][-1] for trial in groups["info", 500]])
        full = np.median([trial["criterion"][-1] for trial in groups["full", 0]])
        claims.append(
            (
                "figure 4: info-gain's criterion with d = 500 ends below the full one",
                bool(below < full),
                f"{below:.1f} and {full:.1f} nats",
            )
        )


def largest(weights: Sequence[float]) -> tuple[int, ...]:
    """The columns of the four largest weights."""
    return tuple(sorted(np.argsort(weights)[-len(RELEVANT) :].tolist()))


def listed(values: Mapping[str, float], digits: int = 4) -> str:
    return ", ".join(f"{LABELS.get(name, name)} {value:.{digits}f}" for name, value in values.items())


def results(found: Mapping[str, Found], start: str) -> list[Found]:
    return [result for name, result in found.items() if name.startswith(start)]
