"""The reproduction of Sundararajan, Keerthi & Shevade, at tiny size."""

from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.papers.scale import Scale, Size
from tests.benchmarks.papers.sundararajan_design import DESIGNS, units
from tests.benchmarks.papers.sundararajan_page import page
from tests.benchmarks.papers.sundararajan_published import ADAPTED, WITH_CACHE, WITHOUT_CACHE
from tests.benchmarks.papers.sundararajan_runs import MEASURES, fixed, stop
from tests.benchmarks.papers.units import Crew, Ledger, work_through
from tests.benchmarks.sets import FOLDER

needs_data = pytest.mark.skipif(not (FOLDER / "abalone.csv.gz").exists(), reason="the benchmark sets are not there")
TINY = Scale(size=Size.TINY)


@pytest.mark.slow
@needs_data
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_unit_runs_and_the_page_has_every_table_and_figure(tmp_path: Path) -> None:
    found = work_through(units(TINY), Ledger(folder=tmp_path), Crew(processes=1))
    assert set(found) == {unit.name for unit in units(TINY)}
    for name, result in found.items():
        cells = [result] if name.startswith(("pursuit", "refined")) else [result[measure] for measure in MEASURES]
        for cell in cells:
            assert 1 <= cell["size"] <= 60
            assert cell["nmse"] > 0
            assert np.isfinite(cell["npdl"])
    text = page(found, TINY, tmp_path)
    assert text.count("| **Pursuit** |") >= len(WITHOUT_CACHE) + len(WITH_CACHE) + len(ADAPTED)
    for file in ("figure-1.png", "figure-2.png", "figure-3.png", "figure-4.png", "tables.csv"):
        assert f"({file})" in text or file.endswith(".csv")
        assert (tmp_path / file).stat().st_size > 0
    traced = found["adapted/friedman3/0"]["nlgpp"]
    assert len(traced["traces"]) == traced["rounds"]


def test_a_measure_stops_where_it_rises_for_good() -> None:
    falls = np.concatenate((np.linspace(1.0, 0.0, 31), np.full(60, 0.5)))
    assert stop(falls) == 30
    assert stop(np.concatenate((falls, [-1.0]))) == 30
    assert stop(np.concatenate((falls[:60], [-1.0]))) == 60
    assert stop(np.linspace(1.0, 2.0, 100)) == 1


def test_the_curve_is_of_the_basis_that_is_scored() -> None:
    found = fixed("friedman2", 0, 100, 50, 40, 5, 12, 59, ("nlgpp",), (3, 12))["nlgpp"]
    assert len(found["curve"]["measures"]) == 13
    assert found["size"] == stop(np.array(found["curve"]["measures"]))
    assert found["curve"]["sizes"] == [3, 12]


def test_the_published_tables_have_every_set() -> None:
    assert set(WITHOUT_CACHE) == set(WITH_CACHE) == {design.name for design in DESIGNS}
    assert set(ADAPTED) == {design.name for design in DESIGNS if design.adapted_rows is not None}
    assert ADAPTED["abalone"]["nlgpp"].npdl.mean == pytest.approx(0.9469)
    assert WITHOUT_CACHE["boston_housing"]["nlgpp"].nmse_star
