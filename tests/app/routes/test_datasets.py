"""Datasets over HTTP: uploaded once, described, trained on, deleted."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from app.worker import sweep_store
from tests.app.routes.problems import FORM, assert_problem
from tests.app.routes.service import JSON_BODY, QUICK, Service, numbers, running, waves

TABLE = (
    "id,size,colour,when,gone,same,y\n"
    + "".join(f"{i},{i % 7}.5,{'red' if i % 3 else 'blue'},2011-01-{i % 28 + 1:02},,k,{i * i}\n" for i in range(30))
    + ",,,,,,\n"
)


def upload(service: Service, table: str | bytes = TABLE, **headers: str) -> dict[str, Any]:
    answer = service.client.post("/datasets", files={"file": ("my table.csv", table)}, headers=headers)
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == f"/datasets/{answer.json()['id']}"
    found: dict[str, Any] = answer.json()
    return found


def test_a_dataset_is_described(service: Service) -> None:
    found = upload(service)
    assert service.client.get(f"/datasets/{found['id']}").json() == found
    assert (found["name"], found["rows"], found["target"]) == ("my table.csv", 30, "y")
    assert found["warnings"][0] == "1 empty row at the end of the file dropped"
    columns = {column["name"]: column for column in found["columns"]}
    assert {name: column["type"] for name, column in columns.items()} == {
        "id": "integer", "size": "number", "colour": "category", "when": "date", "gone": "empty", "same": "category",
        "y": "integer",
    }  # fmt: skip
    size = columns["size"]
    assert (size["missing"], size["distinct"], size["min"], size["max"]) == (0, 7, 0.5, 6.5)
    assert size["mean"] == pytest.approx(sum(row % 7 + 0.5 for row in range(30)) / 30)
    assert len(size["histogram"]["counts"]) == 20
    assert sum(size["histogram"]["counts"]) == 30
    assert columns["colour"]["top"] == [{"value": "red", "count": 20}, {"value": "blue", "count": 10}]
    assert (columns["when"]["min"], columns["when"]["max"]) == ("2011-01-01", "2011-01-28")
    assert columns["gone"]["missing"] == 30
    assert columns["id"]["warnings"] == ["looks like a row number (0, 1, 2, ..): training reads it as a number"]
    assert columns["same"]["warnings"] == ["the same value in every row: training leaves it out"]


def test_a_leak_is_told(service: Service) -> None:
    table = "a,b,y\n" + "".join(f"{(row * 37) % 101},{row % 5},{2.5 * ((row * 37) % 101)}\n" for row in range(90))
    warnings = upload(service, table)["warnings"]
    assert warnings == [
        "column 'a' predicts the target almost perfectly by itself, rising with it as a copy on another scale does: if "
        'it is not known when predictions are wanted, leave it out ("columns": {"...": "ignore"})'
    ]
    job = service.train(table, model="leak", **QUICK)
    assert warnings[0] in job["result"]["report"]["warnings"]


def test_training_on_a_dataset_is_training_on_its_file(service: Service) -> None:
    dataset = upload(service, waves())["id"]
    answer = service.client.post("/train", json={"dataset": dataset, "spec": {**QUICK, "model": "by-dataset"}})
    assert answer.status_code == 202, answer.text
    assert answer.json()["model"] == "by-dataset"
    service.work()
    asked = {"rows": [{"x": 1.5, "kind": "low"}]}
    by_file = service.client.post("/predict", json={"model": "waves", **asked}).json()
    by_dataset = service.client.post("/predict", json={"model": "by-dataset", **asked}).json()
    assert by_dataset["mean"] == by_file["mean"]
    named = service.client.post("/train", json={"dataset": dataset, "spec": QUICK}).json()
    assert named["model"] == "my-table"
    service.work()


def test_what_is_wrong_with_a_dataset_is_said_at_once(service: Service) -> None:
    dataset = upload(service, "a,y\n1,2\n,3\n3,4\n")["id"]
    assert_problem(service.client.post("/train", json={"dataset": dataset}), 422, "row 1", "'a'", "missing")
    assert_problem(service.client.post("/train", json={"dataset": "ds_0"}), 404, "no dataset 'ds_0'")
    assert_problem(service.client.post("/train", json={"dataset": 3}), 422, "dataset: expected a text")
    assert_problem(service.client.post("/train", json={"dataset": dataset, "rows": []}), 422, "rows and dataset")
    assert_problem(
        service.client.post("/datasets", json={"dataset": dataset}),
        422,
        "`columns`, `rows` and `location`",
        "got dataset",
    )
    for broken in (b"", b"a,b\n1\n", b"\0" * 20):
        answer = service.client.post("/datasets", files={"file": ("a.csv", broken)})
        assert answer.status_code in (400, 422), answer.text
    assert_problem(service.client.post("/datasets?target=z", files={"file": ("a.csv", TABLE)}), 422, "'z'")
    assert_problem(service.client.post("/datasets", content=b"x", headers={"content-type": FORM}), 400, "form")


def test_json_is_a_dataset_too(service: Service) -> None:
    rows = [{"a": row, "y": row * 0.5} for row in range(5)]
    for body in ({"rows": rows}, {"columns": {"a": [row["a"] for row in rows], "y": [row["y"] for row in rows]}}):
        found = service.client.post("/datasets", json=body).json()
        assert [(column["name"], column["type"]) for column in found["columns"]] == [("a", "integer"), ("y", "number")]


def test_the_same_key_gives_the_same_dataset(service: Service) -> None:
    first = upload(service, numbers(), **{"Idempotency-Key": "once"})
    assert upload(service, numbers(), **{"Idempotency-Key": "once"}) == first
    headers = {"Idempotency-Key": "once"}
    answer = service.client.post("/datasets", files={"file": ("my table.csv", TABLE)}, headers=headers)
    assert_problem(answer, 409, "'once'", first["id"])


def test_datasets_are_listed_by_pages(empty: Service) -> None:
    made = [upload(empty, f"a,y\n1,2\n2,{number}\n")["id"] for number in range(3)]
    first = empty.client.get("/datasets?limit=2").json()
    rest = empty.client.get("/datasets", params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert {dataset["id"] for dataset in first["datasets"] + rest["datasets"]} == set(made)
    assert rest["next_cursor"] is None
    assert_problem(empty.client.get("/datasets?cursor=ds_0"), 422, "cursor")


def test_a_deleted_dataset_stays_for_the_jobs_that_need_it(empty: Service) -> None:
    dataset = upload(empty, numbers())["id"]
    job = empty.client.post("/train", json={"dataset": dataset, "spec": QUICK}).json()
    assert empty.client.delete(f"/datasets/{dataset}").status_code == 204
    assert_problem(empty.client.get(f"/datasets/{dataset}"), 404, dataset)
    assert_problem(empty.client.delete(f"/datasets/{dataset}"), 404, dataset)
    assert sweep_store(empty.database, empty.blobs, older_than=0.0) == []
    empty.work()
    assert empty.client.get(f"/jobs/{job['id']}").json()["state"] == "succeeded"
    swept = sweep_store(empty.database, empty.blobs, older_than=0.0)
    assert [key.partition("/")[0] for key in swept] == ["tables", "fits"]


def test_a_dataset_is_not_swept(empty: Service) -> None:
    upload(empty, numbers())
    assert sweep_store(empty.database, empty.blobs, older_than=0.0) == []


@pytest.mark.slow
def test_what_unpacks_to_much_is_read_by_another_process(empty: Service) -> None:
    """More than the API reads itself: both the answer and the refusal come back whole."""
    table = "a,b,y\n" + "".join(f"{row % 1013},{row % 7},{row % 91}\n" for row in range(200_050))
    assert upload(empty, table)["rows"] == 200_050
    problem = assert_problem(empty.post_file(table + "x,1,2\n"), 422, "line 200,052", "'a'", "'x' is not a number")
    assert problem["errors"][0]["row"] == 200_050


@pytest.mark.parametrize(
    ("settings", "body", "words"),
    [
        ({"max_columns": 2}, "a,b,c\n1,2,3\n", "PURSUIT_MAX_COLUMNS"),
        ({"max_rows": 2}, "a,b\n1,2\n2,3\n3,4\n", "PURSUIT_MAX_ROWS"),
        ({"max_cell_chars": 5}, "a,b\n1,2\n1234567,3\n", "PURSUIT_MAX_CELL_CHARS"),
        ({"max_table_bytes": 20}, "a,b\n1,2\n" * 5, "PURSUIT_MAX_TABLE_BYTES"),
        ({"max_upload_bytes": 200}, "a,b\n" + "1,2\n" * 100, "PURSUIT_MAX_UPLOAD_BYTES"),
    ],
)
def test_limits_are_settings_and_named(
    tmp_path_factory: pytest.TempPathFactory, settings: dict[str, Any], body: str, words: str
) -> None:
    with running(tmp_path_factory.mktemp("limits"), **settings) as small:
        assert_problem(small.client.post("/datasets", files={"file": ("a.csv", body)}), 413, words)
        assert_problem(small.post_file(body), 413, words)


def test_nesting_and_slowness_are_limited(tmp_path_factory: pytest.TempPathFactory) -> None:
    def slowly() -> Iterator[bytes]:
        yield b"--xx\r\n"
        time.sleep(0.6)
        yield b"--xx--\r\n"

    with running(tmp_path_factory.mktemp("limits"), max_json_depth=4, max_upload_seconds=0.3) as small:
        deep = json.dumps({"rows": [{"a": [[[1]]]}]})
        answer = small.client.post("/train", content=deep, headers=JSON_BODY)
        assert_problem(answer, 422, "6 deep", "PURSUIT_MAX_JSON_DEPTH")
        answer = small.client.post("/train", content=slowly(), headers={"content-type": FORM})
        assert_problem(answer, 408, "PURSUIT_MAX_UPLOAD_SECONDS")
