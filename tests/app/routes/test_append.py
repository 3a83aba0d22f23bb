"""Datasets that get more rows, and trainings that begin at a model, over HTTP."""

import json
from typing import Any

import pytest

from tests.app.routes.problems import assert_problem
from tests.app.routes.service import QUICK, Service

FIRST = "x,day,kind,y\n" + "".join(
    f"{row}.5,2024-01-{row % 28 + 1:02d},{'ab'[row % 2]},{row * 0.5}\n" for row in range(40)
)
MORE = "y,kind,x,day\n" + "".join(
    f"{row * 0.5},{'bc'[row % 2]},{row}.25,2024-02-{row % 28 + 1:02d}\n" for row in range(40, 60)
)


def upload(service: Service, table: str, name: str = "cars.csv") -> dict[str, Any]:
    answer = service.client.post("/datasets", files={"file": (name, table)})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_rows_follow_those_of_the_dataset(service: Service) -> None:
    """In a new dataset, in the order of its columns; training on it is training on one file."""
    first = upload(service, FIRST)
    answer = service.client.post(f"/datasets/{first['id']}/rows", files={"file": ("more.csv", MORE)})
    assert answer.status_code == 201, answer.text
    both = answer.json()
    assert answer.headers["location"] == f"/datasets/{both['id']}"
    assert both["id"] != first["id"]
    assert (both["name"], both["rows"], both["target"]) == ("cars.csv", 60, "y")
    assert [column["name"] for column in both["columns"]] == ["x", "day", "kind", "y"]
    assert next(column for column in both["columns"] if column["name"] == "x")["max"] == 59.25
    assert service.client.get(f"/datasets/{first['id']}").json()["rows"] == 40
    lines = [line.split(",") for line in MORE.split()[1:]]
    whole = FIRST + "".join(f"{x},{day},{kind},{y}\n" for y, kind, x, day in lines)
    job = service.client.post("/train", json={"dataset": both["id"], "spec": {**QUICK, "model": "joined"}}).json()
    assert service.train(whole, model="whole", **QUICK)["state"] == "succeeded"
    assert service.client.get(f"/jobs/{job['id']}").json()["state"] == "succeeded"
    row = [{"x": 30.0, "day": "2024-01-20", "kind": "c"}]
    assert service.ask("joined", row)["mean"] == service.ask("whole", row)["mean"]
    assert service.ask("joined", row)["std"] == service.ask("whole", row)["std"]


def test_rows_of_json_and_a_key(service: Service) -> None:
    first = upload(service, "a,y\n1,2\n2,3\n3,4\n")
    path, headers = f"/datasets/{first['id']}/rows", {"idempotency-key": "more-rows"}
    by_rows = service.client.post(path, json={"rows": [{"y": 5, "a": 4}]}, headers=headers)
    again = service.client.post(path, json={"rows": [{"y": 5, "a": 4}]}, headers=headers)
    by_columns = service.client.post(path, json={"columns": {"a": [4], "y": [5]}})
    assert by_rows.json() == again.json()
    assert by_columns.json()["rows"] == by_rows.json()["rows"] == 4
    other = service.client.post(path, json={"rows": [{"y": 6, "a": 4}]}, headers=headers)
    assert_problem(other, 409, "more-rows")
    third = service.client.post(f"/datasets/{by_rows.json()['id']}/rows", json={"rows": [{"a": 5, "y": 6}]}).json()
    assert third["rows"] == 5


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("x,day,kind\n1,2024-01-01,a\n", ["no column 'y'"]),
        ("x,day,kind,y,z\n1,2024-01-01,a,1,2\n", ["no such column", "'z'"]),
        ("x,day,kind,y\n1,2024-01-01,a,1\nwide,2024-01-01,a,1\n", ["row 1", "'x'", "a number", "'wide'"]),
        ("x,day,kind,y\n1,someday,a,1\n2,2024-01-01,a,1\n", ["row 0", "'day'", "a date", "'someday'"]),
        ("x,day,kind,y\n1,2024-01-01,a,few\n2,2024-01-01,a,many\n", ["row 0", "'y'", "1 more cell"]),
    ],
)
def test_rows_that_do_not_fit_are_named(service: Service, more: str, words: list[str]) -> None:
    first = upload(service, FIRST)
    answer = service.client.post(f"/datasets/{first['id']}/rows", files={"file": ("more.csv", more)})
    problem = assert_problem(answer, 422, *words)
    assert problem["errors"][0]["column"] is not None


def test_there_must_be_a_dataset_and_rows(service: Service) -> None:
    first = upload(service, FIRST)
    missing = service.client.post(f"/datasets/ds_{'0' * 32}/rows", files={"file": ("more.csv", MORE)})
    assert_problem(missing, 404, "no dataset")
    assert_problem(service.client.post(f"/datasets/{first['id']}/rows", json={"dataset": "ds_0"}), 422, "`rows`")
    assert_problem(
        service.client.post(f"/datasets/{first['id']}/rows", json={"rows": [], "from": "waves"}), 422, "from"
    )


def test_a_training_begins_at_a_model(service: Service) -> None:
    """By its reference, as JSON and as a part of a form: without adaptation theta is the model's."""
    spec: dict[str, Any] = {"adapt": {"rounds": 2, "steps": 8}, "basis_size": 15, "kernel": "matern52"}
    assert service.train(FIRST, model="origin", **spec)["state"] == "succeeded"
    version = service.client.get("/models/origin/versions/1").json()
    rows = FIRST + "".join(
        f"{x},{day},{kind},{y}\n" for y, kind, x, day in (line.split(",") for line in MORE.split()[1:])
    )
    warm = {"adapt": False, "basis_size": 15, "model": "later"}
    answer = service.client.post(
        "/train", files={"file": ("cars.csv", rows)}, data={"spec": json.dumps(warm), "from": "origin@1"}
    )
    assert answer.status_code == 202, answer.text
    service.work()
    job = service.client.get(answer.headers["location"]).json()
    assert job["state"] == "succeeded", job
    assert job["result"]["report"]["from"] == "origin@1"
    later = service.client.get("/models/later/versions/1").json()
    assert any(value < 40.0 for value in version["hyperparameters"]["lengthscales"].values())
    for name, value in version["hyperparameters"]["lengthscales"].items():
        if value < 40.0:  # the longest are held within what the table's spread lets them be
            assert later["hyperparameters"]["lengthscales"][name] == pytest.approx(value, rel=1e-9)
    dataset = upload(service, rows)["id"]
    by_id = service.client.post("/train", json={"dataset": dataset, "spec": warm, "from": "origin"})
    assert by_id.status_code == 202, by_id.text
    service.work()
    again = service.client.get("/models/later/versions/2").json()
    assert again["hyperparameters"] == later["hyperparameters"]


@pytest.mark.parametrize(
    ("more", "status", "words"),
    [
        ({"from": "nothing@1"}, 404, ["nothing"]),
        ({"from": "waves@99"}, 404, ["99"]),
        ({"from": "a b"}, 422, ["a b"]),
        ({"from": 3}, 422, ["from"]),
        (
            {
                "from": "waves",
                "spec": {
                    "hyperparameters": {
                        "signal_variance": 1.0,
                        "bias_variance": 0.1,
                        "noise_variance": 0.1,
                        "lengthscales": {"a": 1.0},
                    }
                },
            },
            422,
            ["from", "hyperparameters"],
        ),
    ],
)
def test_what_is_no_model_to_begin_at(service: Service, more: dict[str, Any], status: int, words: list[str]) -> None:
    body = {"columns": {"a": [1.0, 2.0, 3.0, 4.0], "y": [1.0, 2.0, 2.5, 5.0]}} | more
    assert_problem(service.client.post("/train", json=body), status, *words)
