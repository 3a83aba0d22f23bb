"""Table 1 of Sundararajan, Keerthi & Shevade: sets, rows and runs; and the units of each at every size."""

from dataclasses import dataclass, replace

from tests.benchmarks.papers.scale import Scale, Size
from tests.benchmarks.papers.sundararajan_runs import CANDIDATES, adapted, fixed, pursuit
from tests.benchmarks.papers.units import Unit

HOLDOUT = 0.1
"""Rows held out to calibrate basis vectors that moved, half of them; they come back for nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """One set. rows, test: of a partition (None: all others). runs: the paper's; quick: ours where minutes count.

    subset: rows of the full GP that gives theta. most: d_max, NLPP's size. working_set: with the cache.
    figure: runs behind its curve. adapted_rows: where theta is moved, None where the paper does not.
    """

    name: str
    label: str
    rows: int
    runs: int
    quick: int
    subset: int
    most: int
    figure: int
    adapted_rows: int | None = None
    working_set: int = 300
    test: int | None = None
    evaluations: int = 100
    rounds: int = 5
    steps: int = 20

    @property
    def curve(self) -> tuple[int, ...]:
        """Sizes at which the figures score a basis."""
        steps = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
        return tuple(sorted({max(round(share * self.most), 1) for share in steps}))


DESIGNS = (
    Design(
        name="boston_housing", label="Boston housing", rows=481, runs=100, quick=5, subset=200, most=200, figure=20,
        adapted_rows=481,
    ),
    Design(
        name="abalone", label="Abalone", rows=3000, runs=20, quick=1, subset=750, most=200, figure=10,
        adapted_rows=3000,
    ),
    Design(
        name="bank8FM", label="bank8FM", rows=4500, runs=20, quick=1, subset=1000, most=500, figure=5,
        adapted_rows=2048,
    ),
    Design(
        name="cpu_small", label="cpusmall", rows=4500, runs=20, quick=1, subset=1000, most=500, figure=5,
        adapted_rows=2048,
    ),
    Design(
        name="friedman2", label="Friedman 2", rows=200, runs=100, quick=5, subset=100, most=75, figure=20,
        adapted_rows=200, working_set=100,
    ),
    Design(
        name="friedman3", label="Friedman 3", rows=200, runs=100, quick=5, subset=100, most=75, figure=20,
        adapted_rows=200, working_set=100,
    ),
    Design(name="bank32nh", label="bank32NH", rows=4500, runs=20, quick=1, subset=1000, most=500, figure=5),
    Design(name="cpu_act", label="cpuact", rows=4500, runs=20, quick=1, subset=1000, most=500, figure=5),
)  # fmt: skip
"""Sets in the order of Tables 2 and 3."""

FIGURE_1 = "friedman3"


def designs(scale: Scale) -> tuple[Design, ...]:
    """Sets as they are run at this size."""
    if scale.size is Size.TINY:
        return tuple(
            replace(
                design, rows=60, test=40, subset=30, most=10, evaluations=5, rounds=2, steps=2,
                working_set=CANDIDATES + 1,
                adapted_rows=None if design.adapted_rows is None else 50,
            )
            for design in DESIGNS
        )  # fmt: skip
    if scale.size is Size.QUICK:
        return tuple(replace(design, evaluations=50, rounds=2, steps=15) for design in DESIGNS)
    return DESIGNS


def trials(design: Design, scale: Scale) -> range:
    """Trials of one set."""
    return range(scale.trials_of(quick=design.quick, full=design.runs))


def units(scale: Scale) -> list[Unit]:
    """All of them. Those of one trial share their partition and their start."""
    found: list[Unit] = []
    for design in designs(scale):
        for trial in trials(design, scale):
            found += _of(design, trial)
    return found


def _of(design: Design, trial: int) -> list[Unit]:
    common = {"name": design.name, "trial": trial, "test_rows": design.test}
    start = common | {"subset": design.subset, "evaluations": design.evaluations, "most": design.most}
    weight = design.rows * design.most
    curve = list(design.curve) if trial < design.figure else []
    at_rest = start | {"train_rows": design.rows}
    found = [
        Unit(
            name=f"without-cache/{design.name}/{trial}",
            call=fixed,
            arguments=at_rest | {"working_set": CANDIDATES, "curve": curve},
            weight=2.0 * weight,
        ),
        Unit(
            name=f"with-cache/{design.name}/{trial}",
            call=fixed,
            arguments=at_rest | {"working_set": design.working_set},
            weight=2.5 * weight,
        ),
    ]
    sizes = [design.rows]
    if design.adapted_rows is not None:
        rows = design.adapted_rows
        traced = design.name == FIGURE_1 and trial == 0
        moving = {"train_rows": rows, "rounds": design.rounds, "steps": design.steps, "traced": traced}
        found.append(
            Unit(
                name=f"adapted/{design.name}/{trial}",
                call=adapted,
                arguments=start | moving,
                weight=design.rounds * rows * design.most,
            )
        )
        sizes += [rows] if rows != design.rows else []
    for rows in sizes:
        arguments = common | {"train_rows": rows, "holdout": 0.0, "refined": False}
        found.append(
            Unit(name=f"pursuit-{rows}/{design.name}/{trial}", call=pursuit, arguments=arguments, weight=weight)
        )
        moved = arguments | {"holdout": HOLDOUT, "refined": True}
        found.append(Unit(name=f"refined-{rows}/{design.name}/{trial}", call=pursuit, arguments=moved, weight=weight))
    return found
