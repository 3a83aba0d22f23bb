"""Claims of the text about Figure 1 and Table 1, each sentence as a test of our numbers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tests.benchmarks.papers.keerthi_chu.found import FigureFound, TableFound, significantly_worse

OTHERS = ("kappa", "dmax", "sb")
SMALL_SETS = ("bank8FM", "bank32nh", "cpu_small", "cpu_act")
LARGE_SETS = ("cal_housing", "house_8L", "house_16H")
FIXED, INFO, DMAX = "fixed-sb", "adapt-info", "adapt-dmax"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A sentence of the paper, how it was read, what we found, and whether it holds."""

    said: str
    test: str
    ours: str
    holds: bool


def of_figure_1(figure: FigureFound) -> list[Claim]:
    """The sentences of section 5 on Figure 1, in their order."""
    return [*_of_errors(figure), *_of_error_bars(figure), *_of_seconds(figure)]


def _of_errors(figure: FigureFound) -> Iterable[Claim]:
    below = [size for size in figure.sizes if size < 600]
    ratios = [
        figure.mean("info", size, "nmse") / max(figure.mean(method, size, "nmse") for method in OTHERS)
        for size in below
    ]
    yield Claim(
        said="INFO yields much worse NMSE than KAPPA, DMAX and SB when d is less than 600",
        test="NMSE of INFO over that of the worst of the three, at least 1.1 at every such d",
        ours=_by_size(below, ratios),
        holds=min(ratios) >= 1.1,
    )
    first = figure.sizes[0]
    info, rand = (figure.mean(method, first, "nmse") for method in ("info", "rand"))
    yield Claim(
        said="near d = 100 INFO is even worse than RAND",
        test=f"NMSE at d = {first}",
        ours=f"INFO {info:.3f}, RAND {rand:.3f}",
        holds=info > rand,
    )
    ratios = [figure.mean("dmax", size, "nmse") / figure.mean("kappa", size, "nmse") for size in figure.sizes]
    yield Claim(
        said="DMAX is always better than KAPPA",
        test="NMSE of DMAX over that of KAPPA, below 1 at every d",
        ours=_by_size(figure.sizes, ratios),
        holds=max(ratios) < 1.0,
    )
    few = [size for size in figure.sizes if size < 200]
    ratios = [figure.mean("dmax", size, "nmse") / figure.mean("sb", size, "nmse") for size in few]
    yield Claim(
        said="DMAX is even slightly better than SB when d is less than 200",
        test="NMSE of DMAX over that of SB, below 1 at every such d",
        ours=_by_size(few, ratios),
        holds=max(ratios) < 1.0,
    )
    ratios = [figure.mean("sb", size, "nmse") / figure.mean("kappa", size, "nmse") for size in figure.sizes]
    yield Claim(
        said="SB generally yields slightly better results than KAPPA",
        test="NMSE of SB over that of KAPPA, below 1 at more than half of all d",
        ours=_by_size(figure.sizes, ratios),
        holds=sum(ratio < 1.0 for ratio in ratios) > len(ratios) / 2,
    )


def _of_error_bars(figure: FigureFound) -> Iterable[Claim]:
    gaps = [figure.mean("info", size, "nlpd") - figure.mean("rand", size, "nlpd") for size in figure.sizes]
    yield Claim(
        said="INFO always gives poor NLPD results, even worse than RAND",
        test="NLPD of INFO minus that of RAND, above 0 at every d",
        ours=_by_size(figure.sizes, gaps),
        holds=min(gaps) > 0.0,
    )
    spreads, distances = [], []
    for size in figure.sizes:
        values = [figure.mean(method, size, "nlpd") for method in OTHERS]
        spreads.append(max(values) - min(values))
        distances.append(figure.mean("info", size, "nlpd") - max(values))
    yield Claim(
        said="the NLPD of KAPPA, DMAX and SB are close",
        test="largest less smallest of the three; smaller than the distance to INFO at every d",
        ours=_by_size(figure.sizes, spreads),
        holds=all(spread < distance for spread, distance in zip(spreads, distances, strict=True)),
    )


def _of_seconds(figure: FigureFound) -> Iterable[Claim]:
    exponents = {method: figure.exponent(method) for method in ("rand", "info", "sb")}
    yield Claim(
        said="the scaling exponents of RAND, INFO and SB are around 2.0",
        test="slope of log seconds over log d, 1.75 to 2.25; RAND takes its rows in one by one, as the others do",
        ours=", ".join(f"{name.upper()} {value:.2f}" for name, value in exponents.items())
        + f"; RAND fitted at once {figure.exponent('rand', one_by_one=False):.2f}",
        holds=all(1.75 <= value <= 2.25 for value in exponents.values()),
    )
    seconds = {method: figure.seconds(method) for method in ("rand", "info", *OTHERS)}
    shared = sorted(set.intersection(*(set(found) for found in seconds.values())))
    over = {method: [seconds[method][size] / seconds["info"][size] for size in shared] for method in seconds}
    at_once = figure.seconds("rand", one_by_one=False)[shared[-1]] / seconds["info"][shared[-1]]
    yield Claim(
        said="INFO is almost as fast as RAND",
        test="seconds of INFO at most 1.5 times those of RAND at the largest d",
        ours=f"{1.0 / over['rand'][-1]:.2f} times one by one, {1.0 / at_once:.1f} times fitted at once",
        holds=1.0 / over["rand"][-1] <= 1.5,
    )
    yield Claim(
        said="SB is about 60 times slower than INFO",
        test="seconds of SB over those of INFO, 40 to 80 at the largest d",
        ours=_by_size(shared, over["sb"]),
        holds=40.0 <= over["sb"][-1] <= 80.0,
    )
    yield Claim(
        said="as d increases, the cost of KAPPA gets close to that of INFO",
        test="seconds of KAPPA over those of INFO: falls, and at most 1.5 at the largest d",
        ours=_by_size(shared, over["kappa"]),
        holds=over["kappa"][-1] <= min(1.5, over["kappa"][0]),
    )
    slopes = [
        float(np.diff(np.log([seconds[method][size] for size in shared[-2:]]))[0] / np.diff(np.log(shared[-2:]))[0])
        for method in ("dmax", "info")
    ]
    yield Claim(
        said="the curve of DMAX becomes parallel to that of INFO",
        test="slopes between the two largest d differ by at most .25",
        ours=f"DMAX {slopes[0]:.2f}, INFO {slopes[1]:.2f}",
        holds=abs(slopes[0] - slopes[1]) <= 0.25,
    )
    yield Claim(
        said="DMAX is only about 3 times slower than INFO",
        test="seconds of DMAX over those of INFO, at most 4 at the largest d",
        ours=_by_size(shared, over["dmax"]),
        holds=over["dmax"][-1] <= 4.0,
    )


def of_table_1(results: TableFound) -> list[Claim]:
    """The sentences on Table 1; those on NLPD with the noise and without it."""
    small = [name for name in SMALL_SETS if name in results.sets]
    large = [name for name in LARGE_SETS if name in results.sets]
    claims = []
    if small:
        gaps = []
        for name in small:
            means = [results.spread(name, column, "nmse").mean for column in (FIXED, INFO, DMAX)]
            gaps.append(100.0 * (max(means) / min(means) - 1.0))
        claims.append(
            Claim(
                said="on the sets with 4,500 training rows the NMSE of the three methods are quite comparable",
                test="worst mean above the best by at most 5%",
                ours=", ".join(f"{name} {gap:.1f}%" for name, gap in zip(small, gaps, strict=True)),
                holds=max(gaps) <= 5.0,
            )
        )
        for key, reading in (("nlpd", "with the noise"), ("nlpd_latent", "without the noise")):
            winners = [
                name for name in small if all(_worse(results, name, column, DMAX, key) for column in (FIXED, INFO))
            ]
            claims.append(
                Claim(
                    said="ADAPT-DMAX yields significantly better NLPD on three of these four",
                    test=f"NLPD {reading}: better than both others on at least three, rank sum test",
                    ours=", ".join(winners) or "on none",
                    holds=len(winners) >= 3,
                )
            )
    if large:
        for key, reading in (("nlpd", "with the noise"), ("nlpd_latent", "without the noise")):
            winners = [
                f"{name} ({measure})"
                for name in large
                for measure, at in (("NMSE", "nmse"), ("NLPD", key))
                if _worse(results, name, INFO, DMAX, at)
            ]
            claims.append(
                Claim(
                    said="with 10,000 training rows ADAPT-DMAX is significantly better than ADAPT-INFO on both scores",
                    test=f"NMSE, and NLPD {reading}, on every set, rank sum test",
                    ours=", ".join(winners) or "on none",
                    holds=len(winners) == 2 * len(large),
                )
            )
    return claims


def _worse(results: TableFound, name: str, column: str, winner: str, key: str) -> bool:
    return significantly_worse(results.each(name, column, key), results.each(name, winner, key))


def _by_size(sizes: Sequence[int], values: Sequence[float]) -> str:
    """`1.61 (100), 1.40 (200)`."""
    return ", ".join(f"{value:.2f} ({size})" for size, value in zip(sizes, values, strict=True))
