"""A worker whose sums are computed by a Dask cluster: unavailable, there, lost in mid-training, and the results."""

import io
import os
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.app.compute.processes import dask_processes
from tests.e2e.processes import ROWS, follow, job_of, many_rows, submit, surface, system
from tests.processes import wait_until
from tests.s3 import s3_server

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc"),
]


def test_a_large_job_waits_for_its_cluster_and_a_small_one_does_not(tmp_path: Path) -> None:
    spec = {"basis_size": 20, "adapt": False, "method": "rand", "holdout": 0}
    with dask_processes(tmp_path, workers=0) as processes, system(tmp_path) as made:
        processes.kill()
        made.environment = {
            "PURSUIT_COMPUTE": f"dask://127.0.0.1:{processes.port}",
            "PURSUIT_COMPUTE_PATIENCE_SECONDS": "1",
        }
        with made.start_api() as client:
            client.timeout = 120.0
            made.start_worker()
            large = submit(client, many_rows(), model="large", **spec)
            wait_until(lambda: "back to the queue: the cluster at" in made.log(), 600.0)
            small = submit(client, surface(300), model="small", basis_size=20, adapt=False)
            wait_until(lambda: job_of(client, small)["state"] == "succeeded", 400.0)
            assert job_of(client, large)["state"] in {"queued", "running"}
            processes.start_scheduler()
            for _ in range(2):
                processes.start_worker()
            wait_until(lambda: job_of(client, large)["state"] == "succeeded", 600.0)
            assert list((tmp_path / "data" / "shards").glob("*.npy"))
            worker = made.workers.pop()
            worker.kill()
            worker.wait()
            made.environment = {}
            made.start_worker()
            follow(client, submit(client, many_rows(), model="large", **spec))
            found = [
                client.post("/predict", json={"model": f"large@{version}", "rows": [[0.1, 0.2], [1.0, -1.0]]}).json()
                for version in (1, 2)
            ]
            assert found[0]["mean"] == found[1]["mean"]
            assert found[0]["std"] == found[1]["std"]


def test_a_table_that_is_read_by_parts_gives_one_model_wherever_it_is_read(tmp_path: Path) -> None:
    """By this machine's threads, by the workers of a cluster, and by those that are left when one is killed."""
    spec = {"basis_size": 20, "adapt": {"rounds": 1, "steps": 3}}
    rows = [[0.1, -0.2, 0.3, 1.5, "north"], [1.0, 1.0, -1.0, 0.0, "west"]]
    with dask_processes(tmp_path) as processes, system(tmp_path) as made:
        made.environment = {"PURSUIT_LARGE_TABLE_ROWS": "2000", "PURSUIT_THREADS": "2"}
        with made.start_api() as client:
            client.timeout = 120.0
            made.start_worker()
            here = submit(client, surface(4_000), model="large", **spec)
            report = follow(client, here)[-1]["result"]["report"]
            assert report["rows"] == 4_000
            assert any("read by parts" in warning for warning in report["warnings"])
            worker = made.workers.pop()
            worker.kill()
            worker.wait()
            made.environment |= {"PURSUIT_COMPUTE": f"dask://127.0.0.1:{processes.port}"}
            made.start_worker()
            follow(client, submit(client, surface(4_000), model="large", **spec))
            killed = processes.workers.pop()
            killed.kill()
            killed.wait()
            follow(client, submit(client, surface(4_000), model="large", **spec))
            found = [
                client.post("/predict", json={"model": f"large@{version}", "rows": rows}).json()
                for version in (1, 2, 3)
            ]
    for other in found[1:]:
        assert other["mean"] == found[0]["mean"]
        assert other["std"] == found[0]["std"]


def test_a_table_in_a_bucket_is_whole_on_no_machine(tmp_path: Path) -> None:
    """The workers of the cluster read ranges of it, the process of the job the end of the file; the numbers are those
    of a worker that reads it from a folder."""
    spec = {"basis_size": 20, "adapt": {"rounds": 1, "steps": 3}}
    rows = [[0.1, -0.2, 0.3, 1.5, "north"], [1.0, 1.0, -1.0, 0.0, "west"]]
    table, found = surface(4_000), []
    with s3_server() as s3, dask_processes(tmp_path, environment=s3.environment()) as processes:
        places = {
            "bucket": s3.environment()
            | {
                "PURSUIT_ARTEFACT_URL": f"s3://{s3.make_bucket()}/pursuit",
                "PURSUIT_COMPUTE": f"dask://127.0.0.1:{processes.port}",
            },
            "folder": {},
        }
        for name, environment in places.items():
            (tmp_path / name).mkdir()
            settings = {"PURSUIT_LARGE_TABLE_ROWS": "2000"} | environment
            with system(tmp_path / name, environment=settings) as made, made.start_api() as client:
                client.timeout = 120.0
                made.start_worker()
                follow(client, submit(client, table, model="large", **spec))
                found.append(client.post("/predict", json={"model": "large", "rows": rows}).json())
    assert not [path for path in (tmp_path / "bucket").rglob("*.parquet") if "tables" in path.parts]
    assert [path for path in (tmp_path / "folder").rglob("*.parquet") if "tables" in path.parts]
    assert found[0]["mean"] == found[1]["mean"]
    assert found[0]["std"] == found[1]["std"]


def test_the_mean_of_all_rows_is_solved_for_by_the_cluster(tmp_path: Path) -> None:
    """By its workers, of which one is killed in the midst of it, and by this machine where there is none: the same
    predictions."""
    spec = {"basis_size": 20, "adapt": False, "method": "rand", "mean_rows": "all", "holdout": 0}
    rows = [[0.1, -0.2, 0.3, 1.5, "north"], [1.0, 1.0, -1.0, 0.0, "west"]]
    with dask_processes(tmp_path) as processes, system(tmp_path) as made:
        made.environment = {"PURSUIT_COMPUTE": f"dask://127.0.0.1:{processes.port}"}
        with made.start_api() as client:
            client.timeout = 120.0
            made.start_worker()
            killed, left = processes.workers
            before = [processor_seconds(killed.pid), processor_seconds(left.pid)]
            job = submit(client, surface(9_600), model="all", **spec)
            wait_until(lambda: processor_seconds(killed.pid) > before[0] + 4.0, 900.0)
            killed.kill()
            killed.wait()
            report = follow(client, job)[-1]["result"]["report"]
            assert any(candidate["mean_rows"] == 9_600 for candidate in report["candidates"])
            assert processor_seconds(left.pid) > before[1] + 4.0
            processes.kill()
            follow(client, submit(client, surface(9_600), model="all", **spec))
            found = [
                client.post("/predict", json={"model": f"all@{version}", "rows": rows}).json() for version in (1, 2)
            ]
    assert found[1]["mean"] == found[0]["mean"]
    assert found[1]["std"] == found[0]["std"]


def processor_seconds(pid: int) -> float:
    """Return the processor seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_folder_of_files_in_a_bucket_is_whole_on_no_machine(tmp_path: Path) -> None:
    """It is trained on by the workers of a cluster, who read ranges of its files: the bits of this machine's worker,
    whose table is one file with the same rows. A file that changes is told."""
    spec = {"model": "flights", "target": "y", "basis_size": 20, "adapt": False, "method": "rand"}
    table, whole = pyarrow.csv.read_csv(io.BytesIO(surface(70_000).encode())), tmp_path / "whole.parquet"
    pq.write_table(table, whole)
    with s3_server() as s3, dask_processes(tmp_path, environment=s3.environment()) as processes:
        bucket, found = s3.make_bucket(), []
        for number in range(3):
            part = io.BytesIO()
            pq.write_table(table.slice(30_000 * number, 30_000), part, row_group_size=9_000)
            s3.put(bucket, f"rows/part-{number}.parquet", part.getvalue())
        settings = s3.environment() | {
            "PURSUIT_LARGE_TABLE_ROWS": "2000",
            "PURSUIT_DATASET_LOCATIONS": f"s3://{bucket}/rows",
            "PURSUIT_COMPUTE": f"dask://127.0.0.1:{processes.port}",
        }
        with system(tmp_path, environment=settings) as made, made.start_api() as client:
            client.timeout = 300.0
            assert client.post("/datasets", json={"location": f"s3://{bucket}/other/"}).status_code == 422
            answer = client.post("/datasets", json={"location": f"s3://{bucket}/rows/"})
            assert answer.status_code == 201, answer.text
            located = answer.json()
            assert (located["rows"], located["files"], located["size_bytes"] < 5_000) == (70_000, 3, True)
            with whole.open("rb") as file:
                one = client.post("/datasets", files={"file": ("whole.parquet", file)}).json()
            for dataset in (located, one):
                made.start_worker()
                job = client.post("/train", json={"dataset": dataset["id"], "spec": spec}).json()
                report = follow(client, job["id"])[-1]["result"]["report"]
                assert report["rows"] == 70_000
                assert any("read by parts" in warning for warning in report["warnings"])
                found.append(client.post("/predict", json={"model": "flights", "rows": ROWS}).json())
                worker = made.workers.pop()
                worker.kill()
                worker.wait()
                made.environment = {**made.environment, "PURSUIT_COMPUTE": "local"}
            assert not list((tmp_path / "data").rglob("cache/*"))
            s3.put(bucket, "rows/part-1.parquet", b"PAR1")
            more = {"dataset": located["id"], "spec": spec | {"missing": "drop"}}
            refused = client.post("/train", json=more)
            assert refused.status_code == 409, refused.text
            assert "file 'part-1.parquet' of the dataset's location has changed" in refused.json()["detail"]
    assert found[0]["mean"] == found[1]["mean"]
    assert found[0]["std"] == found[1]["std"]
