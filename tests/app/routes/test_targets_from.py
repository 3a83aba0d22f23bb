"""Trainings that begin at a model of several targets, or of several targets at a model: over HTTP."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.app.routes.problems import assert_problem
from tests.app.routes.service import Service, running

pytestmark = pytest.mark.slow

SPEC: dict[str, Any] = {
    "basis_size": 15,
    "adapt": {"rounds": 1, "steps": 6},
    "noise": "constant",
    "kernel": "matern52",
    "features": ["a", "b"],
}
FIXED: dict[str, Any] = {"basis_size": 15, "adapt": False, "noise": "constant", "features": ["a", "b"]}


def table(count: int = 120) -> str:
    random = np.random.default_rng(0)
    a, b = random.uniform(-1.0, 1.0, (2, count))
    columns = (
        a,
        b,
        np.sin(4.0 * a) + 0.1 * b + 0.1 * random.standard_normal(count),
        np.cos(5.0 * b) + 0.1 * random.standard_normal(count),
        np.sin(4.0 * a) * np.cos(5.0 * b) + 0.1 * random.standard_normal(count),
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return "a,b,y1,y2,y3\n" + "".join(",".join(map(repr, row)) + "\n" for row in rows)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """`pair`, of y1 and y2, each with a theta of its own; `plain`, of y1 alone."""
    with running(tmp_path_factory.mktemp("service")) as service:
        pair = service.train(table(), model="pair", target=["y1", "y2"], share=False, **SPEC)
        plain = service.train(table(), model="plain", target="y1", **SPEC)
        assert [job["state"] for job in (pair, plain)] == ["succeeded"] * 2
        yield service


def begun(service: Service, origin: str, target: Any, **more: Any) -> dict[str, Any]:
    """A training that begins at a model and stays there: its job."""
    spec = FIXED | {"model": "later", "target": target} | more
    answer = service.client.post(
        "/train", files={"file": ("table.csv", table())}, data={"spec": json.dumps(spec), "from": origin}
    )
    assert answer.status_code == 202, answer.text
    service.work()
    job: dict[str, Any] = service.client.get(answer.headers["location"]).json()
    assert job["state"] == "succeeded", job
    return job


def theta(service: Service, reference: str, target: str) -> dict[str, Any]:
    name, _, version = reference.partition("@")
    path = f"/models/{name}/versions/{version or 1}"
    found: dict[str, Any] = service.client.get(path, params={"target": target}).json()["hyperparameters"]
    return found


def latest(service: Service) -> str:
    return f"later@{service.client.get('/models/later').json()['aliases']['latest']}"


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    for name, value in one["lengthscales"].items():
        if value < 40.0:  # the longest are held within what the table's spread lets them be
            assert other["lengthscales"][name] == pytest.approx(value, rel=1e-9)


def test_each_target_begins_at_the_target_of_its_name(trained: Service) -> None:
    """In another order, with one that the model has not: that begins at the first."""
    report = begun(trained, "pair@1", ["y3", "y2", "y1"], share=False)["result"]["report"]
    found = {name: trained_report["from_target"] for name, trained_report in report["targets"].items()}
    assert found == {"y3": "y1", "y2": "y2", "y1": "y1"}
    assert {each["from"] for each in report["targets"].values()} == {"pair@1"}
    assert (report["from"], report["from_target"]) == ("pair@1", "y1")
    later = latest(trained)
    for name, origin in found.items():
        assert_same(theta(trained, "pair@1", origin), theta(trained, later, name))
    assert theta(trained, "pair@1", "y1")["lengthscales"] != theta(trained, "pair@1", "y2")["lengthscales"]


def test_several_targets_begin_at_a_model_of_one(trained: Service) -> None:
    report = begun(trained, "plain", ["y1", "y2"], share=True)["result"]["report"]
    assert {each["from_target"] for each in report["targets"].values()} == {"y1"}
    for name in ("y1", "y2"):
        assert_same(theta(trained, "plain", "y1"), theta(trained, latest(trained), name))
    assert report["hyperparameters"] is not None
    pattern = begun(trained, "pair", "y*", share=False)["result"]["report"]
    assert pattern["targets"]["y2"]["from_target"] == "y2"


def test_one_target_begins_at_that_of_its_name(trained: Service) -> None:
    report = begun(trained, "pair@1", "y2")["result"]["report"]
    assert (report["from"], report["from_target"]) == ("pair@1", "y2")
    assert_same(theta(trained, "pair@1", "y2"), theta(trained, latest(trained), "y2"))
    begun(trained, "pair@1", "y3")
    assert_same(theta(trained, "pair@1", "y1"), theta(trained, latest(trained), "y3"))


def test_basis_vectors_that_are_in_the_table_are_kept(trained: Service) -> None:
    """A model from which a training with few candidates begins: it has the vectors that it had."""
    begun(trained, "pair@1", ["y1", "y2"], share=False, pool_size=16)
    for name in ("y1", "y2"):
        first, later = (
            trained.client.get(f"/models/{path}", params={"target": name}).json()["basis_rows"]
            for path in ("pair/versions/1", latest(trained).replace("@", "/versions/"))
        )
        assert len(set(first) & set(later)) >= 10


def test_what_cannot_begin_at_a_model(trained: Service) -> None:
    theta = {"signal_variance": 1.0, "bias_variance": 1.0, "noise_variance": 0.1, "lengthscales": {"a": 1.0, "b": 1.0}}
    spec = FIXED | {"target": ["y1", "y2"], "hyperparameters": theta, "model": "later"}
    files = {"file": ("table.csv", table())}
    answer = trained.client.post("/train", files=files, data={"spec": json.dumps(spec), "from": "pair"})
    assert_problem(answer, 422, "from: begins at the model's hyperparameters: leave out spec.hyperparameters")
    spec = FIXED | {"target": ["y1", "y2"], "model": "later"}
    answer = trained.client.post("/train", files=files, data={"spec": json.dumps(spec), "from": "pair@9"})
    assert_problem(answer, 404, "pair")
