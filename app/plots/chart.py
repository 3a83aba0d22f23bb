"""A chart in SVG: two axes, a light grid, marks, a title that says what is seen and a description for who cannot see.

Colours are those of the page and follow the reader's light or dark theme; each kind of mark is one path, so that a
thousand points are one element. Coordinates have one decimal, a tenth of a pixel.
"""

from collections.abc import Iterable, Sequence
from typing import Literal
from xml.sax.saxutils import escape

from app.plots.axes import Axis

Colour = Literal["accent", "truth", "quiet"]

STYLE = """
.plot{max-width:100%;height:auto;--ground:#fff;--text:#1c2126;--quiet:#59616b;--grid:#e8e9e5;--accent:#1f5fa8;--truth:#a04a00;
font:12.5px system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif;font-variant-numeric:tabular-nums}
@media(prefers-color-scheme:dark){.plot{max-width:100%;height:auto;--ground:#1b2025;--text:#e6e9ec;--quiet:#a4aeb9;--grid:#2a3138;--accent:#7fb4ee;
--truth:#f0a35e}}
.plot .ground{fill:var(--ground)}.plot text{fill:var(--quiet)}.plot .strong{fill:var(--text)}
.plot .title{fill:var(--text);font-size:16px;font-weight:650}.plot .grid{stroke:var(--grid)}
.plot .line{fill:none;stroke-width:1.8}.plot .dots{fill:none;stroke-linecap:round}.plot .range{fill:none;stroke-width:1}
.plot .dashed{stroke-dasharray:5 4;stroke-width:1.2}.plot .band{stroke:none;opacity:.2}
.plot .s-accent{stroke:var(--accent)}.plot .s-truth{stroke:var(--truth)}.plot .s-quiet{stroke:var(--quiet)}
.plot .f-accent{fill:var(--accent)}.plot .f-truth{fill:var(--truth)}.plot .f-quiet{fill:var(--quiet)}
""".replace("\n", "")

_LINE = 17
_CHARACTER = 7.2  # width of one, about


class Chart:
    """A chart that marks are added to, the later ones above the earlier ones.

    title: what is to be seen, in words; notes: lines under it; description: the same for a screen reader, with the
    main numbers; square: a unit is as long on both axes, where both span the same.
    """

    def __init__(
        self,
        *,
        x: Axis,
        y: Axis,
        title: str = "",
        notes: Sequence[str] = (),
        description: str = "",
        width: int = 660,
        height: int = 420,
    ) -> None:
        self.x, self.y = x, y
        self.title, self.notes, self.description = title, tuple(notes), description or title
        self.width, self.height = width, height
        self._y_ticks = y.marked(max(2, round((height - 100) / 45)))
        widest = max((len(text) for _, text in self._y_ticks), default=1)
        self.left = round(16 + _CHARACTER * widest + (20 if y.label else 0))
        self.right = width - 20
        self.top = 14 + (28 if title else 0) + _LINE * len(self.notes)
        self.bottom = height - (50 if x.label else 32)
        self._marks: list[str] = []
        self._legend: list[str] = []

    def across(self, value: float) -> float:
        """Return the pixel of a value on the horizontal axis."""
        return self.left + (value - self.x.low) / (self.x.high - self.x.low) * (self.right - self.left)

    def up(self, value: float) -> float:
        """Return the pixel of a value on the vertical axis."""
        return self.bottom - (value - self.y.low) / (self.y.high - self.y.low) * (self.bottom - self.top)

    def line(
        self, xs: Iterable[float], ys: Iterable[float], colour: Colour = "accent", *, dashed: bool = False
    ) -> "Chart":
        """Add a line through points."""
        kind = "line dashed" if dashed else "line"
        return self._path(f"{kind} s-{colour}", _through(self._points(xs, ys)))

    def band(
        self, xs: Sequence[float], lower: Sequence[float], upper: Sequence[float], colour: Colour = "accent"
    ) -> "Chart":
        """Add the area between two lines over the same places."""
        around = [*self._points(xs, upper), *reversed(self._points(xs, lower))]
        return self._path(f"band f-{colour}", f"{_through(around)}Z")

    def dots(
        self,
        xs: Iterable[float],
        ys: Iterable[float],
        colour: Colour = "accent",
        *,
        size: float = 4,
        opacity: float = 0.8,
    ) -> "Chart":
        """Add points."""
        spots = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in self._points(xs, ys))
        return self._path(f"dots s-{colour}", spots, f' stroke-width="{size:g}" opacity="{opacity:g}"')

    def ranges(
        self,
        xs: Iterable[float],
        lower: Iterable[float],
        upper: Iterable[float],
        colour: Colour = "accent",
        *,
        opacity: float = 0.7,
    ) -> "Chart":
        """Add vertical strokes from lower to upper, such as error bars."""
        strokes = zip(xs, lower, upper, strict=True)
        path = "".join(f"M{self.across(x):.1f} {self.up(low):.1f}V{self.up(high):.1f}" for x, low, high in strokes)
        return self._path(f"range s-{colour}", path, f' opacity="{opacity:g}"')

    def columns(self, edges: Sequence[float], heights: Sequence[float], colour: Colour = "accent") -> "Chart":
        """Add the columns of a histogram, between each two edges one, from the axis at 0."""
        ground = self.up(max(self.y.low, 0.0))
        boxes = "".join(
            f"M{self.across(start) + 0.5:.1f} {ground:.1f}V{self.up(height):.1f}H{self.across(stop) - 0.5:.1f}"
            f"V{ground:.1f}Z"
            for start, stop, height in zip(edges, edges[1:], heights, strict=False)
        )
        return self._path(f"f-{colour}", boxes, ' opacity="0.75"')

    def legend(self, text: str, colour: Colour = "accent") -> "Chart":
        """Add a line to the legend in the upper left corner."""
        x, y = self.left + 14, self.top + 18 + _LINE * (len(self._legend) // 2)
        self._legend += [
            f'<path class="dots s-{colour}" d="M{x} {y - 4}h0" stroke-width="8"/>',
            f'<text class="strong" x="{x + 12}" y="{y}">{escape(text)}</text>',
        ]
        return self

    def svg(self) -> str:
        """Return the document, which also stands inside of HTML."""
        return document(
            [*self._heading(), *self._axes(), *self._clipped(), *self._legend],
            width=self.width,
            height=self.height,
            description=self.description,
        )

    def _points(self, xs: Iterable[float], ys: Iterable[float]) -> list[tuple[float, float]]:
        return [(self.across(x), self.up(y)) for x, y in zip(xs, ys, strict=True)]

    def _path(self, kind: str, path: str, more: str = "") -> "Chart":
        if path:
            self._marks.append(f'<path class="{kind}" d="{path}"{more}/>')
        return self

    def _heading(self) -> list[str]:
        return heading(self.title, self.notes, self.left)

    def _axes(self) -> list[str]:
        parts = []
        for place, text in self.x.marked(max(2, round((self.right - self.left) / 90))):
            x = self.across(place)
            parts += [
                f'<path class="grid" d="M{x:.1f} {self.top}V{self.bottom}"/>',
                f'<text x="{x:.1f}" y="{self.bottom + 17}" text-anchor="middle">{escape(text)}</text>',
            ]
        for place, text in self._y_ticks:
            y = self.up(place)
            parts += [
                f'<path class="grid" d="M{self.left} {y:.1f}H{self.right}"/>',
                f'<text x="{self.left - 7}" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text>',
            ]
        middle = (self.left + self.right) / 2, (self.top + self.bottom) / 2
        if self.x.label:
            parts.append(
                f'<text class="strong" x="{middle[0]:.1f}" y="{self.height - 10}" text-anchor="middle">'
                f"{escape(self.x.label)}</text>"
            )
        if self.y.label:
            parts.append(
                f'<text class="strong" transform="translate(15 {middle[1]:.1f}) rotate(-90)" text-anchor="middle">'
                f"{escape(self.y.label)}</text>"
            )
        return parts

    def _clipped(self) -> list[str]:
        """Return the marks inside of the axes: a nested document cuts off what lies beyond, and needs no id for it."""
        x, y, width, height = self.left, self.top, self.right - self.left, self.bottom - self.top
        box = f'x="{x}" y="{y}" width="{width}" height="{height}" viewBox="{x} {y} {width} {height}"'
        return [f"<svg {box}>", *self._marks, "</svg>"]


def heading(title: str, notes: Sequence[str], left: float) -> list[str]:
    """Return the title and the lines under it."""
    parts = [f'<text class="title" x="{left}" y="26">{escape(title)}</text>'] if title else []
    first = 30 if title else 2
    return parts + [
        f'<text x="{left}" y="{first + _LINE * (place + 1)}">{escape(note)}</text>' for place, note in enumerate(notes)
    ]


def document(parts: Iterable[str], *, width: int, height: int, description: str) -> str:
    """Return an SVG document with the style of all pictures."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="plot" role="img" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}">',
            f"<title>{escape(description)}</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="ground" width="{width}" height="{height}"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _through(points: Iterable[tuple[float, float]]) -> str:
    return "".join(f"{'L' if place else 'M'}{x:.1f} {y:.1f}" for place, (x, y) in enumerate(points))
