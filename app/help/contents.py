"""The pages of the documentation, in order, and where the text of each lies.

Most are Markdown files of this folder. What is kept elsewhere in the repository (the operators' guide, the changes, the
Python package's own page, how to cite) is read from there in a checkout; the wheel has copies of it in this folder
(`app/entry/pursuit_build.py`).
"""

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]

CITATION = "CITATION.cff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page. slug: its address under /help/; source: of a page kept elsewhere, its path from the repository's root."""

    slug: str
    title: str
    source: str = ""

    @property
    def file(self) -> str:
        """Name of its file in this folder."""
        return f"{self.slug or 'index'}.md"

    @property
    def text(self) -> str:
        """Its Markdown."""
        return read(self.file, self.source)


PAGES = (
    Page(slug="", title="Overview"),
    Page(slug="tutorial", title="Tutorial"),
    Page(slug="methods", title="Which method when"),
    Page(slug="fields", title="Every field"),
    Page(slug="intervals", title="What the intervals promise"),
    Page(slug="export", title="Models elsewhere"),
    Page(slug="commands", title="Command line", source="app/cli/README.md"),
    Page(slug="python", title="Python", source="app/library/README.md"),
    Page(slug="operators", title="Operators' guide", source="deploy/README.md"),
    Page(slug="glossary", title="Glossary"),
    Page(slug="changes", title="Changes", source="deploy/CHANGES.md"),
    Page(slug="cite", title="How to cite"),
)

COPIED = {page.file: page.source for page in PAGES if page.source} | {CITATION: f"deploy/{CITATION}"}
"""Files that a wheel has in this folder, and where a checkout has them."""


def read(file: str, source: str = "") -> str:
    """Return the text of a file of this folder, or in a checkout of the one that it would be a copy of."""
    copy = FOLDER / file
    return (copy if copy.is_file() or not source else ROOT / source).read_text(encoding="utf-8")
