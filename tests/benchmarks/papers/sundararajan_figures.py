"""Figures 1 to 4 of Sundararajan, Keerthi & Shevade. The paper's curves are not in its text: where it gives numbers, in
its tables, they are drawn as crosses at the published size."""

from collections.abc import Mapping, Sequence
from math import log
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")  # before pyplot, which opens a window otherwise
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from core.arrays import FloatArray
from tests.benchmarks.papers.sundararajan_design import DESIGNS, FIGURE_1, Design
from tests.benchmarks.papers.sundararajan_published import WITHOUT_CACHE
from tests.benchmarks.papers.sundararajan_runs import MEASURES
from tests.benchmarks.papers.sundararajan_tables import NAMES, NORMALIZED
from tests.benchmarks.papers.units import Found

FIGURES = {
    "figure-2.png": ("boston_housing", "abalone", "bank8FM"),
    "figure-3.png": ("cpu_small", "cpu_act", "bank32nh"),
    "figure-4.png": ("friedman2", "friedman3"),
}
COLOURS = dict(zip(NAMES, ("tab:gray", "tab:blue", "tab:orange", "tab:green", "tab:red"), strict=True))
_DPI = 75


def figure_1(found: Mapping[str, Found], folder: Path) -> None:
    """The measure of every size, a line for each round of moving theta; dots where the basis is cut."""
    run = found[f"adapted/{FIGURE_1}/0"]
    _, panels = plt.subplots(1, len(MEASURES), figsize=(15, 3.2), layout="constrained")
    for panel, method in zip(panels, MEASURES, strict=True):
        for number, trace in enumerate(run[method]["traces"]):
            line = panel.plot(range(1, len(trace)), trace[1:], label=f"round {number + 1}")[0]
            lowest = 1 + int(np.argmin(trace[1:]))
            panel.plot([lowest], [trace[lowest]], "o", color=line.get_color())
        panel.set(title=NAMES[method], xlabel="basis vectors", ylabel="measure, target of unit variance")
        panel.legend(fontsize=7)
    plt.savefig(folder / "figure-1.png", dpi=_DPI)
    plt.close()


def figures_2_to_4(found: Mapping[str, Found], folder: Path) -> list[str]:
    """Measure, NMSE and NPDL as basis vectors are added, without cache, theta fixed; the files' names."""
    by_name = {design.name: design for design in DESIGNS}
    for file, names in FIGURES.items():
        _, panels = plt.subplots(len(names), 3, figsize=(12, 3.0 * len(names)), layout="constrained", squeeze=False)
        for row, name in zip(panels, names, strict=True):
            _set_row(row, curves(found, name), by_name[name])
        panels[0, 1].legend(fontsize=7)
        plt.savefig(folder / file, dpi=_DPI)
        plt.close()
    return list(FIGURES)


def curves(found: Mapping[str, Found], name: str) -> dict[str, list[dict[str, Any]]]:
    """The curves of one set by method, one for each run that has them."""
    runs = [of for unit, of in found.items() if unit.startswith(f"without-cache/{name}/")]
    return {str(method): [of[method]["curve"] for of in runs if "curve" in of[method]] for method in MEASURES}


def mean_scores(of: Sequence[dict[str, Any]], measure: str, *, normalized: bool) -> tuple[list[int], FloatArray]:
    """Sizes that every run has, and the mean of one score there; `normalized`: NPDL of a unit-variance target."""
    sizes = min((one["sizes"] for one in of), key=len)
    scores = [
        [score[measure] - (log(score["scale"]) if normalized else 0.0) for score in one["scores"][: len(sizes)]]
        for one in of
    ]
    return sizes, np.mean(scores, axis=0)


def _set_row(row: Sequence[Axes], by_method: Mapping[str, Sequence[dict[str, Any]]], design: Design) -> None:
    normalized, name = design.name in NORMALIZED, design.name
    for method, of in by_method.items():
        colour, cell = COLOURS[method], WITHOUT_CACHE[name][method]
        length = min(len(one["measures"]) for one in of)
        falls = [np.array(one["measures"][1:length]) for one in of]
        shares = [(fall - fall.min()) / max(float(np.ptp(fall)), 1e-300) for fall in falls]
        row[0].plot(range(1, length), np.mean(shares, axis=0), color=colour)
        sizes, nmse = mean_scores(of, "nmse", normalized=False)
        row[1].plot(sizes, 100.0 * nmse, color=colour, label=NAMES[method])
        row[1].plot([cell.size.mean], [cell.nmse.mean], "x", color=colour)
        sizes, npdl = mean_scores(of, "npdl", normalized=normalized)
        row[2].plot(sizes, npdl, color=colour)
        row[2].plot([cell.size.mean], [cell.npdl.mean], "x", color=colour)
    unit = "nats, target of unit variance" if normalized else "nats, raw target"
    row[0].set(title=design.label, xlabel="basis vectors", ylabel="own measure, 0 to 1")
    row[1].set(title=f"{design.label}; x: published", xlabel="basis vectors", ylabel="NMSE, %", yscale="log")
    row[2].set(title=f"{design.label}; x: published", xlabel="basis vectors", ylabel=f"NPDL ({unit})")
