"""New rows for a published model of several targets, over HTTP: each target learns those that have a value of it."""

from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from app.errors import BrokenArtefactError
from app.storage import training_state
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import QUICK, Service, running

pytestmark = pytest.mark.slow

NAMES = ["y1", "y2", "other"]
ROWS = [[0.25, -0.5], [0.5, 0.75], [-0.125, 0.0]]
SPEC: dict[str, Any] = QUICK | {"target": NAMES, "features": ["a", "b"]}

FULL: dict[str, Any] = {
    "target": ["y1", "other"],
    "features": ["a", "b"],
    "variance": "near",
    "kernel": "gaussian",
    "max_basis_size": 20,
    "effort": "normal",
}


def rows(count: int, seed: int = 0, lacking: int = 0) -> list[dict[str, Any]]:
    """Rows with all targets; the first ones lack `other`."""
    random = np.random.default_rng(seed)
    found = []
    for place, (a, b, noise) in enumerate(random.uniform(-1.0, 1.0, (count, 3)).tolist()):
        row = {"a": a, "b": b, "y1": a + b + 0.1 * noise, "y2": a - 2 * b + 0.1 * noise}
        found.append(row | {"other": None if place < lacking else a * b + 0.1 * noise})
    return found


def csv(table: list[dict[str, Any]]) -> str:
    lines = (",".join("" if row[name] is None else repr(row[name]) for name in table[0]) for row in table)
    return ",".join(table[0]) + "\n" + "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """`all`, three targets of which 20 rows lack the last; `one`, a list of one; `plain`; `full`; `compact`."""
    table = csv(rows(120, lacking=20))
    with running(tmp_path_factory.mktemp("service")) as service:
        jobs = [
            service.train(table, model="all", **SPEC),
            service.train(table, model="one", **SPEC | {"target": ["y1"]}),
            service.train(table, model="plain", **SPEC | {"target": "y1"}),
            service.train(csv(rows(40)), model="full", **FULL),
            service.train(table, model="compact", **SPEC | {"artefact": "compact"}),
        ]
        assert [job["state"] for job in jobs] == ["succeeded"] * 5
        yield service


def post(service: Service, model: str, new: list[dict[str, Any]], **spec: Any) -> httpx.Response:
    return service.client.post(f"/models/{model}/update", json={"rows": new, "spec": spec})


def update(service: Service, model: str, new: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
    """Send rows, work, and give the result."""
    answer = post(service, model, new, **spec)
    assert answer.status_code == 202, answer.text
    service.work()
    job = service.client.get(answer.headers["location"]).json()
    assert job["state"] == "succeeded", job
    found: dict[str, Any] = job["result"]
    return found


def test_each_target_learns_its_rows(trained: Service) -> None:
    """The report is by target, also in the version; a second update goes on from the first."""
    new = rows(30, seed=5, lacking=10)
    first = update(trained, "all@1", new)
    report = first["report"]
    told = {name: report["targets"][name]["update"] for name in NAMES}
    assert [told[name]["rows_added"] for name in NAMES] == [30, 30, 20]
    assert [told[name]["rows_without_target"] for name in NAMES] == [0, 0, 10]
    assert {each["rows_left_out"] for each in told.values()} == {0}
    assert [report["targets"][name]["rows"] for name in NAMES] == [150, 150, 120]
    assert {report["targets"][name]["rows_uploaded"] for name in NAMES} == {150}
    assert report["target_names"] == NAMES
    assert report["update"] == told["y1"]
    assert all(each["drift"]["rmse"] < 0.5 for each in told.values())
    path = f"/models/all/versions/{first['version']}"
    assert trained.client.get(path, params={"target": "other"}).json()["report"]["update"] == told["other"]
    assert "other" in trained.client.get(f"{path}/report?target=other").text
    before, after = (trained.ask(f"all@{version}", ROWS, include=["latent_std"]) for version in (1, first["version"]))
    for name in NAMES:
        assert np.mean(after["latent_std"][name]) < np.mean(before["latent_std"][name])
    second = update(trained, f"all@{first['version']}", rows(5, seed=6), forget=[0, 1, 120, 149])["report"]
    assert [second["targets"][name]["update"]["rows_forgotten"] for name in NAMES] == [4, 4, 1]
    assert [second["targets"][name]["rows"] for name in NAMES] == [151, 151, 124]


def test_a_list_of_one_target_is_updated_as_the_target_is(trained: Service) -> None:
    new = rows(25, seed=8)
    for model in ("one", "plain"):
        update(trained, f"{model}@1", new, forget=[3, 4])
    one, plain = trained.ask("one@2", ROWS), trained.ask("plain@2", ROWS)
    for field in ("mean", "std", "lower", "upper"):
        assert one[field] == {"y1": plain[field]}


def test_full_processes_take_rows(trained: Service) -> None:
    report = update(trained, "full@1", rows(15, seed=8, lacking=5), forget=[0])["report"]
    told = {name: report["targets"][name]["update"] for name in ("y1", "other")}
    assert [each["how"] for each in told.values()] == ["full", "full"]
    assert [report["targets"][name]["rows"] for name in told] == [54, 49]
    found = trained.ask("full@2", ROWS)["mean"]
    np.testing.assert_allclose(found["y1"], [a + b for a, b in ROWS], atol=0.15)


def test_a_target_that_has_no_new_row_stays_as_it_is(trained: Service) -> None:
    result = update(trained, "all@1", rows(12, seed=4, lacking=12))
    before, after = (trained.ask(f"all@{version}", ROWS) for version in (1, result["version"]))
    for field in ("mean", "std", "lower", "upper"):
        assert before[field]["other"] == after[field]["other"]
        assert before[field]["y1"] != after[field]["y1"]
    other = result["report"]["targets"]["other"]
    assert (other["rows"], other["rows_uploaded"]) == (100, 132)
    assert (other["update"]["how"], other["update"]["rows_added"], other["update"]["rows_forgotten"]) == (
        "unchanged",
        0,
        0,
    )
    assert (other["update"]["drift"]["rmse"], other["update"]["drift"]["rows"]) == (None, 0)
    again = update(trained, f"all@{result['version']}", rows(3, seed=2), forget=[131])["report"]["targets"]["other"]
    assert (again["rows"], again["rows_uploaded"]) == (103, 135)


def test_files_and_datasets(trained: Service) -> None:
    """The same rows in any form give the same version, byte for byte."""
    new = rows(8, seed=3, lacking=2)
    made = [update(trained, "all@1", new)["version"]]
    files: Any = {"file": ("new.csv", csv(new))}
    dataset = trained.client.post("/datasets", files=files).json()["id"]
    for body in ({"files": files}, {"json": {"dataset": dataset}}):
        answer = trained.client.post("/models/all@1/update", **body)
        assert answer.status_code == 202, answer.text
        trained.work()
        made.append(trained.client.get(answer.headers["location"]).json()["result"]["version"])
    found = [trained.ask(f"all@{version}", ROWS) | {"version": 0} for version in made]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"y2": "much"}, ["row 1", "'y2'", "'much' is not a number"]),
        ({"y1": None, "y2": None, "other": None}, ["row 1", "no target has a value"]),
        ({"other": 1e200}, ["row 1", "'other'", "too far from the targets"]),
        ({"a": "?"}, ["row 1", "'a'"]),
        ({"a": 1e200}, ["row 1", "'a'", "too far"]),
    ],
)
def test_a_wrong_row_is_named(trained: Service, change: dict[str, Any], said: list[str]) -> None:
    new = rows(3)
    new[1] |= change
    assert_problem(post(trained, "all@1", new), 422, *said)


def test_what_cannot_be_updated(trained: Service) -> None:
    without = [{name: cell for name, cell in row.items() if name != "y2"} for row in rows(3)]
    assert_problem(post(trained, "all@1", without), 422, "there is no column 'y2', which the model predicts")
    assert_problem(post(trained, "compact", rows(3)), 409, "it is kept as compact, without the state")
    data = trained.client.get("/models/all/versions/1/artefact").content
    headers = {"content-type": "application/octet-stream"}
    assert trained.client.post("/models/brought/versions", content=data, headers=headers).status_code == 201
    assert_problem(post(trained, "brought", rows(3)), 409, "it was imported")
    answer = post(trained, "all@1", rows(3), forget=[0, 999])
    trained.work()
    job = trained.client.get(answer.headers["location"]).json()
    assert job["state"] == "failed"
    assert "row 999 is not among the 120 rows of the model's targets" in job["error"]["message"]


def test_states_are_stored_once_where_targets_have_them_in_common(trained: Service) -> None:
    """Rows and their sums: those of y1 and y2 are the same. What is read is written again to the bit."""
    files = [trained.blobs.read(blob.key) for blob in trained.blobs.keys(training_state.STATES)]
    several = [data for data in files if len(training_state.load(data)) == 3]
    assert several
    for data in several:
        states = training_state.load(data)
        assert training_state.save(states) == data
        assert len(data) < 0.9 * sum(len(training_state.save([state])) for state in states)
    broken = several[0].replace(b"pursuit-states/1", b"pursuit-states/9")
    with pytest.raises(BrokenArtefactError, match="pursuit-states/9"):
        training_state.load(broken)
