"""The flights of 2013 from New York, of which nobody holds more than a part: trained on by a cluster, in a bucket with
a folder for each carrier, and here as one file."""

import gzip
import io
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.app.compute.processes import dask_processes
from tests.app.tables.messy import FOLDER
from tests.e2e.processes import System, follow, system
from tests.s3 import s3_server

FILE = FOLDER / "nycflights13.csv.gz"
GROUP_ROWS = 25_000
LARGE_TABLE_ROWS = 100_000
FLIGHT = {
    "year": 2013,
    "month": 6,
    "day": 3,
    "dep_time": 1015,
    "sched_dep_time": 1000,
    "dep_delay": 15,
    "arr_time": 1250,
    "sched_arr_time": 1240,
    "carrier": "UA",
    "flight": 1545,
    "tailnum": "N14228",
    "origin": "EWR",
    "dest": "IAH",
    "air_time": 227,
    "distance": 1400,
    "hour": 10,
    "minute": 0,
    "time_hour": "2013-06-03T14:00:00Z",
}

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not FILE.exists(), reason="the benchmark sets are not there"),
]


def flights() -> pa.Table:
    """All flights in their order, 'NA' a missing cell."""
    missing = pyarrow.csv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True)
    return pyarrow.csv.read_csv(io.BytesIO(gzip.decompress(FILE.read_bytes())), convert_options=missing)


def parquet(table: pa.Table) -> bytes:
    """A Parquet file of several row groups."""
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=GROUP_ROWS)
    return file.getvalue()


def trained(made: System, client: httpx.Client, dataset: str, environment: dict[str, str]) -> tuple[Any, Any]:
    """The report of a training in a worker of its own, and what its model predicts of a flight."""
    made.environment = made.environment | environment
    made.start_worker()
    spec = {
        "model": "arrivals",
        "target": "arr_delay",
        "missing": "drop",
        "basis_size": 20,
        "adapt": False,
        "method": "rand",
        "max_levels": 12,
    }
    job = client.post("/train", json={"dataset": dataset, "spec": spec}).json()
    report = follow(client, job["id"])[-1]["result"]["report"]
    worker = made.workers.pop()
    worker.kill()
    worker.wait()
    answer = client.post("/predict", json={"model": "arrivals", "rows": [FLIGHT, FLIGHT | {"dep_delay": -5}]})
    assert answer.status_code == 200, answer.text
    return report, answer.json()


def test_files_in_a_bucket_give_the_numbers_of_one_file_here(tmp_path: Path) -> None:
    table = flights()
    carriers = sorted(map(str, set(table["carrier"].to_pylist())))
    parts = [table.filter(pc.equal(table["carrier"], pa.scalar(carrier))) for carrier in carriers]
    whole = pa.concat_tables(parts)
    whole = whole.select([*(name for name in whole.column_names if name != "carrier"), "carrier"])
    with s3_server() as s3, dask_processes(tmp_path, environment=s3.environment()) as processes:
        bucket = s3.make_bucket()
        for carrier, part in zip(carriers, parts, strict=True):
            s3.put(bucket, f"flights/carrier={carrier}/part-0.parquet", parquet(part.drop_columns("carrier")))
        settings = s3.environment() | {
            "PURSUIT_LARGE_TABLE_ROWS": str(LARGE_TABLE_ROWS),
            "PURSUIT_DATASET_LOCATIONS": f"s3://{bucket}/flights",
        }
        cluster = {"PURSUIT_COMPUTE": f"dask://127.0.0.1:{processes.port}"}
        with system(tmp_path, environment=settings) as made, made.start_api() as client:
            client.timeout = 300.0
            located = client.post("/datasets", json={"location": f"s3://{bucket}/flights/"})
            assert located.status_code == 201, located.text
            assert located.json()["rows"] == table.num_rows
            here = client.post("/datasets", files={"file": ("flights.parquet", parquet(whole))})
            assert here.status_code == 201, here.text
            spread, by_cluster = trained(made, client, located.json()["id"], cluster)
            alone, by_itself = trained(made, client, here.json()["id"], {"PURSUIT_COMPUTE": "local"})
            assert not list((tmp_path / "data").rglob("cache/*"))
    assert any("read by parts" in warning for warning in spread["warnings"])
    assert spread["rows"] == alone["rows"] > 300_000
    assert spread["rows_dropped"] == alone["rows_dropped"] > 9_000
    assert by_cluster["mean"] == by_itself["mean"]
    assert by_cluster["std"] == by_itself["std"]
