"""Plots of what a version says of itself: predictions against truth, reliability, residuals, importance, objective."""

import re
from collections.abc import Mapping
from textwrap import shorten
from typing import Any

from app.plots.axes import Axis, limits
from app.plots.bars import ranked_bars
from app.plots.chart import Chart, Colour
from app.plots.predicted import predicted_against_true
from app.report.html import figure, number, percent

Document = Mapping[str, Any]

_MOST_BARS = 12
_MOST_EFFECTS = 4
_MOST_LEVELS = 12
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_LEAST_CHANGE = 1e-4  # of an objective that is worth a plot
_CHANCE = 2.0  # standard errors that chance alone takes a share away
_SHARES = tuple((share, percent(share, 0)) for share in (0.0, 0.25, 0.5, 0.75, 1.0))


def against_truth(rows: Document) -> str:
    """Return predictions of held-out rows against their truth, with error bars."""
    outside = sum(
        not low <= truth <= high for low, truth, high in zip(rows["lower"], rows["target"], rows["upper"], strict=True)
    )
    count, level = len(rows["target"]), percent(rows["interval"], 0)
    picture = predicted_against_true(
        target=rows["name"],
        truth=rows["target"],
        mean=rows["mean"],
        lower=rows["lower"],
        upper=rows["upper"],
        interval=rows["interval"],
    )
    kind = "held-out" if rows["held_out"] else "left-out"
    return figure(
        picture,
        f"{count:,} of {rows['total']:,} {kind} rows. Points near the dashed line are good. About "
        f"{percent(1 - rows['interval'], 0)} of the truths should be outside of their {level} interval; here "
        f"{outside:,} of {count:,} are.",
    )


def reliability(scores: Document) -> str:
    """Return the share of truths below each promised quantile, with what chance does to such shares."""
    points = sorted((float(promised), share) for promised, share in (scores.get("reliability") or {}).items())
    if not points:
        return ""
    rows = scores["rows"]
    steps = [step / 50 for step in range(51)]
    chance = [_CHANCE * (share * (1 - share) / rows) ** 0.5 for share in steps]
    off = sum(abs(found - at) > _CHANCE * (at * (1 - at) / rows) ** 0.5 for at, found in points)
    chart = Chart(
        x=Axis(low=0.0, high=1.0, label="promised: share of truths below the quantile", ticks=_SHARES),
        y=Axis(low=0.0, high=1.0, label="found", ticks=_SHARES),
        title="Reliability",
        description=f"Promised and found shares of truths below each quantile; {off} of {len(points)} are further "
        "off than chance",
        height=640,
    )
    lower = [max(0.0, at - by) for at, by in zip(steps, chance, strict=True)]
    upper = [min(1.0, at + by) for at, by in zip(steps, chance, strict=True)]
    xs, ys = [at for at, _ in points], [found for _, found in points]
    chart.band(steps, lower, upper, "quiet").line([0, 1], [0, 1], "quiet", dashed=True)
    chart.line(xs, ys).dots(xs, ys, size=6, opacity=1.0)
    return figure(
        chart.svg(),
        f"On the dashed line the error bars mean what they say. The band is what chance does with {rows:,} rows "
        f"(95%); points outside of it: {off} of {len(points)}.",
    )


def residuals(rows: Document) -> str:
    """Return truth less prediction over the prediction, with the intervals."""
    mean = rows["mean"]
    errors = [truth - m for truth, m in zip(rows["target"], mean, strict=True)]
    below = [low - m for low, m in zip(rows["lower"], mean, strict=True)]
    above = [high - m for high, m in zip(rows["upper"], mean, strict=True)]
    inside = [low <= error <= high for low, error, high in zip(below, errors, above, strict=True)]
    bias = sum(errors) / len(errors)
    low, high = limits([*errors, *below, *above])
    left, right = limits(mean)
    chart = Chart(
        x=Axis(low=left, high=right, label=f"predicted {rows['name']}"),
        y=Axis(low=low, high=high, label="truth less prediction"),
        title="Residuals",
        description=f"Residuals over predicted {rows['name']}; their mean is {number(bias)}",
        height=640,
    )
    chart.ranges(mean, below, above, "quiet", opacity=0.35).line([left, right], [0.0, 0.0], "quiet", dashed=True)
    kinds: tuple[tuple[bool, Colour], ...] = ((True, "accent"), (False, "truth"))
    for covered, colour in kinds:
        chosen = [place for place, hit in enumerate(inside) if hit is covered]
        xs, ys = [mean[place] for place in chosen], [errors[place] for place in chosen]
        chart.dots(xs, ys, colour, size=5, opacity=0.8)
    return figure(
        chart.svg(),
        f"A cloud around zero without a shape is good; where it is wider, the grey intervals should be longer. The "
        f"mean residual is {number(bias)}.",
    )


def importance(told: Document, target: str) -> str:
    """Return bars of how far each column moves the prediction."""
    features = told["features"][:_MOST_BARS]
    if not features:
        return ""
    picture = ranked_bars(
        [feature["name"] for feature in features],
        [feature["importance"] for feature in features],
        title=f"How far each column moves the predicted {target}",
        texts=[number(feature["importance"], 3) for feature in features],
    )
    rest = f" The first {len(features)} of {len(told['features'])}." if len(told["features"]) > len(features) else ""
    return figure(
        picture,
        f"In the target's unit: how much the prediction changes if this column's cells are shuffled between "
        f"{told['rows']:,} rows. It says what the model looks at, not what causes what; columns that move together "
        f"share their part.{rest}",
    )


def effects(told: Document, order: Mapping[str, int], target: str) -> list[str]:
    """Return the average effect of the columns that matter most, on one axis so that they compare. order: the place of
    each column by importance."""
    columns = sorted(told["columns"], key=lambda column: order.get(column["name"], len(order)))
    shown = [found for column in columns if (found := _known(column)) is not None][:_MOST_EFFECTS]
    if not shown:
        return []
    low, high = limits([*(value for _, _, ys in shown for value in ys), told["average_target"]], room=0.06)
    return [_effect(name, values, ys, Axis(low=low, high=high, label=target)) for name, values, ys in shown]


def _known(column: Document) -> tuple[str, list[Any], list[float]] | None:
    """Return the name of a column, its values in order and the effect at each, without missing cells; of a category the
    most frequent. None for what no axis has: a date, or a single value."""
    found = [
        each
        for each in zip(column["values"], column["effect_target"], column["weights"], strict=True)
        if each[0] is not None
    ]
    if len(found) < 2:
        return None
    if _is_number(found[0][0]):
        found.sort(key=lambda each: each[0])
    elif _DATE.match(str(found[0][0])):
        return None
    else:
        found = sorted(found, key=lambda each: -each[2])[:_MOST_LEVELS]
    return column["name"], [value for value, _, _ in found], [effect for _, effect, _ in found]


def _effect(name: str, values: list[Any], ys: list[float], y: Axis) -> str:
    if _is_number(values[0]):
        low, high = limits(values)
        chart = Chart(x=Axis(low=low, high=high, label=name), y=y, title=f"On average, over {name}", height=320)
        chart.line(values, ys)
    else:
        ticks = tuple((float(place), shorten(str(value), 12, placeholder="..")) for place, value in enumerate(values))
        x = Axis(low=-0.5, high=len(values) - 0.5, label=name, ticks=ticks)
        chart = Chart(x=x, y=y, title=f"On average, over {name}", height=320)
        chart.dots(range(len(values)), ys, size=9, opacity=1.0)
    return figure(
        chart.svg(),
        f"The prediction over {name}, averaged over the other columns as if they were independent of it: what the "
        "model has learnt, not what causes what.",
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def objective(report: Document) -> str:
    """Return how the objective fell in training, where that is kept."""
    points = [
        (float(place), float(value))
        for place, value in enumerate(report.get("objectives") or ())
        if isinstance(value, int | float)
    ]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    if len(points) < 2 or max(ys) - min(ys) < _LEAST_CHANGE * max(map(abs, ys)):
        return ""
    low, high = limits(ys)
    chart = Chart(
        x=Axis(low=0.0, high=xs[-1], label="round"),
        y=Axis(low=low, high=high, label="objective, nats"),
        title="What the training minimised",
        height=320,
    )
    return figure(chart.line(xs, ys).dots(xs, ys, size=6).svg(), "It falls and then levels off.")
