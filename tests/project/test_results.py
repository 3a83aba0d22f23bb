"""The page of results and its details agree: links, commands and figures."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
PAGE = FOLDER / "RESULTS.md"
DETAILS = sorted((FOLDER / "results").glob("*.md"))
FIGURE = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?|\.\d+")


@pytest.mark.parametrize("file", [PAGE, *DETAILS], ids=lambda file: file.name)
def test_links_lead_to_files_and_headings(file: Path) -> None:
    for name, heading in re.findall(r"\]\(([^)#:]+)(?:#([^)]+))?\)", file.read_text(encoding="utf-8")):
        target = file.parent / name
        assert target.exists(), name
        if heading:
            assert heading in _headings(target), f"{name}#{heading}"


def test_the_page_links_every_file_of_details() -> None:
    assert DETAILS
    named = set(re.findall(r"\]\(results/([^)#]+)\)", PAGE.read_text(encoding="utf-8")))
    assert named == {file.name for file in DETAILS}


def test_commands_name_benchmarks_that_exist() -> None:
    named = {
        module
        for file in (PAGE, *DETAILS)
        for module in re.findall(r"python -m tests\.benchmarks\.(\w+)", file.read_text(encoding="utf-8"))
    }
    assert "training" in named
    for module in named:
        assert (FOLDER / f"{module}.py").exists() or (FOLDER / module / "__main__.py").exists(), module


def test_figures_of_the_page_stand_in_the_details() -> None:
    measured = {figure for file in DETAILS for figure in _figures(file)}
    assert _figures(PAGE) - measured == set()


def _headings(file: Path) -> set[str]:
    """The names by which Markdown renderers link to a file's headings."""
    titles = re.findall(r"(?m)^#+ (.+)$", file.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def _figures(file: Path) -> set[str]:
    return {figure.rstrip(",") for figure in FIGURE.findall(file.read_text(encoding="utf-8"))}
