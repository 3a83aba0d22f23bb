"""Two APIs over one store: who has seen something at one of them gets it from the other."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.app.routes.service import QUICK, Service, numbers, running


@pytest.fixture
def apis(database_url: str, tmp_path: Any) -> Iterator[tuple[Service, Service]]:
    with running(tmp_path, database_url=database_url) as one, running(tmp_path, database_url=database_url) as other:
        yield one, other


def answered(service: Service, model: str = "m") -> set[int]:
    """The version that answers, by every route that predicts; 0: there is none."""
    rows = {"name": "rows", "shape": [1, 2], "datatype": "FP64", "data": [0.1, 0.2]}
    client = service.client
    asked = (
        client.post("/predict", json={"model": model, "rows": [[0.1, 0.2]]}),
        client.post(f"/predict?model={model}", content="a,b\n.1,.2\n", headers={"Content-Type": "text/csv"}),
        client.post(f"/v2/models/{model.replace('@', '/versions/')}/infer", json={"inputs": [rows]}),
    )
    found = set()
    for answer in asked:
        assert answer.status_code in (200, 404), answer.text
        said = answer.json() if answer.status_code == 200 else {"version": 0}
        found.add(int(said.get("version") or said.get("model_version", 0)))
    return found


def test_what_one_api_shows_the_other_answers_with(apis: tuple[Service, Service]) -> None:
    one, other = apis
    for version in range(1, 4):
        job = one.train(numbers(30, seed=version), model="m", **QUICK)
        assert job["result"]["version"] == version
        assert answered(other) == answered(one) == {version}
    place = "/models/m/aliases/champion"
    for version in (1, 2):
        assert one.client.put(place, json={"version": version}).status_code == 200
        assert answered(other) == answered(one) == {version}
    assert other.client.delete(place).status_code == 204
    assert answered(one) == {3}
    assert answered(one, "m@champion") == {0}
    assert other.client.delete("/models/m/versions/3").status_code == 204
    assert answered(one) == {2}
    assert answered(one, "m@3") == {0}
    assert one.client.delete("/models/m").status_code == 204
    assert answered(other) == answered(other, "m@1") == {0}


def test_the_newest_of_two_trainings_at_once_stays(apis: tuple[Service, Service]) -> None:
    one, other = apis
    for seed in range(3):
        one.post_file(numbers(30, seed=seed), {"model": "m", **QUICK})
    jobs = [job for job in (one.claim(), other.claim(), one.claim()) if job is not None]
    for place in (2, 0, 1):  # the last that was submitted is done first
        one.finish(jobs[place])
        result = other.client.get(f"/jobs/{jobs[place].id}").json()["result"]
        assert answered(other) == answered(one) == {result["version"]}
    assert other.client.get("/models/m").json()["latest"] == 3
