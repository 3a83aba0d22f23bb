"""Markdown to HTML: a page with its navigation, and the sections of all pages for the search.

Raw HTML in the text is shown and not obeyed. Every heading has an id, so that sections can be pointed at; links between
the files of the repository become links between pages, and those to files that are no page plain text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from pathlib import PurePosixPath
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from app.help.contents import FOLDER, PAGES, Page
from app.help.fields import fields_markdown

FIELDS_MARK = "<!-- fields -->"
"""Line of the page of fields that what is generated comes in place of."""

_FILES = {PurePosixPath(page.source or f"app/help/{page.file}"): page.slug for page in PAGES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section of a page, for the search. address: relative to /help/."""

    page: str
    title: str
    address: str
    text: str


@lru_cache(maxsize=len(PAGES))
def page_html(slug: str) -> str | None:
    """Return the document of a page; None where there is none of this name."""
    page = next((page for page in PAGES if page.slug == slug), None)
    if page is None:
        return None
    tokens = _tokens(page)
    template = (FOLDER / "page.html").read_text(encoding="utf-8")
    parts = {
        "title": escape(page.title),
        "navigation": "\n".join(_navigation(page)),
        "text": _markdown().renderer.render(_with_contents(tokens), _markdown().options, {}),
        "further": _further(page),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


@lru_cache(maxsize=1)
def sections() -> tuple[Section, ...]:
    """Return the sections of all pages, in order."""
    return tuple(section for page in PAGES for section in _sections(page))


@lru_cache(maxsize=1)
def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("table")


def _tokens(page: Page) -> list[Token]:
    text = page.text
    if page.slug == "fields":
        text = text.replace(FIELDS_MARK, fields_markdown())
    tokens = _markdown().parse(re.sub(r"^<!--.*?-->\n", "", text, flags=re.MULTILINE))
    return list(_finished(tokens, page))


def _finished(tokens: list[Token], page: Page) -> Iterator[Token]:
    """Yield the tokens, with ids at headings, links that lead somewhere, and tables that a phone can scroll."""
    used: set[str] = set()
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", _id(_plain(tokens[place + 1]), used))
        if token.type == "inline":
            token.children = [*_linked(token.children or [], page)]
        if token.type == "table_open":
            yield _html('<div class="scroll" tabindex="0" role="group" aria-label="Table">')
        if token.type in ("fence", "code_block"):
            language = token.info.strip() or "text"
            yield _html(
                f'<pre tabindex="0" data-language="{escape(language)}"><code>{escape(token.content)}</code></pre>'
            )
            continue
        yield token
        if token.type == "table_close":
            yield _html("</div>")


def _html(text: str) -> Token:
    return Token("html_block", "", 0, content=f"{text}\n")


def _linked(children: Sequence[Token], page: Page) -> Iterator[Token]:
    """Yield the tokens of a line; a link to a file that is no page loses its address."""
    dropped = False
    for token in children:
        if token.type == "link_open":
            address = _address(str(token.attrs["href"]), page)
            dropped = address is None
            if dropped:
                continue
            token.attrSet("href", str(address))
        elif token.type == "link_close" and dropped:
            dropped = False
            continue
        yield token


def _address(href: str, page: Page) -> str | None:
    """Return where a link leads from /help/: addresses of the service and of other hosts as they are."""
    path, mark, fragment = href.partition("#")
    if not path or re.match(r"[a-z]+:", path):
        return href
    parts: list[str] = []
    for part in (PurePosixPath(page.source or "app/help/index.md").parent / path).parts:
        parts = parts[:-1] if part == ".." else [*parts, part]
    slug = _FILES.get(PurePosixPath(*parts))
    if slug is None:
        return None if page.source else href
    return f"{slug or '.'}{mark}{fragment}"


def _navigation(current: Page) -> Iterator[str]:
    for page in PAGES:
        here = ' aria-current="page"' if page is current else ""
        yield f'<li><a href="{page.slug or "."}"{here}>{escape(page.title)}</a></li>'


def _further(page: Page) -> str:
    """Return the links to the page before and the one after."""
    place = PAGES.index(page)
    links = []
    if place > 0:
        before = PAGES[place - 1]
        links.append(f'<a rel="prev" href="{before.slug or "."}">← {escape(before.title)}</a>')
    if place + 1 < len(PAGES):
        after = PAGES[place + 1]
        links.append(f'<a rel="next" href="{after.slug}">{escape(after.title)} →</a>')
    return "\n".join(links)


def _with_contents(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens with the list of the page's sections under its title, where there are several."""
    found = [
        (str(token.attrs["id"]), _plain(tokens[place + 1]))
        for place, token in enumerate(tokens)
        if token.type == "heading_open" and token.tag == "h2"
    ]
    if len(found) < 3:
        return list(tokens)
    lines = "\n".join(f'<li><a href="#{mark}">{escape(title)}</a></li>' for mark, title in found)
    box = _html(f'<nav class="contents" aria-label="On this page">\n<ul>\n{lines}\n</ul>\n</nav>')
    return [part for token in tokens for part in ([token, box] if _ends_title(token) else [token])]


def _ends_title(token: Token) -> bool:
    return token.type == "heading_close" and token.tag == "h1"


def _sections(page: Page) -> Iterator[Section]:
    title, mark = page.title, ""
    words: list[str] = []
    tokens = _tokens(page)
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            if words:
                yield _section(page, title, mark, words)
            title, mark, words = _plain(tokens[place + 1]), str(token.attrs["id"]), []
        elif token.type == "inline":
            words.append(_plain(token))
        elif token.type == "html_block":
            words.append(re.sub(r"<[^>]*>", "", token.content))
    if words:
        yield _section(page, title, mark, words)


def _section(page: Page, title: str, mark: str, words: Sequence[str]) -> Section:
    address = f"{page.slug or '.'}{f'#{mark}' if mark else ''}"
    return Section(page=page.title, title=title, address=address, text=" ".join(" ".join(words).split()))


def _plain(token: Token) -> str:
    """Return the text of a line without its marks."""
    children: Sequence[Any] = token.children or ()
    return "".join(" " if child.type == "softbreak" else child.content for child in children)


def _id(title: str, used: set[str]) -> str:
    """Return the id of a heading as code hosts make it, so that links hold in both places."""
    base = re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") or "section"
    mark, count = base, 0
    while mark in used:
        count += 1
        mark = f"{base}-{count}"
    used.add(mark)
    return mark
