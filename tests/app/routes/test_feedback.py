"""Predictions that are kept for their truth: asked for, answered once, on any process, bounded in age and bytes."""

import io
import math
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import select

from app.database.engine import Database
from app.database.tables import kept_predictions
from app.identifiers import new_prediction_id
from app.routes import predict, predict_files
from app.services.monitoring import kept_predictions as keeping
from app.services.monitoring.kept_predictions import RowNumbers, trim
from app.settings import Settings
from app.storage.kept_predictions import KeptPrediction, add, hold, remove_old, total_bytes
from app.worker import remove_old as sweep
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import CSV_BODY, QUICK, Service, running, waves
from tests.processes import wait_until

PARQUET = "application/vnd.apache.parquet"
ROWS: list[Any] = [{"x": 0.1 * i, "kind": "high" if i % 2 else "low"} for i in range(40)]
TRUTH = [math.sin(row["x"]) + (2.0 if row["kind"] == "high" else 0.0) for row in ROWS]


@pytest.fixture
def waved(empty: Service) -> Service:
    assert empty.train(waves(60), model="waves", **QUICK)["state"] == "succeeded"
    return empty


def kept(service: Service, rows: list[Any] = ROWS, **more: Any) -> dict[str, Any]:
    return service.ask("waves", rows, keep_for_feedback=True, **more)


def tell(service: Service, prediction: str, truth: Sequence[float | None]) -> httpx.Response:
    return service.client.post("/feedback", json={"prediction_id": prediction, "truth": list(truth)})


def known(service: Service) -> dict[str, Any]:
    found: dict[str, Any] = service.client.get("/models/waves/monitoring").json()["feedback"]
    return found


def test_a_kept_prediction_is_answered_as_its_rows_would_be(waved: Service) -> None:
    asked = kept(waved)
    assert {**asked, "prediction_id": None} == {**waved.ask("waves", ROWS), "prediction_id": None}
    answer = tell(waved, asked["prediction_id"], TRUTH)
    assert answer.status_code == 200, answer.text
    inside = sum(low <= y <= high for low, y, high in zip(asked["lower"], TRUTH, asked["upper"], strict=True))
    assert answer.json() == {"model": "waves", "version": 1, "rows": 40, "covered": inside, "waiting": 0}
    by_id = known(waved)
    errors = np.array(TRUTH) - asked["mean"]
    assert by_id["rmse"] == pytest.approx(math.sqrt(np.mean(np.square(errors))))
    assert by_id["coverage"]["share"] == inside / 40
    again = waved.client.post("/feedback", json={"model": "waves@1", "rows": ROWS, "truth": TRUTH}).json()
    assert again == answer.json()
    both = known(waved)
    assert (both["rows"], both["rmse"], both["nmse"]) == (
        80,
        pytest.approx(by_id["rmse"]),
        pytest.approx(by_id["nmse"]),
    )


def test_the_version_that_answered_is_judged_and_no_later_one(waved: Service) -> None:
    asked = kept(waved)
    waved.train(waves(50, seed=1), model="waves", **QUICK)
    assert tell(waved, asked["prediction_id"], TRUTH).json()["version"] == 1
    assert known(waved)["rows"] == 0  # of version 2


def test_nothing_is_kept_unless_it_is_asked_for(waved: Service) -> None:
    assert "prediction_id" not in waved.ask("waves", ROWS)
    assert "prediction_id" not in waved.ask("waves", ROWS, keep_for_feedback=False)
    with waved.database.read() as connection:
        assert total_bytes(connection) == 0


def test_each_truth_counts_once(waved: Service) -> None:
    prediction = kept(waved)["prediction_id"]
    half: list[float | None] = [y if i < 20 else None for i, y in enumerate(TRUTH)]
    assert tell(waved, prediction, half).json()["waiting"] == 20
    assert_problem(tell(waved, prediction, TRUTH), 409, "row 0", "counted once")
    rest: list[float | None] = [None if i < 20 else y for i, y in enumerate(TRUTH)]
    assert tell(waved, prediction, rest).json() | {"covered": 0} == {
        "model": "waves",
        "version": 1,
        "rows": 20,
        "covered": 0,
        "waiting": 0,
    }
    assert_problem(tell(waved, prediction, rest), 409, "came back before")
    nothing = tell(waved, prediction, [None] * 40).json()
    assert (nothing["rows"], nothing["covered"], nothing["waiting"]) == (0, 0, 0)
    assert known(waved)["rows"] == 40


def test_any_process_takes_the_truth_and_one_of_several_at_once(tmp_path: Path) -> None:
    with running(tmp_path) as one:
        one.train(waves(100), model="waves", **QUICK)
        prediction = kept(one)["prediction_id"]
        with running(tmp_path) as two:
            statuses: list[int] = []
            threads = [
                threading.Thread(target=lambda to=to: statuses.append(tell(to, prediction, TRUTH).status_code))
                for to in (one, two) * 3
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert sorted(statuses) == [200, 409, 409, 409, 409, 409]
            assert known(two)["rows"] == 40


def test_a_prediction_without_the_interval_is_judged_by_it_all_the_same(service: Service) -> None:
    usual = kept(service)
    covered = tell(service, usual["prediction_id"], TRUTH).json()["covered"]
    for more in ({"interval": False}, {"interval": 0.5}, {"interval": [0.5, 0.95]}, {"quantiles": [0.1]}):
        asked = kept(service, **more)
        assert asked["mean"] == usual["mean"]
        assert tell(service, asked["prediction_id"], TRUTH).json()["covered"] == covered, more


def test_a_model_with_a_mean_alone_is_judged_by_its_error(waved: Service) -> None:
    waved.train(waves(), model="waves", artefact="mean", **QUICK)
    prediction = kept(waved)["prediction_id"]
    assert tell(waved, prediction, TRUTH).json()["covered"] is None
    assert known(waved)["coverage"] is None


def test_rows_without_a_prediction_wait_for_no_truth(service: Service) -> None:
    asked = kept(service, [[1.0, "low"], ["?", "low"]], on_error="null")
    assert asked["mean"][1] is None
    found = tell(service, asked["prediction_id"], [1.0, 2.0]).json()
    assert (found["rows"], found["waiting"]) == (1, 0)


@pytest.mark.parametrize("by_way_of_the_disk", [False, True])
@pytest.mark.parametrize("accept", ["text/csv", "application/json", PARQUET])
def test_files_are_kept_too(
    service: Service, monkeypatch: pytest.MonkeyPatch, accept: str, by_way_of_the_disk: bool
) -> None:
    if by_way_of_the_disk:
        monkeypatch.setattr(predict, "SMALL_BYTES", 100)
        monkeypatch.setattr("app.services.predict.table_parts.PART_ROWS", 16)
    text = "x,kind\n" + "".join(f"{row['x']!r},{row['kind']}\n" for row in ROWS)
    headers = {**CSV_BODY, "accept": accept}
    answer = service.client.post("/predict?model=waves&keep_for_feedback=true", content=text, headers=headers)
    assert answer.status_code == 200, answer.text
    found = answer.json()["prediction_id"] if accept == "application/json" else answer.headers["x-prediction-id"]
    assert tell(service, found, TRUTH).json()["rows"] == 40
    plain = service.client.post("/predict?model=waves", content=text, headers=headers)
    assert "x-prediction-id" not in plain.headers
    assert b"prediction_id" not in plain.content


def test_what_is_refused(waved: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    prediction = kept(waved)["prediction_id"]
    assert_problem(tell(waved, prediction, [1.0]), 422, "truth of 'y': expected 40")
    assert_problem(tell(waved, prediction, [1e300, *TRUTH[1:]]), 422, "truth of 'y', row 0: the number is so large")
    text: Any = [*TRUTH[:-1], "much"]
    assert_problem(tell(waved, prediction, text), 422, "truth of 'y', row 39: expected a number or null, got text")
    assert tell(waved, prediction, TRUTH).status_code == 200  # none of these was counted
    for unknown in (new_prediction_id(), "pred_1", "'; DROP TABLE jobs", prediction.upper()):
        assert_problem(tell(waved, unknown, TRUTH), 404, "no kept prediction")

    def ask(**body: Any) -> httpx.Response:
        return waved.client.post("/feedback", json={"truth": [1.0], **body})

    assert_problem(ask(), 422, "prediction_id", "model", "rows")
    assert_problem(ask(prediction_id=prediction, model="waves"), 422, "leave out")
    assert_problem(ask(model="waves"), 422, "rows")
    assert_problem(waved.client.post("/feedback", json={"prediction_id": prediction}), 422, "truth")
    wrong = waved.client.post("/predict?model=waves&keep_for_feedback=yes", content="x,kind\n1,low\n", headers=CSV_BODY)
    assert_problem(wrong, 422, "keep_for_feedback", "true or false")
    monkeypatch.setattr(keeping, "MOST_ROWS", 39)
    body = {"model": "waves", "rows": ROWS, "keep_for_feedback": True}
    assert_problem(waved.client.post("/predict", json=body), 422, "at most 39 rows", "got 40")
    deleted = kept(waved, ROWS[:2])["prediction_id"]
    waved.client.delete("/models/waves?force=true")
    assert tell(waved, deleted, [1.0, 2.0]).status_code == 404


def test_only_a_key_for_the_model_tells_its_truth(waved: Service) -> None:
    prediction = kept(waved)["prediction_id"]

    def key(**fields: Any) -> dict[str, str]:
        answer = waved.client.post("/keys", json={"scopes": ["predict"], **fields}, headers=admin)
        return {"authorization": f"Bearer {answer.json()['token']}"}

    first = waved.client.post("/keys", json={"scopes": ["admin"]}).json()["token"]
    admin = {"authorization": f"Bearer {first}"}
    body = {"prediction_id": prediction, "truth": TRUTH}
    assert waved.client.post("/feedback", json=body, headers=key(models=["others"])).status_code == 403
    assert waved.client.post("/feedback", json=body, headers=key(models=["waves"])).status_code == 200


def test_a_database_that_does_not_answer_refuses_no_prediction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.database.engine.BUSY_SECONDS", 0)
    with running(tmp_path) as service:
        service.train(waves(60), model="waves", **QUICK)
        service.ask("waves", ROWS)
        with service.database.write():  # holds the lock that a writer waits for
            asked = kept(service)
        assert len(asked["mean"]) == 40
        assert asked["prediction_id"] is None


def prediction(rows: int = 3) -> KeptPrediction:
    numbers = RowNumbers(np.ones((1, rows), np.bool_), *np.zeros((3, 1, rows)))
    return KeptPrediction(id=new_prediction_id(), model="m", version=1, rows=rows, numbers=numbers.pack())


def test_numbers_come_back_to_the_bit() -> None:
    numbers = RowNumbers(
        np.array([[True, False], [True, True]]),
        *np.array([[[0.1, np.nan], [1, 2]], [[-1e300, np.nan], [3, 4]], [[5e-324, np.nan], [5, 6]]]),
    )
    found = RowNumbers.unpack(numbers.pack(), targets=2, rows=2)
    for name in ("waiting", "mean", "lower", "upper"):
        np.testing.assert_array_equal(getattr(found, name), getattr(numbers, name))
    empty = RowNumbers(np.ones((1, 0), np.bool_), *np.zeros((3, 1, 0)))
    assert RowNumbers.unpack(empty.pack(), targets=1, rows=0).rows == 0


def test_what_an_earlier_release_kept_is_read() -> None:
    """Of one target: whether each row waits, then means, lower and upper ends, one array after the other."""
    data = bytes([1, 0]) + np.arange(6.0).astype("<f8").tobytes()
    found = RowNumbers.unpack(data, targets=1, rows=2)
    assert (found.waiting.tolist(), found.mean.tolist()) == ([[True, False]], [[0.0, 1.0]])
    assert (found.lower.tolist(), found.upper.tolist()) == ([[2.0, 3.0]], [[4.0, 5.0]])


def test_the_oldest_go_first_when_all_take_too_many_bytes(database: Database) -> None:
    many = [prediction() for _ in range(2_500)]
    with database.write() as connection:
        add(connection, many)
    each = many[0].size
    trim(database, most_bytes=10 * each)
    with database.read() as connection:
        left = connection.execute(select(kept_predictions.c.id).order_by(kept_predictions.c.id)).scalars().all()
        assert left == [one.id for one in many[-10:]]
        assert total_bytes(connection) == 10 * each
    trim(database, most_bytes=10 * each)  # changes nothing
    with database.write() as connection:
        assert hold(connection, many[-1].id) == many[-1]
        assert remove_old(connection, older_than=3600.0) == 0
        assert remove_old(connection, older_than=-1.0) == 10
        assert remove_old(connection, older_than=-1.0) == 0


def test_processes_keep_to_the_bytes_by_themselves(tmp_path: Path) -> None:
    with running(tmp_path, max_kept_predictions_bytes=4_000) as service:
        service.train(waves(100), model="waves", **QUICK)
        ids = [kept(service, ROWS[:4])["prediction_id"] for _ in range(60)]

        def total() -> int:
            with service.database.read() as connection:
                return total_bytes(connection)

        assert total() <= 4_000 * 1.2
        wait_until(lambda: total() <= 4_000)
        assert tell(service, ids[0], TRUTH[:4]).status_code == 404
        assert tell(service, ids[-1], TRUTH[:4]).status_code == 200


def test_old_ones_are_swept(service: Service) -> None:
    asked = kept(service)["prediction_id"]
    sweep(service.database, Settings())
    sweep(service.database, Settings(keep_predictions_days=1e-9))
    assert_problem(tell(service, asked, TRUTH), 404, "too old")


def test_many_requests_at_once_are_all_kept(service: Service) -> None:
    found: list[str] = []

    def ask() -> None:
        found.append(kept(service, ROWS[:1])["prediction_id"])

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 20
    assert all(tell(service, one, [0.0]).status_code == 200 for one in found)


# Columns of JSON rows, and types of columns


def test_rows_of_json_keep_columns(service: Service) -> None:
    rows: list[Any] = [
        {"id": 7, "x": 1.0, "kind": "low", "y": 3.5, "tag": "a", "ok": True},
        {"id": 2**60 + 1, "x": 2.0, "kind": "high", "tag": None, "mixed": "b"},
    ]
    plain = service.ask("waves", [{"x": 1.0, "kind": "low"}, {"x": 2.0, "kind": "high"}])
    found = service.ask("waves", rows, keep="others")
    assert found.pop("columns") == {"id": [7, 2**60 + 1], "tag": ["a", None], "ok": [True, None], "mixed": [None, "b"]}
    assert found == plain
    everything = service.ask("waves", rows, keep="all")["columns"]
    assert list(everything) == ["id", "x", "kind", "y", "tag", "ok", "mixed"]
    assert everything["x"] == [1.0, 2.0]
    assert service.ask("waves", [[1.0, "low"]], keep="all")["columns"] == {"x": [1.0], "kind": ["low"]}
    assert "columns" not in service.ask("waves", [[1.0, "low"]], keep="others")
    assert service.ask("waves", rows, keep="none") == plain
    body = {"model": "waves", "columns": {"x": [1.0], "kind": ["low"], "id": ["z"]}, "keep": "others"}
    assert service.client.post("/predict", json=body).json()["columns"] == {"id": ["z"]}
    mixed = [{"x": 1, "kind": "low", "id": 1}, {"x": 1, "kind": "low", "id": "z"}]
    assert service.ask("waves", mixed, keep="others")["columns"] == {"id": ["1", "z"]}
    failed = [{"x": 1, "kind": "low", "id": 1}, {"x": "?", "kind": "low", "id": 2}]
    answer = service.ask("waves", failed, keep="others", on_error="null")
    assert (answer["mean"][1], answer["columns"]) == (None, {"id": [1, 2]})


def test_rows_of_json_keep_columns_in_files(service: Service) -> None:
    rows = [{"id": 7, "at": "noon, or so", "x": 1.0, "kind": "low"}]

    def ask(accept: str, keep: str) -> httpx.Response:
        body = {"model": "waves", "rows": rows, "keep": keep}
        return service.client.post("/predict", json=body, headers={"accept": accept})

    assert ask("text/csv", "others").text.startswith('id,at,mean,std,lower,upper\n7,"noon, or so",')
    table = pq.read_table(io.BytesIO(ask(PARQUET, "others").content))
    assert table.schema.field("id").type == pa.int64()
    assert table.schema.field("at").type == pa.string()
    assert_problem(ask("application/x-npy", "others"), 422, "npy has no place")
    assert_problem(ask("text/csv", "some"), 422, "none, others, all")


TYPED = pa.table(
    {
        "id": pa.array([1, None, 2**62], pa.int64()),
        "small": pa.array([1, 2, 3], pa.uint8()),
        "ok": pa.array([True, False, None]),
        "day": pa.array([0, 20_000, None], pa.date32()),
        "at": pa.array([0, 1_500, None], pa.timestamp("ms")),
        "zoned": pa.array([0, 1_500_001, None], pa.timestamp("us", tz="Europe/Paris")),
        "ratio": pa.array([0.1, None, 3.0], pa.float32()),
        "text": pa.array(["01", "a", None]),
        "x": pa.array([1.0, 2.0, 3.0]),
        "kind": pa.array(["low", "high", "low"]),
    }
)


def parquet_of(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


@pytest.mark.parametrize("by_way_of_the_disk", [False, True])
def test_kept_columns_have_the_types_of_the_upload(
    service: Service, monkeypatch: pytest.MonkeyPatch, by_way_of_the_disk: bool
) -> None:
    if by_way_of_the_disk:
        monkeypatch.setattr(predict, "SMALL_BYTES", 100)
        assert predict_files
    others = TYPED.drop(["x", "kind"])
    headers = {"content-type": PARQUET, "accept": PARQUET}
    answer = service.client.post("/predict?model=waves", content=parquet_of(TYPED), headers=headers)
    assert answer.status_code == 200, answer.text
    assert pq.read_table(io.BytesIO(answer.content)).select(others.column_names).replace_schema_metadata() == others
    headers["accept"] = "text/csv"
    text = service.client.post("/predict?model=waves", content=parquet_of(TYPED), headers=headers).text
    assert text.startswith("id,small,ok,day,at,zoned,ratio,text,mean,")


def test_a_dataset_keeps_the_types_of_its_columns(service: Service) -> None:
    files = {"file": ("t.parquet", parquet_of(TYPED))}
    dataset = service.client.post("/datasets", files=files).json()["id"]
    job = service.client.post("/predict", json={"model": "waves", "dataset": dataset}).json()
    service.work()
    found = pq.read_table(io.BytesIO(service.client.get(f"/jobs/{job['id']}/predictions").content))
    others = TYPED.drop(["x", "kind"])
    assert found.select(others.column_names).replace_schema_metadata() == others
