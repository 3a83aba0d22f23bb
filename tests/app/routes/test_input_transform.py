"""`input_transform` over HTTP: columns with long tails are learnt drawn in, told by name, and asked for as they are."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.app.routes.problems import assert_problem
from tests.app.routes.service import Service, running
from tests.app.routes.test_exports import Case, Table, tails, trained
from tests.app.routes.test_import import download, parts, post, with_document, with_tensors

NOISE = "noise.input_transform"
SHORT: dict[str, Any] = {"basis_size": 40, "adapt": {"rounds": 1, "steps": 6}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("inputs")) as found:
        yield found


def with_a_kind(rows: int, seed: int) -> Table:
    """A category beside the tails, whose columns may not be drawn in."""
    return {"kind": [("low", "high", "none")[row % 3] for row in range(rows)], **tails(rows, seed)}


def report_of(service: Service, model: str, **spec: Any) -> dict[str, Any]:
    return trained(service, model, Case(with_a_kind, {**SHORT, **spec}, rows=250))


@pytest.fixture(scope="module")
def report(server: Service) -> dict[str, Any]:
    return report_of(server, "tails", input_transform="yeo-johnson")


def test_columns_are_told_by_name_with_their_powers(report: dict[str, Any]) -> None:
    found = report["input_transform"]
    assert (found["kind"], found["columns"], found["reason"]) == ("yeo-johnson", ["b", "c"], None)
    assert [power < 1.0 for power in found["powers"]] == [True, False]


def test_by_default_nothing_is_drawn_in(server: Service) -> None:
    found = report_of(server, "plain")["input_transform"]
    assert found == {"kind": "none", "columns": [], "powers": [], "reason": None}


def test_auto_says_why(server: Service) -> None:
    report = report_of(server, "auto", input_transform="auto")
    found = report["input_transform"]
    assert "columns with long tails, 2 of them" in found["reason"]
    assert (found["kind"] == "yeo-johnson") is ("drawn in by Yeo" in found["reason"])
    assert (found["kind"] == "yeo-johnson") is (found["reason"] in report["warnings"])


def test_another_name_is_refused_with_those_there_are(server: Service) -> None:
    body = {"columns": with_a_kind(20, 0), "spec": {"target": "y", "input_transform": "logs"}}
    answer = server.client.post("/train", json=body)
    assert_problem(answer, 422)
    assert "spec.input_transform: expected one of none, yeo-johnson, auto" in answer.json()["detail"]


def test_rows_are_asked_for_as_they_are_and_explained_so(server: Service, report: dict[str, Any]) -> None:
    assert report["rows"] == 250
    table = tails(40, 1)
    rows = {name: table[name] for name in ("a", "b", "c")} | {"kind": ["low"] * 40}
    answer = server.client.post("/predict", json={"model": "tails", "columns": rows}).json()
    error = np.array(answer["mean"]) - np.array(table["y"])
    assert np.mean(np.square(error)) < 0.2 * np.var(table["y"])
    body = {"rows": [{"a": 0.5, "b": 30.0, "c": -1.0, "kind": "low"}]}
    found = server.client.post("/models/tails/explain", json=body)
    assert found.status_code == 200, found.text


def with_row(row: int, column: int, value: float) -> Callable[[dict[str, Any]], object]:
    def change(tensors: dict[str, Any]) -> None:
        tensors["input_transform"][row, column] = value

    return change


HOSTILE: dict[str, Callable[[dict[str, Any]], object]] = {
    "a unit of zero": with_row(1, 4, 0.0),
    "a power past its range": with_row(2, 4, 2.5),
    "a part of a category": with_row(2, 0, 0.5),
    "a column less": lambda tensors: tensors.update(input_transform=tensors["input_transform"][:, :-1].copy()),
    "two rows": lambda tensors: tensors.update(input_transform=tensors["input_transform"][:2].copy()),
    "none in its format": lambda tensors: [tensors.pop(name, None) for name in ("input_transform", NOISE)],
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.usefixtures("report")
def test_an_import_with_a_wrong_transform_is_refused_by_its_name(server: Service, name: str) -> None:
    data = download(server, "tails")
    assert parts(data)[1]["format_version"] == 8
    assert post(server, data, "copy").status_code == 201
    answer = post(server, with_tensors(data, HOSTILE[name]))
    assert_problem(answer, 422)
    assert "input_transform" in answer.json()["detail"]


@pytest.mark.usefixtures("report")
def test_a_transform_in_an_older_format_is_refused(server: Service) -> None:
    data = with_document(download(server, "tails"), lambda document: document.update(format_version=5))
    answer = post(server, data)
    assert answer.status_code == 422
    assert "input_transform" in answer.json()["detail"]
