"""A key is asked for where the server wants one, kept for the tab, and sent with everything: events, downloads too."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.page.conftest import LIBRARY, Window
from tests.e2e.processes import surface, system
from tests.processes import start_module

pytestmark = [pytest.mark.e2e]


def create_key(directory: Path, scope: str) -> str:
    """Create a key by the command, as an operator does; return its token."""
    output = directory / f"key-{scope}"
    arguments = ("keys", "create", "--scope", scope, "--data-dir", str(directory / "data"))
    made = start_module("app.cli", *arguments, log=directory / "keys.log", output=output, environment={})
    assert made.wait(60) == 0, (directory / "keys.log").read_text()
    return output.read_text().strip()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """The address of a service that wants keys, and one key for each of two scopes."""
    directory = tmp_path_factory.mktemp("guarded")
    with system(directory) as found:
        found.start_api().close()
        found.start_worker()
        keys = {scope: create_key(directory, scope) for scope in ("predict,train", "predict")}
        yield found.url, keys


def give(page: Page, key: str) -> None:
    dialog = page.get_by_role("dialog", name="API key")
    expect(dialog).to_be_visible()
    dialog.get_by_label("Key", exact=True).fill(key)
    dialog.get_by_role("button", name="Use this key").click()


def test_a_key_is_asked_for_and_everything_works_with_it(
    context: BrowserContext, guarded: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    url, keys = guarded
    window = Window(context.new_page(), url)
    window.listen()
    page = window.page
    page.goto(f"{url}/")
    give(page, "pk_this_is_none")
    expect(page.get_by_text("The server does not accept this key.")).to_be_visible()
    give(page, keys["predict,train"])
    expect(page.get_by_role("heading", name="Models")).to_be_visible()
    (tmp_path / "locked.csv").write_text(surface(80))
    page.get_by_label("Drop a table here").set_input_files(tmp_path / "locked.csv")
    page.get_by_label("Effort").select_option("quick")
    page.get_by_role("button", name="Train", exact=True).click()
    page.wait_for_url(re.compile("#/models/locked@1"))
    page.get_by_role("link", name="Ask and what-if").click()
    expect(page.locator(".answer .big")).to_have_text(re.compile("±"))
    page.get_by_role("link", name="Versions").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download version 1").click()
    assert download.value.path().stat().st_size > 1_000
    page.reload()  # the same tab: no question
    expect(page.get_by_role("button", name="Download version 1")).to_be_visible()
    page.get_by_role("link", name="Use it elsewhere").click()
    for title in ("Python", "Python, by HTTP alone"):
        code = page.get_by_label(title, exact=True).inner_text()
        environment = {**os.environ, "PYTHONPATH": LIBRARY, "PURSUIT_API_KEY": keys["predict,train"]}
        ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=False)
        assert ran.returncode == 0, ran.stderr.decode()
    assert "Bearer $PURSUIT_API_KEY" in page.get_by_label("One row, by curl", exact=True).inner_text()
    assert keys["predict,train"] not in page.content()
    assert page.evaluate("localStorage.length") == 0
    other = context.new_page()  # another tab: it has no key
    other.goto(f"{url}/")
    expect(other.get_by_role("dialog", name="API key")).to_be_visible()
    other.get_by_role("button", name="Cancel").click()
    expect(other.get_by_role("alert")).to_be_visible()
    expect(other.get_by_role("button", name="Try again")).to_be_visible()
    assert window.wrong == []


def test_a_key_that_only_predicts_is_told_so(
    context: BrowserContext, guarded: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    url, keys = guarded
    page = context.new_page()
    page.goto(f"{url}/")
    give(page, keys["predict"])
    expect(page.get_by_role("heading", name="Models")).to_be_visible()
    (tmp_path / "no.csv").write_text(surface(20))
    page.get_by_label("Drop a table here").set_input_files(tmp_path / "no.csv")
    expect(page.get_by_role("alert")).to_contain_text("This key may not do that.")
