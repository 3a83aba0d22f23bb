"""Keerthi & Chu 2005: every unit at a tiny size through the real runner, then the page."""

import csv
from pathlib import Path

import pytest

from tests.benchmarks.papers.keerthi_chu import published
from tests.benchmarks.papers.keerthi_chu.found import FigureFound, significantly_worse
from tests.benchmarks.papers.keerthi_chu.paper import METHODS, SETS, KeerthiChu
from tests.benchmarks.papers.keerthi_chu.table import ASIDE, COLUMNS
from tests.benchmarks.papers.scale import Scale, Size
from tests.benchmarks.papers.units import Crew, Ledger, work_through
from tests.benchmarks.sets import FOLDER


@pytest.mark.slow
@pytest.mark.skipif(not (FOLDER / "theta.json").exists(), reason="the benchmark sets are not here")
def test_every_unit_returns_and_the_page_is_made_of_them(tmp_path: Path) -> None:
    paper, scale = KeerthiChu(), Scale(size=Size.TINY)
    found = work_through(paper.units(scale), Ledger(folder=tmp_path / "units"), Crew(processes=1))
    text = paper.page(found, scale, tmp_path)
    for picture in ("figure-1.png", "table-1.png"):
        assert f"]({picture})" in text
        assert 5_000 < (tmp_path / picture).stat().st_size < 150_000
    with (tmp_path / "figure-1.csv").open(encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == len(METHODS) * 3
    with (tmp_path / "table-1.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * (len(COLUMNS) + 2)  # two columns are calibrated too
    dmax = found["table-1/bank8FM/adapt-dmax/0"]["plain"]["nmse"]
    assert f"{100.0 * dmax:.2f}** (3.54 ± 0.08)" in text or f"{100.0 * dmax:.2f} (3.54 ± 0.08)" in text
    assert "INFO is almost as fast as RAND" in text


def test_units_do_not_share_a_name() -> None:
    units = KeerthiChu().units(Scale(size=Size.FULL))
    of_the_table = len(SETS) * (20 * (len(COLUMNS) - len(ASIDE)) + 5 * len(ASIDE))
    assert len({unit.name for unit in units}) == len(units) == 10 * len(METHODS) + of_the_table


def test_every_set_has_its_published_numbers() -> None:
    assert set(published.NMSE) == set(published.NLPD) == set(SETS)


def test_rank_sum() -> None:
    low, high = [1.0, 1.1, 1.2, 1.3, 1.4], [2.0, 2.1, 2.2, 2.3, 2.4]
    assert significantly_worse(high, low)
    assert not significantly_worse(low, high)
    assert not significantly_worse([1.05, 1.15, 1.25, 1.35, 1.45], low)


def test_exponent_is_the_slope_in_logarithms() -> None:
    units = {
        "figure-1/rand/0": {
            "sizes": [10],
            "timed": [10, 20, 40],
            "choosing": [0.0, 0.0, 0.0],
            "fitting": [1.0, 2.0, 4.0],
            "growing": [1.0, 4.0, 16.0],
        }
    }
    figure = FigureFound(found=units, methods=("rand",), trials=1)
    assert figure.exponent("rand") == pytest.approx(2.0)
    assert figure.exponent("rand", one_by_one=False) == pytest.approx(1.0)
