"""The help: every page is there, all that they point at is too, and what they say is what the code does."""

import hashlib
import re
from pathlib import Path
from urllib.parse import urldefrag, urljoin

import pytest
import yaml

from app.help.contents import COPIED, PAGES, ROOT, read
from app.help.field_examples import EXAMPLES
from app.help.fields import fields_markdown
from app.help.pages import page_html, sections
from app.routes.page import HEADERS
from app.services.spec_reading import read_spec
from app.services.specification import SpecBody
from app.settings import Settings
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import Service

SLUGS = [page.slug for page in PAGES]
EXAMPLE_OF = {name: example for group in EXAMPLES.values() for name, example in group.items()}
RESULTS = ROOT / "tests" / "benchmarks" / "results"


def html(slug: str) -> str:
    found = page_html(slug)
    assert found is not None
    return found


@pytest.mark.parametrize("slug", SLUGS)
def test_a_page_and_all_that_it_points_at(service: Service, slug: str) -> None:
    answer = service.client.get(f"/help/{slug}")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers["content-security-policy"] == HEADERS["content-security-policy"]
    text = answer.text
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|<[^>]*\s(style|on\w+)=|\{\{", text)
    assert re.findall(r"<h1\b", text) == ["<h1"]
    for address in sorted(set(re.findall(r'\b(?:href|src)="([^"]*)"', text))):
        assert not re.match(r"(?!https:)[a-z]+:|//|/", address), address
        if address.startswith("https:"):
            continue
        place, mark = urldefrag(urljoin(f"/help/{slug}", address))
        there = service.client.get(place)
        assert there.status_code == 200, address
        if mark:
            assert f'id="{mark}"' in there.text, address


def test_the_address_without_a_slash_leads_to_the_first_page(service: Service) -> None:
    answer = service.client.get("/help", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, "help/")  # relative: it holds under any prefix
    assert_problem(service.client.get("/help/nothing"), 404, "no page 'nothing'")


def test_the_front_page_leads_there(service: Service) -> None:
    assert 'href="help/"' in service.client.get("/").text


def test_sections_are_found_where_they_say(service: Service) -> None:
    found = service.client.get("/help/sections.json").json()
    assert len(found) == len(sections()) > 100
    assert {section["page"] for section in found} == {page.title for page in PAGES}
    (groups,) = [section for section in found if section["address"] == "intervals#groups"]
    assert "half known" in groups["text"]
    for section in found:
        slug, mark = section["address"].removeprefix("."), ""
        slug, _, mark = slug.partition("#")
        assert not mark or f'id="{mark}"' in html(slug), section["address"]


def test_markup_in_the_text_is_shown_and_not_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    page = next(page for page in PAGES if page.slug == "glossary")
    monkeypatch.setattr(type(page), "text", property(lambda _: "# A\n\n<script>a</script> [x](javascript:a)\n"))
    page_html.cache_clear()
    try:
        text = html("glossary")
    finally:
        page_html.cache_clear()
    assert "&lt;script&gt;a&lt;/script&gt;" in text
    assert 'href="javascript' not in text


def test_every_field_has_an_example_that_the_server_takes() -> None:
    assert set(EXAMPLE_OF) == set(SpecBody.model_fields), (
        "app/help/field_examples.py has one for every field of the spec"
    )
    for name, example in EXAMPLE_OF.items():
        assert name in example.spec
        body = read_spec(dict(example.spec), max_basis_size=1000)
        assert getattr(body, name) != SpecBody.model_fields[name].default, f"{name}: the example shows the default"


def test_every_field_is_told_with_its_default_and_meaning() -> None:
    page = html("fields")
    markdown = fields_markdown()
    for name, field in SpecBody.model_fields.items():
        assert f'<h3 id="{name}">{name}</h3>' in page
        assert (field.description or "") in markdown
    assert 'whole number at least 1 or `"auto"`; by default `"auto"`' in markdown
    assert "| `rounds` | whole number at least 1 and at most 1000 | `5` |" in markdown


def rows(text: str) -> list[list[str]]:
    """Return the cells of the lines of Markdown tables."""
    lines = [line.strip().strip("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")] for line in lines]


FIGURES = [
    pytest.param(page.slug, name, table, id=f"{page.slug}-{name}")
    for page in PAGES
    for name, table in re.findall(r"<!-- figures: (\S+) -->\n((?:\|.*\n)+)", page.text)
]


@pytest.mark.parametrize(("slug", "name", "table"), FIGURES)
def test_figures_are_those_measured(slug: str, name: str, table: str) -> None:
    """Every row of a table of the help is a row of the results, columns left out, under the same headings."""
    measured = rows((RESULTS / name).read_text(encoding="utf-8"))
    heading, _, *told = rows(table)
    for row in told:
        assert any(is_part(row, other) for other in measured), f"{slug}: {row} is not in {name}"
    assert any(is_part(heading, other) for other in measured), f"{slug}: {heading} heads no table of {name}"


def is_part(row: list[str], whole: list[str]) -> bool:
    """Return whether the cells of a row stand in another in this order."""
    left = iter(whole)
    return all(cell in left for cell in row)


def test_figures_in_sentences_are_measured_too() -> None:
    told = {
        "coverage.md": ["clustered got 80.8% of a promised 95.8%, drifting 76.7% of 97.8%, duplicated .1% of 80.0%"],
        "large.md": ["524,288 rows up to which a table is held in memory", "a sample of some 200,000 rows"],
    }
    for name, words in told.items():
        text = " ".join((RESULTS / name).read_text(encoding="utf-8").split())
        assert all(word in text for word in words), name
    assert len(FIGURES) == 10


def test_shares_in_sentences_of_what_was_measured_are_in_the_results() -> None:
    text = next(page.text for page in PAGES if page.slug == "intervals").partition("## What was measured")[2]
    sentences = "\n".join(line for line in text.splitlines() if not line.startswith("|"))
    measured = " ".join(path.read_text(encoding="utf-8") for path in RESULTS.glob("*.md"))
    shares = re.findall(r"(?<![\d.])\d*\.\d+%", sentences)
    assert [share for share in shares if not re.search(rf"(?<![\d.]){re.escape(share)}", measured)] == []
    assert len(shares) == 6


def test_what_is_said_of_batch_is_what_its_table_shows() -> None:
    said = " ".join(next(page.text for page in PAGES if page.slug == "methods").split())
    assert (
        "has the lowest NMSE at d = 100, and at d = 500 the lowest but for `loo-cve`, in a fraction of the time of"
        in said
    )
    table = next(param.values[2] for param in FIGURES if param.values[1] == "selection.md")
    measured = {name: [*map(float, cells)] for name, *cells in rows(str(table))[2:]}
    for first, better in ((0, set()), (3, {"loo-cve"})):
        nmse, seconds = measured["batch"][first], measured["batch"][first + 2]
        assert {name for name, row in measured.items() if row[first] < nmse} == better
        near = [row for name, row in measured.items() if row[first] < 1.1 * nmse and name != "batch"]
        assert len(near) > 2
        assert all(seconds < 0.5 * row[first + 2] for row in near)


def test_what_is_said_of_refine_is_what_was_measured() -> None:
    said = " ".join(next(page.text for page in PAGES if page.slug == "methods").split())
    assert "With `pep` it takes up to twice as long, and lowered the NMSE on three of eight sets." in said
    table = rows((RESULTS / "refinement.md").read_text(encoding="utf-8"))
    measured = {(row[0], row[1]): (float(row[2]), float(row[6])) for row in table if row[1].startswith("pep 0.7")}
    pairs = [(row, measured[name, "pep 0.7, moved"]) for (name, kind), row in measured.items() if kind == "pep 0.7"]
    assert len(pairs) == 8
    assert sum(moved[0] < plain[0] for plain, moved in pairs) == 3
    longer = [moved[1] / plain[1] for plain, moved in pairs]
    assert 1.9 < max(longer) <= 2.0


def test_settings_that_are_named_exist() -> None:
    for page in PAGES:
        if not page.source:
            named = set(re.findall(r"PURSUIT_([A-Z_]+)", page.text)) - {"URL", "API_KEY"}
            assert named <= {name.upper() for name in Settings.model_fields}, page.slug


def test_the_citation_names_the_software_and_the_four_papers() -> None:
    citation = yaml.safe_load(read("CITATION.cff", COPIED["CITATION.cff"]))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    families = [[author["family-names"] for author in paper["authors"]] for paper in citation["references"]]
    assert families == [
        ["Keerthi", "Chu"],
        ["Seeger", "Williams", "Lawrence"],
        ["Smola", "Bartlett"],
        ["Sundararajan", "Keerthi", "Shevade"],
    ]
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert version is not None
    assert citation["version"] == version[1]


def test_swagger_ui_is_as_it_came() -> None:
    folder = Path(ROOT / "app" / "swagger_ui")
    told = {name: digest for digest, name in map(str.split, (folder / "SHA256SUMS").read_text().splitlines())}
    assert set(told) == {path.name for path in folder.iterdir()} - {"SHA256SUMS"}
    assert {"LICENSE", "NOTICE"} <= set(told)
    assert told == {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in told}
