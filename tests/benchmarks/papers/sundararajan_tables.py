"""Tables 2 to 5 of Sundararajan, Keerthi & Shevade, beside the published numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan, log
from typing import Any

from scipy.stats import ttest_rel

from tests.benchmarks.papers.paper import Spread, table, verdict
from tests.benchmarks.papers.sundararajan_published import ADAPTED, WITH_CACHE, WITHOUT_CACHE, Cell
from tests.benchmarks.papers.sundararajan_runs import MEASURES
from tests.benchmarks.papers.units import Found

PART_OF = {"without-cache": WITHOUT_CACHE, "with-cache": WITH_CACHE, "adapted": ADAPTED}
NORMALIZED = frozenset({"abalone", "friedman3"})
"""Sets whose published NPDL can only be that of a target of unit variance."""
LEVEL = 0.05
OURS = ("pursuit", "refined")
NAMES = {"nlpp": "NLPP", "nlml": "NLML", "loo-cve": "LOO-CVE", "nlgpp": "NLGPP", "gpe": "GPE"}
OUR_NAMES = {"pursuit": "**Pursuit**", "refined": "**Pursuit, refined**"}
HEAD = ("algorithm", "NMSE, %", "published", "", "NPDL", "published", "", "basis vectors", "published")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Scores of one algorithm on one set, by trial: NMSE in percent, NPDL on the published scale, size."""

    nmse: Sequence[float]
    npdl: Sequence[float]
    size: Sequence[float]

    def spread(self, measure: str) -> Spread:
        """Spread of `nmse`, `npdl` or `size` over trials."""
        return Spread.of(getattr(self, measure))


def gathered(found: Mapping[str, Found], part: str, name: str, rows: int) -> dict[str, Scores]:
    """Every algorithm on one set: the paper's of this part, and ours on as many rows."""
    trials = sorted(int(unit.rsplit("/", 1)[1]) for unit in found if unit.startswith(f"{part}/{name}/"))
    scores = {method: [found[f"{part}/{name}/{trial}"][method] for trial in trials] for method in MEASURES}
    by_name: dict[str, list[Any]] = {str(method): of for method, of in scores.items()}
    for ours in OURS:
        by_name[ours] = [found[f"{ours}-{rows}/{name}/{trial}"] for trial in trials]
    return {
        algorithm: Scores(
            nmse=[100.0 * one["nmse"] for one in of],
            npdl=[one["npdl"] - (log(one["scale"]) if name in NORMALIZED else 0.0) for one in of],
            size=[float(one["size"]) for one in of],
        )
        for algorithm, of in by_name.items()
    }


def best(scores: Mapping[str, Scores], measure: str) -> str:
    """The algorithm with the lowest mean."""
    return min(scores, key=lambda algorithm: scores[algorithm].spread(measure).mean)


def worse(scores: Mapping[str, Scores], measure: str) -> set[str]:
    """Algorithms that a paired t-test finds worse than the best, as the paper tests; none with a single trial."""
    first = getattr(scores[best(scores, measure)], measure)
    if len(first) < 2:
        return set()
    tested = {algorithm: ttest_rel(getattr(of, measure), first).pvalue for algorithm, of in scores.items()}
    return {algorithm for algorithm, chance in tested.items() if not isnan(chance) and chance < LEVEL}


def published_best(cells: Mapping[str, Cell], measure: str) -> Spread:
    """The lowest published mean of a set."""
    spreads: list[Spread] = [getattr(cell, measure) for cell in cells.values()]
    return min(spreads, key=lambda spread: spread.mean)


def against_best(scores: Scores, cells: Mapping[str, Cell]) -> tuple[bool, bool]:
    """True if NMSE is at least as good as the paper's best within its deviation, and NPDL at least as good as its best
    mean, to the two digits that are printed."""
    nmse, npdl = published_best(cells, "nmse"), published_best(cells, "npdl")
    near = scores.spread("nmse").mean <= nmse.mean + (nmse.deviation or 0.0)
    return near, round(scores.spread("npdl").mean, 2) <= round(npdl.mean, 2)


def set_table(part: str, name: str, scores: Mapping[str, Scores]) -> str:
    """One set in one part: five algorithms, then ours against the best of the paper's."""
    cells = PART_OF[part][name]
    paper = {algorithm: of for algorithm, of in scores.items() if algorithm not in OURS}
    stars = {measure: worse(paper, measure) for measure in ("nmse", "npdl")}
    rows = [
        [
            NAMES[algorithm],
            *_compared(scores[algorithm], "nmse", cell.nmse, algorithm in stars["nmse"], cell.nmse_star),
            *_compared(scores[algorithm], "npdl", cell.npdl, algorithm in stars["npdl"], cell.npdl_star),
            scores[algorithm].spread("size").text(0),
            cell.size.text(0),
        ]
        for algorithm, cell in cells.items()
    ]
    for ours in OURS:
        nmse, npdl = published_best(cells, "nmse"), published_best(cells, "npdl")
        rows.append(
            [
                OUR_NAMES[ours],
                *_compared(scores[ours], "nmse", nmse, False, False),
                *_compared(scores[ours], "npdl", npdl, False, False),
                scores[ours].spread("size").text(0),
                "",
            ]
        )
    return table(HEAD, rows)


def _compared(scores: Scores, measure: str, published: Spread, star: bool, published_star: bool) -> list[str]:
    """Ours, the published, and a word."""
    spread = scores.spread(measure)
    ours, theirs = spread.text(2) + "*" * star, published.text(2) + "*" * published_star
    return [ours, theirs, verdict(spread, published)]
