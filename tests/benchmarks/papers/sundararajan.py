"""Sundararajan, Keerthi & Shevade, as a paper of this package."""

from collections.abc import Mapping
from pathlib import Path

from tests.benchmarks.papers.scale import Scale
from tests.benchmarks.papers.sundararajan_design import units
from tests.benchmarks.papers.sundararajan_page import page
from tests.benchmarks.papers.units import Found, Unit


class Sundararajan:
    """Tables 2 to 5, Figures 1 to 4."""

    name = "sundararajan-keerthi-shevade"
    title = "Sundararajan, Keerthi & Shevade: predictive approaches for sparse Gaussian process regression"

    def units(self, scale: Scale) -> list[Unit]:
        """`sundararajan_design.units`."""
        return units(scale)

    def page(self, found: Mapping[str, Found], scale: Scale, folder: Path) -> str:
        """`sundararajan_page.page`."""
        return page(found, scale, folder)
