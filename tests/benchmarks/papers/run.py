"""Runs papers through and writes the page of each, and the page of all of them."""

import re
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.papers.keerthi_chu.paper import KeerthiChu
from tests.benchmarks.papers.paper import Paper
from tests.benchmarks.papers.scale import Scale
from tests.benchmarks.papers.seeger import Seeger
from tests.benchmarks.papers.smola_bartlett import SmolaBartlett
from tests.benchmarks.papers.sundararajan import Sundararajan
from tests.benchmarks.papers.units import Crew, Ledger, work_through
from tests.benchmarks.sets import conditions

_EVERY: tuple[Paper, ...] = (KeerthiChu(), SmolaBartlett(), Seeger(), Sundararajan())
PAPERS = {paper.name: paper for paper in _EVERY}

_ABOVE = """# The papers, remade

`python -m tests.benchmarks.papers` writes this page from the pages of each paper. Seconds are of one processor, one
thread; two units run beside each other, so they are some tenths longer than alone. Lower is better everywhere.
"Within one deviation" is the published one, or a tenth of the published mean where none is given.
"""


def run(names: Sequence[str], scale: Scale, crew: Crew, units: Path, out: Path) -> None:
    """Each paper in turn: its units, then `out/NAME/page.md`, its CSV files and pictures; then `out/RESULTS.md`."""
    for name in names:
        paper = PAPERS[name]
        found = work_through(paper.units(scale), Ledger(folder=units / name), crew)
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        asked = "" if scale.trials is None else f", {scale.trials} trials"
        text = (
            f"## {paper.title}\n\n`python -m tests.benchmarks.papers {name}`, {scale.size}{asked}; {conditions()}\n\n"
            f"{paper.page(found, scale, folder).strip()}\n"
        )
        (folder / "page.md").write_text(text, encoding="utf-8")
    pages = [out / name / "page.md" for name in PAPERS]
    texts = [_from_above(page) for page in pages if page.exists()]
    (out / "RESULTS.md").write_text("\n".join([_ABOVE, *texts]), encoding="utf-8")


def _from_above(page: Path) -> str:
    """The page, its links to files beside it made to hold one folder up."""
    text = page.read_text(encoding="utf-8")
    return re.sub(r"\]\((?!https?:)", f"]({page.parent.name}/", text)
