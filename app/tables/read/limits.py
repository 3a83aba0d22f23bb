"""The largest table that is read; a refusal names its setting."""

from dataclasses import dataclass
from typing import Final

from app.errors import TooLargeError

ROWS_SETTING: Final = "PURSUIT_MAX_ROWS"
BYTES_SETTING: Final = "PURSUIT_MAX_TABLE_BYTES"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Largest table that is read; bytes counts after decompression, cell is the most characters of one."""

    bytes: int = 2 << 30
    rows: int = 5_000_000
    columns: int = 1_000
    cell: int = 100_000

    def check_bytes(self, found: int) -> None:
        """TooLargeError beyond `bytes`."""
        if found > self.bytes:
            most = f"{self.bytes:,} bytes after decompression ({BYTES_SETTING})"
            raise TooLargeError(f"the table is larger than {most}")

    def check_rows(self, found: int) -> None:
        """TooLargeError beyond `rows`."""
        if found > self.rows:
            raise TooLargeError(f"the table has more than {self.rows:,} rows, the most that are read ({ROWS_SETTING})")

    def check_columns(self, found: int) -> None:
        """TooLargeError beyond `columns`."""
        if found > self.columns:
            most = f"{self.columns:,} are read (PURSUIT_MAX_COLUMNS)"
            raise TooLargeError(f"the table has {found:,} columns; at most {most}")

    def cell_is_too_long(self, place: str, found: int) -> TooLargeError:
        """The refusal of one cell with so many characters."""
        return TooLargeError(
            f"{place}: the cell has {found:,} characters; at most {self.cell:,} are read (PURSUIT_MAX_CELL_CHARS)"
        )
