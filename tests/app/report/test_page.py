"""The page of a report: whole, escaped, readable without a network, and of what there is."""

import re
from html.parser import HTMLParser
from typing import Any

from app.report.page import render

NASTY = '<script>alert("x")</script>&amp'
VOID = frozenset({"meta", "path", "rect", "br"})

SCORES = {
    "rows": 4,
    "nmse": 0.25,
    "rmse": 2.5,
    "nlpd": 1.75,
    "crps": 1.25,
    "coverage": {"0.5": 0.5, "0.95": 0.75},
    "coverage_standard_error": {"0.5": 0.25, "0.95": 0.1},
    "mean_width": {"0.5": 3.0, "0.95": 9.0},
    "reliability": {"0.1": 0.9, "0.5": 0.5, "0.9": 0.95},
}
DETAIL: dict[str, Any] = {
    "model": "cars",
    "version": 3,
    "target": NASTY,
    "aliases": ["champion"],
    "created_at": "2026-01-02",
    "spec": {"target": NASTY},
    "hyperparameters": {"lengthscales": {NASTY: 0.5}},
    "report": {
        "rows": 100,
        "holdout": SCORES,
        "columns": [{"name": NASTY, "kind": "category", "levels": [NASTY, *map(str, range(12))]}],
        "warnings": [f"column {NASTY} gives it away"],
        "objectives": [5.0, 3.0, 2.5],
        "candidates": [
            {"mean": "basis", "taken": True, "kernel": "gaussian", "mean_rows": 10, "nmse": 0.5, "nlpd": 1.0,
             "seconds": 0.25, "reason": NASTY}
        ],
        "local_coverage": {"worst": "none", "parts": [
            {"by": "std", "lowest": 1.0, "highest": 2.0, "rows": 50, "coverage": 0.9, "column": None}
        ]},
        "kernel": "gaussian",
        "seconds": {"fitting": 1.25},
    },
}  # fmt: skip
HELD_OUT = {
    "name": NASTY,
    "held_out": True,
    "total": 40,
    "interval": 0.95,
    "target": [1.0, 2.0, 3.0, 9.0],
    "mean": [1.5, 2.5, 2.0, 4.0],
    "lower": [0.0, 1.0, 0.0, 3.0],
    "upper": [3.0, 4.0, 5.0, 5.0],
}
IMPORTANCE = {
    "rows": 80,
    "features": [{"name": NASTY, "importance": 2.0}, {"name": "other", "importance": 0.5}],
    "shares": {"columns": [{"name": NASTY, "alone": 0.5, "with_others": 0.75, "standard_error": 0.01}]},
}
EFFECTS = {
    "average_target": 5.0,
    "columns": [
        {"name": "other", "values": [3, 1, 2, None], "effect_target": [6.0, 4.0, 5.0, 5.0], "weights": [0.25] * 4},
        {"name": NASTY, "values": [NASTY, "b"], "effect_target": [4.5, 5.5], "weights": [0.4, 0.6]},
        {"name": "day", "values": ["2011-01-01", "2011-01-02"], "effect_target": [4.5, 5.5], "weights": [0.4, 0.6]},
        {"name": "one", "values": [1, None], "effect_target": [4.5, 5.5], "weights": [0.4, 0.6]},
    ],
}


class Checker(HTMLParser):
    """Every element is closed, and none asks for something."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        assert not {"src", "href", "srcset"} & {name for name, _ in attrs}, (tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        assert "href" not in dict(attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def checked(page: str) -> list[str]:
    """Check a page; return the elements that it has."""
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert "script" not in checker.seen
    assert "url(" not in page
    assert set(re.findall(r"https?://[^\s\"']+", page)) <= {"http://www.w3.org/2000/svg"}
    return checker.seen


def test_a_page_is_whole_and_asks_for_nothing() -> None:
    page = render(DETAIL, held_out=HELD_OUT, importance=IMPORTANCE, effects=EFFECTS)
    assert checked(page).count("figure") == 7  # of the effects those of a number and of a category
    assert page.index("On average, over &lt;script&gt;") < page.index("On average, over other")  # as they matter
    assert "default-src 'none'" in page
    assert "prefers-color-scheme:dark" in page
    assert NASTY not in page


def test_its_figures_are_in_its_tables_too() -> None:
    page = render(DETAIL, held_out=HELD_OUT, importance=IMPORTANCE)
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    for words in (
        "cars version 3", "± 2.5 (RMSE on 4 rows it had not seen)", "95% intervals held 75.0% ± 10.0%",
        "here 1 of 4 are", "points outside of it: 1 of 3", "known as champion", "gives it away", "sparse, taken",
        "and 5 more", "Models that were compared", "length of the error bar 1 to 2 50 90.0%",
        "The mean residual is 1.25", "50.0% 75.0% ± 1.0%",
    ):  # fmt: skip
        assert words in text, words


def test_what_is_not_there_is_left_out() -> None:
    bare = {**DETAIL, "version": None, "aliases": [], "created_at": None, "report": {"rows": 7, "columns": []}}
    page = render(bare)
    assert "figure" not in checked(page)
    assert "Scores" not in page
    assert "Learnt from 7 rows." in page
