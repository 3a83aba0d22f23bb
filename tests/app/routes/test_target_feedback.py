"""The truth of several targets over HTTP: coverage, error and drift of each, also of some of them alone."""

import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow.parquet as pq
import pytest

from app.routes import predict
from app.services.monitoring import kept_predictions as keeping
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import CSV_BODY, JSON_BODY, QUICK, Service, running

NAMES = ["y1", "y2", "other"]
Truth = Mapping[str, Sequence[float | None]]


def values(a: float, b: float) -> tuple[float, float, float]:
    return math.sin(3.0 * a) + b, 10.0 * (a - b), a * b


def table(count: int = 200) -> str:
    """`other` is there only where a is below 0.3: elsewhere its model is far from its training rows."""
    random = np.random.default_rng(0)
    lines = []
    for a, b in random.uniform(-1.0, 1.0, (count, 2)).tolist():
        y1, y2, other = (value + 0.1 * random.standard_normal() for value in values(a, b))
        lines.append(f"{a!r},{b!r},{y1!r},{y2!r},{f'{other!r}' if a < 0.3 else ''}")
    return "a,b,y1,y2,other\n" + "\n".join(lines) + "\n"


def rows(count: int, *, low: float = -1.0, seed: int = 7) -> list[list[float]]:
    found: list[list[float]] = np.random.default_rng(seed).uniform(low, 1.0, (count, 2)).tolist()
    return found


def truths(asked: Sequence[Sequence[float]], noise: float = 0.1) -> dict[str, list[float]]:
    random = np.random.default_rng(3)
    exact = np.array([values(a, b) for a, b in asked])
    return dict(zip(NAMES, (exact + noise * random.standard_normal(exact.shape)).T.tolist(), strict=True))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """`all`, of three targets; `one`, a list of one."""
    with running(tmp_path_factory.mktemp("service")) as service:
        for model, target in (("all", NAMES), ("one", ["y1"])):
            job = service.train(table(), model=model, target=target, features=["a", "b"], **QUICK)
            assert job["state"] == "succeeded", job
        yield service


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Service]:
    with running(tmp_path) as service:
        job = service.train(table(), model="all", target=NAMES, features=["a", "b"], **QUICK)
        assert job["state"] == "succeeded", job
        yield service


def tell(service: Service, prediction: str, truth: Truth | Sequence[float]) -> httpx.Response:
    return service.client.post("/feedback", json={"prediction_id": prediction, "truth": truth})


def report(service: Service, model: str = "all") -> dict[str, Any]:
    answer = service.client.get(f"/models/{model}/monitoring")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def inside(asked: Mapping[str, Any], truth: Truth, name: str) -> int:
    ends = zip(asked["lower"][name], truth[name], asked["upper"][name], strict=True)
    return sum(y is not None and low <= y <= high for low, y, high in ends)


def test_each_target_has_a_truth_of_its_own(fresh: Service) -> None:
    asked_rows = rows(120)
    asked, truth = fresh.ask("all", asked_rows, keep_for_feedback=True), truths(asked_rows)
    assert {**asked, "prediction_id": 0} == {**fresh.ask("all", asked_rows), "prediction_id": 0}
    covered = {name: inside(asked, truth, name) for name in NAMES}
    by_rows = fresh.client.post("/feedback", json={"model": "all@1", "rows": asked_rows, "truth": truth}).json()
    expected = {"model": "all", "version": 1, "rows": dict.fromkeys(NAMES, 120), "covered": covered}
    assert by_rows == expected | {"waiting": dict.fromkeys(NAMES, 0)}
    assert tell(fresh, asked["prediction_id"], truth).json() == by_rows
    found = report(fresh)["feedback"]
    for name in NAMES:
        rmse = np.sqrt(np.mean(np.square(np.array(truth[name]) - asked["mean"][name])))
        assert found[name]["rows"] == 240
        assert found[name]["rmse"] == pytest.approx(float(rmse), rel=1e-9)
        assert found[name]["coverage"]["share"] == pytest.approx(covered[name] / 120)
    assert 0.0 < found["y2"]["nmse"] < 0.05  # over the variance of its own target
    assert found["y2"]["rmse"] ** 2 / found["y2"]["nmse"] == pytest.approx(100.0 * 2.0 / 3.0, rel=0.2)


def test_some_targets_come_before_others(trained: Service) -> None:
    asked_rows = rows(10)
    prediction = trained.ask("all", asked_rows, keep_for_feedback=True)["prediction_id"]
    truth = truths(asked_rows)
    assert tell(trained, prediction, {"y2": truth["y2"]}).json()["waiting"] == {"y1": 10, "y2": 0, "other": 10}
    assert_problem(tell(trained, prediction, truth), 409, "the truth of 'y2' of row 0", "counted once")
    half: Truth = {"y1": [None, *truth["y1"][1:]], "other": [None] * 10}
    told = tell(trained, prediction, half).json()
    assert (told["rows"], told["waiting"]) == ({"y1": 9, "y2": 0, "other": 0}, {"y1": 1, "y2": 0, "other": 10})
    assert told["covered"]["other"] == 0
    assert tell(trained, prediction, {}).json()["waiting"] == told["waiting"]
    rest: Truth = {"y1": [truth["y1"][0], *[None] * 9], "other": truth["other"]}
    assert tell(trained, prediction, rest).json()["waiting"] == dict.fromkeys(NAMES, 0)
    assert_problem(tell(trained, prediction, rest), 409, "came back before")
    assert sum(tell(trained, prediction, {"y1": [None] * 10}).json()["rows"].values()) == 0


@pytest.mark.parametrize("more", [{"interval": False}, {"interval": [0.5, 0.9]}, {"quantiles": [0.1]}])
def test_other_intervals_than_the_usual_are_kept_with_it(trained: Service, more: dict[str, Any]) -> None:
    asked_rows = rows(30)
    truth = truths(asked_rows)
    usual = trained.ask("all", asked_rows)
    prediction = trained.ask("all", asked_rows, keep_for_feedback=True, **more)["prediction_id"]
    assert tell(trained, prediction, truth).json()["covered"] == {name: inside(usual, truth, name) for name in NAMES}


@pytest.mark.parametrize("by_way_of_the_disk", [False, True])
@pytest.mark.parametrize("accept", ["text/csv", "application/json", "application/vnd.apache.parquet"])
def test_files_are_kept_too(
    trained: Service, monkeypatch: pytest.MonkeyPatch, accept: str, by_way_of_the_disk: bool
) -> None:
    if by_way_of_the_disk:
        monkeypatch.setattr(predict, "SMALL_BYTES", 100)
        monkeypatch.setattr("app.services.predict.table_parts.PART_ROWS", 16)
    asked_rows = rows(40)
    text = "a,b\n" + "".join(f"{a!r},{b!r}\n" for a, b in asked_rows)
    headers = {**CSV_BODY, "accept": accept}
    answer = trained.client.post("/predict?model=all&keep_for_feedback=true", content=text, headers=headers)
    assert answer.status_code == 200, answer.text
    found = answer.json()["prediction_id"] if accept == "application/json" else answer.headers["x-prediction-id"]
    if accept.endswith("parquet"):
        assert pq.read_table(io.BytesIO(answer.content)).num_rows == 40
    truth, usual = truths(asked_rows), trained.ask("all", asked_rows)
    told = tell(trained, found, truth).json()
    assert told["covered"] == {name: inside(usual, truth, name) for name in NAMES}


@pytest.mark.parametrize("more", [{}, {"interval": 0.5}])
def test_a_dataset_is_kept_too(trained: Service, more: dict[str, Any]) -> None:
    asked_rows = rows(40)
    text = "a,b\n" + "".join(f"{a!r},{b!r}\n" for a, b in asked_rows)
    dataset = trained.client.post("/datasets", files={"file": ("rows.csv", text)}).json()["id"]
    body = {"model": "all", "dataset": dataset, "keep_for_feedback": True, **more}
    answer = trained.client.post("/predict", json=body)
    assert trained.work() == 1
    result = trained.client.get(answer.headers["location"]).json()["result"]
    assert result["interval_basis"] == {name: ["conformal"] for name in NAMES}
    truth, usual = truths(asked_rows), trained.ask("all", asked_rows)
    told = tell(trained, result["prediction_id"], {"y2": truth["y2"]}).json()
    assert told["covered"]["y2"] == inside(usual, truth, "y2")
    assert told["waiting"] == {"y1": 40, "y2": 0, "other": 40}


def test_rows_without_a_prediction_wait_for_no_truth(trained: Service) -> None:
    asked = trained.ask("all", [[0.1, 0.2], ["?", 0.2]], keep_for_feedback=True, on_error="null")
    told = tell(trained, asked["prediction_id"], {name: [1.0, 2.0] for name in NAMES}).json()
    assert (told["rows"], told["waiting"]) == (dict.fromkeys(NAMES, 1), dict.fromkeys(NAMES, 0))


def test_a_list_of_one_target_is_told_like_several(trained: Service) -> None:
    truth = truths(rows(5))["y1"]
    for given in (truth, {"y1": truth}):
        asked = trained.client.post("/feedback", json={"model": "one", "rows": rows(5), "truth": given})
        assert asked.json()["rows"] == {"y1": 5}
    assert list(report(trained, "one")["feedback"]) == ["y1"]
    assert report(trained, "one")["feedback"]["y1"]["rows"] == 10


def test_what_is_refused(trained: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    asked_rows = rows(10)
    prediction = trained.ask("all", asked_rows, keep_for_feedback=True)["prediction_id"]
    truth = truths(asked_rows)
    assert_problem(tell(trained, prediction, truth["y1"]), 422, "truth: expected an object of lists by target ('y1', ")
    assert_problem(
        tell(trained, prediction, truth | {"y9": truth["y1"]}), 422, "truth of 'y9'", "no such target", "'other'"
    )
    assert_problem(tell(trained, prediction, truth | {"y2": [1.0]}), 422, "truth of 'y2': expected 10 numbers", "got 1")
    assert_problem(
        tell(trained, prediction, truth | {"other": [1e300] * 10}),
        422,
        "truth of 'other', row 0: the number is so large",
    )
    wrong: dict[str, tuple[Any, str]] = {
        "expected a number or null, got text": ("much", "much"),
        "expected a number or null, got a boolean": (True, "True"),
        "this number is too large": (10**400, ""),
    }
    for message, (cell, value) in wrong.items():
        told: Any = truth | {"y2": [*truth["y2"][:3], cell, *truth["y2"][4:]]}
        (fault,) = assert_problem(tell(trained, prediction, told), 422, f"truth of 'y2', row 3: {message}")["errors"]
        assert (fault["row"], fault["column"], fault.get("value", "")) == (3, "y2", value)
    text = json.dumps({"prediction_id": prediction, "truth": truth}).replace(json.dumps(truth["y2"][3]), "1e400")
    (fault,) = assert_problem(
        trained.client.post("/feedback", content=text, headers=JSON_BODY), 422, "truth of 'y2', row 3: "
    )["errors"]
    assert (fault["row"], fault["column"]) == (3, "y2")
    none: Any = {"y1": None}
    assert_problem(tell(trained, prediction, none), 422, "truth of 'y1': expected a list of numbers, got null")
    assert set(tell(trained, prediction, truth).json()["rows"].values()) == {10}  # none of these was counted
    by_rows = {"model": "all", "rows": asked_rows, "truth": truth["y1"]}
    assert_problem(trained.client.post("/feedback", json=by_rows), 422, "truth: expected an object")
    monkeypatch.setattr(keeping, "MOST_ROWS", 29)
    body = {"model": "all", "rows": asked_rows, "keep_for_feedback": True}
    assert_problem(trained.client.post("/predict", json=body), 422, "at most 9 rows of 3 targets", "got 10")
    csv = "a,b\n" + "".join(f"{a!r},{b!r}\n" for a, b in asked_rows)
    answer = trained.client.post("/predict?model=all&keep_for_feedback=true", content=csv, headers=CSV_BODY)
    assert_problem(answer, 422, "at most 9 rows of 3 targets")


def test_a_truth_that_one_target_has_too_large_counts_for_none(trained: Service) -> None:
    before = report(trained)["feedback"]
    body = {"model": "all", "rows": rows(2), "truth": {"y1": [1.0, 2.0], "y2": [1e300, 0.0]}}
    (fault,) = assert_problem(trained.client.post("/feedback", json=body), 422, "truth of 'y2', row 0: ")["errors"]
    assert (fault["row"], fault["column"], fault["value"]) == (0, "y2", "1e+300")
    assert report(trained)["feedback"] == before


def test_drift_is_that_of_each_target(fresh: Service) -> None:
    for start in range(4):
        fresh.ask("all", rows(60, seed=start))
    found = report(fresh)
    assert found["has_profile"]
    total = found["total"]
    assert (total["rows"], total["counted_rows"]) == (240, 240)
    by_target = {name: {column["name"]: column for column in total["columns"][name]} for name in NAMES}
    assert by_target["y1"] == by_target["y2"]
    assert by_target["y1"]["a"]["psi"] < 0.25 < by_target["other"]["a"]["psi"]
    assert by_target["other"]["a"]["out_of_range_share"] == pytest.approx(0.35, abs=0.1)
    assert by_target["y1"]["a"]["out_of_range_share"] < 0.05
    assert all(total["prediction_psi"][name] < 0.3 for name in ("y1", "y2"))
    assert list(total["near_prior_share"]) == NAMES
    assert [list(day["columns"]) for day in found["days"]] == [NAMES]
    assert any(said.startswith("target 'other': column 'a' is out of the range") for said in found["messages"])
    assert not any("'b'" in said for said in found["messages"])


def test_processes_add_up_by_target(tmp_path: Path) -> None:
    with running(tmp_path) as one:
        one.train(table(), model="all", target=NAMES, features=["a", "b"], **QUICK)
        with running(tmp_path) as two:
            for service, count in ((one, 30), (two, 50)):
                service.ask("all", rows(count))
                report(service)
                body = {"model": "all", "rows": rows(count), "truth": {"y2": truths(rows(count))["y2"]}}
                assert service.client.post("/feedback", json=body).status_code == 200
            found = report(one)
            assert found["total"]["rows"] == 80
            assert found["total"]["counted_rows"] == 80
            assert [found["feedback"][name]["rows"] for name in NAMES] == [0, 80, 0]
            assert found["feedback"]["y1"]["coverage"] is None


def test_coverage_that_has_left_its_interval_names_the_target(fresh: Service) -> None:
    asked_rows = rows(300)
    means = fresh.ask("all", asked_rows)["mean"]
    random = np.random.default_rng(1)
    truth = {name: (np.array(means[name]) + random.normal(0.0, 5.0, 300)).tolist() for name in ("y1", "y2")}
    body = {"model": "all", "rows": asked_rows, "truth": truth}
    assert fresh.client.post("/feedback", json=body).status_code == 200
    found = report(fresh)
    assert "too narrow" in found["feedback"]["y1"]["message"]
    assert found["feedback"]["other"]["message"] is None
    assert f"target 'y1': {found['feedback']['y1']['message']}" in found["messages"]


def test_a_row_far_from_the_training_of_one_target_is_told(trained: Service) -> None:
    def near_prior() -> float:
        lines = trained.client.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if "near_prior" in line and 'model="all"' in line)

    before = near_prior()
    supports = trained.ask("all", [[5.0, 5.0], [0.0, 0.0]], include=["support"])
    told = supports["warnings"][0]
    expected = [row for row in range(2) if max(supports["support"][name][row] for name in NAMES) >= 0.9]
    assert (told["kind"], told["rows"]) == ("far", expected)
    assert near_prior() == before + len(expected)


def test_the_document_names_what_is_by_target(trained: Service) -> None:
    schemas = trained.client.get("/openapi.json").json()["components"]["schemas"]
    for name, field in (("MonitoringBody", "feedback"), ("DriftBody", "prediction_psi"), ("FeedbackBody", "covered")):
        kinds = [one.get("type") or "object" for one in schemas[name]["properties"][field]["anyOf"]]
        assert "object" in kinds, json.dumps(schemas[name])
