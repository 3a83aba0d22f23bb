"""The report of a version as one HTML page, from the documents of `/models/{name}/versions/{v}` and beside it."""

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from app.report import figures
from app.report.html import STYLE, bullets, number, paragraph, percent, section, table

Document = Mapping[str, Any]

_NO_NETWORK = "default-src 'none'; style-src 'unsafe-inline'"
_MOST_LEVELS = 8


def render(
    detail: Document,
    *,
    held_out: Document | None = None,
    importance: Document | None = None,
    effects: Document | None = None,
) -> str:
    """Return the page. held_out: predicted rows, None where the version keeps none; importance, effects: of its
    columns."""
    report, target, name = detail["report"], detail["target"], detail["model"]
    scores = report.get("holdout") or report.get("leave_one_out") or {}
    version = "" if detail.get("version") is None else f" version {detail['version']}"
    plots = [
        *([figures.against_truth(held_out)] if held_out else []),
        figures.reliability(scores),
        *([figures.residuals(held_out)] if held_out else []),
        *([figures.importance(importance, target)] if importance else []),
        *_effects(effects, importance, target),
        figures.objective(report),
    ]
    parts = [
        f"<h1>{escape(str(name))}<span class=quiet>{escape(version)}</span></h1>",
        *_lead(detail, scores),
        f'<div class="figures">{"".join(plots)}</div>',
        section("What to know", bullets(map(str, report.get("warnings") or ()), "warnings")),
        section("Scores", _scores(report, target), _coverage(report)),
        section("Where the intervals hold", _parts(report)),
        section("What the prediction varies with", _shares(importance or {})),
        section("Models that were compared", _candidates(report)),
        section("Columns", _columns(report, detail)),
        section("How it was trained", _facts(report), _spec(detail)),
    ]
    title = f"{name}{version}: {target}"
    body = "\n".join(filter(None, parts))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_NO_NETWORK}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body><main>\n{body}\n</main></body></html>\n"
    )


def _effects(effects: Document | None, importance: Document | None, target: str) -> list[str]:
    if effects is None:
        return []
    ranked = [feature["name"] for feature in (importance or {}).get("features") or ()]
    return figures.effects(effects, {name: place for place, name in enumerate(ranked)}, target)


def _lead(detail: Document, scores: Document) -> Iterator[str]:
    report = detail["report"]
    used = sum(column["kind"] != "unused" for column in report.get("columns") or ())
    kind = "rows it had not seen" if report.get("holdout") else "rows that were left out one by one"
    if "scores_of" in report:
        kind += f" in the training of version {report['scores_of']}"
    if scores:
        share, error = scores["coverage"]["0.95"], (scores.get("coverage_standard_error") or {}).get("0.95")
        about = "" if error is None else f" ± {percent(error)}"
        yield paragraph(
            f"{detail['target']} from {used} columns: ± {number(scores['rmse'], 3)} "
            f"(RMSE on {scores['rows']:,} {kind}); "
            f"95% intervals held {percent(share)}{about} of the truths.",
            "lead",
        )
    aliases = f", known as {', '.join(detail['aliases'])}" if detail.get("aliases") else ""
    created = f", published {detail['created_at']}" if detail.get("created_at") else ""
    yield paragraph(f"Learnt from {number(report.get('rows'))} rows{created}{aliases}.", "quiet")


def _scores(report: Document, target: str) -> str:
    found = [("rows held out", report.get("holdout")), ("left out one by one", report.get("leave_one_out"))]
    rows = [
        (
            label,
            scores["rows"],
            scores["nmse"],
            scores["rmse"],
            None if scores["nmse"] is None else 1.0 - scores["nmse"],
            scores["nlpd"],
            scores.get("crps"),
        )
        for label, scores in found
        if scores
    ]
    head = ("measured on", "rows", "NMSE", f"RMSE, {target}", "R2", "NLPD, nats", "CRPS")
    return table("Less is better, but for R2", head, rows, figures=range(1, 7)) if rows else ""


def _coverage(report: Document) -> str:
    scores = report.get("holdout") or report.get("leave_one_out")
    if not scores:
        return ""
    errors, widths = scores.get("coverage_standard_error") or {}, scores.get("mean_width") or {}
    rows = [
        (percent(float(level), 0), percent(share), f"± {percent(errors.get(level))}", widths.get(level))
        for level, share in scores["coverage"].items()
    ]
    head = ("interval", "holds", "standard error", "mean width")
    return table("Share of truths inside of the intervals", head, rows, figures=(1, 2, 3))


def _parts(report: Document) -> str:
    found = report.get("local_coverage") or {}
    rows = [
        (
            "length of the error bar" if part["by"] == "std" else part["column"],
            "" if part.get("lowest") is None else f"{number(part['lowest'])} to {number(part['highest'])}",
            part["rows"],
            percent(part["coverage"]),
        )
        for part in found.get("parts") or ()
    ]
    if not rows:
        return ""
    worst = paragraph(f"Worst: {found['worst']}.") if found.get("worst") else ""
    return worst + table("Left-out rows in parts", ("by", "from, to", "rows", "inside of 95%"), rows, figures=(2, 3))


def _shares(importance: Document) -> str:
    rows = [
        (one["name"], percent(one["alone"]), percent(one["with_others"]), f"± {percent(one['standard_error'])}")
        for one in (importance.get("shares") or {}).get("columns") or ()
    ]
    if not rows:
        return ""
    head = ("column", "alone", "with others", "standard error")
    caption = "Shares of the variance of the mean, were the columns independent of each other (Sobol' indices)"
    return table(caption, head, rows, figures=(1, 2, 3))


def _candidates(report: Document) -> str:
    rows = [
        (
            ("sparse" if one["mean"] == "basis" else "full") + (", taken" if one.get("taken") else ""),
            one["kernel"],
            one["mean_rows"],
            one["nmse"],
            one["nlpd"],
            round(one["seconds"], 1),
            one.get("reason") or "",
        )
        for one in report.get("candidates") or ()
    ]
    head = ("model", "kernel", "rows it rests on", "NMSE", "NLPD", "seconds", "why")
    return table("On rows that were left out; less is better", head, rows, figures=range(2, 6)) if rows else ""


def _columns(report: Document, detail: Document) -> str:
    lengths = detail["hyperparameters"].get("lengthscales") or {}
    rows = []
    for column in report.get("columns") or ():
        levels = column.get("levels") or []
        more = f" and {len(levels) - _MOST_LEVELS} more" if len(levels) > _MOST_LEVELS else ""
        shown = ", ".join(map(str, levels[:_MOST_LEVELS])) + more
        missing = column.get("missing_replaced_by", column.get("missing", ""))
        rows.append((column["name"], column["kind"], shown, missing, lengths.get(column["name"])))
    head = ("column", "read as", "levels", "where missing", "lengthscale, in standard deviations")
    return table("A short lengthscale: the prediction changes quickly along it", head, rows, figures=(3, 4))


def _facts(report: Document) -> str:
    calibration = report.get("calibration") or {}
    seconds = report.get("seconds") or {}
    facts = {
        "kernel": report.get("kernel"),
        "basis vectors": report.get("basis_size"),
        "rows used": report.get("rows"),
        "rows dropped": report.get("rows_dropped"),
        **_weights(report.get("weights")),
        "error bars calibrated by": calibration.get("by"),
        "on rows": calibration.get("rows"),
        "seconds": round(sum(seconds.values()), 1) if seconds else None,
        "peak memory, MiB": None if report.get("peak_memory_bytes") is None else report["peak_memory_bytes"] >> 20,
    }
    return table("", ("", ""), [(name, value) for name, value in facts.items() if value is not None], figures=(1,))


def _weights(found: Document | None) -> dict[str, Any]:
    if found is None:
        return {}
    return {
        "weights by column": found["column"],
        "weights from, to": f"{number(found['least'])} to {number(found['greatest'])}",
        "rows of equal weight that say as much": round(found["effective_rows"]),
    }


def _spec(detail: Document) -> str:
    text = json.dumps(detail["spec"], indent=2, ensure_ascii=False)
    return f"<details><summary>Its specification</summary><pre>{escape(text)}</pre></details>"
