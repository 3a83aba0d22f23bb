"""Folder of tables found in practice; they are not part of the repository."""

import os
from pathlib import Path

import pytest

from app.tables import read_table
from app.tables.columns.cells import FloatArray

FOLDER = Path(os.environ.get("PURSUIT_BENCHMARK_DATA", Path(__file__).parents[4] / "shared" / "data"))

needs_files = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"the data sets are not at {FOLDER}")


def numeric_columns(path: Path) -> dict[str, FloatArray]:
    """The columns of a file that are numbers, NaN where a cell is none."""
    table = read_table(path)
    found = {name: table.columns[name].numbers for name in table.names}
    return {name: numbers.values for name, numbers in found.items() if numbers.finite_count > len(numbers.invalid)}
