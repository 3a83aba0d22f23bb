"""POST /predict with a dataset: a job, and the Parquet file that it leaves for as long as it is listed."""

import io
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest
from sqlalchemy import delete

from app.database.tables import jobs
from app.services.dataset_predictions import PREDICTIONS
from app.services.monitoring import kept_predictions as keeping
from app.storage.api_keys import KeyLimits
from app.storage.kept_predictions import ROW_OVERHEAD_BYTES, total_bytes
from app.worker import remove_old, sweep_store
from tests.app.routes.keys import create
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import QUICK, Service, numbers, running, waves
from tests.processes import wait_until

TABLE = "id,x,kind,y\n" + "".join(f"r{i},{i / 7!r},{'low' if i % 3 else 'high'},\n" for i in range(40))
BAD = TABLE.replace("r7,1.0,", "r7,oops,")


@pytest.fixture
def waved(empty: Service) -> Service:
    """A service with the model `waves` and no job in its queue."""
    assert empty.train(waves(), model="waves", **QUICK)["state"] == "succeeded"
    return empty


def upload(service: Service, table: str) -> str:
    answer = service.client.post("/datasets", files={"file": ("rows.csv", table)})
    assert answer.status_code == 201, answer.text
    dataset: str = answer.json()["id"]
    return dataset


def submit(service: Service, dataset: str, *, key: str | None = None, **more: Any) -> httpx.Response:
    headers = {} if key is None else {"idempotency-key": key}
    return service.client.post("/predict", json={"model": "waves", "dataset": dataset, **more}, headers=headers)


def done(service: Service, answer: httpx.Response) -> dict[str, Any]:
    """The job as it ended."""
    assert answer.status_code == 202, answer.text
    assert answer.headers["location"] == f"/jobs/{answer.json()['id']}"
    assert service.work() == 1
    job: dict[str, Any] = service.client.get(answer.headers["location"]).json()
    return job


def predictions(service: Service, job: dict[str, Any]) -> dict[str, list[Any]]:
    answer = service.client.get(job["result"]["predictions"])
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/vnd.apache.parquet"
    assert job["id"] in answer.headers["content-disposition"]
    assert len(answer.content) == job["result"]["size_bytes"]
    found: dict[str, list[Any]] = pq.read_table(io.BytesIO(answer.content)).to_pydict()
    return found


def test_a_dataset_is_predicted_as_its_rows_are(waved: Service) -> None:
    dataset = upload(waved, TABLE)
    direct = waved.client.post(
        "/predict?model=waves&interval=0.5,0.9", content=TABLE, headers={"content-type": "text/csv"}
    )
    answer = submit(waved, dataset, interval=[0.5, 0.9])
    queued = answer.json()
    assert (queued["kind"], queued["state"], queued["model"]) == ("predict", "queued", "waves")
    job = done(waved, answer)
    assert (job["state"], job["progress"]["fraction"]) == ("succeeded", 1.0)
    result = job["result"]
    assert (result["model"], result["version"], result["rows"], result["failed_rows"]) == ("waves", 1, 40, 0)
    assert result["interval_basis"] == direct.json()["interval_basis"]
    found = predictions(waved, job)
    assert list(found) == ["id", "mean", "std", "lower_0.5", "upper_0.5", "lower_0.9", "upper_0.9"]
    assert found["id"] == [f"r{i}" for i in range(40)]
    assert found["mean"] == direct.json()["mean"]
    assert [found["lower_0.5"], found["lower_0.9"]] == direct.json()["lower"]
    reported = waved.recorders[-1].progressed
    assert [news["phase"] for news in reported] == ["reading", "predicting", "publishing"]
    assert all(one["fraction"] <= two["fraction"] for one, two in pairwise(reported))


def test_inputs_are_kept_and_bad_rows_are_null_where_that_is_asked(waved: Service) -> None:
    dataset = upload(waved, BAD)
    job = done(waved, submit(waved, dataset, keep="all", on_error="null"))
    found = predictions(waved, job)
    assert list(found) == ["id", "x", "kind", "y", "mean", "std", "lower", "upper"]
    assert (found["x"][7], found["mean"][7]) == (None, None)
    assert (found["x"][8], found["kind"][8]) == (8 / 7, "low")
    assert job["result"]["failed_rows"] == 1
    (warning,) = (one for one in job["result"]["warnings"] if one["kind"] == "failed")
    assert (warning["count"], warning["rows"]) == (1, [7])
    refused = done(waved, submit(waved, dataset))
    assert (refused["state"], refused["result"]) == ("failed", None)
    assert "'oops'" in refused["error"]["message"]
    assert_problem(waved.client.get(f"/jobs/{refused['id']}/predictions"), 409, "failed")


def test_what_cannot_be_asked(waved: Service) -> None:
    dataset = upload(waved, TABLE)
    assert_problem(submit(waved, f"ds_{'0' * 32}"), 404, "dataset")
    assert_problem(submit(waved, dataset, rows=[[1, "low"]]), 422, "`dataset`")
    assert_problem(submit(waved, dataset, keep="some"), 422, "keep", "none, others, all")
    assert_problem(submit(waved, dataset, interval=2), 422, "interval")
    assert_problem(waved.client.post("/predict", json={"model": "nobody", "dataset": dataset}), 404, "nobody")
    trained = waved.client.get("/jobs").json()["jobs"][0]["id"]
    assert_problem(waved.client.get(f"/jobs/{trained}/predictions"), 404, "train")
    assert_problem(waved.client.get(f"/jobs/job_{'0' * 32}/predictions"), 404)


def test_the_job_is_of_the_version_and_the_table_that_were_there(waved: Service) -> None:
    dataset = upload(waved, TABLE)
    expected = waved.client.post("/predict?model=waves", content=TABLE, headers={"content-type": "text/csv"}).json()
    answer = submit(waved, dataset)
    assert_problem(waved.client.get(f"{answer.headers['location']}/predictions"), 409, "queued")
    claimed = waved.claim()
    assert claimed is not None
    waved.client.delete(f"/datasets/{dataset}")
    sweep_store(waved.database, waved.blobs, older_than=0.0)
    waved.finish(claimed)
    job = waved.client.get(answer.headers["location"]).json()
    assert predictions(waved, job)["mean"] == expected["mean"]
    dataset = upload(waved, TABLE)
    answer = submit(waved, dataset)
    waved.client.delete("/models/waves")
    sweep_store(waved.database, waved.blobs, older_than=0.0)
    assert waved.work() == 1
    job = waved.client.get(answer.headers["location"]).json()
    assert (job["state"], job["error"]["type"]) == ("failed", "invalid-request")
    assert "deleted" in job["error"]["message"]


def test_the_same_key_is_the_same_job(waved: Service) -> None:
    dataset = upload(waved, TABLE)
    one, two = (submit(waved, dataset, key="k").json()["id"] for _ in range(2))
    assert one == two
    assert_problem(submit(waved, dataset, key="k", interval=0.5), 409, "idempotency key")


def test_a_queued_one_can_be_cancelled(waved: Service) -> None:
    answer = submit(waved, upload(waved, TABLE))
    waved.client.delete(answer.headers["location"])
    assert waved.work() == 0
    assert_problem(waved.client.get(f"{answer.headers['location']}/predictions"), 409, "cancelled")


def test_the_file_goes_with_its_job(waved: Service) -> None:
    job = done(waved, submit(waved, upload(waved, TABLE)))

    def stored() -> list[str]:
        return [blob.key for blob in waved.blobs.keys(PREDICTIONS)]

    (key,) = stored()
    assert key not in sweep_store(waved.database, waved.blobs, older_than=0.0)
    assert predictions(waved, job)["mean"]
    with waved.database.write() as connection:
        connection.execute(delete(jobs).where(jobs.c.id == job["id"]))  # as retention does it, months later
    assert key in sweep_store(waved.database, waved.blobs, older_than=0.0)
    assert stored() == []


def test_a_model_with_a_mean_alone(waved: Service) -> None:
    assert waved.train(numbers(), model="waves", **QUICK, artefact="mean")["state"] == "succeeded"
    dataset = upload(waved, "a,b\n0.1,0.2\n0.3,0.4\n")
    assert list(predictions(waved, done(waved, submit(waved, dataset)))) == ["mean"]
    refused = done(waved, submit(waved, dataset, interval=0.5))
    assert refused["state"] == "failed"


def test_keys_for_predictions_alone_get_none_of_a_dataset(waved: Service) -> None:
    dataset = upload(waved, TABLE)
    everything = create(waved, "predict", "train")
    wait_until(lambda: waved.client.get("/models").status_code == 401)

    def ask(headers: dict[str, str], model: str = "waves") -> httpx.Response:
        return waved.client.post("/predict", json={"model": model, "dataset": dataset}, headers=headers)

    assert_problem(ask(create(waved, "predict")), 403, "`train`")
    assert_problem(ask(create(waved, "predict", "train", models=["other"])), 403, "waves")
    few = create(waved, "predict", "train", limits=KeyLimits(rows_per_minute=39))
    assert_problem(ask(few), 413, "40 rows", "39")
    headers = {**few, "content-type": "text/csv"}
    assert_problem(waved.client.post("/predict?model=waves", content=TABLE, headers=headers), 413, "40 rows", "39")
    answer = ask(everything)
    assert answer.status_code == 202, answer.text
    assert waved.work() == 1
    address = f"{answer.headers['location']}/predictions"
    assert waved.client.get(address, headers=everything).status_code == 200
    assert_problem(waved.client.get(address, headers=create(waved, "train", models=["other"])), 403, "waves")
    assert_problem(waved.client.get(address), 401, "API key")


def test_a_dataset_that_lacks_columns_is_refused_at_once(waved: Service) -> None:
    dataset = upload(waved, "id,x,sort\n1,2,low\n")
    problem = assert_problem(submit(waved, dataset), 422, "column missing: 'kind'", "the model needs")
    assert problem["errors"] == [{"message": "the column is missing", "column": "kind"}]
    assert waved.client.get("/jobs?state=queued").json()["jobs"] == []


# Kept for their truth


TRUTH: list[float | None] = [i / 9 for i in range(40)]


def tell(service: Service, prediction: str, truth: list[float | None]) -> httpx.Response:
    return service.client.post("/feedback", json={"prediction_id": prediction, "truth": truth})


def total_kept(service: Service) -> int:
    with service.database.read() as connection:
        return total_bytes(connection)


@pytest.mark.parametrize("more", [{}, {"interval": False}, {"interval": [0.5, 0.9]}, {"keep": "none"}])
def test_the_truth_of_a_dataset_comes_later(waved: Service, monkeypatch: pytest.MonkeyPatch, more: Any) -> None:
    monkeypatch.setattr("app.services.predict.table_parts.PART_ROWS", 16)
    job = done(waved, submit(waved, upload(waved, TABLE), keep_for_feedback=True, **more))
    assert "kept" not in job["result"]
    direct = waved.client.post("/predict?model=waves", content=TABLE, headers={"content-type": "text/csv"}).json()
    inside = sum(
        y is not None and low <= y <= high for low, y, high in zip(direct["lower"], TRUTH, direct["upper"], strict=True)
    )
    answer = tell(waved, job["result"]["prediction_id"], TRUTH)
    assert answer.json() == {"model": "waves", "version": 1, "rows": 40, "covered": inside, "waiting": 0}
    assert_problem(tell(waved, job["result"]["prediction_id"], TRUTH), 409, "came back before")


def test_nothing_of_a_dataset_is_kept_unless_it_is_asked_for_and_done(waved: Service) -> None:
    dataset = upload(waved, BAD)
    assert "prediction_id" not in done(waved, submit(waved, dataset, on_error="null"))["result"]
    refused = done(waved, submit(waved, dataset, keep_for_feedback=True))
    assert (refused["state"], total_kept(waved)) == ("failed", 0)
    answer = submit(waved, dataset, keep_for_feedback=True, on_error="null")
    assert total_kept(waved) == 0
    prediction = done(waved, answer)["result"]["prediction_id"]
    assert total_kept(waved) == 40 * 25 + ROW_OVERHEAD_BYTES
    told = tell(waved, prediction, TRUTH).json()
    assert (told["rows"], told["waiting"]) == (39, 0)  # a row without a prediction waits for none


def test_a_dataset_of_more_rows_than_are_kept_is_refused_at_once(
    waved: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "MOST_ROWS", 39)
    dataset = upload(waved, TABLE)
    assert_problem(submit(waved, dataset, keep_for_feedback=True), 422, "at most 39 rows are kept at once, got 40")
    assert submit(waved, dataset).status_code == 202
    assert_problem(submit(waved, dataset, key="k", keep_for_feedback=True), 422, "keep_for_feedback")


def test_a_key_is_of_the_same_wish_to_keep(waved: Service) -> None:
    dataset = upload(waved, TABLE)
    one, two = (submit(waved, dataset, key="k", keep_for_feedback=True).json()["id"] for _ in range(2))
    assert one == two
    assert_problem(submit(waved, dataset, key="k"), 409, "idempotency key")


def test_a_model_with_a_mean_alone_is_kept_without_intervals(waved: Service) -> None:
    assert waved.train(numbers(), model="waves", **QUICK, artefact="mean")["state"] == "succeeded"
    dataset = upload(waved, "a,b\n0.1,0.2\n0.3,0.4\n")
    prediction = done(waved, submit(waved, dataset, keep_for_feedback=True))["result"]["prediction_id"]
    assert tell(waved, prediction, [1.0, None]).json() | {"version": 0} == {
        "model": "waves",
        "version": 0,
        "rows": 1,
        "covered": None,
        "waiting": 1,
    }


def test_room_is_made_for_what_workers_keep(tmp_path: Path) -> None:
    with running(tmp_path, max_kept_predictions_bytes=3_000) as service:
        assert service.train(waves(), model="waves", **QUICK)["state"] == "succeeded"
        dataset = upload(service, TABLE)
        ids = [
            done(service, submit(service, dataset, keep_for_feedback=True))["result"]["prediction_id"] for _ in range(4)
        ]
        assert total_kept(service) <= 3_000 + 2 * 1_200  # what is queued is not there yet when room is made
        remove_old(service.database, service.settings)
        assert total_kept(service) <= 3_000
        assert tell(service, ids[0], TRUTH).status_code == 404
        assert tell(service, ids[-1], TRUTH).status_code == 200
