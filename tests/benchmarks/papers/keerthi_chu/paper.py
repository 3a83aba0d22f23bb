"""Keerthi & Chu 2005, A matching pursuit approach to sparse Gaussian process regression: Figure 1 and Table 1."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.spec import Adaptation
from tests.benchmarks.papers.keerthi_chu.figure import figure_1
from tests.benchmarks.papers.keerthi_chu.found import FigureFound, TableFound
from tests.benchmarks.papers.keerthi_chu.page import page
from tests.benchmarks.papers.keerthi_chu.table import ASIDE, COLUMNS, DEFAULT, table_1
from tests.benchmarks.papers.scale import Scale, Size
from tests.benchmarks.papers.units import Found, Unit
from tests.benchmarks.sets import TRAINING_ROWS

METHODS = ("rand", "info", "kappa", "dmax", "sb", "batch")
"""The five of Figure 1, and ours."""
SETS = ("bank8FM", "bank32nh", "cpu_small", "cpu_act", "cal_housing", "house_8L", "house_16H")
BASIS_SIZE = 500
ROUNDS, STEPS = 3, 20
"""Rounds and steps of the adaptation in Table 1, in all columns but the default's; the paper does not give its own."""
EVERYTHING = 100_000
"""More test rows than any set has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Extent of a run: sizes of Figure 1, those that are timed, sets, rows and basis size of Table 1."""

    sizes: Sequence[int]
    timed: Sequence[int]
    sets: Sequence[str]
    figure_rows: tuple[int, int]
    most_rows: tuple[int, int]
    basis_size: int


_EXTENTS = {
    Size.TINY: Extent(
        sizes=(5, 10, 20),
        timed=(5, 10, 20),
        sets=SETS[:2],
        figure_rows=(150, 100),
        most_rows=(150, 100),
        basis_size=10,
    ),
    Size.QUICK: Extent(
        sizes=(100, 200, 400, 600),
        timed=(100, 200, 400, 600),
        sets=SETS,
        figure_rows=(10_000, 30_000),
        most_rows=(EVERYTHING, EVERYTHING),
        basis_size=BASIS_SIZE,
    ),
    Size.FULL: Extent(
        sizes=(100, 150, *range(200, 1300, 100)),
        timed=(100, 200, 400, 800, 1200),
        sets=SETS,
        figure_rows=(10_000, 30_000),
        most_rows=(EVERYTHING, EVERYTHING),
        basis_size=BASIS_SIZE,
    ),
}
_WEIGHTS = {"rand": 20.0, "info": 80.0, "kappa": 80.0, "dmax": 160.0, "sb": 120.0, "batch": 60.0}
"""About the seconds of a unit of Figure 1."""


class KeerthiChu:
    """The paper."""

    name = "keerthi-chu"
    title = "Keerthi & Chu 2005: a matching pursuit approach to sparse Gaussian process regression"

    def units(self, scale: Scale) -> list[Unit]:
        """A unit for each method and partition of Figure 1, and for each set, column and partition of Table 1."""
        extent = _EXTENTS[scale.size]
        return [
            *(_figure_unit(extent, method, trial) for method in METHODS for trial in range(figure_trials(scale))),
            *(
                _table_unit(extent, name, column, trial)
                for name in extent.sets
                for column in COLUMNS
                for trial in range(column_trials(scale, column))
            ),
        ]

    def page(self, found: Mapping[str, Found], scale: Scale, folder: Path) -> str:
        """Both, beside the published numbers and what the text says of them."""
        figure = FigureFound(found=found, methods=METHODS, trials=figure_trials(scale))
        results = TableFound(found=found, sets=_EXTENTS[scale.size].sets, trials=table_trials(scale))
        return page(figure, results, folder)


def figure_trials(scale: Scale) -> int:
    """Partitions of kin40k."""
    return scale.trials_of(quick=1, full=10)


def table_trials(scale: Scale) -> int:
    """Partitions of each set of Table 1."""
    return scale.trials_of(quick=1, full=20)


def column_trials(scale: Scale, column: str) -> int:
    """Partitions of each set for one column: the first few for those that only show what an approximation does."""
    trials = table_trials(scale)
    return max(min(trials, 2), trials // 4) if column in ASIDE else trials


def _figure_unit(extent: Extent, method: str, trial: int) -> Unit:
    training_rows, test_rows = extent.figure_rows
    return Unit(
        name=f"figure-1/{method}/{trial}",
        call=figure_1,
        arguments={
            "method": method,
            "trial": trial,
            "training_rows": training_rows,
            "test_rows": test_rows,
            "sizes": list(extent.sizes),
            "timed": list(extent.timed),
        },
        weight=_WEIGHTS[method],
    )


def _table_unit(extent: Extent, name: str, column: str, trial: int) -> Unit:
    training_rows, test_rows = extent.most_rows
    budget = Adaptation() if column == DEFAULT else Adaptation(rounds=ROUNDS, steps=STEPS)
    return Unit(
        name=f"table-1/{name}/{column}/{trial}",
        call=table_1,
        arguments={
            "name": name,
            "column": column,
            "trial": trial,
            "training_rows": training_rows,
            "test_rows": test_rows,
            "basis_size": extent.basis_size,
            "rounds": budget.rounds,
            "steps": budget.steps,
        },
        weight=TRAINING_ROWS[name] / 300.0,
    )
