"""The page of Keerthi & Chu 2005."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.benchmarks.papers.keerthi_chu.table import COLUMNS
from tests.benchmarks.papers.paper import Spread, table, write_csv
from tests.benchmarks.papers.units import Found


def page(found: Mapping[str, Found], sets: Sequence[str], trials: int, folder: Path) -> str:
    """Table 1, NMSE in percent."""
    rows = []
    for name in sets:
        cells = [name]
        for column in COLUMNS:
            each = [100.0 * found[f"table-1/{name}/{column}/{trial}"]["plain"]["nmse"] for trial in range(trials)]
            cells.append(Spread.of(each).text())
        rows.append(cells)
    write_csv(folder / "table-1.csv", ["set", *COLUMNS], rows)
    return "### Table 1\n\n" + table(["set", *COLUMNS], rows)
