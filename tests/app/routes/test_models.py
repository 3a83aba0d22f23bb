"""Models over HTTP: versions, aliases, deletion, what a version knows of itself."""

from typing import Any

import numpy as np
import pytest

from app.storage import artefact
from core.predict.compact import served
from core.spec import Method
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import QUICK, Service, numbers, waves


def with_versions(service: Service, count: int, name: str = "m") -> None:
    for seed in range(count):
        assert service.train(numbers(40, seed=seed), model=name, **QUICK)["state"] == "succeeded"


def version_of(service: Service, reference: str) -> int:
    answer = service.client.post("/predict", json={"model": reference, "rows": [[0, 0]]})
    assert answer.status_code == 200, answer.text
    version: int = answer.json()["version"]
    return version


def test_pages_of_models(empty: Service) -> None:
    for name in ("b", "a", "c"):
        with_versions(empty, 1, name)
    first = empty.client.get("/models", params={"limit": 2}).json()
    rest = empty.client.get("/models", params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert [model["name"] for model in first["models"] + rest["models"]] == ["a", "b", "c"]
    assert rest["next_cursor"] is None
    shown = {name: value for name, value in first["models"][0].items() if name not in ("trained_at", "summary")}
    assert shown | {"created_at": ""} == {
        "name": "a",
        "created_at": "",
        "latest": 1,
        "aliases": {"latest": 1},
        "versions": 1,
    }


def test_versions_of_a_model(empty: Service) -> None:
    with_versions(empty, 3)
    model = empty.client.get("/models/m", params={"limit": 2}).json()
    assert [version["version"] for version in model["versions"]] == [3, 2]
    assert model["versions"][0]["aliases"] == ["latest"]
    assert model["versions"][0]["summary"]["rows"] == 40
    rest = empty.client.get("/models/m", params={"cursor": model["next_cursor"]}).json()
    assert [version["version"] for version in rest["versions"]] == [1]


def test_a_version_tells_all(empty: Service) -> None:
    table = waves(60)
    empty.train(table, model="m", **QUICK | {"method": "batch", "basis_size": 15, "seed": 3})
    detail = empty.client.get("/models/m/versions/1").json()
    assert detail["model"] == "m"
    assert detail["target"] == "y"
    assert [feature["name"] for feature in detail["features"]] == ["x", "kind"]
    assert detail["spec"]["seed"] == 3
    assert detail["spec"]["adapt"] is False
    assert set(detail["hyperparameters"]["lengthscales"]) == {"x", "kind"}
    assert detail["basis_columns"] == ["x", "kind=high", "kind=low"]
    assert len(detail["basis"]) == len(detail["basis_rows"]) == len(detail["gains"]) == detail["report"]["basis_size"]
    lines = table.splitlines()[1:]
    for row, basis in zip(detail["basis_rows"], detail["basis"], strict=True):
        x, kind, _ = lines[row].split(",")
        assert basis == [float(x), float(kind == "high"), float(kind == "low")]
    assert detail["report"] == empty.client.get(f"/jobs/{detail['job']}").json()["result"]["report"]


def test_basis_rows_count_the_rows_of_the_upload(empty: Service) -> None:
    lines = numbers(30).splitlines()
    table = "\n".join([lines[0], ",1,1", "2,,1", *lines[1:]])
    empty.train(table, model="m", missing="drop", **QUICK)
    detail = empty.client.get("/models/m/versions/1").json()
    for row, basis in zip(detail["basis_rows"], detail["basis"], strict=True):
        assert basis == [float(cell) for cell in table.splitlines()[1 + row].split(",")[:2]]


def test_the_artefact_can_be_read_back(empty: Service) -> None:
    with_versions(empty, 1)
    answer = empty.client.get("/models/m/versions/1/artefact")
    assert 'filename="m-1.safetensors"' in answer.headers["content-disposition"]
    model = artefact.load(answer.content)
    assert artefact.save(model) == answer.content
    assert np.isfinite(served(model.posterior).alpha).all()


def test_promotion_and_roll_back(empty: Service) -> None:
    with_versions(empty, 3)
    assert version_of(empty, "m") == 3
    put = empty.client.put("/models/m/aliases/champion", json={"version": 2})
    assert put.json() == {"model": "m", "alias": "champion", "version": 2}
    assert version_of(empty, "m") == 2
    assert version_of(empty, "m@latest") == 3
    assert version_of(empty, "m@champion") == 2
    assert version_of(empty, "m@1") == 1
    empty.client.put("/models/m/aliases/champion", json={"version": 1})
    assert version_of(empty, "m") == 1
    assert empty.client.delete("/models/m/aliases/champion").status_code == 204
    assert version_of(empty, "m") == 3


def test_an_alias_that_cannot_be_put(empty: Service) -> None:
    with_versions(empty, 2)
    assert_problem(empty.client.put("/models/m/aliases/latest", json={"version": 1}), 422, "alias: 'latest' always")
    assert version_of(empty, "m@latest") == 2
    for number in (-1, 0, 1.5, 2**80):
        refused = empty.client.put("/models/m/aliases/a", json={"version": number})
        assert_problem(refused, 422, "version: expected a whole number from 1, got")
    assert_problem(empty.client.put("/models/m/aliases/a", json={"version": 9}), 404, "the newest is 2")


def test_deleting_versions_and_models(empty: Service) -> None:
    with_versions(empty, 3)
    empty.client.put("/models/m/aliases/stable", json={"version": 2})
    held = empty.client.delete("/models/m/versions/2")
    assert held.status_code == 409
    assert "stable" in held.json()["detail"]
    assert empty.client.delete("/models/m/versions/3").status_code == 204
    assert version_of(empty, "m") == 2
    assert empty.client.delete("/models/m").status_code == 409
    assert empty.client.delete("/models/m", params={"force": True}).status_code == 204
    assert empty.client.get("/models/m").status_code == 404
    assert empty.client.post("/predict", json={"model": "m@2", "rows": []}).status_code == 404
    with_versions(empty, 1)
    assert version_of(empty, "m") == 4


def test_all_fields_of_a_summary_are_json(empty: Service) -> None:
    """NaN has no place in JSON: `rand` has no gains, and few rows no holdout."""
    empty.train("a,y\n1,2\n2,3\n3,5\n", model="tiny", **QUICK)
    detail: dict[str, Any] = empty.client.get("/models/tiny/versions/1").json()
    assert detail["gains"] == [None] * len(detail["basis"])
    assert detail["report"]["holdout"] is None


def test_basis_vectors_that_moved_say_so(empty: Service) -> None:
    table = numbers(80, seed=1)
    empty.train(
        table, model="m", basis_size=8, approximation="vfe", adapt={"rounds": 1, "steps": 5}, refine={"steps": 9}
    )
    detail = empty.client.get("/models/m/versions/1").json()
    assert detail["moved"] is True
    assert len(detail["basis_rows"]) == len(detail["gains"]) == len(detail["basis"]) == 8
    rows = [list(map(float, line.split(","))) for line in table.splitlines()[1:]]
    started = [rows[row][:-1] for row in detail["basis_rows"]]
    assert not np.allclose(detail["basis"], started)
    assert detail["report"]["seconds"]["refining"] > 0


def test_refining_what_cannot_be_is_refused(empty: Service) -> None:
    answer = empty.post_file(numbers(40), {"approximation": "dtc", "refine": True})
    assert answer.status_code == 422
    assert "dtc has no term that holds moving basis vectors" in answer.json()["detail"]


def test_bounds_on_request(empty: Service) -> None:
    spec: dict[str, Any] = {"adapt": False, "basis_size": 60, "bounds": {"rows": [3, 0]}}
    empty.train(numbers(90, seed=2), model="m", **spec)
    bounds = empty.client.get("/models/m/versions/1").json()["report"]["bounds"]
    assert bounds["lower"] <= bounds["upper"] < 0
    assert 0 <= bounds["gap"] < 2
    assert bounds["rows"] == [3, 0]
    assert all(0 < low <= high for low, high in zip(bounds["std_lower"], bounds["std_upper"], strict=True))


@pytest.mark.parametrize("asked", [True, {}, {"rows": []}])
def test_bounds_without_rows(empty: Service, asked: object) -> None:
    """Every such training once failed at its end, on a kernel block without columns."""
    job = empty.train(numbers(90, seed=2), model="m", adapt=False, basis_size=20, bounds=asked)
    assert job["state"] == "succeeded", job["error"]
    bounds = job["result"]["report"]["bounds"]
    assert bounds["lower"] <= bounds["upper"] < 0
    assert bounds["rows"] == bounds["std_lower"] == bounds["std_upper"] == []


@pytest.mark.parametrize("method", [method for method in Method if method is not Method.BATCH])
def test_every_method_trains_over_http(service: Service, method: Method) -> None:
    model = f"by-{method.value}"
    job = service.train(numbers(60, seed=3), model=model, method=method.value, basis_size=6, adapt=False, candidates=9)
    assert job["state"] == "succeeded", job["error"]
    detail = service.client.get(f"/models/{model}/versions/1").json()
    assert len(set(detail["basis_rows"])) == 6
    assert detail["report"]["stop_reason"] == "basis_size reached"
    assert detail["spec"]["method"] == method.value


def test_size_found_by_the_method(empty: Service) -> None:
    job = empty.train(numbers(120, seed=4), model="m", method="nlml", max_basis_size=60, adapt=False)
    report = job["result"]["report"]
    assert report["basis_size"] == len(report["measures"]) - 1
    assert "nlml" in report["stop_reason"]
