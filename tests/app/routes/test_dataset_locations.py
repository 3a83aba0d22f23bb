"""Datasets of Parquet files that stay where they are: described, trained on, and refused once a file has changed."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from app.tables.read import file_set
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import QUICK, Service, running, waves


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("place").resolve()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, place: Path) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("service"), dataset_locations=f"{place / 'allowed'}, /nowhere") as service:
        yield service


def folder_of(place: Path, name: str, rows: int = 120) -> Path:
    """A folder with the same table twice: in two files, and beside it in one."""
    folder = place / "allowed" / name
    folder.mkdir(parents=True)
    table = pyarrow.csv.read_csv(io.BytesIO(waves(rows).encode()))
    pq.write_table(table.slice(0, 50), folder / "a.parquet", row_group_size=20)
    pq.write_table(table.slice(50), folder / "b.parquet")
    pq.write_table(table, place / f"{name}.parquet")
    return folder


def add(service: Service, location: object, **query: str) -> Any:
    return service.client.post("/datasets", json={"location": str(location)}, params=query)


@pytest.mark.slow
def test_a_folder_is_the_dataset_that_one_file_of_its_rows_is(served: Service, place: Path) -> None:
    folder = folder_of(place, "waves")
    answer = add(served, folder)
    assert answer.status_code == 201, answer.text
    found = answer.json()
    assert served.client.get(f"/datasets/{found['id']}").json() == found
    size = sum(file.stat().st_size for file in folder.iterdir())
    assert (found["name"], found["rows"], found["files"], found["location_bytes"]) == ("waves", 120, 2, size)
    assert found["location"] == str(folder)
    assert found["size_bytes"] < 2_000  # the list of the files, and none of their rows
    upload = {"file": ("waves.parquet", (place / "waves.parquet").read_bytes())}
    whole = served.client.post("/datasets", files=upload).json()
    assert (whole["location"], whole["files"], whole["location_bytes"]) == (None, None, None)
    for name in ("columns", "target", "warnings"):
        assert found[name] == whole[name]
    for dataset, model in ((found, "parts"), (whole, "whole")):
        asked = {"dataset": dataset["id"], "spec": QUICK | {"model": model}}
        assert served.client.post("/train", json=asked).status_code == 202
        assert served.work() == 1
    rows = [{"x": 0.1, "kind": "high"}, {"x": 2.5, "kind": "low"}]
    told = [served.ask(model, rows) for model in ("parts", "whole")]
    assert told[0]["mean"] == told[1]["mean"]
    assert told[0]["std"] == told[1]["std"]


def test_a_training_says_which_file_has_changed(served: Service, place: Path) -> None:
    folder = folder_of(place, "changing")
    dataset = add(served, folder).json()["id"]
    asked = {"dataset": dataset, "spec": QUICK | {"model": "changing"}}
    job = served.client.post("/train", json=asked).json()
    pq.write_table(pq.read_table(folder / "a.parquet").slice(0, 50), folder / "b.parquet")
    served.work()
    ended = served.client.get(f"/jobs/{job['id']}").json()
    assert ended["state"] == "failed"
    assert "'b.parquet' of the dataset's location has changed" in json.dumps(ended["error"])
    more = {"dataset": dataset, "spec": QUICK | {"model": "changing", "missing": "drop"}}  # for which there is no fit
    assert_problem(served.client.post("/train", json=more), 409, "'b.parquet'", "has changed", "make the dataset again")
    assert add(served, folder).json()["rows"] == 100


def test_what_needs_one_file_says_so(served: Service, place: Path) -> None:
    dataset = add(served, folder_of(place, "one"))
    id_ = dataset.json()["id"]
    served.client.post("/train", json={"dataset": id_, "spec": QUICK | {"model": "one"}})
    served.work()
    rows = {"rows": [{"x": 1.0, "y": 1.0}]}
    assert_problem(served.client.post(f"/datasets/{id_}/rows", json=rows), 422, "upload its rows as one file")
    assert_problem(served.client.post("/models/one/update", json={"dataset": id_}), 422, "upload its rows as one file")


def test_the_rows_of_a_location_are_predicted_where_they_are(
    served: Service, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By parts of two files: the file of predictions that one file of the rows gives, columns beside it included."""
    monkeypatch.setattr(file_set, "_BATCH_ROWS", 16)
    folder = folder_of(place, "asked")
    located = add(served, folder).json()["id"]
    upload = {"file": ("asked.parquet", (place / "asked.parquet").read_bytes())}
    whole = served.client.post("/datasets", files=upload).json()["id"]
    assert served.client.post("/train", json={"dataset": whole, "spec": QUICK | {"model": "asked"}}).status_code == 202
    served.work()
    found = []
    for dataset in (located, whole):
        asked = {"model": "asked", "dataset": dataset, "keep": "all"}
        job = served.client.post("/predict", json=asked).json()
        served.work()
        file = served.client.get(f"/jobs/{job['id']}/predictions")
        assert file.status_code == 200, file.text
        found.append(pq.read_table(io.BytesIO(file.content)))
    assert found[0].num_rows == 120
    assert found[0].equals(found[1])
    pq.write_table(pq.read_table(folder / "b.parquet").slice(1), folder / "b.parquet")
    job = served.client.post("/predict", json={"model": "asked", "dataset": located}).json()
    served.work()
    ended = served.client.get(f"/jobs/{job['id']}").json()
    assert ended["state"] == "failed"
    assert "'b.parquet' of the dataset's location has changed" in json.dumps(ended["error"])


def test_what_may_not_be_read_is_refused(served: Service, place: Path) -> None:
    folder_of(place, "below")
    (place / "allowed" / "out").symlink_to(place)
    for location in (place, place / "allowed" / "..", place / "allowed" / "out", "/etc", "s3://bucket/x", "/nowhere/x"):
        assert_problem(add(served, location), 422, "location: ")
    answer = add(served, place / "allowed" / "below", decimal=",")
    assert_problem(answer, 422, "location: decimal, thousands and sheet are of uploads")
    both = {"location": str(place / "allowed" / "below"), "rows": [{"x": 1.0, "y": 2.0}]}
    assert_problem(served.client.post("/datasets", json=both), 422, "got rows and location")
    assert_problem(served.client.post("/train", json={"location": str(place / "allowed" / "below")}), 422, "location")


def test_files_that_do_not_agree_are_named(served: Service, place: Path) -> None:
    folder = folder_of(place, "disagree")
    table = pq.read_table(folder / "b.parquet")
    pq.write_table(table.rename_columns([*table.column_names[:-1], "z"]), folder / "c.parquet")
    problem = assert_problem(add(served, folder), 422, "file 'c.parquet'", "no column 'y'", "which 'a.parquet' has")
    assert problem["errors"][0]["column"] == "y"
    (folder / "c.parquet").write_bytes(b"PAR1, but no more")
    assert_problem(add(served, folder), 400, "file 'c.parquet'", "damaged")


def test_locations_are_off_unless_the_operator_allows_some(service: Service, tmp_path: Path) -> None:
    assert_problem(add(service, tmp_path), 422, "PURSUIT_DATASET_LOCATIONS")


def test_a_folder_that_is_allowed_no_more_is_not_trained_on(tmp_path: Path) -> None:
    place = tmp_path.resolve()
    folder = folder_of(place, "waves")
    (place / "service").mkdir()
    with running(place / "service", dataset_locations=str(place / "allowed")) as service:
        dataset = add(service, folder).json()["id"]
    with running(place / "service") as service:
        asked = {"dataset": dataset, "spec": QUICK | {"model": "m"}}
        assert_problem(service.client.post("/train", json=asked), 422, "PURSUIT_DATASET_LOCATIONS")
