"""The picture of predictions: predicted against true, with the error bars, for rows that the model has not seen."""

from collections.abc import Sequence

from app.plots.axes import Axis, limits
from app.plots.chart import Chart, Colour

_STRIPES = 60  # the true axis is cut into so many stripes, and each shows the bars of two rows at most:
_BARS_PER_STRIPE = 2  # bars in a crowd hide one another; the other rows are dots
_TRIMMED = 0.005  # share of the values at each end that the frame need not hold


def predicted_against_true(
    *,
    target: str,
    truth: Sequence[float],
    mean: Sequence[float],
    lower: Sequence[float],
    upper: Sequence[float],
    interval: float,
    scores: str = "",
) -> str:
    """Return an SVG document. Rows whose truth lies inside of the interval and outside of it have their own colours."""
    low, high = limits((*truth, *mean), room=0.08, trimmed=_TRIMMED)
    barred = _spread(truth, low, high)
    inside = [a <= y <= b for a, y, b in zip(lower, truth, upper, strict=True)]
    beyond = sum(not (low <= y <= high and low <= m <= high) for y, m in zip(truth, mean, strict=True))
    note = f"; {beyond} extreme rows lie beyond the frame" if beyond else ""
    percent = f"{100 * interval:g}%"
    chart = Chart(
        x=Axis(low=low, high=high, label=f"true {target}"),
        y=Axis(low=low, high=high, label=f"predicted {target}, with its {percent} interval"),
        title=f"{target}, predicted against true",
        notes=[f"{len(truth):,} rows the model has not seen{note}", *filter(None, [scores])],
        description=f"Predicted against true {target} of {len(truth):,} rows that the model has not seen; "
        f"{sum(inside):,} lie inside of their {percent} interval. {scores}",
        height=640,
    )
    chart.line([low, high], [low, high], "quiet", dashed=True)
    kinds: tuple[tuple[bool, Colour, str], ...] = ((True, "accent", "inside"), (False, "truth", "outside"))
    for covered, colour, place in kinds:
        rows = [row for row, hit in enumerate(inside) if hit is covered]
        bars = [row for row in rows if row in barred]
        chart.dots([truth[row] for row in rows], [mean[row] for row in rows], colour, opacity=0.45)
        chart.ranges([truth[row] for row in bars], [lower[row] for row in bars], [upper[row] for row in bars], colour)
        chart.dots([truth[row] for row in bars], [mean[row] for row in bars], colour, size=5, opacity=0.9)
        chart.legend(f"truth {place} the {percent} interval: {len(rows):,} rows", colour)
    return chart.svg()


def _spread(truth: Sequence[float], low: float, high: float) -> frozenset[int]:
    """Return rows spread evenly along the true axis: the first few of each stripe."""
    seen = [0] * _STRIPES
    chosen = []
    for row, value in enumerate(truth):
        stripe = int(_STRIPES * (value - low) / (high - low))
        if 0 <= stripe < _STRIPES and seen[stripe] < _BARS_PER_STRIPE:
            seen[stripe] += 1
            chosen.append(row)
    return frozenset(chosen)
