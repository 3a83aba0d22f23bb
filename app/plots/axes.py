"""Axes: ends, round ticks, and the text of a tick."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis from low to high, low < high. ticks: (place, text), by default round numbers."""

    low: float
    high: float
    label: str = ""
    ticks: tuple[tuple[float, str], ...] | None = None

    def marked(self, wanted: int) -> tuple[tuple[float, str], ...]:
        """Return the ticks, about so many of them."""
        if self.ticks is not None:
            return self.ticks
        places = round_places(self.low, self.high, wanted)
        step = places[1] - places[0] if len(places) > 1 else abs(places[0]) or 1.0
        return tuple((place, tick_text(place, step)) for place in places)


def limits(values: Iterable[float], *, room: float = 0.04, trimmed: float = 0.0) -> tuple[float, float]:
    """Return ends around finite values, with room at both; `trimmed` is the share of values left out at each end."""
    finite = sorted(filter(math.isfinite, values))
    if not finite:
        return 0.0, 1.0
    cut = int(trimmed * len(finite))
    low, high = finite[cut], finite[-1 - cut]
    more = room * (high - low) if high > low else 0.1 * abs(low) or 1.0
    return low - more, high + more


def round_places(low: float, high: float, wanted: int = 5) -> Sequence[float]:
    """Return multiples of 1, 2 or 5 times a power of ten between two ends, about `wanted` of them."""
    rough = (high - low) / max(1, wanted)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((factor * power for factor in (1, 2, 5) if factor * power >= 0.75 * rough), 10 * power)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [place * step for place in range(first, last + 1)] or [low]


def tick_text(value: float, step: float) -> str:
    """Return a tick's number with the digits that its step needs."""
    if abs(value) < 1e-9 * step:
        return "0"
    if abs(value) >= 1e7 or (abs(value) < 1e-4 and step < 1e-4):
        text = f"{value:.2e}"
        digits, _, power = text.partition("e")
        text = f"{digits.rstrip('0').rstrip('.')}e{int(power)}"
    else:
        text = f"{value:.{max(0, -math.floor(math.log10(step) + 1e-9))}f}"
    return text.replace("-", "\N{MINUS SIGN}")
