"""Integers past 2^53 over HTTP: two that 64-bit numbers do not tell apart have answers of their own by every way in."""

import io
import json
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.app.routes.problems import assert_problem
from tests.app.routes.service import QUICK, Service, running
from tests.app.tables.files import arrow, parquet

LOW, HIGH = 2**53, 2**53 + 1  # one 64-bit number
ROWS = 60
COLUMNS: dict[str, list[Any]] = {
    "x": [LOW + k % 2 for k in range(ROWS)],
    "z": [k * 7 % 11 for k in range(ROWS)],
    "y": [10.0 * (k % 2) + 0.1 * (k % 3) for k in range(ROWS)],
}
CSV = "x,z,y\n" + "".join(f"{x},{z},{y}\n" for x, z, y in zip(*COLUMNS.values(), strict=True))
NEW = {"x": [LOW, HIGH], "z": [3, 3]}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("service")) as found:
        job = found.train(CSV, model="ids", **QUICK)
        assert job["state"] == "succeeded", job
        yield found


@pytest.fixture(scope="module")
def expected(service: Service) -> list[float]:
    found: list[float] = service.ask("ids", [{"x": LOW, "z": 3}, {"x": HIGH, "z": 3}])["mean"]
    assert found[0] == pytest.approx(0.1, abs=0.2)  # the target takes 0 to 0.2 there, and 10 to 10.2 a step further
    assert found[1] == pytest.approx(10.1, abs=0.2)
    return found


@pytest.mark.parametrize(
    "asked",
    [
        {"rows": [[LOW, 3], [HIGH, 3]]},
        {"rows": [[str(LOW), 3], [f"{HIGH}.0", 3]]},
        {"columns": NEW},
        {"columns": {"x": [str(LOW), str(HIGH)], "z": [3.0, 3]}},
    ],
)
def test_json_tells_them_apart(service: Service, expected: list[float], asked: dict[str, Any]) -> None:
    answer = service.client.post("/predict", json={"model": "ids", **asked})
    assert answer.json()["mean"] == expected


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


BODIES = {
    "CSV": ("text/csv", f"x,z\n{LOW},3\n{HIGH},3\n".encode()),
    "JSON Lines": ("application/x-ndjson", "".join(f'{{"x": {x}, "z": 3}}\n' for x in NEW["x"]).encode()),
    "npy": ("application/x-npy", npy(np.array([[LOW, 3], [HIGH, 3]], dtype=np.int64))),
    "npy by columns, big-endian": ("application/x-npy", npy(np.array([[LOW, 3], [HIGH, 3]], dtype=">u8", order="F"))),
    "Parquet": ("application/vnd.apache.parquet", parquet(NEW)),
    "Arrow": ("application/vnd.apache.arrow.stream", arrow(NEW, stream=True)),
}


@pytest.mark.parametrize("name", BODIES)
def test_every_body_tells_them_apart(service: Service, expected: list[float], name: str) -> None:
    kind, body = BODIES[name]
    answer = service.client.post("/predict?model=ids", content=body, headers={"content-type": kind})
    assert answer.status_code == 200, answer.text
    assert answer.json()["mean"] == expected


def test_tensors_tell_them_apart(service: Service, expected: list[float]) -> None:
    url = "/v2/models/ids/infer"
    assert service.client.get("/v2/models/ids").json()["inputs"] == [
        {"name": "x", "datatype": "INT64", "shape": [-1]},
        {"name": "z", "datatype": "FP64", "shape": [-1]},
    ]
    rows = {"name": "rows", "shape": [2, 2], "datatype": "INT64", "data": [LOW, 3, HIGH, 3]}
    x = {"name": "x", "shape": [2], "datatype": "UINT64", "data": NEW["x"]}
    z = {"name": "z", "shape": [2], "datatype": "FP64", "data": [3.0, 3.0]}
    texts = {"name": "x", "shape": [2], "datatype": "BYTES", "data": [str(cell) for cell in NEW["x"]]}
    for inputs in ([rows], [{**rows, "data": [[LOW, 3], [HIGH, 3]]}], [x, z], [z, texts]):
        answer = service.client.post(url, json={"inputs": inputs})
        assert answer.status_code == 200, answer.text
        assert answer.json()["outputs"][0]["data"] == expected
    head = json.dumps(
        {"inputs": [{**{k: rows[k] for k in ("name", "shape", "datatype")}, "parameters": {"binary_data_size": 32}}]}
    ).encode()
    answer = service.client.post(
        url,
        content=head + struct.pack("<4q", LOW, 3, HIGH, 3),
        headers={"content-type": "application/octet-stream", "inference-header-content-length": str(len(head))},
    )
    assert answer.json()["outputs"][0]["data"] == expected


def test_the_report_and_the_model_tell_what_was_taken(service: Service) -> None:
    version = service.client.get("/models/ids/versions/1").json()
    report = version["report"]
    ends = {"lowest": LOW, "highest": HIGH, "typical": HIGH}
    assert report["columns"][0] == {"name": "x", "kind": "number", "difference_from": str(LOW), **ends}
    assert f"it was read as the difference from {LOW}" in report["warnings"][0]
    assert version["features"][0]["offset"] == str(LOW)
    assert {row[0] for row in version["basis"]} == {float(LOW), float(HIGH)}


def test_json_trains_on_them_as_csv_does(service: Service, expected: list[float]) -> None:
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
    for name, body in (("by-columns", {"columns": COLUMNS}), ("by-rows", {"rows": rows})):
        answer = service.client.post("/train", json={**body, "spec": {**QUICK, "model": name}})
        assert answer.status_code == 202, answer.text
        service.work()
        assert service.ask(name, [[LOW, 3], [HIGH, 3]])["mean"] == expected


def test_a_target_of_them_is_refused_by_cell(service: Service) -> None:
    table = "x,y\n" + "".join(f"{k},{LOW + k}\n" for k in range(30))
    problem = assert_problem(service.post_file(table), 422, "line 3, column 'y'", str(HIGH), "subtract a constant")
    assert problem["errors"][0]["row"] == 1
    columns = {"x": list(range(30)), "y": [LOW + k for k in range(30)]}
    assert_problem(service.client.post("/train", json={"columns": columns}), 422, "row 1, column 'y'", str(HIGH))
