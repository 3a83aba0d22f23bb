"""Every unit of the reproduction of Seeger et al. at the size of a test, through the runner, and its page."""

from pathlib import Path

import pytest

from tests.benchmarks.papers.run import run
from tests.benchmarks.papers.scale import Scale, Size
from tests.benchmarks.papers.seeger import Seeger
from tests.benchmarks.papers.units import Crew
from tests.benchmarks.sets import FOLDER


@pytest.mark.slow
def test_the_whole_paper_at_the_size_of_a_test(tmp_path: Path) -> None:
    if not all((FOLDER / f"{name}.csv.gz").exists() for name in ("kin40k", "pumadyn32nm")):
        pytest.skip("the benchmark sets are not here")
    run(["seeger"], Scale(size=Size.TINY), Crew(processes=1), tmp_path / "units", tmp_path / "out")
    folder = tmp_path / "out" / "seeger"
    text = (folder / "page.md").read_text(encoding="utf-8")
    for heading in ("Figure 1", "Table 1", "Figure 2", "Figure 3", "Table 2", "Claims", "choice open"):
        assert heading in text
    for number in (1, 2, 3, 4):
        assert 0 < (folder / f"figure-{number}.png").stat().st_size < 150_000
    assert len((folder / "figure-1.csv").read_text(encoding="utf-8").splitlines()) == 1 + 3 * 8


def test_full_size_is_the_papers_design() -> None:
    names = [unit.name for unit in Seeger().units(Scale())]
    assert sum(name.startswith("curves/") for name in names) == 20
    for method in ("info", "rand", "fixed"):
        assert sum(name.startswith(f"selection/{method}/") for name in names) == 40
    assert sum(name.startswith("selection/full/") for name in names) == 10
