"""Markup of a report: escaped text, tables, figures."""

from collections.abc import Iterable, Sequence
from html import escape

STYLE = """
:root{color-scheme:light dark;--ground:#fbfbfa;--panel:#fff;--text:#1c2126;--quiet:#59616b;
--edge:#d9dbd6;--warn:#a04a00}
@media(prefers-color-scheme:dark){:root{--ground:#14181c;--panel:#1b2025;--text:#e6e9ec;--quiet:#a4aeb9;
--edge:#323a42;--warn:#f0a35e}}
*{box-sizing:border-box}body{margin:0;background:var(--ground);color:var(--text);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif}
main{max-width:74rem;margin:0 auto;padding:1.5rem 1rem 4rem}
h1{margin:.2rem 0;font-size:1.7rem}h2{margin:2.4rem 0 .6rem;font-size:1.25rem}
.lead{font-size:1.1rem;margin:.3rem 0}.quiet,figcaption,caption{color:var(--quiet)}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,30rem),1fr));gap:1rem}
figure{margin:0;padding:1rem;background:var(--panel);border:1px solid var(--edge);border-radius:8px;min-width:0}
figcaption{font-size:.92rem;margin-top:.5rem}.wide{overflow-x:auto;margin:0 0 1rem}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.95rem}
caption{text-align:left;padding:0 0 .4rem}
th,td{padding:.3rem .8rem .3rem 0;border-bottom:1px solid var(--edge);text-align:left;vertical-align:top}
th{font-weight:600}td.n,th.n{text-align:right}.warnings li{margin:.3rem 0}.warnings li::marker{color:var(--warn)}
code,pre{font:.88rem ui-monospace,"Cascadia Mono",Menlo,"Liberation Mono",monospace}
pre{padding:.8rem;background:var(--panel);border:1px solid var(--edge);border-radius:8px;overflow-x:auto}
@media print{figure{break-inside:avoid}}
""".replace("\n", "")


def number(value: object, digits: int = 4) -> str:
    """Return a figure for reading; a dash for what is not there."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.{digits}g}".replace("-", "\N{MINUS SIGN}")


def percent(share: float | None, digits: int = 1) -> str:
    """Return a share in percent."""
    return "–" if share is None else f"{100 * share:.{digits}f}%"


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]], *, figures: Iterable[int] = ()) -> str:
    """Return a table whose first column heads its rows. figures: places of the columns of numbers."""
    right = frozenset(figures)

    def cell(place: int, value: object, kind: str) -> str:
        scope = ' scope="row"' if kind == "th" else ""
        mark = ' class="n"' if place in right else ""
        return f"<{kind}{scope}{mark}>{escape(number(value))}</{kind}>"

    marks = [' class="n"' if place in right else "" for place in range(len(head))]
    top = "".join(f'<th scope="col"{mark}>{escape(name)}</th>' for name, mark in zip(head, marks, strict=True))
    body = "".join(
        f"<tr>{''.join(cell(place, value, 'td' if place else 'th') for place, value in enumerate(row))}</tr>"
        for row in rows
    )
    said = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<div class="wide" tabindex="0"><table>{said}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def figure(picture: str, caption: str) -> str:
    """Return a picture with what is good to see in it."""
    return f"<figure>{picture}<figcaption>{escape(caption)}</figcaption></figure>"


def section(title: str, *parts: str) -> str:
    """Return a part of the page under a heading; nothing where it has no parts."""
    inside = "\n".join(filter(None, parts))
    return f"<section><h2>{escape(title)}</h2>\n{inside}</section>" if inside else ""


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph of text."""
    mark = f' class="{kind}"' if kind else ""
    return f"<p{mark}>{escape(text)}</p>"


def bullets(texts: Iterable[str], kind: str = "") -> str:
    """Return a list; nothing for no texts."""
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    mark = f' class="{kind}"' if kind else ""
    return f"<ul{mark}>{items}</ul>" if items else ""
