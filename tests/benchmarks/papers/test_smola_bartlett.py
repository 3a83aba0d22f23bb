"""Every unit of the reproduction of Smola & Bartlett at the size of a test, through the runner, and its page."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from core.process.rows import Rows
from tests.benchmarks.papers.run import run
from tests.benchmarks.papers.scale import Scale, Size
from tests.benchmarks.papers.smola_bartlett import SmolaBartlett
from tests.benchmarks.papers.smola_bartlett_algorithm import ALL, Pursuit, theta
from tests.benchmarks.papers.units import Crew
from tests.benchmarks.sets import FOLDER


def pursuit(kappa: int, steps: int = 15) -> Pursuit:
    random = np.random.default_rng(0)
    rows = Rows(X=random.normal(size=(60, 3)), y=random.normal(size=60), groups=np.arange(3))
    return Pursuit(rows=rows, hyperparameters=theta(3, 4.0, 0.1), kappa=kappa, steps=steps, seed=0)


@pytest.mark.parametrize("kappa", [1, 10, ALL])
def test_both_bounds_close_in_on_the_full_process(kappa: int) -> None:
    short, long = pursuit(kappa), pursuit(kappa, 60)
    K = np.exp(-np.square(short.rows.X[:, None] - short.rows.X).sum(axis=2) / 4.0)
    C = np.linalg.inv(K + 0.1 * np.eye(60))
    least, dual = -0.5 * short.rows.y @ K @ C @ short.rows.y, -0.05 * short.rows.y @ C @ short.rows.y
    for bounds in short.bounds:
        assert bounds.lower <= least <= bounds.upper
    assert (np.diff(long.gaps) < 1e-9).all()
    assert long.gaps[-1] < 1e-3
    upper, lower = (
        -0.5 * short.rows.y @ short.rows.y - side for side in (short.bounds[9].lower, short.bounds[9].upper)
    )
    assert lower <= dual <= upper
    np.testing.assert_allclose(short.dual_gaps[9], 2.0 * (upper - lower) / abs(upper + lower))


def test_more_steps_of_one_seed_begin_with_the_same_ones() -> None:
    np.testing.assert_array_equal(pursuit(5).chosen, pursuit(5, 40).chosen[:15])
    np.testing.assert_array_equal(pursuit(5).gaps, pursuit(5, 40).gaps[:15])


@pytest.mark.slow
def test_the_whole_paper_at_the_size_of_a_test(tmp_path: Path) -> None:
    if not (FOLDER / "abalone.csv.gz").exists():
        pytest.skip("the benchmark sets are not here")
    scale = Scale(size=Size.TINY)
    run(["smola-bartlett"], scale, Crew(processes=1), tmp_path / "units", tmp_path / "out")
    folder = tmp_path / "out" / "smola-bartlett"
    text = (folder / "page.md").read_text(encoding="utf-8")
    for heading in ("Figure 1", "(3000, 1177)", "Table 2", "synthetic", "Claims", "choice open"):
        assert heading in text
    assert 0 < (folder / "figure-1.png").stat().st_size < 150_000
    assert len((folder / "figure-1.csv").read_text(encoding="utf-8").splitlines()) == 41
    assert (tmp_path / "out" / "RESULTS.md").read_text(encoding="utf-8").count("(smola-bartlett/figure-1.png)") == 1


def test_full_size_is_the_papers_design() -> None:
    units = SmolaBartlett().units(Scale())
    names = [unit.name for unit in units]
    assert sum(name.startswith("figure-1/") for name in names) == 81
    assert sum(name.startswith("table-2/") for name in names) == 18
    assert sum(name.startswith("full/") for name in names) == 30
    fewer = SmolaBartlett().units(replace(Scale(), trials=1))
    assert sum(unit.name.startswith("full/") for unit in fewer) == 3
