"""The help in a browser: nothing serious for axe-core in either theme, at phone width; the search; keys alone."""

from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from app.help.contents import PAGES
from tests.e2e.page.conftest import WAIT_MS, Site, Window
from tests.e2e.page.test_accessible import AXE, RUN, SERIOUS

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_serious_is_found_on_any_page(browser: Browser, site: Site, theme: Any) -> None:
    context = browser.new_context(color_scheme=theme, viewport={"width": 360, "height": 800})
    context.set_default_timeout(WAIT_MS)
    try:
        window = Window(context.new_page(), site.url)
        window.listen()
        for each in PAGES:
            window.page.goto(f"{site.url}/help/{each.slug}")
            window.page.locator("h1").wait_for()
            sideways = window.page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            assert sideways == 0, each.slug
            window.page.evaluate((AXE / "axe.min.js").read_text())
            found = [fault for fault in window.page.evaluate(RUN) if fault["impact"] in SERIOUS]
            assert found == [], (each.slug, [(f["id"], [n["html"][:200] for n in f["nodes"]]) for f in found])
        assert window.wrong == []
    finally:
        context.close()


def test_the_search_by_keys_alone(window: Window) -> None:
    page = window.page
    page.goto(f"{window.url}/help")  # leads to /help/
    page.locator("h1").wait_for()
    page.keyboard.press("/")
    expect(page.get_by_label("Search the help")).to_be_focused()
    page.keyboard.type("half known patient too narrow")
    expect(page.get_by_role("status")).to_have_text("1 section found")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/help/intervals#groups")
    expect(page.get_by_role("heading", name="What the intervals promise")).to_be_visible()
    page.get_by_label("Search the help").fill("zzzz")
    expect(page.locator("#found")).to_contain_text("Nothing found")
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="Tutorial").first).to_be_visible()
    page.get_by_role("link", name="Home").click()
    page.wait_for_selector("main:not([aria-busy]) h1")


def test_code_is_copied(window: Window) -> None:
    page = window.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=window.url)
    page.goto(f"{window.url}/help/tutorial")
    page.get_by_role("button", name="Copy").nth(1).click()
    assert "pursuit train flights.csv" in page.evaluate("navigator.clipboard.readText()")
