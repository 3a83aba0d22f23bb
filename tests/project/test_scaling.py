"""What KEDA would do with our triggers: its queries on a real /metrics and on a real PostgreSQL, by a role that may
read no more than it has to, and how many workers come of them."""

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import create_engine, insert, text
from sqlalchemy.engine import Engine, make_url
from sqlalchemy.exc import ProgrammingError

from app.database.engine import Database
from app.database.tables import jobs
from app.identifiers import new_job_id
from core.numeric.shards import SHARDED_ROWS
from tests.app.routes.service import Service, running
from tests.postgres import SERVER_VARIABLE, new_database
from tests.project.test_kubernetes import FOLDER, SIZES, container, environment, of_kind, texts

LIMIT = int(environment("large", "worker")["PURSUIT_MEMORY_LIMIT"])
ROLE = "pursuit_keda"
Sets = list[tuple[dict[str, Any], int]]

SCENARIOS: dict[str, tuple[Sets, int]] = {
    "nothing": ([], 0),
    "one job": ([({}, 1)], 1),
    "four jobs share a worker": ([({}, 4)], 1),
    "five do not": ([({}, 5)], 2),
    "those that run keep theirs": ([({"state": "running"}, 3)], 3),
    "both": ([({"state": "running"}, 3), ({}, 9)], 6),
    "that of a lost worker": ([({"state": "running", "lease": -100.0}, 1)], 1),
    "one has waited for six minutes": ([({"waited": 360.0}, 1), ({}, 4), ({"state": "running"}, 2)], 7),
    "a training of hours that was given back": ([({"age": 9_000.0}, 1)], 1),
    "no more than there may be": ([({"waited": 900.0}, 50)], 8),
    "jobs that ended": ([({"state": "succeeded"}, 5)], 0),
}
"""Jobs of a kind and how many of them; the workers that they want."""


@pytest.fixture(scope="module")
def postgres_url() -> Iterator[str]:
    if SERVER_VARIABLE not in os.environ:
        pytest.skip(f"{SERVER_VARIABLE} is not set: no PostgreSQL server to test on")
    with new_database(os.environ[SERVER_VARIABLE]) as url:
        yield url


@pytest.fixture(scope="module")
def service(postgres_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service on PostgreSQL, with the role of KEDA."""
    grant = next(line for line in texts().splitlines() if "GRANT SELECT" in line).partition("; ")[2].rstrip(";")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.services.metrics.QUEUE_SECONDS", 0.0)
        with running(tmp_path_factory.mktemp("scaled"), database_url=postgres_url) as made:
            with made.database.write() as connection:
                connection.execute(text(f"CREATE ROLE {ROLE} LOGIN"))
                connection.execute(text(grant))
            yield made
            with made.database.write() as connection:
                connection.execute(text(f"DROP OWNED BY {ROLE}"))
                connection.execute(text(f"DROP ROLE {ROLE}"))


def fill(database: Database, sets: Sets) -> None:
    """Have these jobs and no others."""
    with database.write() as connection:
        connection.execute(jobs.delete())
        now = float(connection.execute(text("SELECT extract(epoch FROM now())")).scalar_one())
        for values, count in sets:
            state, waited = values.get("state", "queued"), values.get("waited", 0.0)
            lease = now + values.get("lease", 1_000.0)
            row = {
                "kind": "train",
                "model": "m",
                "state": state,
                "priority": 0,
                "payload": {},
                "needs_memory": values.get("memory"),
                "needs_rows": values.get("rows"),
                "lease_until": lease if state == "running" else None,
                "created_at": now - waited - values.get("age", 0.0),
                "updated_at": now - waited,
            }
            for _ in range(count):
                connection.execute(insert(jobs).values(id=new_job_id(), **row))


def scaled(size: str, target: str = "pursuit-worker") -> dict[str, Any]:
    (found,) = [one for one in of_kind(size, "ScaledObject") if one["spec"]["scaleTargetRef"]["name"] == target]
    spec: dict[str, Any] = found["spec"]
    return spec


def wanted(spec: dict[str, Any], values: list[float]) -> int:
    """Return the pods that KEDA and its autoscaler end with: the most of its triggers, none where none is active."""
    names = {"postgresql": "targetQueryValue", "prometheus": "threshold"}
    targets = [float(trigger["metadata"][names[trigger["type"]]]) for trigger in spec["triggers"]]
    pods = max(math.ceil(value / target) for value, target in zip(values, targets, strict=True))
    least, most = int(spec["minReplicaCount"]), int(spec["maxReplicaCount"])
    return min(max(pods, least, 1 if max(values) > 0 else 0), most)


def asked(url: str, spec: dict[str, Any]) -> list[float]:
    """Values of PostgreSQL triggers: one row with one number that a double holds, as KEDA reads it."""
    found = []
    engine = by_keda(url)
    for trigger in spec["triggers"]:
        with engine.connect() as connection:
            (row,) = connection.exec_driver_sql(trigger["metadata"]["query"]).all()
        (value,) = row
        assert type(value) is int
        found.append(float(value))
    engine.dispose()
    return found


def by_keda(url: str) -> Engine:
    return create_engine(make_url(url).set(drivername="postgresql+psycopg", username=ROLE))


def samples(service: Service) -> dict[str, list[float]]:
    answer = service.client.get("/metrics").text
    found: dict[str, list[float]] = {}
    for family in text_string_to_metric_families(answer):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample.value)
    return found


def evaluate(node: Any, known: dict[str, list[float]]) -> Any:
    """Return what an expression is of these samples: a list for a vector; of PromQL just what ours are made of."""
    if isinstance(node, promql_parser.NumberLiteral):
        return node.val
    if isinstance(node, promql_parser.ParenExpr):
        return evaluate(node.expr, known)
    if isinstance(node, promql_parser.VectorSelector):
        assert node.name in known, f"no service has {node.name}"
        return known[node.name]
    if isinstance(node, promql_parser.AggregateExpr):
        assert str(node.op) == "max"
        return [max(evaluate(node.expr, known))]
    if isinstance(node, promql_parser.Call):
        assert node.func.name == "ceil"
        return [float(math.ceil(value)) for value in evaluate(node.args[0], known)]
    assert isinstance(node, promql_parser.BinaryExpr)
    operator = str(node.op)
    if operator == ">":
        assert node.modifier is not None
        assert node.modifier.return_bool
    left, right = evaluate(node.lhs, known), evaluate(node.rhs, known)
    a, b = (side[0] if isinstance(side, list) else side for side in (left, right))
    return [{"+": a + b, "*": a * b, "/": a / b if b else math.nan, ">": float(a > b)}[operator]]


@pytest.mark.parametrize("name", SCENARIOS)
def test_both_scalers_want_as_many_workers(service: Service, name: str) -> None:
    sets, workers = SCENARIOS[name]
    fill(service.database, sets)
    by_query = scaled("large")
    assert wanted(by_query, asked(service.settings.database, by_query)) == workers
    by_metrics = scaled("prometheus")
    known = samples(service)
    values = [evaluate(promql_parser.parse(one["metadata"]["query"]), known)[0] for one in by_metrics["triggers"]]
    assert wanted(by_metrics, values) == workers


def test_jobs_that_are_too_large_for_these_workers_bring_none(service: Service) -> None:
    spec, larger = scaled("large"), scaled("large", "pursuit-worker-large")
    most = int(environment("large", "worker-large")["PURSUIT_MEMORY_LIMIT"])
    for values, workers in (
        ({"memory": LIMIT}, (3, 0)),
        ({"memory": LIMIT + 1}, (0, 2)),
        ({"memory": most, "state": "running"}, (0, 2)),
        ({"memory": most + 1}, (0, 0)),
        ({}, (3, 0)),
    ):
        fill(service.database, [({"waited": 900.0, **values}, 3)])
        found = [wanted(one, asked(service.settings.database, one)) for one in (spec, larger)]
        assert tuple(found) == workers, values
    patience = float(environment("large", "worker")["PURSUIT_LARGER_WORKER_SECONDS"])
    assert patience > 600, "longer than a machine takes to come"


def test_the_cluster_is_there_for_jobs_that_are_summed_by_it(service: Service) -> None:
    spec = scaled("large", "pursuit-dask-worker")
    for sets, pods in (
        ([({"rows": SHARDED_ROWS - 1}, 5)], 0),
        ([({"rows": SHARDED_ROWS}, 1)], 2),
        ([({"rows": SHARDED_ROWS, "state": "running"}, 2)], 4),
        ([({"rows": 10 * SHARDED_ROWS}, 9)], 8),
        ([({"rows": SHARDED_ROWS, "state": "succeeded"}, 9)], 0),
    ):
        fill(service.database, sets)
        assert wanted(spec, asked(service.settings.database, spec)) == pods


def test_keda_reads_the_queue_and_nothing_else(service: Service) -> None:
    engine = by_keda(service.settings.database)
    for query in ("SELECT payload FROM jobs", "SELECT * FROM api_keys", "UPDATE jobs SET state = 'failed'"):
        with engine.connect() as connection, pytest.raises(ProgrammingError, match="permission denied"):
            connection.exec_driver_sql(query)
    engine.dispose()


def test_what_does_not_answer_is_no_empty_queue() -> None:
    for size in ("large", "prometheus"):
        for scaler in of_kind(size, "ScaledObject"):
            spec = scaler["spec"]
            assert spec["fallback"]["replicas"] > 0
            assert spec["fallback"]["behavior"] in {"currentReplicasIfHigher", "currentReplicas"}
            for trigger in spec["triggers"]:
                assert trigger["metadata"].get("ignoreNullValues", "false") == "false"
                assert trigger["type"] == "postgresql" or "ignoreNullValues" in trigger["metadata"]
    auth = {one["metadata"]["name"] for one in of_kind("large", "TriggerAuthentication")}
    asking = {t["authenticationRef"]["name"] for s in of_kind("large", "ScaledObject") for t in s["spec"]["triggers"]}
    assert asking == auth
    (settings,) = of_kind("large", "ConfigMap")
    place = make_url(settings["data"]["PURSUIT_DATABASE_URL"])
    for trigger in [t for s in of_kind("large", "ScaledObject") for t in s["spec"]["triggers"]]:
        assert (trigger["metadata"]["host"], trigger["metadata"]["dbName"]) == (place.host, place.database)


def test_the_examples_are_where_the_readme_says() -> None:
    readme = (Path(FOLDER).parent / "README.md").read_text(encoding="utf-8")
    components = ("components/keda-postgresql", "components/keda-prometheus", "components/large-workers")
    for name in ("small", "medium", "large", *components):
        assert f"kubernetes/{name}" in readme
    assert set(SIZES) == {"small", "medium", "large", "prometheus"}
    assert container("large", "dask-worker")["image"] == container("large", "worker")["image"]
