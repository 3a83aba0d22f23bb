"""Options of how a table is to be read: given when it is sent, and in the specification of a training."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options of reading; None: as the table itself shows, and the first sheet.

    decimal: the decimal mark of numbers in text; thousands: the sign that groups their digits, empty for none; sheet:
    of an Excel workbook, its name or its number from 1.
    """

    decimal: str | None = None
    thousands: str | None = None
    sheet: str | int | None = None

    @property
    def sets_number_format(self) -> bool:
        """Return whether the number format is given."""
        return self.decimal is not None or self.thousands is not None

    def with_defaults(self, earlier: "ReadOptions") -> "ReadOptions":
        """Return these options, with the earlier ones where they are None."""
        marks = self if self.sets_number_format else earlier
        sheet = earlier.sheet if self.sheet is None else self.sheet
        return ReadOptions(decimal=marks.decimal, thousands=marks.thousands, sheet=sheet)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON document without the options that are None."""
        options = {"decimal": self.decimal, "thousands": self.thousands, "sheet": self.sheet}
        return {name: value for name, value in options.items() if value is not None}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "ReadOptions":
        """Read what `to_json` wrote, among other things."""
        return cls(**{name: document.get(name) for name in ("decimal", "thousands", "sheet")})


AUTODETECT = ReadOptions()
"""Options that leave everything to the table itself."""
