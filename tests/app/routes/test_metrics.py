"""`/metrics` of a real server: what it counts, under which labels, and what it cannot be made to hold."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from app.jobs import queue
from app.jobs.supervisor import Supervisor
from app.jobs.workers import Resources
from app.telemetry.job_measures import JobMeasures
from app.telemetry.measures import MAX_MODELS, Measures
from app.telemetry.snapshots import SnapshotFolder
from app.worker import WorkerTelemetry
from tests.app.jobs.helpers import CHILD, submit_echo
from tests.app.jobs.test_supervisor import publish
from tests.app.routes.service import CSV_BODY, QUICK, Service, numbers, running

Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]


def scrape(service: Service) -> Samples:
    """Values by name of the sample and sorted labels."""
    answer = service.client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    found: Samples = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            assert sample.name.startswith("pursuit_")
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples.get(name, {}).get(tuple(sorted(labels.items())), 0.0)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("measured")) as service:
        assert service.train(numbers(), model="m", **QUICK)["state"] == "succeeded"
        yield service


def test_requests_by_route_and_status(measured: Service) -> None:
    before = scrape(measured)
    client = measured.client
    for _ in range(3):
        measured.ask("m", [[0.1, 0.2]])
    assert client.post("/predict", json={"model": "none", "rows": [[1]]}).status_code == 404
    assert client.post("/predict", json={"model": "m", "rows": [["?", 2.0]]}).status_code == 422
    assert client.get("/models/none").status_code == 404
    assert client.get("/models/m").status_code == 200
    assert client.delete("/predict").status_code == 405
    assert client.get("/no/such/place").status_code == 404
    body = {"inputs": [{"name": "rows", "shape": [1, 2], "datatype": "FP64", "data": [0.1, 0.2]}]}
    assert client.post("/v2/models/m/infer", json=body).status_code == 200
    after = scrape(measured)

    def more(route: str, status: int, method: str = "POST") -> float:
        labels = {"route": route, "status": str(status), "method": method}
        name = "pursuit_http_requests_total"
        return value(after, name, **labels) - value(before, name, **labels)

    assert more("/predict", 200) == 3
    assert more("/predict", 404) == more("/predict", 422) == 1
    assert more("/predict", 405, "DELETE") == 1
    assert more("/models/{name}", 404, "GET") == more("/models/{name}", 200, "GET") == 1
    assert more("unmatched", 404, "GET") == 1
    assert more("/v2/models/{name}/infer", 200) == 1
    name = "pursuit_http_request_seconds"
    assert value(after, f"{name}_count", route="/predict") - value(before, f"{name}_count", route="/predict") == 6
    assert value(after, f"{name}_sum", route="/predict") > value(before, f"{name}_sum", route="/predict")
    buckets = [
        value(after, f"{name}_bucket", route="/predict", le=le) for le in ("0.0005", "0.01", "1.0", "60.0", "+Inf")
    ]
    assert buckets == sorted(buckets)
    assert buckets[-1] == value(after, f"{name}_count", route="/predict")


def test_rows_batches_models_and_rows_near_the_prior(measured: Service) -> None:
    before = scrape(measured)
    measured.ask("m", [[0.1, 0.2], [0.3, 0.1], [500.0, 500.0]])
    measured.ask("m@1", [[0.1, 0.2]], interval=False)
    large = "a,b\n" + "0.1,0.2\n" * 999 + "500,500\n"
    assert measured.client.post("/predict?model=m", content=large, headers=CSV_BODY).status_code == 200
    after = scrape(measured)

    def more(name: str, **labels: str) -> float:
        return value(after, name, **labels) - value(before, name, **labels)

    assert more("pursuit_predicted_rows_total", model="m") == 1004
    assert more("pursuit_predicted_rows_with_support_total", model="m") == 1003, "a mean alone says nothing of it"
    assert more("pursuit_predicted_rows_near_prior_total", model="m") == 2
    assert more("pursuit_prediction_batch_requests_count") == 2
    assert more("pursuit_prediction_batch_rows_sum") == 4, "tables have turns of their own"
    assert more("pursuit_model_cache_lookups_total", result="hit") == 3
    assert value(after, "pursuit_model_cache_lookups_total", result="miss") == 1
    assert value(after, "pursuit_models_loaded") == 1
    assert value(after, "pursuit_models_loaded_bytes") > 0


def test_the_queue_for_the_autoscaler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.services.metrics.QUEUE_SECONDS", 0.0)
    with running(tmp_path) as service:
        samples = scrape(service)
        assert value(samples, "pursuit_queue_depth") == value(samples, "pursuit_queue_oldest_seconds") == 0
        assert value(samples, "pursuit_database_up") == 1
        for rows in (10, 40):
            needs = Resources(memory=1000 * rows, rows=rows)
            with service.database.write() as connection:
                queue.submit(connection, kind="train", model="m", payload={}, needs=needs)
        samples = scrape(service)
        assert value(samples, "pursuit_queue_depth") == 2
        assert 0 <= value(samples, "pursuit_queue_oldest_seconds") < 30
        assert value(samples, "pursuit_queue_wanted_bytes") == 50_000
        assert value(samples, "pursuit_queue_largest_bytes") == 40_000
        assert value(samples, "pursuit_queue_wanted_rows") == 50
        assert value(samples, "pursuit_queue_largest_rows") == 40
        assert service.claim() is not None
        samples = scrape(service)
        assert (value(samples, "pursuit_queue_depth"), value(samples, "pursuit_jobs_running")) == (1, 1)


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_unknown_names_make_no_series(measured: Service, count: int) -> None:
    def series() -> int:
        return sum(map(len, scrape(measured).values()))

    def ask(number: int) -> None:
        assert client.post("/predict", json={"model": f"none{number}", "rows": [[1]]}).status_code == 404
        assert client.get(f"/none{number}").status_code == 404
        if number % 10 == 0:
            assert client.get(f"/models/none{number}").status_code == 404
            methods = ("PROPFIND", "MKCOL", "LOCK", "SEARCH")
            assert client.request(methods[number // 10 % 4], f"/none{number}").status_code == 404

    client = measured.client
    ask(0)
    series()  # which is a request too
    before = series()
    for number in range(count):
        ask(number)
    assert series() == before


def test_known_models_beyond_a_number_are_counted_together() -> None:
    measures = Measures()
    for number in range(10_000):
        measures.predicted(f"m{number}", 1, 0)
    assert len(list(measures.rows.series())) == MAX_MODELS + 1


def test_jobs_of_the_workers_of_this_machine(measured: Service, tmp_path: Path) -> None:
    """Another process's measures, by way of the folder that they share."""
    measures = Measures()
    folder = SnapshotFolder(measured.settings.metrics, measures)
    folder.open()
    supervisor = Supervisor(
        database=measured.database,
        command=CHILD,
        environment={},
        publish=publish,
        worker="w",
        observer=WorkerTelemetry(JobMeasures(measures)),
    )
    log = str(tmp_path / "log")
    submit_echo(measured.database, "phases", payload={"phases": ["reading", "fitting", "fitting"], "seconds": 0.2})
    submit_echo(measured.database, "die", payload={"exit": 3, "log": log})
    while supervisor.run_one(threading.Event()):
        pass
    folder.close()
    samples = scrape(measured)
    assert value(samples, "pursuit_job_tries_total", end="succeeded") == 1
    assert value(samples, "pursuit_job_tries_total", end="died") == 2
    assert value(samples, "pursuit_job_tries_total", end="failed") == 1
    assert value(samples, "pursuit_job_phase_seconds_total", phase="reading") > 0.1
    assert value(samples, "pursuit_job_phase_seconds_total", phase="fitting") > 0.3
    assert value(samples, "pursuit_job_phase_seconds_total", phase="starting") > 0


def test_openmetrics_where_it_is_asked_for(measured: Service) -> None:
    answer = measured.client.get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert {"pursuit_http_requests", "pursuit_queue_depth"} <= {f.name for f in parse_openmetrics(answer.text)}


def test_it_answers_without_a_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.main._RETRY_SECONDS", 0.1)
    (tmp_path / "pursuit.db").mkdir()
    with running(tmp_path) as service:
        samples = scrape(service)
        assert value(samples, "pursuit_database_up") == 0
        assert value(samples, "pursuit_ready") == 0
        assert "pursuit_queue_depth" not in samples
