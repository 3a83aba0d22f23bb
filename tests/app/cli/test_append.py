"""`pursuit dataset append` and `pursuit train --from` against a server that says what its answer is."""

import json
from pathlib import Path

import pytest

from tests.app.cli.run import pursuit
from tests.app.cli.stub import Answer, job, stub

DATASET = f"ds_{'0' * 32}"
ANSWER = {"id": f"ds_{'1' * 32}", "name": "cars.csv", "rows": 4, "columns": [], "warnings": []}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "cars.csv"
    path.write_text("x,y\n1,2\n3,4\n")
    return path


def test_rows_are_appended(table: Path) -> None:
    with stub({("POST", f"/datasets/{DATASET}/rows"): [Answer(body=ANSWER, status=201)] * 2}) as server:
        shown = pursuit("dataset", "append", DATASET, table, url=server.url)
        as_json = pursuit("dataset", "append", DATASET, table, "--json", url=server.url)
        sent = server.requests[0]
    assert (shown.exit_code, as_json.exit_code) == (0, 0), shown.output
    assert f"{ANSWER['id']}: cars.csv, 4 rows" in shown.stdout
    assert json.loads(as_json.stdout) == ANSWER
    assert table.read_bytes() in sent[2]


def test_a_folder_is_registered() -> None:
    with stub({("POST", "/datasets"): [Answer(body=ANSWER, status=201)]}) as server:
        shown = pursuit("dataset", "register", "s3://bucket/rows/", "--target", "y", url=server.url)
        _, path, body = server.requests[0]
    assert shown.exit_code == 0, shown.output
    assert f"{ANSWER['id']}: cars.csv, 4 rows" in shown.stdout
    assert (path, json.loads(body)) == ("/datasets?target=y", {"location": "s3://bucket/rows/"})


def test_a_training_begins_at_a_model(table: Path) -> None:
    with stub({("POST", "/train"): [Answer(body=job("queued"), status=202)] * 2}) as server:
        by_file = pursuit("train", table, "--from", "cars@3", "--no-wait", url=server.url)
        by_id = pursuit("train", DATASET, "--from", "cars@3", "--no-wait", url=server.url)
        first, second = server.requests
    assert (by_file.exit_code, by_id.exit_code) == (0, 0), by_file.output
    assert b'name="from"' in first[2]
    assert b"cars@3" in first[2]
    assert json.loads(second[2]) == {"dataset": DATASET, "spec": {}, "from": "cars@3"}
