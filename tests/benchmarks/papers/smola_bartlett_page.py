"""The page of Smola & Bartlett 2001: figure 1, the full process, table 2, the large set, and what the text claims."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
import numpy as np
from scipy.stats import ttest_rel

from tests.benchmarks.papers import smola_bartlett_published as published
from tests.benchmarks.papers.paper import Spread, table, verdict, write_csv
from tests.benchmarks.papers.scale import Scale, Size
from tests.benchmarks.papers.smola_bartlett_algorithm import ALL
from tests.benchmarks.papers.units import Found
from tests.benchmarks.sets import FloatArray

mpl.use("Agg")

from matplotlib import pyplot as plt

ROWS = 4_000
CHOICES = """### Where the paper leaves a choice open

- Targets. "The data was rescaled to zero mean and unit variance coordinate-wise" cannot include the targets: a log
  posterior of -1.571e5 with 3,000 rows needs |y|^2 / 2 of about 1.64e5, which is what rings as they are (not centred)
  give; standardized ones would give 1.5e3. So the rings are taken as they are. It matters: with centred targets the
  gap is still .2 after 500 functions, since the mean is most of |y|^2.
- sigma^2 = 0.1 (figure 1) or 2 sigma^2 = 0.1 (the comparison): both are run for the comparison, the first elsewhere.
- The unit of the test error 1.785 is not said; what was tried is below the comparison's table. What can be compared is
  sparse against full.
- Error bars, table 2: the gap of section 3 with y = k is below .025 after one to five functions, because |k|^2 / 2 is
  most of its denominator. What reproduces the table is the gap of k'(K + s2 I)^-1 k itself: the distance of the bounds
  on Q*, eq. 8, over their mean.
- Candidates a step: 59 for Q and 59 for Q*, drawn afresh (ours run through a permutation of the rows before one comes
  again). The first function is chosen among 59 too.
- Standardized numbers, sex as 0 and 1 of three columns not standardized; "the first 4,000 samples" in the order of the
  file; "10 runs" are ten seeds on the same rows.
- Synthetic set: 10,000 rows, and 2,000 more to test, which the paper does not do.
"""


def page(found: Mapping[str, Found], scale: Scale, folder: Path) -> str:
    """Markdown; figure 1 as PNG and CSV into `folder`."""
    claims: list[tuple[str, bool, str]] = []
    parts = [
        _figure_1(found, scale, folder, claims),
        _full(found, claims),
        _table_2(found, scale, claims),
        _synthetic(found, claims),
        "### Claims of the text\n\n"
        + table(
            ("claim", "here", "number"),
            [(claim, "holds" if holds else "does not hold", number) for claim, holds, number in claims],
        ),
        CHOICES,
    ]
    return "\n\n".join(part.strip() for part in parts)


def _figure_1(found: Mapping[str, Found], scale: Scale, folder: Path, claims: list[tuple[str, bool, str]]) -> str:
    curves = {kappa: np.array(runs) for kappa, runs in _curves(found).items()}
    steps = len(next(iter(curves.values()))[0])
    shown = [step for step in (10, 25, 50, 100, 150, 200, 250, 300) if step <= steps]
    rows = [
        [_label(kappa), *(_cell(runs[:, step - 1]) for step in shown), f"{_variation(runs):.1%}"]
        for kappa, runs in curves.items()
    ]
    write_csv(
        folder / "figure-1.csv",
        ("iteration", *(_label(kappa) for kappa in curves)),
        [(step + 1, *(f"{runs[:, step].mean():.6f}" for runs in curves.values())) for step in range(steps)],
    )
    _draw(curves, folder / "figure-1.png")
    last = {kappa: float(runs[:, -1].mean()) for kappa, runs in curves.items()}
    order = [last[kappa] for kappa in curves if kappa != ALL]
    claims.append(
        (
            "figure 1: more candidates, a smaller gap (curves in this order from top to bottom)",
            order == sorted(order)[::-1],
            " > ".join(f"{gap:.4f}" for gap in order) + f" after {steps}",
        )
    )
    variation = max(_variation(runs) for kappa, runs in curves.items() if kappa != ALL)
    if scale.trials_of(quick=2, full=10) > 1:
        claims.append(
            (
                "the relative variance of the gap over runs is less than 10%",
                variation**2 < 0.1,
                f"largest variance over squared mean {variation**2:.1%} (deviation over mean {variation:.1%})",
            )
        )
    claims.append(
        (
            "subsets of 50 and more ensure rapid convergence (the gap of table 2 is reached, with fewer it is not)",
            all((gap <= published.TOLERANCE) == (kappa >= 50) for kappa, gap in last.items() if kappa != ALL),
            f"{last[50]:.4f} with 50, {last[ALL]:.4f} with all after {steps}",
        )
    )
    return (
        "### Figure 1: the gap against iterations\n\nAbalone, the first rows of the file, sigma^2 = 0.1, "
        "2 omega^2 = 10; mean gap over runs, and the largest relative standard deviation between runs. The figure has "
        "no numbers in the text; its claims are below. `all`: every row is a candidate, for Q in one batch "
        "(`core.selection.pool`).\n\n"
        + table(("kappa", *(f"{step}" for step in shown), "largest deviation"), rows)
        + "\n\n![the gap against iterations](figure-1.png)"
    )


def _curves(found: Mapping[str, Found]) -> dict[int, list[list[float]]]:
    curves: dict[int, list[list[float]]] = {}
    for name, result in found.items():
        what, *rest = name.split("/")
        if what == "figure-1":
            curves.setdefault(int(rest[0]), []).append(result["gaps"])
    return dict(sorted(curves.items(), key=lambda pair: pair[0] if pair[0] != ALL else ROWS))


def _draw(curves: Mapping[int, FloatArray], file: Path) -> None:
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    colours = plt.get_cmap("viridis")(np.linspace(0.0, 0.9, len(curves)))
    for colour, (kappa, runs) in zip(colours, curves.items(), strict=True):
        mean = runs.mean(axis=0)
        axes.semilogy(np.arange(1, len(mean) + 1), mean, color=colour, lw=1.4, label=_label(kappa))
    axes.axhline(published.TOLERANCE, color="0.5", ls="--", lw=1.0, label="gap 0.025, where table 2 stops")
    axes.set(xlabel="iteration (basis functions)", ylabel="gap", title="Abalone, 4,000 rows, mean over runs")
    axes.legend(title="candidates a step", fontsize=8, title_fontsize=8)
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _full(found: Mapping[str, Found], claims: list[tuple[str, bool, str]]) -> str:
    rows = []
    for noise in (published.NOISE_VARIANCE, published.NOISE_VARIANCE / 2.0):
        trials = [result for name, result in found.items() if name.startswith(f"full/{noise:g}/")]
        for kind, label in (("full", "full GP"), ("sparse", "algorithm 1, kappa 59"), ("all", "all rows, batch")):
            posterior = Spread.of([trial[f"{kind}/log_posterior"] for trial in trials])
            paper = published.TEST_ERROR.get(kind)
            rows.append(
                (
                    f"{noise:g}",
                    label,
                    "-" if kind == "full" else Spread.of([trial[f"{kind}/size"] for trial in trials]).text(0),
                    Spread.of([trial[f"{kind}/squared_error"] for trial in trials]).text(3),
                    Spread.of([trial[f"{kind}/absolute_error"] for trial in trials]).text(3),
                    Spread.of([trial["full/nlpd"] for trial in trials]).text(2) if kind == "full" else "-",
                    f"{posterior.mean:.4g}",
                    "-" if paper is None else f"{paper[0]} ± {paper[1]}",
                    f"{published.LOG_POSTERIOR[kind]:.4g}" if kind in published.LOG_POSTERIOR else "-",
                )
            )
        _claims_of_full(trials, f"sigma^2 = {noise:g}", claims)
    ours = [result for name, result in found.items() if name.startswith("full/ours/")]
    rows.append(
        (
            "adapted",
            "Pursuit, defaults",
            Spread.of([trial["basis_size"] for trial in ours]).text(0),
            Spread.of([trial["squared_error"] for trial in ours]).text(3),
            "-",
            Spread.of([trial["nlpd"] for trial in ours]).text(2),
            *("-",) * 3,
        )
    )
    first = f"full/{published.NOISE_VARIANCE:g}/"
    full = Spread.of(_of(found, first, "full/squared_error"))
    best = Spread.of([trial["squared_error"] for trial in ours])
    return (
        "### The (3000, 1177) split: sparse against full\n\nErrors in rings; negative log posterior Q; NLPD of the "
        "full process with the paper's fixed noise.\n\n"
        + table(
            (
                "sigma^2",
                "model",
                "functions",
                "squared error",
                "absolute error",
                "NLPD",
                "Q",
                "error, paper",
                "Q, paper",
            ),
            rows,
        )
        + f"\n\nPursuit with its defaults (300 of 3,000 rows as basis, theta adapted, error bars calibrated) against "
        f"the full process at the paper's theta: squared error {best.text(3)} to {full.text(3)}: {verdict(best, full)}."
        + " The paper's sparse Q is printed below its optimum, which no solution can be: the two are means of ten "
        "splits with a deviation of 0.5% each, within which they are one.\n\n"
        "The printed test errors, {} ± {}, are on no scale that we found: the mean squared error is {} here, half of "
        "it {}, the mean absolute error {}, the root {:.2f}. The printed deviation is like that of the squared error "
        "between splits, so a 1 printed for a 4 would explain both numbers; we cannot know.".format(
            *published.TEST_ERROR["full"],
            full.text(2),
            _text(full, 0.5),
            Spread.of(_of(found, first, "full/absolute_error")).text(2),
            full.mean**0.5,
        )
    )


def _claims_of_full(trials: list[Found], label: str, claims: list[tuple[str, bool, str]]) -> None:
    sparse, full = ([trial[f"{kind}/squared_error"] for trial in trials] for kind in ("sparse", "full"))
    ratio = float(np.mean(sparse) / np.mean(full))
    paper = published.TEST_ERROR["sparse"][0] / published.TEST_ERROR["full"][0]
    claims.append(
        (
            f"{label}: the sparse test error is slightly above the full one (ratio {paper:.4f} in the paper)",
            0.99 < ratio < 1.01,
            f"ratio {ratio:.4f}",
        )
    )
    if len(trials) > 2:
        p = float(ttest_rel(sparse, full).pvalue)
        claims.append(
            (
                f"{label}: statistically indistinguishable (paired t-test, 0.05; or a difference under one deviation)",
                p > 0.05 or abs(np.mean(sparse) - np.mean(full)) < np.std(full, ddof=1),
                f"p = {p:.3f}, difference {np.mean(sparse) - np.mean(full):+.4f}, deviation {np.std(full, ddof=1):.3f}",
            )
        )
    off = Spread.of([trial["full/log_posterior"] for trial in trials]).mean / published.LOG_POSTERIOR["full"] - 1.0
    claims.append(
        (
            f"{label}: the optimal log posterior is -1.571e5 (1 +- 0.005)",
            abs(off) <= 2 * published.LOG_POSTERIOR_SHARE,
            f"{off:+.2%} (holds: within two deviations)",
        )
    )


def _table_2(found: Mapping[str, Found], scale: Scale, claims: list[tuple[str, bool, str]]) -> str:
    rows, most, most_bars, fewer = [], 0, 0.0, []
    for place, width in enumerate(published.WIDTHS):
        if f"table-2/error-bars/{width:g}" not in found:
            continue
        sizes = {kappa: found[f"table-2/posterior/{width:g}/{kappa}"]["size"] for kappa in (published.CANDIDATES, ALL)}
        bars = Spread.of(found[f"table-2/error-bars/{width:g}"]["sizes"])
        one, published_one = sizes[published.CANDIDATES], published.FOR_POSTERIOR[place]
        mean, deviation = published.FOR_ERROR_BARS[place]
        most, most_bars = max(most, one), max(most_bars, bars.mean)
        fewer.append(1.0 - sizes[ALL] / one)
        rows.append(
            (
                f"{width:g}",
                f"{published_one}",
                f"{one}",
                verdict(Spread(mean=one, deviation=None), Spread(mean=published_one, deviation=None)),
                f"{sizes[ALL]}",
                f"{mean} ± {deviation}",
                bars.text(0),
                verdict(bars, Spread(mean=mean, deviation=deviation)),
            )
        )
    if scale.size is not Size.TINY:
        claims.append(
            ("table 2: less than 10% of the functions for the posterior", most < 0.1 * ROWS, f"at most {most}")
        )
        claims.append(
            (
                "table 2: less than 2% for the error bars, on average",
                most_bars < 0.02 * ROWS,
                f"at most {most_bars:.0f}",
            )
        )
    return (
        "### Table 2: functions needed until the gap is below 0.025\n\n4,000 training rows, sigma^2 = 0.1; error bars: "
        "mean and deviation over test rows.\n\n"
        + table(
            ("2 omega^2", "posterior, paper", "ours, kappa 59", "", "ours, all rows", "error bars, paper", "ours", ""),
            rows,
        )
        + f"\n\nWith every row a candidate for both sets the same gap takes {np.mean(fewer):.0%} fewer functions."
    )


def _synthetic(found: Mapping[str, Found], claims: list[tuple[str, bool, str]]) -> str:
    trials = [result for name, result in found.items() if name.startswith("synthetic/")]
    last = Spread.of([trial["gaps"][-1] for trial in trials])
    steps = len(trials[0]["gaps"])
    claims.append(
        (
            f"the large set: after {published.SYNTHETIC_SIZE} functions the gap is below {published.SYNTHETIC_GAP}",
            steps == published.SYNTHETIC_SIZE and last.mean < published.SYNTHETIC_GAP,
            f"{last.text(4)} after {steps}",
        )
    )
    shown = [step for step in (50, 100, 200, 300, 400, 500) if step <= steps] or [steps]
    gaps = [Spread.of([trial["gaps"][step - 1] for trial in trials]).text(3) for step in shown]
    share = Spread.of([trial["squared_error"] / trial["variance"] for trial in trials])
    ours = Spread.of([trial["ours"]["nmse"] for trial in trials])
    return (
        "### The large synthetic set with the inadequate width\n\n"
        + table(("functions", *(f"{step}" for step in shown)), [("gap", *gaps)])
        + f"\n\nNMSE on new rows: {share.text(3)} with the paper's inadequate kernel; {ours.text(3)} for Pursuit with "
        f"its defaults and {trials[0]['ours']['basis_size']} basis vectors, which finds the width "
        f"(NLPD {Spread.of([trial['ours']['nlpd'] for trial in trials]).text(2)}, 95% intervals hold "
        f"{Spread.of([trial['ours']['coverage'] for trial in trials]).text(3)}); noise alone is "
        f"{Spread.of([0.1 / trial['variance'] for trial in trials]).text(3)}."
    )


def _of(found: Mapping[str, Found], start: str, key: str) -> list[float]:
    return [float(result[key]) for name, result in found.items() if name.startswith(start)]


def _text(spread: Spread, factor: float) -> str:
    deviation = None if spread.deviation is None else factor * spread.deviation
    return Spread(mean=factor * spread.mean, deviation=deviation).text(2)


def _label(kappa: int) -> str:
    return "all" if kappa == ALL else f"{kappa}"


def _cell(values: FloatArray) -> str:
    return f"{values.mean():.4f}"


def _variation(runs: FloatArray) -> float:
    """The largest standard deviation over the mean, over steps; 0 of a single run."""
    return 0.0 if len(runs) < 2 else float((runs.std(axis=0, ddof=1) / runs.mean(axis=0)).max())
