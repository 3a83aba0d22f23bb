"""Keerthi & Chu 2005, Table 1 as printed: mean and standard deviation over 20 trials, and what is said of Figure 1."""

from collections.abc import Mapping

from tests.benchmarks.papers.paper import Spread

COLUMNS = ("fixed-sb", "adapt-info", "adapt-dmax")


def _row(*numbers: float) -> dict[str, Spread]:
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return dict(zip(COLUMNS, (Spread(mean=mean, deviation=deviation) for mean, deviation in pairs), strict=True))


NMSE: Mapping[str, Mapping[str, Spread]] = {
    "bank8FM": _row(3.52, 0.08, 3.56, 0.09, 3.54, 0.08),
    "bank32nh": _row(48.08, 2.92, 49.04, 1.34, 47.41, 1.35),
    "cpu_small": _row(2.45, 0.16, 2.46, 0.14, 2.45, 0.15),
    "cpu_act": _row(1.58, 0.13, 1.61, 0.14, 1.61, 0.11),
    "cal_housing": _row(22.58, 0.34, 22.82, 0.46, 20.02, 0.88),
    "house_8L": _row(42.27, 2.14, 37.30, 1.29, 35.87, 0.94),
    "house_16H": _row(53.45, 7.05, 45.72, 1.15, 44.29, 0.76),
}
"""Published NMSE, in percent."""
NLPD: Mapping[str, Mapping[str, Spread]] = {
    "bank8FM": _row(3.11, 0.65, 1.37, 0.34, 0.67, 0.53),
    "bank32nh": _row(-1.02, 0.21, -0.79, 0.06, -0.88, 0.03),
    "cpu_small": _row(5.18, 0.61, 3.70, 0.46, 3.04, 0.17),
    "cpu_act": _row(4.49, 0.26, 3.68, 0.40, 3.09, 0.20),
    "cal_housing": _row(31.83, 3.35, 21.20, 1.47, 13.03, 0.30),
    "house_8L": _row(12.06, 0.67, 12.06, 0.07, 11.71, 0.03),
    "house_16H": _row(12.72, 1.69, 12.48, 0.06, 12.13, 0.04),
}
