"""Texts that people read as numbers and that are none here: `12%`, `$1,234.50`, `13:45`, `March`. Nobody guesses what
number is meant; they are told by what they are and what to write instead.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Lookalike(StrEnum):
    """Kind of such a text, with its article."""

    PERCENTAGE = "a percentage"
    MONEY = "an amount of money"
    TIME = "a time"
    MONTH = "the name of a month"


LOOKALIKE_ADVICE: Final = {
    Lookalike.PERCENTAGE: "write the number without its sign, 12 or 0.12",
    Lookalike.MONEY: "write the plain number, 1234.5",
    Lookalike.TIME: "write the hours as a number, 13.75, or the date with the time",
    Lookalike.MONTH: "write 1 to 12",
}
"""Advice on the number to write instead."""

_DIGITS = "[0-9](?:[0-9.,' \u00a0\u202f]*[0-9])?[.,]?"
_CURRENCY = (
    "(?:(?:US|A|C|R|NZ|HK)?\\$|[€£¥₹₩₽₺₪฿]|zł|kr\\.?|Rs\\.?|"
    "USD|EUR|GBP|JPY|CHF|CNY|INR|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|BRL|MXN|ZAR|KRW)"
)
_BLANK = "[ \u00a0\u202f]?"
_MONTHS = "january february march april may june july august september october november december"
_PATTERNS: Final = {
    Lookalike.PERCENTAGE: re.compile(f"[+-]?{_DIGITS}{_BLANK}%"),
    Lookalike.MONEY: re.compile(
        f"\\(?[+-]?{_BLANK}(?:{_CURRENCY}{_BLANK}[+-]?{_DIGITS}{_BLANK}[kKmMbB]?|{_DIGITS}{_BLANK}{_CURRENCY})\\)?"
    ),
    Lookalike.TIME: re.compile(
        r"[0-9]{1,3}:[0-5][0-9](:[0-5][0-9](\.[0-9]+)?)?( ?[AaPp]\.?[Mm]\.?)?"
        r"|([01]?[0-9]|2[0-3])\.[0-5][0-9]\.[0-5][0-9]|(1[0-2]|[1-9]) ?[AaPp]\.?[Mm]\.?"
    ),
    Lookalike.MONTH: re.compile(
        "|".join(f"{name}|{name[:3]}\\.?" for name in _MONTHS.split()) + "|sept\\.?", re.IGNORECASE
    ),
}


@dataclass(frozen=True, slots=True)
class LookalikeMatch:
    """Kind of most texts of a column, and one of them."""

    what: Lookalike
    example: str


def match_lookalike(text: str) -> Lookalike | None:
    """Return the kind of a text without blanks around it."""
    return next((what for what, pattern in _PATTERNS.items() if pattern.fullmatch(text)), None)


def find_lookalike(texts: Sequence[str], share: float) -> LookalikeMatch | None:
    """Return the kind of at least `share` of the different texts, if there are two."""
    if len(texts) < 2 or not any(map(match_lookalike, texts[:: max(1, len(texts) // 20)])):
        return None
    found = [match_lookalike(text) for text in texts]
    for what in Lookalike:
        if found.count(what) >= max(2.0, share * len(texts)):
            return LookalikeMatch(what, texts[found.index(what)])
    return None
