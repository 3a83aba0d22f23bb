"""The page's own words: what was done, what was chosen, why a number differs."""

from collections.abc import Mapping

FIGURE = ""
TABLE = ""
NLPD_SCALE = ""
CHOICES = ""
WHY: Mapping[tuple[str, str], str] = {}
"""Of a set and a column whose NMSE is worse than the published one."""
