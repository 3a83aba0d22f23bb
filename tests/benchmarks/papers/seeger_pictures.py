"""Figures 1 to 4 of Seeger, Williams & Lawrence 2003, drawn again."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np

from tests.benchmarks.papers.units import Found

mpl.use("Agg")

from matplotlib import pyplot as plt

COLOURS = {"full": "black", "info": "C0", "rand": "C1", "sb": "C2", "fixed": "C4", "batch": "C3", "pursuit": "C3"}


def draw_curves(
    trials: Sequence[Found],
    lines: Sequence[tuple[str, ...]],
    sizes: Sequence[int],
    full: Sequence[float],
    labels: Mapping[str, str],
    name: str,
    file: Path,
) -> None:
    """A panel for each number of training rows: medians, quartiles as bands, the full process's quartiles as lines."""
    counts = list(dict.fromkeys(count for count, _ in lines))
    figure, panels = plt.subplots(
        1, len(counts), figsize=(4.6 * len(counts) + 0.6, 4.0), sharey=True, squeeze=False, layout="constrained"
    )
    for panel, count in zip(panels[0], counts, strict=True):
        for _, method in (line for line in lines if line[0] == count):
            runs = np.array([trial[f"{count}/{method}/errors"] for trial in trials])
            low, middle, high = np.quantile(runs, (0.25, 0.5, 0.75), axis=0)
            panel.plot(sizes, middle, "o-", ms=3, lw=1.3, color=COLOURS[method], label=labels[method])
            panel.fill_between(sizes, low, high, color=COLOURS[method], alpha=0.15, lw=0)
        for level in sorted(set(np.quantile(full, (0.25, 0.75)))):
            panel.axhline(level, color="black", lw=0.9, ls="--")
        panel.plot([], [], color="black", lw=0.9, ls="--", label="full GP on its subset, quartiles")
        panel.set(xlabel="active set size d", title=f"{name}, n = {int(count):,}", yscale="log")
    panels[0][0].set_ylabel("squared error / 2 (unit-variance target)")
    panels[0][-1].legend(fontsize=8)
    figure.savefig(file, dpi=100)
    plt.close(figure)


def draw_criteria(result: Found, names: Sequence[str], labels: Mapping[str, str], file: Path) -> None:
    """Figure 3: a panel for each method."""
    figure, panels = plt.subplots(1, len(names), figsize=(3.0 * len(names), 3.3), sharey=True, layout="constrained")
    for panel, name in zip(panels, names, strict=True):
        panel.plot(result["full"], color="black", lw=1.4, label="full GP")
        for place, size in enumerate(result["sizes"]):
            panel.plot(result[f"{name}/{size}"], color=f"C{place}", lw=1.0, label=f"d = {size}")
        panel.set(xlabel="iteration of the full GP", title=labels[name])
        panel.legend(fontsize=8)
    panels[0].set(ylabel="criterion, nats")
    full = np.array(result["full"])
    panels[0].set_ylim(full.min() - 0.15 * np.ptp(full), full[0] + 0.35 * np.ptp(full))
    figure.savefig(file, dpi=80)
    plt.close(figure)


def draw_selection(groups: Mapping[tuple[str, int], Sequence[Found]], labels: Mapping[str, str], file: Path) -> None:
    """Figure 4, of the first trial: criteria by iteration, and the eight largest inverse lengthscales."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.4, 4.0), layout="constrained")
    largest = max(size for method, size in groups if method == "info")
    for name in ("full", "info", "rand", "fixed", "pursuit"):
        trials = groups.get((name, 0 if name == "full" else largest), [])
        if not trials:
            continue
        label = labels[name] + ("" if name == "full" else f", d = {largest}")
        if "criterion" in trials[0]:
            left.plot(trials[0]["criterion"], color=COLOURS[name], lw=1.3, label=label)
        roots = np.sort(np.sqrt(trials[0]["weights"]))[::-1][:8]
        right.semilogy(np.arange(1, len(roots) + 1), roots, "o-", ms=4, lw=1.0, color=COLOURS[name], label=label)
    left.set(xlabel="iteration of the optimiser", ylabel="criterion, nats")
    right.set(xlabel="attribute, by size", ylabel="inverse lengthscale (1 / deviation)")
    left.legend(fontsize=8)
    right.legend(fontsize=8)
    figure.savefig(file, dpi=100)
    plt.close(figure)
