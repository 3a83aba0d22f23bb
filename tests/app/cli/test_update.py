"""`pursuit update` against a server that says what its outcome is."""

import json
import tracemalloc
from pathlib import Path

import pytest

from tests.app.cli.run import pursuit
from tests.app.cli.stub import Answer, events, job, stub
from tests.app.cli.test_commands import REPORT

TOLD = {
    "rows_added": 1200,
    "rows_forgotten": 3,
    "basis_added": 2,
    "drift": {"reasons": ["1,300 rows came since the last full training, which had 2,000"]},
}
DONE = job("succeeded", result={"model": "cars", "version": 4, "report": REPORT | {"update": TOLD}})
UPDATED = {
    ("POST", "/models/cars@3/update"): [Answer(body=job("queued"), status=202)],
    ("GET", "/jobs/job_1"): [Answer(body=job("queued"))],
    ("GET", "/jobs/job_1/events"): [events(job("running", progress={"fraction": 0.5, "phase": "fitting"}), DONE)],
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "cars.csv"
    path.write_text("x,y\n1,2\n3,4\n")
    return path


def test_rows_are_sent_and_the_version_is_told(table: Path) -> None:
    with stub(UPDATED) as server:
        words = ("update", "cars@3", table, "--extra-basis", "2", "--forget", "7,1-2", "--forget", "9")
        result = pursuit(*words, url=server.url)
        sent = server.requests[0]
    assert result.exit_code == 0, result.output
    assert "cars version 4: 1,200 rows added, 3 forgotten, 2 basis vectors added" in result.stdout
    assert "a full training may pay: 1,300 rows came" in result.stderr
    assert sent[1] == "/models/cars@3/update"
    assert json.dumps({"extra_basis": 2, "forget": [7, 1, 2, 9]}).encode() in sent[2]
    assert table.read_bytes() in sent[2]


def test_what_each_target_learnt_is_told(table: Path) -> None:
    other = TOLD | {"rows_added": 7, "rows_copied": 2, "drift": {"reasons": ["it is late"]}}
    targets = {"y1": {"update": TOLD}, "y [m]": {"update": other}}
    report = REPORT | {"update": TOLD, "targets": targets}
    done = job("succeeded", result={"model": "cars", "version": 4, "report": report})
    with stub(UPDATED | {("GET", "/jobs/job_1/events"): [events(done)]}) as server:
        result = pursuit("update", "cars@3", table, url=server.url)
    assert result.exit_code == 0, result.output
    assert (
        "cars version 4\n  y1: 1,200 rows added, 3 forgotten, 2 basis vectors added\n"
        "  y [m]: 7 rows added, 2 copies left out, 3 forgotten, 2 basis vectors added\n"
    ) in result.stdout
    assert "a full training may pay for y1: 1,300 rows came" in result.stderr
    assert "a full training may pay for y [m]: it is late" in result.stderr


@pytest.mark.parametrize(
    ("lines", "words"),
    [([3, 9], "in lines 3, 9; 3 forgotten"), ([], "in rows 1, 7; 3 forgotten")],
)
def test_rows_that_were_left_out_are_told(table: Path, lines: list[int], words: str) -> None:
    left_out = {"columns": {"horsepower": 2}, "rows": [1, 7], "lines": lines}
    report = REPORT | {"update": TOLD | {"rows_left_out": 2, "left_out": left_out}}
    done = job("succeeded", result={"model": "cars", "version": 4, "report": report})
    with stub(UPDATED | {("GET", "/jobs/job_1/events"): [events(done)]}) as server:
        result = pursuit("update", "cars@3", table, url=server.url)
    assert f"1,200 rows added, 2 left out: empty horsepower {words}" in result.stdout, result.output


def test_without_waiting_and_by_a_dataset(table: Path) -> None:
    queued = {("POST", "/models/cars/update"): [Answer(body=job("queued"), status=202)] * 2}
    dataset = f"ds_{'0' * 32}"
    with stub(queued) as server:
        plain = pursuit("update", "cars", table, "--no-wait", url=server.url)
        by_id = pursuit("update", "cars", dataset, "--no-wait", "--json", url=server.url)
        sent = server.requests[1]
    assert (plain.exit_code, by_id.exit_code) == (0, 0), by_id.output
    assert "job_1 is queued" in plain.stdout
    assert json.loads(by_id.stdout)["state"] == "queued"
    assert json.loads(sent[2]) == {"dataset": dataset, "spec": {"extra_basis": 0, "forget": []}}


@pytest.mark.parametrize("rows", ["0-9999999999", "0-30000,1-30000"])
def test_no_more_rows_are_forgotten_than_the_server_takes(table: Path, rows: str) -> None:
    tracemalloc.start()
    result = pursuit("update", "cars", table, f"--forget={rows}")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert result.exit_code == 2
    assert "expected up to 50,000 rows; got more with" in result.stderr
    assert most < 20_000_000


@pytest.mark.parametrize("rows", ["a", "3-1", "-1", "1.5"])
def test_row_numbers_are_whole(table: Path, rows: str) -> None:
    result = pursuit("update", "cars", table, f"--forget={rows}")
    assert result.exit_code == 2
    assert "expected row numbers, such as 3 or 3-9" in result.stderr
