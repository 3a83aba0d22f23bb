"""Keerthi & Chu 2005: every unit at a tiny size through the real runner, then the page."""

from pathlib import Path

import pytest

from tests.benchmarks.papers.keerthi_chu.paper import KeerthiChu
from tests.benchmarks.papers.scale import Scale, Size
from tests.benchmarks.papers.units import Crew, Ledger, work_through
from tests.benchmarks.sets import FOLDER


@pytest.mark.skipif(not (FOLDER / "theta.json").exists(), reason="the benchmark sets are not here")
def test_tiny(tmp_path: Path) -> None:
    """Every unit returns, and the page is made of them."""
    paper, scale = KeerthiChu(), Scale(size=Size.TINY)
    found = work_through(paper.units(scale), Ledger(folder=tmp_path / "units"), Crew(processes=1))
    text = paper.page(found, scale, tmp_path)
    assert "bank8FM" in text
