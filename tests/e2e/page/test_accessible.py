"""The page is for everybody: axe-core finds nothing serious in any view, in either theme, and a phone shows all of it.

axe-core is Deque's, MPL 2.0, from npm as it came; its licence and checksums lie beside it.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.e2e.page.conftest import WAIT_MS, Site, Window
from tests.e2e.processes import surface

AXE = Path(__file__).parent / "axe-core"
RUN = "axe.run(document, {resultTypes: ['violations']}).then(({violations}) => violations)"
SERIOUS = {"serious", "critical"}


def upload(page: Page, path: Path, text: str) -> None:
    path.write_text(text)
    page.get_by_label("Drop a table here").set_input_files(path)


def at_rest(page: Page, _: Path) -> None:
    page.wait_for_timeout(100)


def bad_file(page: Page, folder: Path) -> None:
    upload(page, folder / "bad.csv", "a,b\n1,2\n3\n")
    page.get_by_role("alert").wait_for()


def dataset(page: Page, folder: Path) -> None:
    upload(page, folder / "holes.csv", surface(50).replace("north", ""))
    page.get_by_text("Advanced").click()
    page.get_by_role("heading", name="How each column was read").wait_for()


def ask_badly(page: Page, _: Path) -> None:
    page.locator(".answer .big").wait_for()
    page.get_by_label("a", exact=True).fill("much")
    page.get_by_role("alert").wait_for()


def numbers(page: Page, _: Path) -> None:
    page.locator("summary").first.click()
    page.get_by_role("button", name="Download as CSV").first.wait_for()


def compare(page: Page, _: Path) -> None:
    page.get_by_label("Compare with").select_option("1")
    page.get_by_text("is within chance").or_(page.get_by_text("more than chance")).wait_for()


def predict_file(page: Page, folder: Path) -> None:
    path = folder / "new.csv"
    path.write_text(surface(12))
    page.get_by_label("Table to predict").set_input_files(path)
    page.get_by_text("12 rows predicted.").wait_for()


def key(page: Page, _: Path) -> None:
    page.get_by_role("button", name="API key").click()


VIEWS: dict[str, tuple[str, Callable[[Page, Path], None]]] = {
    "home": ("#/", at_rest),
    "bad-file": ("#/", bad_file),
    "dataset": ("#/", dataset),
    "job": ("#/jobs/", at_rest),
    "look": ("#/models/surface", numbers),
    "ask": ("#/models/surface/ask", ask_badly),
    "file": ("#/models/surface/file", predict_file),
    "versions": ("#/models/surface/versions", compare),
    "use": ("#/models/surface/use", at_rest),
    "gone": ("#/models/nothing", at_rest),
    "key": ("#/", key),
}


def test_the_checker_is_as_it_came() -> None:
    lines = (AXE / "SHA256SUMS").read_text().splitlines()
    told = {name: digest for digest, name in map(str.split, lines)}
    assert set(told) == {path.name for path in AXE.iterdir()} - {"SHA256SUMS"}
    assert told == {name: hashlib.sha256((AXE / name).read_bytes()).hexdigest() for name in told}


@pytest.mark.e2e
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_serious_is_found(browser: Browser, site: Site, tmp_path: Path, theme: Any, view: str) -> None:
    place, act = VIEWS[view]
    if view == "job":
        place += site.client.get("/jobs").json()["jobs"][0]["id"]
    context = browser.new_context(color_scheme=theme, viewport={"width": 360, "height": 800})
    context.set_default_timeout(WAIT_MS)
    try:
        window = Window(context.new_page(), site.url)
        window.listen()
        page = window.open(place)
        act(page, tmp_path)
        sideways = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert sideways == 0
        page.evaluate((AXE / "axe.min.js").read_text())
        found = [each for each in page.evaluate(RUN) if each["impact"] in SERIOUS]
        assert found == [], [(each["id"], [node["html"][:200] for node in each["nodes"]]) for each in found]
        assert window.wrong == []
    finally:
        context.close()


@pytest.mark.e2e
def test_the_checker_finds_what_is_wrong(window: Window) -> None:
    page = window.open()
    page.evaluate("""() => {
        document.querySelector('label[for="table-file"]').remove();
        document.querySelector('main').append(document.createElement('button'));
    }""")
    page.evaluate((AXE / "axe.min.js").read_text())
    assert {"label", "button-name"} <= {each["id"] for each in page.evaluate(RUN) if each["impact"] in SERIOUS}


@pytest.mark.e2e
def test_meaning_does_not_hang_on_colour(window: Window) -> None:
    page = window.open("#/models/surface")
    missed = page.locator("figure").first.locator(".point.outside")
    assert {each.evaluate("node => node.tagName") for each in missed.all()} <= {"path"}  # diamonds, not dots
    assert page.locator("figure").first.locator("circle.point").count() > 0
