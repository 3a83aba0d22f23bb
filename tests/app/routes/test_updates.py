"""New rows for a published model, over HTTP: the next version, its drift, what is refused."""

import json
import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from app.worker import sweep_store
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import QUICK, Service, curve, even, running, waves

NEAR = {"variance": "near", "kernel": "gaussian", "max_basis_size": 20, "effort": "normal"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """`plain`, `kinds` (a category), `full`, a full process, `log`, `compact`, `grouped`."""
    tables: dict[str, tuple[str, dict[str, Any]]] = {
        "plain": (curve(120, even), QUICK),
        "kinds": (waves(), QUICK),
        "gaps": (waves().replace("low", "", 9), QUICK | {"missing": "impute"}),
        "full": (curve(60, even), NEAR),
        "log": (curve(120, even, bend=math.exp), QUICK | {"target_transform": "log"}),
        "compact": (curve(120, even), QUICK | {"artefact": "compact"}),
        "grouped": (waves(), {"basis_size": 10, "adapt": False, "groups": "kind"}),
    }
    with running(tmp_path_factory.mktemp("service")) as service:
        for name, (table, spec) in tables.items():
            job = service.train(table, model=name, **spec)
            assert job["state"] == "succeeded" or name == "grouped", job
        yield service


def rows(count: int, seed: int = 9, shift: float = 0.0) -> list[dict[str, Any]]:
    """Rows as those of `curve`, with their targets."""
    chance = random.Random(seed)
    places = [chance.uniform(0, 6) for _ in range(count)]
    return [{"x": x, "y": math.sin(x) + chance.gauss(0, 0.1) + shift} for x in places]


def update(service: Service, model: str, new: Any, **spec: Any) -> dict[str, Any]:
    """Send rows, work, and give the job as it ended."""
    answer = service.client.post(f"/models/{model}/update", json={"rows": new, "spec": spec})
    assert answer.status_code == 202, answer.text
    assert (answer.json()["kind"], answer.json()["state"]) == ("update", "queued")
    service.work()
    job: dict[str, Any] = service.client.get(answer.headers["location"]).json()
    assert job["state"] == "succeeded", job
    return job


def test_a_version_with_new_rows_is_published(trained: Service) -> None:
    """The bars shrink where the rows are, what was asked about them is told, a second update goes on from the first."""
    place = [[1.234]]
    before = trained.ask("plain@1", place, include=["latent_std"])
    job = update(trained, "plain", [{"x": 1.234, "y": 0.94 + 0.001 * place} for place in range(30)] + rows(30))
    result = job["result"]
    assert (result["model"], result["version"]) == ("plain", 2)
    told = result["report"]["update"]
    assert (told["from"], told["how"], told["rows_added"], told["rows_left_out"]) == (1, "sums", 60, 0)
    assert (result["report"]["rows"], result["report"]["rows_uploaded"]) == (180, 180)
    assert told["recalibrated"]
    assert told["drift"]["coverage"]["0.95"] > 0.5
    after = trained.ask("plain", place, include=["latent_std"])
    assert after["version"] == 2
    assert after["latent_std"][0] < 0.8 * before["latent_std"][0]
    first, second = (trained.client.get(f"/models/plain/versions/{version}").json() for version in (1, 2))
    for name in ("hyperparameters", "basis", "basis_rows"):
        assert first[name] == second[name]
    again = update(trained, "plain", rows(5, seed=1), forget=[*range(120, 150)])["result"]["report"]
    assert (again["rows"], again["rows_uploaded"], again["update"]["rows_forgotten"]) == (155, 185, 30)
    back = trained.ask("plain@3", place, include=["latent_std"])
    assert back["latent_std"][0] > after["latent_std"][0]
    old = update(trained, "plain@1", rows(5, seed=1))["result"]
    assert (old["version"], old["report"]["update"]["from"], old["report"]["rows"]) == (4, 1, 125)


def test_basis_vectors_are_added_from_the_rows(trained: Service) -> None:
    beyond = [{"x": 6.0 + 0.1 * place, "kind": "low", "y": 0.1 * place} for place in range(30)]
    report = update(trained, "kinds", beyond, extra_basis=3)["result"]["report"]
    assert (report["update"]["how"], report["update"]["basis_added"], report["basis_size"]) == ("basis", 3, 23)
    assert report["update"]["drift"]["train"]
    version = trained.client.get("/models/kinds/versions/2").json()
    assert all(120 <= number < 150 for number in version["basis_rows"][-3:])
    assert len(version["basis"]) == 23
    found = trained.ask("kinds", [{"x": 7.5, "kind": "low"}])
    assert found["mean"][0] == pytest.approx(1.5, abs=0.3)


def test_a_full_process_takes_rows(trained: Service) -> None:
    report = update(trained, "full", rows(40))["result"]["report"]
    assert (report["update"]["how"], report["basis_size"], report["artefact"]["mean_rows"]) == ("full", 100, 100)
    version = trained.client.get("/models/full/versions/2").json()
    assert version["basis_rows"] == [*range(100)]
    error = np.array(trained.ask("full", [[x] for x in (0.5, 2.0, 4.0)])["mean"]) - np.sin([0.5, 2.0, 4.0])
    assert np.abs(error).max() < 0.15
    again = update(trained, "full", rows(3, seed=2), forget=[0, 99])["result"]["report"]
    assert again["rows"] == 101


def test_files_columns_and_datasets(trained: Service) -> None:
    """The same rows in any form give the same version, byte for byte."""
    new = rows(8, seed=4)
    csv = "y,x,other\n" + "".join(f"{row['y']!r},{row['x']!r},7\n" for row in new)
    dataset = trained.client.post("/datasets", files={"file": ("new.csv", csv)}).json()["id"]
    target = "/models/plain@1/update"
    answers = [
        trained.client.post(target, files={"file": ("new.csv", csv)}, data={"spec": json.dumps({"extra_basis": 0})}),
        trained.client.post(target, json={"columns": {name: [row[name] for row in new] for name in ("x", "y")}}),
        trained.client.post(target, json={"dataset": dataset}),
    ]
    found = []
    for number, answer in enumerate(answers):
        if number:
            assert_problem(answer, 409, "updates 'plain' already")
            continue
        assert answer.status_code == 202, answer.text
    trained.work()
    for request in ({"columns": {name: [row[name] for row in new] for name in ("x", "y")}}, {"dataset": dataset}):
        assert trained.client.post(target, json=request).status_code == 202
        trained.work()
    newest = trained.client.get("/models/plain").json()["versions"][:3]
    places = [[0.3], [2.0], [5.5]]
    found = [trained.ask(f"plain@{version['version']}", places) for version in newest]
    assert found[0]["mean"] == found[1]["mean"] == found[2]["mean"]
    assert found[0]["std"] == found[2]["std"]


def test_a_key_gives_its_job(trained: Service) -> None:
    headers = {"idempotency-key": "once"}
    body = {"rows": [{"x": 1.0, "y": 3.0}]}
    first = trained.client.post("/models/log/update", json={"rows": [{"x": 1.0, "y": 2.0}]}, headers=headers)
    again = trained.client.post("/models/log/update", json={"rows": [{"x": 1.0, "y": 2.0}]}, headers=headers)
    assert first.json()["id"] == again.json()["id"]
    assert_problem(trained.client.post("/models/log/update", json=body, headers=headers), 409, "once")
    trained.work()


def test_rows_with_missing_cells_are_left_out(trained: Service) -> None:
    new = [{"x": 1.0, "kind": None, "y": 2.0}, {"x": 1.0, "kind": "high", "y": 2.8}]
    told = update(trained, "gaps", new)["result"]["report"]["update"]
    assert (told["rows_added"], told["rows_left_out"]) == (1, 1)
    assert told["left_out"] == {"columns": {"kind": 1}, "rows": [0], "lines": []}
    csv = "x,kind,y\n1,high,2.9\n1,,2\n,low,2\n"
    answer = trained.client.post("/models/gaps/update", files={"file": ("new.csv", csv)})
    trained.work()
    told = trained.client.get(answer.headers["location"]).json()["result"]["report"]["update"]
    assert told["left_out"] == {"columns": {"x": 1, "kind": 1}, "rows": [1, 2], "lines": [3, 4]}


def test_a_bad_cell_of_a_file_is_named_by_its_line(trained: Service) -> None:
    for cell, words in (("tall", "is not a number"), ("", "the target is missing"), ("1e300", "squares")):
        csv = f"x,y\n1,2\n\n3,{cell}\n"
        answer = trained.client.post("/models/plain/update", files={"file": ("new.csv", csv)})
        problem = assert_problem(answer, 422, "line 4, column 'y'", words)
        assert (problem["errors"][0]["line"], problem["errors"][0]["row"]) == (4, 1)


def test_scores_of_the_training_are_marked(trained: Service) -> None:
    """In the report and in lists, and after another update still; a training has no mark."""
    first = update(trained, "plain@1", rows(4))["result"]
    second = update(trained, f"plain@{first['version']}", rows(4, seed=2))["result"]
    assert [each["report"]["scores_of"] for each in (first, second)] == [1, 1]
    versions = {each["version"]: each["summary"] for each in trained.client.get("/models/plain").json()["versions"]}
    assert versions[second["version"]]["scores_of"] == 1
    assert "scores_of" not in versions[1]
    text = trained.client.get(f"/models/plain/versions/{second['version']}/report").text
    assert "in the training of version 1" in text


def test_drift_says_when_a_training_pays(trained: Service) -> None:
    drift = update(trained, "plain@1", rows(40, shift=3.0))["result"]["report"]["update"]["drift"]
    assert drift["train"]
    assert any("nats a row" in reason for reason in drift["reasons"])
    calm = update(trained, "plain@1", rows(20))["result"]["report"]["update"]["drift"]
    assert (calm["train"], calm["reasons"]) == (False, [])


@pytest.mark.parametrize(
    ("model", "body", "words"),
    [
        ("plain", {"rows": [{"x": 1.0}]}, ["no column 'y'"]),
        ("plain", {"rows": [{"x": 1.0, "y": 1.0}, {"x": 1.0, "y": "tall"}]}, ["row 1", "'y'", "'tall'"]),
        ("plain", {"rows": [{"x": 1.0, "y": 1.0}, {"x": 1.0, "y": None}]}, ["row 1", "target is missing"]),
        ("plain", {"rows": [{"x": "wide", "y": 1.0}]}, ["row 0", "'x'", "'wide'"]),
        ("kinds", {"rows": [{"x": 1.0, "kind": "middle", "y": 1.0}]}, ["row 0", "'kind'", "middle"]),
        ("plain", {"rows": [{"x": 1.0, "y": 1.0}], "spec": {"extra": 1}}, ["spec.extra", "unknown field"]),
        ("plain", {"rows": [{"x": 1.0, "y": 1.0}], "spec": {"extra_basis": -1}}, ["spec.extra_basis"]),
        ("plain", {"rows": [{"x": 1.0, "y": 1.0}], "spec": {"forget": [1.5]}}, ["spec.forget"]),
        ("plain", {"rows": [{"x": 1.0, "y": 1.0}], "spec": {"forget": [0] * 50_001}}, ["spec.forget", "up to 50,000"]),
        ("plain", {"rows": [{"x": 1.0, "y": 1.0}, 1]}, ["row 1: expected an object"]),
        ("plain", {"rows": [{"x": 1.0, "y": 1.0}, {"x": 1.0, "y": 1e300}]}, ["row 1", "'y'", "squares"]),
        ("plain", {"rows": [{"x": 1e300, "y": 1.0}]}, ["row 0", "'x'", "squares"]),
        ("log", {"rows": [{"x": 1.0, "y": 1e300}]}, ["row 0", "'y'", "squares"]),
        ("log", {"rows": [{"x": 1.0, "y": -1.0}]}, ["row 0", "'y'", "cannot be learnt as log"]),
    ],
)
def test_refusals(trained: Service, model: str, body: dict[str, Any], words: list[str]) -> None:
    assert_problem(trained.client.post(f"/models/{model}/update", json=body), 422, *words)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("compact", "it is kept as compact"),
        ("imported", "it was imported"),
        ("grouped", "it was trained with `groups` ('kind')"),
    ],
)
def test_models_without_a_state_are_not_updated(trained: Service, model: str, reason: str) -> None:
    artefact = trained.client.get("/models/plain/versions/1/artefact").content
    trained.client.post(
        "/models/imported/versions", content=artefact, headers={"content-type": "application/octet-stream"}
    )
    answer = trained.client.post(f"/models/{model}/update", json={"rows": rows(2)})
    assert_problem(answer, 409, f"cannot be updated: {reason}", "train it again")
    assert_problem(trained.client.post("/models/nothing/update", json={"rows": rows(2)}), 404, "nothing")


def test_what_needs_the_rows_is_refused_where_only_their_sums_are_kept(
    trained: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before there is a job, whose error it was; new rows alone are learnt from the sums."""
    with monkeypatch.context() as small:
        small.setattr("core.train.state.KEPT_NUMBERS", 100)
        for name, spec in (("sums", QUICK), ("mean", QUICK | {"mean_rows": 60})):
            assert trained.train(curve(120, even), model=name, **spec)["state"] == "succeeded"
    for field, value in (("extra_basis", 2), ("forget", [3])):
        answer = trained.client.post("/models/sums/update", json={"rows": rows(2), "spec": {field: value}})
        (fault,) = assert_problem(answer, 422, f"spec.{field}: sums@1 keeps the sums over its 120 rows and not")[
            "errors"
        ]
        assert fault["column"] == field
    assert update(trained, "sums", rows(2))["result"]["report"]["rows"] == 122
    assert_problem(
        trained.client.post("/models/mean/update", json={"rows": rows(2)}),
        409,
        "mean@1 cannot be updated",
        "of its own",
    )
    answer = trained.client.post("/models/full@1/update", json={"rows": rows(2), "spec": {"extra_basis": 1}})
    assert_problem(answer, 422, "spec.extra_basis: full@1 is a full process")
    assert trained.work() == 0


def test_what_the_job_finds_is_its_error(trained: Service) -> None:
    body = {"rows": rows(2), "spec": {"forget": [500]}}
    answer = trained.client.post("/models/plain@1/update", json=body)
    trained.work()
    job = trained.client.get(answer.headers["location"]).json()
    assert job["state"] == "failed"
    assert "row 500 is not among the 120 rows" in job["error"]["message"]


@pytest.mark.parametrize("model", ["plain@1", "full@1", "log@1"])
def test_the_largest_numbers_that_are_taken_are_learnt(trained: Service, model: str) -> None:
    update(trained, model, [{"x": 1e99, "y": 2.0}, {"x": 1.0, "y": 1e99}, {"x": 2.0, "y": 0.5}])
    found = trained.ask(model.partition("@")[0], [[1.0], [1e99]])
    assert np.isfinite([found[name] for name in ("mean", "std", "lower", "upper")]).all()


def test_states_are_kept_as_long_as_their_versions(trained: Service) -> None:
    """The sweep takes those of deleted versions, and no other."""
    update(trained, "log", [{"x": 1.0, "y": 2.5}])
    newest = trained.client.get("/models/log").json()["versions"][0]["version"]
    kept = {blob.key for blob in trained.blobs.keys("states")}
    assert not {key for key in sweep_store(trained.database, trained.blobs, older_than=0.0) if key.startswith("states")}
    assert trained.client.delete(f"/models/log/versions/{newest}").status_code == 204
    gone = {key for key in sweep_store(trained.database, trained.blobs, older_than=0.0) if key.startswith("states")}
    assert len(gone) == 1
    assert gone < kept
    assert {blob.key for blob in trained.blobs.keys("states")} == kept - gone


def test_the_shares_of_columns_are_those_of_the_new_version(trained: Service) -> None:
    old = trained.client.get("/models/kinds/versions/1").json()["report"]["importance"]
    chance = random.Random(3)
    new = [{"x": chance.uniform(0, 6), "kind": "low", "y": 5.0} for _ in range(60)]
    job = update(trained, "kinds@1", new)
    version = job["result"]["version"]
    told = trained.client.get(f"/models/kinds/versions/{version}/importance").json()["shares"]
    assert told == job["result"]["report"]["importance"] != old
    explained = trained.client.post(f"/models/kinds@{version}/explain", json={"rows": [{"x": 1.0, "kind": "low"}]})
    (row,) = explained.json()["rows"]
    assert row["centre"] == pytest.approx(trained.ask(f"kinds@{version}", [{"x": 1.0, "kind": "low"}])["mean"][0])


@pytest.mark.parametrize("model", ["plain", "full", "log"])
def test_rows_that_the_model_has_are_no_news(trained: Service, model: str) -> None:
    """A retry adds nothing: copies are left out and told, of an update that has nothing else it says so."""
    new = [{**row, "y": math.exp(row["y"])} if model == "log" else row for row in rows(8, seed=77)]
    update(trained, model, new)
    report = update(trained, model, [*new, *new[:3], {"x": 2.5, "y": 1.5}])["result"]["report"]
    assert (report["update"]["rows_added"], report["update"]["rows_copied"]) == (1, 11)
    assert report["update"]["rows_left_out"] == 0
    answer = trained.client.post(f"/models/{model}/update", json={"rows": new})
    trained.work()
    job = trained.client.get(answer.headers["location"]).json()
    assert job["state"] == "failed"
    assert "nothing new to learn: all 8 rows are exact copies" in job["error"]["message"]
