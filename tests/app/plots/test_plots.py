"""Pictures: well-formed SVG with every mark at its place, whatever the numbers and names are."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from app.plots.axes import Axis, limits, round_places, tick_text
from app.plots.bars import ranked_bars
from app.plots.chart import Chart
from app.plots.predicted import predicted_against_true

SVG = "{http://www.w3.org/2000/svg}"


def marks(svg: str, kind: str) -> list[tuple[float, ...]]:
    """Return the numbers of each stroke of the paths of a class."""
    root = ElementTree.fromstring(svg)
    paths = [path.get("d", "") for path in root.iter(f"{SVG}path") if path.get("class") == kind]
    strokes = [stroke for path in paths for stroke in re.split("(?=M)", path)[1:]]
    return [tuple(map(float, re.findall(r"-?[\d.]+", stroke))) for stroke in strokes]


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e12])
@pytest.mark.parametrize("rows", [2, 1_000])
def test_every_row_is_shown_inside_or_outside_of_its_interval(rows: int, scale: float) -> None:
    rng = np.random.default_rng(1)
    truth = rng.normal(0, scale, rows)
    mean = truth + 0.1 * scale
    mean[0] = truth[0] + 3 * scale  # outside of its interval
    svg = predicted_against_true(
        target='price in $_^$ {<&"',
        truth=truth.tolist(),
        mean=mean.tolist(),
        lower=(mean - scale).tolist(),
        upper=(mean + scale).tolist(),
        interval=0.95,
        scores="NMSE 0.1",
    )
    assert 'price in $_^$ {&lt;&amp;", predicted against true</text>' in svg
    assert len(svg) < 80_000
    inside, outside = marks(svg, "dots s-accent"), marks(svg, "dots s-truth")
    barred = marks(svg, "range s-accent"), marks(svg, "range s-truth")
    # one dot a row, one more where it has a bar, one in the legend
    assert (len(inside), len(outside)) == (rows - 1 + len(barred[0]) + 1, 1 + len(barred[1]) + 1)
    for x, low, high in barred[0]:
        assert any(dot[0] == x and high <= dot[1] <= low for dot in inside), "the bar goes through its dot"
    assert f"{rows - 1:,} lie inside of their 95% interval" in svg


def test_one_value_only() -> None:
    same = [1.0, 1.0]
    svg = predicted_against_true(target="y", truth=same, mean=same, lower=same, upper=same, interval=0.5)
    assert len(marks(svg, "dots s-accent")) >= 3


def test_marks_stand_where_their_numbers_say() -> None:
    chart = Chart(
        x=Axis(low=0, high=10, label="dose"), y=Axis(low=-1, high=1, label="effect"), title="Effect of a dose"
    )
    corners = {(chart.across(0), chart.up(-1)), (chart.across(10), chart.up(1))}
    assert corners == {(chart.left, chart.bottom), (chart.right, chart.top)}
    svg = (
        chart.line([0, 10], [-1, 1])
        .line([0, 10], [0, 0], "quiet", dashed=True)
        .band([0, 10], [-1, 0], [0, 1])
        .columns([0, 5, 10], [0.5, 1])
        .svg()
    )
    assert marks(svg, "line s-accent") == [(chart.left, chart.bottom, chart.right, chart.top)]
    assert marks(svg, "line dashed s-quiet") == [(chart.left, chart.up(0), chart.right, chart.up(0))]
    assert marks(svg, "band f-accent") == [
        (chart.left, chart.up(0), chart.right, chart.top, chart.right, chart.up(0), chart.left, chart.bottom)
    ]
    first, second = marks(svg, "f-accent")
    assert first[:3] == pytest.approx((chart.left + 0.5, chart.up(0), chart.up(0.5)))
    assert second[2] == chart.top
    texts = [text.text for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert {"dose", "effect", "Effect of a dose", "0", "10", "\N{MINUS SIGN}1.0"} <= set(texts)


def test_a_picture_loads_nothing_and_follows_the_theme() -> None:
    svg = Chart(x=Axis(low=0, high=1), y=Axis(low=0, high=1), title="<script>", description="a & b").svg()
    assert "prefers-color-scheme:dark" in svg
    assert not re.search(r"<script|href|url\(|\bid=|\bstyle=", svg)
    assert ElementTree.fromstring(svg).findtext(f"{SVG}title") == "a & b"


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 10, ["0", "2", "4", "6", "8", "10"]),
        (-0.3, 0.31, ["\N{MINUS SIGN}0.2", "0", "0.2"]),
        (1e9, 1.1e9, ["1e9", "1.05e9", "1.1e9"]),
        (2009, 2014, ["2009", "2010", "2011", "2012", "2013", "2014"]),
        (0, 3e-6, ["0", "1e-6", "2e-6", "3e-6"]),
    ],
)
def test_ticks_are_round(low: float, high: float, expected: list[str]) -> None:
    written = [text for _, text in Axis(low=low, high=high).marked(len(expected))]
    assert [text.replace("-", "\N{MINUS SIGN}") for text in expected] == written


def test_places_lie_between_the_ends() -> None:
    rng = np.random.default_rng(2)
    for _ in range(200):
        low = float(rng.normal() * 10 ** rng.uniform(-8, 8))
        high = low + float(abs(rng.normal()) * 10 ** rng.uniform(-6, 8)) + 1e-6 * abs(low)
        places = round_places(low, high, 5)
        assert 1 <= len(places) <= 7
        room = 1e-8 * (high - low) + 1e-9 * abs(high)
        assert all(low - room <= place <= high + room for place in places)


def test_limits_hold_all_values_but_those_trimmed() -> None:
    assert limits([]) == (0.0, 1.0)
    assert limits([5.0, float("nan")]) == (4.5, 5.5)
    low, high = limits([0.0, *range(100), 1e6], trimmed=0.01)
    assert low < 0
    assert 98 < high < 110
    assert tick_text(-0.5, 0.5) == "\N{MINUS SIGN}0.5"


def test_ranked_bars() -> None:
    svg = ranked_bars(["weight", "a<b" + "c" * 40], [0.8, 0.2], title="Columns", texts=["80%", "20%"])
    widths = [float(box.get("width", 0)) for box in ElementTree.fromstring(svg).iter(f"{SVG}rect")][1:]
    assert widths[0] == pytest.approx(4 * widths[1], rel=0.01)
    assert "a&lt;bccc" in svg
    assert "…" in svg
    assert "80%" in svg
    assert ranked_bars([], []).startswith("<svg")
