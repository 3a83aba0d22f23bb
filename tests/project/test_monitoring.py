"""Alert rules and dashboard: they parse, and ask for series and labels that the service has."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from app.telemetry.measures import Measures
from tests.app.routes.service import running

FOLDER = Path(__file__).parents[2] / "deploy" / "monitoring"
RULES: list[dict[str, Any]] = yaml.safe_load((FOLDER / "alerts.yaml").read_text(encoding="utf-8"))["groups"][0]["rules"]
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
FROM_PROMETHEUS = {"instance", "job", "le"}
"""Labels that the scrape adds, and that of buckets."""


def expressions() -> Iterator[tuple[str, str]]:
    for rule in RULES:
        yield rule["alert"], rule["expr"]
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target["expr"].replace("$__rate_interval", "5m")


EXPRESSIONS = dict(expressions())


def selectors(node: Any) -> Iterator[tuple[str, set[str]]]:
    """Names of the series in an expression, with the labels that it matches."""
    for part in walk(node):
        if isinstance(part, promql_parser.VectorSelector):
            yield str(part.name), {matcher.name for matcher in part.matchers.matchers}


def walk(node: Any) -> Iterator[Any]:
    yield node
    for name in ("expr", "lhs", "rhs", "vector_selector", "param"):
        child = getattr(node, name, None)
        if child is not None:
            yield from walk(child)
    for child in getattr(node, "args", None) or ():
        yield from walk(child)


def grouped(node: Any) -> set[str]:
    """Labels that an expression groups by."""
    found: set[str] = set()
    for part in walk(node):
        if isinstance(part, promql_parser.AggregateExpr) and part.modifier is not None:
            found |= set(part.modifier.labels)
    return found


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Labels of every series that a service has, by its name."""
    with running(tmp_path_factory.mktemp("monitored")) as service:
        text = service.client.get("/metrics").text
        families = {family.name: family.type for family in text_string_to_metric_families(text)}
    labels = {family.name: set(family.labels) for family in Measures().families}
    found: dict[str, set[str]] = {}
    for name, kind in families.items():
        endings = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(kind, ("",))
        found |= {name + ending: labels.get(name, set()) for ending in endings}
    return found


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expressions_ask_for_series_that_there_are(name: str, known: dict[str, set[str]]) -> None:
    tree = promql_parser.parse(EXPRESSIONS[name])
    found = list(selectors(tree))
    assert {series for series, _ in found} == set(re.findall(r"pursuit_\w+", EXPRESSIONS[name]))
    possible = set(FROM_PROMETHEUS)
    for series, labels in found:
        assert series in known
        assert labels <= known[series] | FROM_PROMETHEUS
        possible |= known[series]
    assert grouped(tree) <= possible


def test_every_series_is_shown(known: dict[str, set[str]]) -> None:
    shown = set(re.findall(r"pursuit_\w+", " ".join(EXPRESSIONS.values())))
    families = {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in known}
    assert {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in shown} == families


def test_labels_in_legends_and_texts_are_those_of_their_expressions() -> None:
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            tree = promql_parser.parse(target["expr"].replace("$__rate_interval", "5m"))
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= grouped(tree)
    for rule in RULES:
        named = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        assert named <= grouped(promql_parser.parse(rule["expr"])) | {"instance"}


def test_rules_have_what_an_operator_needs() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert set(rule["annotations"]) == {"summary", "description"}
        assert re.fullmatch(r"\d+[mh]", rule.get("for", "1m"))


def test_panels_lie_beside_each_other() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = {(x, y) for p in places for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])}
    assert len(cells) == sum(p["w"] * p["h"] for p in places)
    assert all(p["x"] + p["w"] <= 24 for p in places)
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(places)
    for panel in DASHBOARD["panels"]:
        assert all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"])
