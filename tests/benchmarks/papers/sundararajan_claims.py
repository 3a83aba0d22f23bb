"""Claims of Sundararajan, Keerthi & Shevade about their tables and figures, and if they hold here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tests.benchmarks.papers.sundararajan_design import DESIGNS, FIGURE_1
from tests.benchmarks.papers.sundararajan_figures import curves
from tests.benchmarks.papers.sundararajan_runs import MEASURES
from tests.benchmarks.papers.sundararajan_tables import NAMES, OURS, Scores, best, worse
from tests.benchmarks.papers.units import Found

Results = Mapping[str, Mapping[str, Mapping[str, Scores]]]
"""Results by part, set and algorithm."""
MOSTLY = 0.75
"""Share of the cases in which a claim about all of them still counts as one that holds."""
_LARGE = ("bank8FM", "cpu_small", "cpu_act")
_LOO = ("loo-cve", "nlgpp", "gpe")
_LABELS = {design.name: design.label for design in DESIGNS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The paper's words, whether they hold here, our numbers."""

    words: str
    holds: bool
    numbers: str


def claims(results: Results, found: Mapping[str, Found]) -> list[Claim]:
    """Claims in the paper's order."""
    return [make(results, found) for make in _CLAIMS]


def _paper(results: Results, part: str, name: str) -> dict[str, Scores]:
    return {algorithm: of for algorithm, of in results[part][name].items() if algorithm not in OURS}


def _mean(results: Results, part: str, name: str, algorithm: str, measure: str) -> float:
    return results[part][name][algorithm].spread(measure).mean


def _counted(words: str, cases: Mapping[str, bool], least: float = MOSTLY) -> Claim:
    """Holds in most of the cases; those where it does not are named."""
    yes = sum(cases.values())
    missing = ", ".join(name for name, holds in cases.items() if not holds)
    numbers = f"{yes} of {len(cases)}" + (f"; not {missing}" if missing else "")
    return Claim(words=words, holds=yes >= least * len(cases), numbers=numbers)


def _rises(_: Results, found: Mapping[str, Found]) -> Claim:
    cases = {}
    for method in MEASURES[1:]:
        traces = found[f"adapted/{FIGURE_1}/0"][method]["traces"]
        cases[NAMES[method]] = all(int(np.argmin(trace)) < len(trace) - 1 for trace in traces)
    return _counted("Fig. 1: after some number of basis vectors NLML and the three predictive measures rise", cases)


def _never_rises(_: Results, found: Mapping[str, Found]) -> Claim:
    traces = found[f"adapted/{FIGURE_1}/0"]["nlpp"]["traces"]
    rise = max(float(np.diff(trace).max()) for trace in traces)
    return Claim(words="Fig. 1: NLPP may not rise", holds=rise <= 0, numbers=f"largest rise of a step {rise:.1e}")


def _varies_little(_: Results, found: Mapping[str, Found]) -> Claim:
    run = found[f"adapted/{FIGURE_1}/0"]
    spans = {}
    for method in MEASURES[1:]:
        sizes = [1 + int(np.argmin(trace[1:])) for trace in run[method]["traces"]]
        spans[NAMES[method]] = (max(sizes) - min(sizes)) / max(float(np.mean(sizes)), 1.0)
    numbers = ", ".join(f"{name} {span:.0%}" for name, span in spans.items())
    small = sum(span <= 0.2 for span in spans.values())
    words = "Fig. 1: the best size varies by about 10% only as theta is moved (here: 20% for three of four)"
    return Claim(words=words, holds=small >= MOSTLY * len(spans), numbers=f"(largest - smallest) / mean: {numbers}")


def _gpe_largest(results: Results, _: Mapping[str, Found]) -> Claim:
    cases = {
        _LABELS[name]: max(_LOO, key=lambda algorithm: _mean(results, "without-cache", name, algorithm, "size"))
        == "gpe"
        for name in results["without-cache"]
    }
    return _counted("Of the leave-one-out measures GPE takes the most basis vectors", cases)


def _correlated(_: Results, found: Mapping[str, Found]) -> Claim:
    cases, numbers = {}, []
    for name, label in _LABELS.items():
        by_run = []
        for curve in curves(found, name)["nlgpp"]:
            npdl = [score["npdl"] for score in curve["scores"]]
            by_run.append(float(np.corrcoef([curve["measures"][size] for size in curve["sizes"]], npdl)[0, 1]))
        value = float(np.mean(by_run))
        cases[label] = value > 0.9
        numbers.append(f"{label} {value:.2f}")
    claim = _counted("Figs. 2 to 4: the NLGPP measure is highly correlated with NPDL (here: above 0.9)", cases)
    return Claim(words=claim.words, holds=claim.holds, numbers=f"{claim.numbers} ({', '.join(numbers)})")


def _nlgpp_npdl(part: str, words: str, least: float) -> Callable[[Results, Mapping[str, Found]], Claim]:
    def made(results: Results, _: Mapping[str, Found]) -> Claim:
        cases, significant = {}, 0
        for name in results[part]:
            paper = _paper(results, part, name)
            cases[_LABELS[name]] = best(paper, "npdl") == "nlgpp"
            significant += cases[_LABELS[name]] and bool(worse(paper, "npdl"))
        claim = _counted(words, cases, least)
        return Claim(words=words, holds=claim.holds, numbers=f"{claim.numbers}; {significant} with a significant loser")

    return made


def _nlgpp_nmse(results: Results, _: Mapping[str, Found]) -> Claim:
    cases = {}
    for name in ("boston_housing", "friedman2"):
        own = _mean(results, "without-cache", name, "nlgpp", "nmse")
        others = [_mean(results, "without-cache", name, other, "nmse") for other in ("nlpp", "nlml", "loo-cve")]
        cases[f"{_LABELS[name]} ({own:.2f} against at most {max(others):.2f})"] = own > max(others)
    return _counted("NLGPP's NMSE is inferior on Boston housing and Friedman 2", cases, 1.0)


def _loo_npdl(results: Results, _: Mapping[str, Found]) -> Claim:
    names = ("boston_housing", "abalone", "friedman2", "bank32nh")
    cases = {
        _LABELS[name]: _mean(results, "without-cache", name, "loo-cve", "npdl")
        < _mean(results, "without-cache", name, "nlml", "npdl")
        for name in names
    }
    return _counted(
        "LOO-CVE's NPDL is better than NLML's on Boston housing, Abalone, Friedman 2 and bank32NH", cases, 1.0
    )


def _loo_sizes(results: Results, _: Mapping[str, Found]) -> Claim:
    cases = {
        _LABELS[name]: _mean(results, "without-cache", name, "loo-cve", "size")
        < _mean(results, "without-cache", name, "nlml", "size")
        for name in _LARGE
    }
    return _counted("LOO-CVE needs fewer basis vectors than NLML on bank8FM, cpusmall and cpuact", cases, 1.0)


def _cache_sizes(results: Results, _: Mapping[str, Found]) -> Claim:
    cases = {
        f"{NAMES[method]} on {_LABELS[name]}": _mean(results, "with-cache", name, method, "size")
        < _mean(results, "without-cache", name, method, "size")
        for name in results["with-cache"]
        for method in MEASURES[1:]
    }
    return _counted(
        "With the cache every algorithm but NLPP takes fewer basis vectors on every set, but for one case", cases
    )


def _cache_accuracy(results: Results, _: Mapping[str, Found]) -> Claim:
    cases = {}
    for name in results["with-cache"]:
        for method in MEASURES:
            without = _mean(results, "without-cache", name, method, "nmse")
            change = _mean(results, "with-cache", name, method, "nmse") / without - 1.0
            cases[f"{NAMES[method]} on {_LABELS[name]} ({change:+.0%})"] = abs(change) < 0.1
    return _counted("Performance with and without cache is very similar (here: NMSE within a tenth)", cases)


def _adapted_gain(results: Results, _: Mapping[str, Found]) -> Claim:
    cases = {
        f"{NAMES[method]} on {_LABELS[name]}": _mean(results, "adapted", name, method, "npdl")
        < _mean(results, "without-cache", name, method, "npdl")
        for name in ("boston_housing", "abalone")
        for method in MEASURES
    }
    return _counted("Moving theta improves every algorithm's NPDL on Boston housing and Abalone", cases)


def _adapted_friedman(results: Results, _: Mapping[str, Found]) -> Claim:
    cases = {
        f"{NAMES[method]} on {_LABELS[name]}": _mean(results, "adapted", name, method, "nmse")
        < _mean(results, "without-cache", name, method, "nmse")
        for name in ("friedman2", "friedman3")
        for method in _LOO
    }
    return _counted("On Friedman 2 and 3 moving theta improves the NMSE of all three leave-one-out algorithms", cases)


_CLAIMS: tuple[Callable[[Results, Mapping[str, Found]], Claim], ...] = (
    _rises,
    _never_rises,
    _varies_little,
    _gpe_largest,
    _correlated,
    _nlgpp_npdl("without-cache", "Without cache NLGPP has the best NPDL on six sets of eight", 6 / 8),
    _nlgpp_npdl("with-cache", "With cache NLGPP has an excellent NPDL on all sets, the best on six", 6 / 8),
    _nlgpp_npdl("adapted", "With theta moved NLGPP's NPDL is excellent: the best on three sets of six", 3 / 6),
    _nlgpp_nmse,
    _loo_npdl,
    _loo_sizes,
    _cache_sizes,
    _cache_accuracy,
    _adapted_gain,
    _adapted_friedman,
)
