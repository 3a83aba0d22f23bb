"""The demo's picture: predicted against true, with the error bars, for rows the model has not seen."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK = "#1f2933"
MUTED = "#7b8794"
GRID = "#e6e9ed"
INSIDE = "#2f6f9f"
OUTSIDE = "#d1495b"

_STRIPES = 60  # the true axis is cut into so many stripes, and each shows the bars of two rows at most:
_BARS_PER_STRIPE = 2  # bars in a crowd hide one another; the other rows are dots


def draw(
    path: Path,
    *,
    target: str,
    truth: Sequence[float],
    mean: Sequence[float],
    lower: Sequence[float],
    upper: Sequence[float],
    interval: float,
    scores: str,
) -> None:
    """Save a PNG. Rows whose truth lies inside the interval and rows outside of it have their own colours."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # a matplotlibrc of the current folder is for other pictures
        figure = _figure(
            target=target,
            truth=truth,
            mean=mean,
            lower=lower,
            upper=upper,
            interval=interval,
            scores=scores,
        )
        figure.savefig(path, format="png", metadata={"Software": None})


def _figure(
    *,
    target: str,
    truth: Sequence[float],
    mean: Sequence[float],
    lower: Sequence[float],
    upper: Sequence[float],
    interval: float,
    scores: str,
) -> Figure:
    figure = Figure(figsize=(6.6, 6.9), dpi=100, layout="constrained", facecolor="white")
    axes = figure.subplots()
    low, high = _axis_limits(truth, mean)
    axes.plot([low, high], [low, high], color=MUTED, linewidth=1.0, linestyle=(0, (5, 4)), zorder=1)
    barred = _spread(truth, low, high)
    inside = [a <= y <= b for a, y, b in zip(lower, truth, upper, strict=True)]
    for covered, colour, place in ((True, INSIDE, "inside"), (False, OUTSIDE, "outside")):
        rows = [row for row, hit in enumerate(inside) if hit is covered]
        bars = [row for row in rows if row in barred]
        axes.scatter(
            [truth[row] for row in rows],
            [mean[row] for row in rows],
            s=10,
            color=colour,
            alpha=0.45,
            linewidths=0,
            zorder=3 if covered else 4,
            label=f"truth {place} the {100 * interval:g}% interval: {len(rows):,} rows",
        )
        axes.errorbar(
            [truth[row] for row in bars],
            [mean[row] for row in bars],
            yerr=([mean[row] - lower[row] for row in bars], [upper[row] - mean[row] for row in bars]),
            fmt="o",
            markersize=3.8,
            color=colour,
            elinewidth=0.9,
            alpha=0.8,
            zorder=5 if covered else 6,
        )
    beyond = sum(not (low <= y <= high and low <= m <= high) for y, m in zip(truth, mean, strict=True))
    note = f"; {beyond} extreme rows lie beyond the frame" if beyond else ""
    _style_axes(axes, low, high)
    axes.set_xlabel(f"true {target}", color=INK, parse_math=False)
    axes.set_ylabel(f"predicted {target}, with its {100 * interval:g}% interval", color=INK, parse_math=False)
    axes.legend(loc="upper left", frameon=False, fontsize=9, labelcolor=INK, markerscale=1.8, handletextpad=0.2)
    axes.set_title(
        f"{len(truth):,} rows the model has not seen{note}\n{scores}",
        loc="left",
        fontsize=9,
        color=MUTED,
        pad=8,
    )
    figure.suptitle(f"{target}, predicted against true", fontsize=13, color=INK, fontweight="bold", parse_math=False)
    return figure


def _style_axes(axes: Axes, low: float, high: float) -> None:
    """Equal axes, a light grid, no box."""
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    axes.set_aspect("equal")
    axes.grid(color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(colors=MUTED, labelcolor=INK, length=0, labelsize=9)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)


def _axis_limits(truth: Sequence[float], mean: Sequence[float]) -> tuple[float, float]:
    """Limits shared by both axes: all but the most extreme hundredth of the rows, and some air."""
    values = sorted((*truth, *mean))
    cut = len(values) // 200
    low, high = values[cut], values[-1 - cut]
    air = 0.08 * (high - low) or 1.0
    return low - air, high + air


def _spread(truth: Sequence[float], low: float, high: float) -> frozenset[int]:
    """Rows spread evenly along the true axis: the first few of each stripe."""
    seen = [0] * _STRIPES
    chosen = []
    for row, value in enumerate(truth):
        stripe = int(_STRIPES * (value - low) / (high - low))
        if 0 <= stripe < _STRIPES and seen[stripe] < _BARS_PER_STRIPE:
            seen[stripe] += 1
            chosen.append(row)
    return frozenset(chosen)
