"""The pictures: Figure 1 with our numbers, and the NMSE of Table 1 beside the published ones."""

from collections.abc import Mapping
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from tests.benchmarks.papers.keerthi_chu import published
from tests.benchmarks.papers.keerthi_chu.found import FigureFound, TableFound

COLOURS = {"rand": "blue", "info": "red", "kappa": "green", "dmax": "black", "sb": "magenta", "batch": "darkorange"}
"""Colours of the paper; ours is the last."""
_DPI = 90


def figure_1(figure: FigureFound, file: Path) -> None:
    """Box plots of NMSE and NLPD over partitions for each d, and seconds over d in logarithms."""
    drawing = Figure(figsize=(10.0, 11.0), layout="constrained")
    FigureCanvasAgg(drawing)
    axes = drawing.subplots(3, 1, height_ratios=(1.0, 1.0, 1.1))
    for at, key, label in ((axes[0], "nmse", "NMSE"), (axes[1], "nlpd", "NLPD, nats")):
        _boxes(at, figure, key)
        at.set_ylabel(f"{label} of the test rows")
    axes[0].legend(
        handles=[Patch(color=colour, label=name.upper()) for name, colour in COLOURS.items()],
        ncols=6,
        fontsize=9,
        loc="upper right",
    )
    axes[0].set_title(
        f"kin40k: {figure.trials} random partition{'s' if figure.trials > 1 else ''}, hyperparameters of a full GP, DTC"
    )
    _seconds(axes[2], figure)
    drawing.savefig(file, dpi=_DPI)


def _boxes(axes: Axes, figure: FigureFound, key: str) -> None:
    width = 0.8 / len(figure.methods)
    for place, method in enumerate(figure.methods):
        shift = (place - (len(figure.methods) - 1) / 2) * width
        drawn = axes.boxplot(
            [figure.each(method, size, key) for size in figure.sizes],
            positions=[number + shift for number in range(len(figure.sizes))],
            widths=0.85 * width,
            manage_ticks=False,
            showfliers=True,
            flierprops={"marker": ".", "markersize": 3, "markeredgecolor": COLOURS[method]},
        )
        for part in ("boxes", "whiskers", "caps", "medians"):
            for line in drawn[part]:
                line.set_color(COLOURS[method])
    axes.set_xticks(range(len(figure.sizes)), [str(size) for size in figure.sizes])
    axes.set_xlim(-0.5, len(figure.sizes) - 0.5)
    for number in range(1, len(figure.sizes)):
        axes.axvline(number - 0.5, color="0.9", linewidth=0.8)
    axes.set_xlabel("number of basis vectors d")


def _seconds(axes: Axes, figure: FigureFound) -> None:
    for method in figure.methods:
        seconds = figure.seconds(method)
        label = f"{method.upper()}: d^{figure.exponent(method):.2f}"
        axes.loglog(list(seconds), list(seconds.values()), "o-", color=COLOURS[method], label=label, markersize=4)
    at_once = figure.seconds("rand", one_by_one=False)
    label = f"RAND, fitted at once: d^{figure.exponent('rand', one_by_one=False):.2f}"
    axes.loglog(list(at_once), list(at_once.values()), "o--", color=COLOURS["rand"], label=label, markersize=4)
    ticks = figure.timed(figure.methods[0])
    axes.set_xticks(ticks, [str(size) for size in ticks])
    axes.minorticks_off()
    axes.set_xlabel("number of basis vectors d")
    axes.set_ylabel("seconds of one processor")
    axes.grid(color="0.9")
    axes.legend(fontsize=8, loc="upper left")


def table_1(results: TableFound, labels: Mapping[str, str], file: Path) -> None:
    """NMSE of each set: published and ours, mean and deviation; labels: columns, as they are named."""
    drawing = Figure(
        figsize=(2.6 * min(len(results.sets), 4), 3.6 * (1 + len(results.sets) // 5)), layout="constrained"
    )
    FigureCanvasAgg(drawing)
    axes = drawing.subplots(1 + len(results.sets) // 5, min(len(results.sets), 4), squeeze=False).ravel()
    for at, name in zip(axes, results.sets, strict=False):
        for place, column in enumerate(labels):
            ours = results.spread(name, column, "nmse")
            at.errorbar(place + 0.12, ours.mean, yerr=ours.deviation, fmt="o", color="darkorange", markersize=5)
            if column in published.COLUMNS:
                theirs = published.NMSE[name][column]
                at.errorbar(place - 0.12, theirs.mean, yerr=theirs.deviation, fmt="s", color="0.4", markersize=5)
        at.set_title(name, fontsize=10)
        at.set_xticks(range(len(labels)), list(labels.values()), rotation=60, ha="right", fontsize=7)
        at.tick_params(axis="y", labelsize=8)
        at.grid(axis="y", color="0.9")
    for at in axes[len(results.sets) :]:
        at.axis("off")
    axes[0].set_ylabel("NMSE, %")
    handles = [Patch(color="0.4", label="published"), Patch(color="darkorange", label="ours")]
    at = axes[-1] if len(axes) > len(results.sets) else axes[0]
    at.legend(handles=handles, loc="center" if len(axes) > len(results.sets) else "upper right", fontsize=8)
    drawing.savefig(file, dpi=_DPI)
