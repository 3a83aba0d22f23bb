"""A server with a worker, two models on it, and a browser that looks at its page."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Page, expect, sync_playwright

from tests.e2e.processes import follow, submit, surface, system

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""The system's own: none is downloaded."""

WAIT_MS = 30_000
expect.set_options(timeout=WAIT_MS)  # a machine with other work is slow to begin

ROOT = Path(__file__).parents[3]
LIBRARY = os.pathsep.join((str(ROOT / "app" / "library"), str(ROOT)))
"""Path of the package `pursuit`, if it is not installed."""


@dataclass(slots=True)
class Site:
    """A running service. client: of its API; url: where its page is."""

    client: httpx.Client
    url: str
    directory: Path


@dataclass(slots=True)
class Window:
    """A page in the browser, and what went wrong in it: errors of scripts, and what its policy refused."""

    page: Page
    url: str
    wrong: list[str] = field(default_factory=list)

    def open(self, place: str = "#/") -> Page:
        """Open a view, and wait until it is there."""
        self.page.goto(f"{self.url}/{place}")
        self.page.wait_for_selector("main:not([aria-busy]) h1")
        return self.page

    def listen(self) -> None:
        """Keep what goes wrong from here on."""

        def hear(line: ConsoleMessage) -> None:
            if "Content Security Policy" in line.text:
                self.wrong.append(line.text)

        def fail(error: Error) -> None:
            self.wrong.append(str(error))

        self.page.on("console", hear)
        self.page.on("pageerror", fail)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A service with the model `surface` in two versions that differ in their seed's held-out rows and their method."""
    directory = tmp_path_factory.mktemp("site")
    with system(directory) as found:
        client = found.start_api()
        found.start_worker()
        for method in ("batch", "rand"):
            job = submit(client, surface(200), effort="quick", adapt={"rounds": 1}, basis_size=60, method=method)
            assert follow(client, job)[-1]["state"] == "succeeded"
        yield Site(client=client, url=found.url, directory=directory)
        client.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium; of one file alone, for while it is there an event loop runs, beside which the tests of other
    files could not run theirs."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A context of its own: no key and no cache of an earlier test."""
    found = browser.new_context(viewport={"width": 1200, "height": 900})
    found.set_default_timeout(WAIT_MS)
    yield found
    found.close()


@pytest.fixture
def window(context: BrowserContext, site: Site) -> Iterator[Window]:
    """A window on the page. In the end nothing may have gone wrong in it."""
    found = Window(context.new_page(), site.url)
    found.listen()
    yield found
    assert found.wrong == []
