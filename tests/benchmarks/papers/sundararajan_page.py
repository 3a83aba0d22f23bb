"""The page of Sundararajan, Keerthi & Shevade: tables, figures, claims, what was left open, where we differ."""

from collections.abc import Mapping
from pathlib import Path

from tests.benchmarks.papers.paper import table, write_csv
from tests.benchmarks.papers.scale import Scale
from tests.benchmarks.papers.sundararajan_claims import Results, claims
from tests.benchmarks.papers.sundararajan_design import Design, designs, trials
from tests.benchmarks.papers.sundararajan_figures import figure_1, figures_2_to_4
from tests.benchmarks.papers.sundararajan_tables import (
    NAMES,
    OUR_NAMES,
    OURS,
    PART_OF,
    against_best,
    gathered,
    published_best,
    set_table,
)
from tests.benchmarks.papers.units import Found

TITLES = {
    "without-cache": "Tables 2 and 3, left: theta fixed, 59 candidates a step",
    "with-cache": "Tables 2 and 3, right: theta fixed, with cache",
    "adapted": "Tables 4 and 5: theta moved in turns with the basis",
}

SCALES = """NMSE is over the variance of the test targets. NPDL is the mean negative log density of a noisy test target.
Published ones are on the raw target's scale for Boston housing, bank8FM, bank32NH, cpusmall and cpuact: there the
published NPDL is near log(rmse) + 1.42, that of a normal error. Abalone's (about 1.00) and Friedman 3's (about 0.7)
are not: raw, Abalone's would need an error of 0.66 rings where its NMSE says 2.1, and Friedman 3's a density wider than
the target itself. Both are taken for those of a target of unit variance, so log(deviation of the training targets) is
subtracted from ours.

**Friedman 2 and 3 are doubtful.** A third of the function's deviation as noise (Friedman 1991) is a tenth of the noisy
target's variance, so no model has an NMSE under about 9% there, and little differs between test sets of 5,000 rows.
Published on Friedman 2 is 10.00 ± 3.24: nearly every run at that floor and one or two failures, or other targets than
these; its published NPDL is above ours while its NMSE is the same, and its published sizes are several times ours. On
Friedman 3 the published 11.63 ± 1.29 is well below what any of the five leaves here, with theta fixed or moved, though
its published NPDL is worse than ours. Whether the paper's test targets had noise is not said. A table below scores both
ways: without noise ours is far below the published numbers, with noise above them on Friedman 3."""

OPEN = """- **Scaling of inputs and target**: not said. Zero mean and unit variance on the training rows, both.
- **Kernel**: without bias, as in the paper's section 2 (core's bias is held at a millionth of the target's variance).
- **Posterior**: DTC, the paper's choice in section 3.3; error bars as they come, one noise variance.
- **Theta when fixed**: the optimiser and its start are not said. Full GP on as many random training rows as the paper
  says; two starts (lengthscales of one and of half sqrt(columns) deviations), L-BFGS-B, 100 evaluations (quick: 50).
- **d_max**: not said; 500, 200 for Boston housing and Abalone, 75 for the Friedman sets: NLPP's published sizes.
  GPE's 74.7 ± 11.6 on Friedman 3 shows that the paper's must have been larger there.
- **When to stop**: "a few more iterations", "increased significantly". Followed past the best size for 50 steps or half
  as much again of it, whichever is more, then cut at the best: core's automatic size. A shorter patience stops at
  earlier minima and gives smaller bases.
- **Cache**: "the working set size was set to 300" (100 for the Friedman sets) is read as 59 fresh candidates and 241
  (41) kept; it starts full of random rows. A kept candidate is replaced when it is among the 58 worst.
- **Moving theta**: DTC's marginal likelihood by L-BFGS-B, 20 evaluations a round ("short", quick: 15), at most five
  rounds (quick: two), started from the fixed theta. Rounds end when the smallest measure moves by less than a hundredth
  of its fall. The last basis is kept with the theta that was moved on it. 59 candidates, no cache, as the comparison
  with the left half of Table 2 implies.
- **NLPP's measure**: the posterior's exponent at its mode, half the penalised squares over the noise variance.
- **NMSE's "data variance"**: the test targets' own. On 25 test rows of Boston housing that is not the same as all
  rows': in a single run the two differ by some tenths.
- **Significance**: paired t-test (scipy.stats.ttest_rel) at 0.05 against the best mean among the paper's five, a star
  where it is worse; with one trial there is none.
- **Partitions**: random, by trial; the same for every algorithm of a set, ours too.
- **Computing time**: "two to three times" that of NLML and NLPP is not measured: the five share a unit."""

OUR_SPEC = """**Pursuit** is `TrainSpec()`: `batch`, power EP 0.7, automatic size, theta adapted, error bars calibrated,
noise that may depend on the inputs; Abalone's three sex columns share a lengthscale. **Refined** moves the basis
vectors too (`refine`), with a tenth of the rows held out for the error bars (on the three small sets too few to
calibrate them, so there they are as they come). Both stand in every table, beneath the
paper's five, against the paper's best of that table."""


FLOOR = """A "no" is said of the mean of the runs, however few. The one for the NMSE of Friedman 3 has the reason given
at the top: the published one is not reached by the paper's own algorithms here either."""


def page(found: Mapping[str, Found], scale: Scale, folder: Path) -> str:
    """Markdown; CSV files and pictures into `folder`."""
    chosen = designs(scale)
    results = _results(found, chosen)
    parts = [_conditions(chosen, scale), "### What is compared", SCALES, OUR_SPEC]
    for part, by_set in results.items():
        parts += [f"### {TITLES[part]}"]
        for design in chosen:
            if design.name in by_set:
                parts += [_caption(part, design, scale), set_table(part, design.name, by_set[design.name])]
    parts += ["### Friedman's sets, scored without noise", _clean(found, chosen, scale)]
    parts += ["### Figures", _figures(found, folder), "### Claims of the text", _claims(results, found)]
    parts += ["### Ours against the paper's best", _ours(results)]
    parts += ["### What the paper leaves open", OPEN]
    _write(results, folder)
    return "\n\n".join(parts)


def _results(found: Mapping[str, Found], chosen: tuple[Design, ...]) -> Results:
    def rows(part: str, design: Design) -> int:
        return design.adapted_rows or design.rows if part == "adapted" else design.rows

    return {
        part: {
            design.name: gathered(found, part, design.name, rows(part, design))
            for design in chosen
            if design.name in of
        }
        for part, of in PART_OF.items()
    }


def _conditions(chosen: tuple[Design, ...], scale: Scale) -> str:
    runs = ", ".join(f"{design.label} {len(trials(design, scale))}" for design in chosen)
    fewer = any(len(trials(design, scale)) < design.runs for design in chosen)
    said = " Fewer than the paper's: deviations and tests say little, single runs nothing of either." if fewer else ""
    return f"Runs: {runs}.{said}"


def _caption(part: str, design: Design, scale: Scale) -> str:
    rows = design.adapted_rows if part == "adapted" else design.rows
    count = len(trials(design, scale))
    return f"**{design.label}**, {rows:,} rows, {count} run{'s' if count > 1 else ''} (paper: {design.runs})"


def _clean(found: Mapping[str, Found], chosen: tuple[Design, ...], scale: Scale) -> str:
    rows = []
    for design in chosen:
        if not design.name.startswith("friedman"):
            continue
        for method in NAMES:
            runs = [found[f"without-cache/{design.name}/{trial}"][method] for trial in trials(design, scale)]
            means = [
                sum(run[name] for run in runs) / len(runs) for name in ("nmse", "clean_nmse", "npdl", "clean_npdl")
            ]
            cell = PART_OF["without-cache"][design.name][method]
            numbers = [
                f"{100 * means[0]:.2f}",
                f"{100 * means[1]:.2f}",
                cell.nmse.text(),
                f"{means[2]:.2f}",
                f"{means[3]:.2f}",
            ]
            rows.append([design.label, NAMES[method], *numbers, cell.npdl.text()])
    head = ("set", "algorithm", "NMSE, %", "of the function", "published", "NPDL, raw", "of the function", "published")
    return table(head, rows)


def _figures(found: Mapping[str, Found], folder: Path) -> str:
    figure_1(found, folder)
    files = ["figure-1.png", *figures_2_to_4(found, folder)]
    return "\n\n".join(f"![Figure {file[7]}]({file})" for file in files)


def _claims(results: Results, found: Mapping[str, Found]) -> str:
    rows = [
        [claim.words, "holds" if claim.holds else "**does not hold**", claim.numbers]
        for claim in claims(results, found)
    ]
    return table(("the paper", "here", "our numbers"), rows)


def _ours(results: Results) -> str:
    rows = []
    for part, by_set in results.items():
        for name, scores in by_set.items():
            cells = PART_OF[part][name]
            nmse, npdl = published_best(cells, "nmse"), published_best(cells, "npdl")
            for ours in OURS:
                near, dense = against_best(scores[ours], cells)
                rows.append(
                    [
                        f"{part}, {name}",
                        OUR_NAMES[ours],
                        f"{scores[ours].spread('nmse').text()} / {nmse.text()}",
                        "yes" if near else "**no**",
                        f"{scores[ours].spread('npdl').text()} / {npdl.text()}",
                        "yes" if dense else "**no**",
                    ]
                )
    head = (
        "table",
        "ours",
        "NMSE, %: ours / best",
        "within a deviation or better",
        "NPDL: ours / best",
        "as good or better",
    )
    return f"{FLOOR}\n\n{table(head, rows)}"


def _write(results: Results, folder: Path) -> None:
    rows = [
        (part, name, algorithm, trial, scores.nmse[trial], scores.npdl[trial], scores.size[trial])
        for part, by_set in results.items()
        for name, by_algorithm in by_set.items()
        for algorithm, scores in by_algorithm.items()
        for trial in range(len(scores.nmse))
    ]
    head = ("table", "set", "algorithm", "run", "nmse_percent", "npdl", "basis_vectors")
    write_csv(folder / "tables.csv", head, rows)
