"""Jobs over HTTP: what they show, in what order, how they are cancelled and followed."""

import json
import re
import threading
import time
from typing import Any

import pytest
from sqlalchemy import update

from app.database.tables import jobs
from app.jobs import queue
from app.storage import artefact
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import QUICK, Service, numbers, waves

RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def submit(service: Service, **spec: Any) -> dict[str, Any]:
    job: dict[str, Any] = service.post_file(numbers(), QUICK | spec).json()
    return job


def test_a_new_job_waits(empty: Service) -> None:
    answer = empty.post_file(numbers(), QUICK, filename="My cars (2).csv.gz")
    assert answer.status_code == 202
    job = answer.json()
    assert answer.headers["location"] == f"/jobs/{job['id']}"
    assert RFC3339.fullmatch(job.pop("created_at"))
    assert job == {
        "id": job["id"],
        "kind": "train",
        "state": "queued",
        "model": "My-cars-2",
        "started_at": None,
        "finished_at": None,
        "attempts": 0,
        "position": 0,
        "requeue_reason": None,
        "progress": {
            "fraction": 0.0,
            "phase": None,
            "round": None,
            "rounds": None,
            "basis_size": None,
            "objective": None,
            "waiting": None,
            "elapsed_s": 0.0,
            "eta_s": None,
        },
        "result": None,
        "error": None,
    }


def test_a_running_job_says_what_it_waits_for(empty: Service) -> None:
    submitted = submit(empty)
    claimed = empty.claim()
    assert claimed is not None
    reason = "nothing can be written in the store: no space is left"
    with empty.database.write() as connection:
        queue.renew(connection, claimed, lease_seconds=60.0, progress={"phase": "reading", "waiting": reason})
    assert empty.client.get(f"/jobs/{submitted['id']}").json()["progress"]["waiting"] == reason
    with empty.database.write() as connection:
        queue.postpone(connection, claimed, {"message": reason})
    waiting = empty.client.get(f"/jobs/{submitted['id']}").json()
    assert (waiting["requeue_reason"], waiting["progress"]["waiting"]) == (reason, None)


def test_a_finished_job_has_a_report(empty: Service) -> None:
    table = numbers(100).replace("\n", "\n,1,1\n", 1)
    job = empty.train(table, model="m", missing="drop", **QUICK | {"method": "batch"})
    assert job["state"] == "succeeded"
    assert job["attempts"] == 1
    assert job["progress"]["fraction"] == 1.0
    assert job["progress"]["eta_s"] == 0.0
    assert job["progress"]["elapsed_s"] > 0
    assert RFC3339.fullmatch(job["started_at"])
    assert RFC3339.fullmatch(job["finished_at"])
    assert (job["result"]["model"], job["result"]["version"]) == ("m", 1)
    report = job["result"]["report"]
    assert (report["rows"], report["rows_dropped"], report["rows_uploaded"]) == (100, 1, 101)
    assert report["target"] == "y"
    assert [(column["name"], column["kind"]) for column in report["columns"]] == [("a", "number"), ("b", "number")]
    assert set(report["hyperparameters"]["lengthscales"]) == {"a", "b"}
    assert report["holdout"]["rows"] == 10
    assert report["leave_one_out"]["rows"] == 100
    assert report["calibration"]["rows"] == 100  # which say nothing of a level of 0.99
    assert set(report["holdout"]["coverage"]) == {"0.5", "0.8", "0.9", "0.95", "0.99"}
    assert set(report["holdout"]["coverage_standard_error"]) == set(report["holdout"]["coverage"])
    assert {"reading", "fitting", "evaluating"} <= set(report["seconds"])
    assert report["peak_memory_bytes"] > 1 << 20
    assert any("1 row" in warning for warning in report["warnings"])


def test_json_bodies_make_the_same_model(empty: Service) -> None:
    lines = [line.split(",") for line in numbers(50).splitlines()[1:]]
    rows = [{"a": float(a), "b": float(b), "y": float(y)} for a, b, y in lines]
    columns = {name: [row[name] for row in rows] for name in ("a", "b", "y")}
    for body in ({"rows": rows}, {"columns": columns}):
        assert empty.client.post("/train", json=body | {"spec": QUICK | {"model": "same"}}).status_code == 202
    assert empty.post_file(numbers(50), QUICK | {"model": "same"}).status_code == 202
    assert empty.work() == 3
    stored = [
        artefact.load(empty.client.get(f"/models/same/versions/{version}/artefact").content).posterior
        for version in (1, 2, 3)
    ]
    for other in stored[1:]:
        assert other.scalars() == stored[0].scalars()
        for name, array in other.arrays().items():
            assert array.tobytes() == stored[0].arrays()[name].tobytes()


def test_a_job_that_cannot_be_done_says_why(empty: Service) -> None:
    spec: dict[str, Any] = {
        "adapt": False,
        "hyperparameters": {
            "signal_variance": 1e300,
            "bias_variance": 0,
            "noise_variance": 1e-300,
            "lengthscales": {"a": 1e9, "b": 1e9},
        },
        "basis_size": 50,
        "method": "rand",
    }
    job = empty.train(numbers(), **spec)
    if job["state"] == "failed":
        assert set(job["error"]) >= {"type", "message"}
        assert job["result"] is None


def test_pages_and_filters(empty: Service) -> None:
    jobs = [submit(empty, model=f"m{i % 2}") for i in range(5)]
    newest_first = [job["id"] for job in reversed(jobs)]
    seen: list[str] = []
    cursor = None
    while True:
        page = empty.client.get("/jobs", params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        seen += [job["id"] for job in page["jobs"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == newest_first
    assert [job["position"] for job in empty.client.get("/jobs").json()["jobs"]] == [4, 3, 2, 1, 0]
    only = empty.client.get("/jobs", params={"model": "m1"}).json()["jobs"]
    assert [job["id"] for job in only] == [newest_first[1], newest_first[3]]
    assert empty.client.get("/jobs", params={"state": "running"}).json()["jobs"] == []


def test_a_higher_priority_goes_first(empty: Service) -> None:
    submit(empty)
    urgent = submit(empty, priority=5)
    assert urgent["position"] == 0
    job = empty.claim()
    assert job is not None
    assert job.id == urgent["id"]


def test_the_same_key_gives_the_same_job(empty: Service) -> None:
    headers = {"Idempotency-Key": "abc"}
    first = empty.post_file(numbers(), QUICK, headers=headers)
    again = empty.post_file(numbers(), QUICK, headers=headers)
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json()["id"] == again.json()["id"]
    other = empty.post_file(numbers(seed=1), QUICK, headers=headers)
    assert other.status_code == 409
    assert first.json()["id"] in other.json()["detail"]
    assert empty.post_file(numbers(), QUICK, headers={"Idempotency-Key": "x" * 256}).status_code == 422
    assert len(empty.client.get("/jobs").json()["jobs"]) == 1


def test_cancelling_a_queued_job(empty: Service) -> None:
    job = submit(empty)
    cancelled = empty.client.delete(f"/jobs/{job['id']}").json()
    assert cancelled["state"] == "cancelled"
    assert cancelled["finished_at"]
    assert empty.client.delete(f"/jobs/{job['id']}").json() == cancelled
    assert empty.work() == 0


def test_following_a_job_to_its_end(empty: Service) -> None:
    job = submit(empty)
    events: list[dict[str, Any]] = []

    def follow() -> None:
        with empty.client.stream("GET", f"/jobs/{job['id']}/events") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            events.extend(json.loads(line[5:]) for line in stream.iter_lines() if line.startswith("data:"))

    thread = threading.Thread(target=follow)
    thread.start()
    claimed = empty.claim()
    assert claimed is not None
    for fraction in (0.2, 0.6):
        with empty.database.write() as connection:
            queue.renew(connection, claimed, lease_seconds=60, progress={"fraction": fraction, "phase": "adapting"})
        time.sleep(0.6)
    empty.finish(claimed)
    thread.join(10)
    assert not thread.is_alive()
    assert [event["state"] for event in events][-1] == "succeeded"
    fractions = [event["progress"]["fraction"] for event in events]
    assert fractions == sorted(fractions)
    assert {0.2, 0.6, 1.0} <= set(fractions)
    elapsed = [event["progress"]["elapsed_s"] for event in events]
    assert elapsed == sorted(elapsed)
    assert events[-1] == empty.client.get(f"/jobs/{job['id']}").json()


def test_time_left_shrinks_while_nothing_is_heard(empty: Service) -> None:
    submit(empty)
    job = empty.claim()
    assert job is not None
    with empty.database.write() as connection:
        queue.renew(connection, job, lease_seconds=60, progress={"fraction": 0.5, "eta_s": 30.0})
    first = empty.client.get(f"/jobs/{job.id}").json()["progress"]
    time.sleep(1.5)
    second = empty.client.get(f"/jobs/{job.id}").json()["progress"]
    assert second["eta_s"] < first["eta_s"] <= 30.0
    assert second["elapsed_s"] >= first["elapsed_s"] + 0.4


def test_every_phase_of_a_run_is_one_that_the_document_names(empty: Service) -> None:
    """The client holds each answer against the document; calibrating and refining once were in none."""
    submit(empty, basis_size=8, approximation="vfe", adapt={"rounds": 1, "steps": 3}, refine={"steps": 3})
    assert empty.work() == 1
    said = {news["phase"]: news for news in empty.recorders[0].progressed}
    assert len(said) > 4
    submit(empty)
    job = empty.claim()
    assert job is not None
    for news in said.values():
        with empty.database.write() as connection:
            queue.renew(connection, job, lease_seconds=60, progress=news)
        assert empty.client.get(f"/jobs/{job.id}").json()["progress"]["phase"] == news["phase"]


def test_nobody_knows_how_long_a_silent_worker_takes(empty: Service) -> None:
    assert empty.post_file(waves(60), {"model": "waves", **QUICK}).status_code == 202
    job = empty.claim()
    assert job is not None

    def left(silent: float) -> float | None:
        with empty.database.write() as connection:
            queue.renew(connection, job, lease_seconds=60.0, progress={"fraction": 0.5, "eta_s": 1000.0})
            lease = {jobs.c.lease_until: jobs.c.lease_until - silent}
            connection.execute(update(jobs).where(jobs.c.id == job.id).values(lease))
        found: float | None = empty.client.get(f"/jobs/{job.id}").json()["progress"]["eta_s"]
        return found

    assert left(0.0) == pytest.approx(1000.0, abs=5.0)
    assert left(35.0) is not None  # one heartbeat of three did not come
    assert left(45.0) is None


def test_a_name_with_a_slash_is_told(empty: Service) -> None:
    assert_problem(empty.client.get("/models/a%2Fb"), 404, "a name has no slash")
    assert_problem(empty.client.get("/models/a/b"), 404, "nothing at this address")
    assert_problem(empty.client.post("/predict", json={"model": "a/b", "rows": [[1]]}), 422, "letters, digits")
