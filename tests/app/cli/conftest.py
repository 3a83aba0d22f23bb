"""Commands that are told by the tests when to be patient, and a table for them."""

from pathlib import Path

import pytest

from app.cli.connection import PATIENCE_VARIABLE


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not answer is not asked again."""
    monkeypatch.setenv(PATIENCE_VARIABLE, "0")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A small CSV file."""
    path = tmp_path / "cars.csv"
    path.write_text("x,y\n1,2\n3,4\n")
    return path
