"""One training with a real child: its trace from the request to the phases, and its log without cells."""

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from app.jobs.supervisor import Supervisor
from app.launch import python_command
from app.log import JsonFormatter
from app.services.train.training import publish
from app.telemetry.job_measures import JobMeasures
from app.telemetry.measures import Measures
from app.telemetry.tracing import JobTraces, start_tracing
from app.worker import WorkerTelemetry, child_environment
from tests.app.routes.service import CSV_BODY, QUICK, Service, numbers, running
from tests.app.telemetry.collector import attributes, collecting

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SECRET = "zebra-4711"


def work(service: Service, traces: JobTraces | None = None) -> None:
    """Do the next job as a worker does."""
    supervisor = Supervisor(
        database=service.database,
        command=python_command("app.worker", "child"),
        environment=child_environment(service.settings),
        publish=publish,
        worker="w",
        observer=WorkerTelemetry(JobMeasures(Measures()), traces),
    )
    assert supervisor.run_one(threading.Event())


@contextmanager
def logged() -> Iterator[list[dict[str, Any]]]:
    """The lines of the JSON log, of every level, once the block has ended."""
    stream = StringIO()
    lines: list[dict[str, Any]] = []
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        lines += [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_trace_goes_from_the_request_to_the_phases_of_its_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with collecting() as (collector, address):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        with running(tmp_path) as service:
            spec = {"model": "m", **QUICK}
            headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "r1"}
            job = service.post_file(numbers(), spec, headers=headers).json()
            tracing = start_tracing("pursuit-worker")
            assert tracing is not None
            work(service, JobTraces(tracing))
            tracing.close()
            service.ask("m", [[0.1, 0.2]])
            assert service.client.get("/jobs/none", headers={"traceparent": "nonsense"}).status_code == 404
    assert collector.services == {"pursuit-api", "pursuit-worker"}
    request, tried = collector.named("POST /train"), collector.named("job train")
    assert (request.trace_id.hex(), request.parent_span_id.hex()) == (TRACE, PARENT)
    assert attributes(request) == {
        "http.request.method": "POST",
        "http.route": "/train",
        "http.response.status_code": 202,
        "pursuit.request_id": "r1",
    }
    assert (tried.trace_id, tried.parent_span_id) == (request.trace_id, request.span_id)
    assert attributes(tried) == {
        "pursuit.job.id": job["id"],
        "pursuit.model": "m",
        "pursuit.job.claim": 1,
        "pursuit.job.end": "succeeded",
    }
    phases = [span for span in collector.spans if span.parent_span_id == tried.span_id]
    assert {"reading", "evaluating", "publishing"} <= {span.name for span in phases}
    for phase in phases:
        assert tried.start_time_unix_nano <= phase.start_time_unix_nano <= phase.end_time_unix_nano
        assert phase.end_time_unix_nano <= tried.end_time_unix_nano
    other = collector.named("POST /predict")
    assert other.trace_id.hex() != TRACE
    assert collector.named("GET /jobs/{job_id}").trace_id != other.trace_id


def test_without_a_collector_there_are_no_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    assert start_tracing("pursuit-api") is None
    with running(tmp_path) as service:
        job = service.post_file(numbers(), QUICK, headers={"traceparent": f"00-{TRACE}-{PARENT}-01"}).json()
        with service.database.read() as connection:
            row = connection.exec_driver_sql("SELECT id, trace_context FROM jobs").one()
    assert row == (job["id"], None)


def test_the_log_has_ids_and_no_cell(tmp_path: Path) -> None:
    """Bad cells, levels nobody has seen, and a table that is read and trained on in other processes."""
    good = "kind,x,y\n" + "".join(f"{SECRET if n % 2 else 'b'},{n}.25,{n % 7}.5\n" for n in range(40))
    with running(tmp_path) as service, logged() as lines:
        client = service.client
        bad = good.replace(",8.25,", f",{SECRET}-bad,")
        refused = service.post_file(bad, {"columns": {"x": "number"}, **QUICK})
        assert (refused.status_code, SECRET in refused.text) == (422, True), "the client is told"
        answer = service.post_file(good, {"model": "m", **QUICK}, headers={"x-request-id": "r7"})
        job = answer.json()["id"]
        work(service)
        for rows in ([[SECRET + "-level", 1.0]], [["b", SECRET]], [[SECRET, 1.0]]):
            client.post("/predict", json={"model": "m", "rows": rows})
        client.post("/predict?model=m", content=f"kind,x\n{SECRET},{SECRET}\n", headers=CSV_BODY)
        client.post("/train", json={"columns": {"x": [1, 2, {SECRET: 3}], "y": [1, 2, 3]}})
        broken = service.post_file(good, {"target": "y", "model": "m2", "basis_size": 4, "method": "rand"})
        (service.settings.artefacts or tmp_path).joinpath(f"tables/{table_of(service, broken.json()['id'])}").unlink()
        work(service)
    text = json.dumps(lines)
    assert SECRET not in text
    queued = next(line for line in lines if line["message"] == f"{job} is queued")
    assert (queued["request_id"], queued["job"], queued["model"]) == ("r7", job, "m")
    of_job = [line for line in lines if line.get("job") == job and line is not queued]
    assert {"m"} == {line["model"] for line in of_job}
    assert any("claim 1 by w" in line["message"] for line in of_job)
    assert any(line["message"].endswith("succeeded") for line in of_job)
    asked = [line for line in lines if line["message"] == "POST /predict" and "request_id" in line]
    assert {line.get("model") for line in asked} == {"m@1"}
    assert {line["status"] for line in asked} == {200, 422}


def table_of(service: Service, job: str) -> str:
    with service.database.read() as connection:
        key: str = connection.exec_driver_sql("SELECT table_key FROM jobs WHERE id = ?", (job,)).scalar_one()
    return key.removeprefix("tables/")
