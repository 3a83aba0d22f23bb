"""The largest table that is read; a refusal names the limit, which is also the name of its setting."""

from dataclasses import dataclass

from app.errors import TooLargeError


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
            raise TooLargeError(f"the table is larger than {self.bytes:,} bytes after decompression (max_table_bytes)")

    def check_rows(self, found: int) -> None:
        """TooLargeError beyond `rows`."""
        if found > self.rows:
            raise TooLargeError(f"the table has more than {self.rows:,} rows, the most that are read (max_rows)")

    def check_columns(self, found: int) -> None:
        """TooLargeError beyond `columns`."""
        if found > self.columns:
            raise TooLargeError(f"the table has {found:,} columns; at most {self.columns:,} are read (max_columns)")

    def cell_is_too_long(self, place: str, found: int) -> TooLargeError:
        """The refusal of one cell with so many characters."""
        return TooLargeError(
            f"{place}: the cell has {found:,} characters; at most {self.cell:,} are read (max_cell_chars)"
        )
