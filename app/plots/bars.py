"""Ranked bars in SVG, such as how much each column matters."""

from collections.abc import Sequence
from xml.sax.saxutils import escape

from app.plots.chart import document, heading

_ROW = 26
_LONGEST_NAME = 28


def ranked_bars(
    names: Sequence[str],
    values: Sequence[float],
    *,
    title: str = "",
    notes: Sequence[str] = (),
    description: str = "",
    texts: Sequence[str] | None = None,
    width: int = 660,
) -> str:
    """Return bars from 0, in the order given, each with its name and number. values: at least 0.

    texts: what is written beside the bars, by default the numbers.
    """
    written = texts if texts is not None else [f"{value:.3g}" for value in values]
    shown = [name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…" for name in names]
    left = round(20 + 7.2 * max(map(len, shown), default=0))
    longest = width - left - round(24 + 7.2 * max(map(len, written), default=0))
    most = max([*values, 0.0]) or 1.0
    top = 14 + (28 if title else 0) + 17 * len(notes)
    parts = heading(title, notes, 14)
    for place, (name, value, text) in enumerate(zip(shown, values, written, strict=True)):
        y, length = top + _ROW * place, max(0.0, value) / most * longest
        parts += [
            f'<text class="strong" x="{left - 8}" y="{y + 17}" text-anchor="end">{escape(name)}</text>',
            f'<rect class="f-accent" x="{left}" y="{y + 5}" width="{max(1.0, length):.1f}" height="16"/>',
            f'<text x="{left + length + 7:.1f}" y="{y + 17}">{escape(text)}</text>',
        ]
    height = top + _ROW * len(names) + 12
    return document(parts, width=width, height=height, description=description or title)
