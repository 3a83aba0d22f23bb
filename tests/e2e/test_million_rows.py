"""A file of a million rows is predicted by an API whose memory does not grow with it, while others are answered."""

import io
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.e2e.processes import System, follow, system
from tests.processes import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(900)]

ROWS = 1_000_000
FIRST_ROWS = 250_000
MOST_GROWTH = 100 << 20
"""Bytes that a million rows may take beyond what the first file took: measured 40 MiB. Table and answer, held in
memory, would take some 400 MiB more."""
MOST_MEMORY = 200 << 20
"""Bytes that the first file may take beyond what the process had."""
CSV, PARQUET, NPY = "text/csv", "application/vnd.apache.parquet", "application/x-npy"


@pytest.fixture(scope="module")
def rows() -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return np.random.default_rng(0).uniform(-2, 2, (ROWS, 4))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[System, httpx.Client]]:
    """An API with a model of four numbers, and a worker."""
    with system(tmp_path_factory.mktemp("million")) as running, running.start_api() as client:
        running.start_worker()
        table = np.random.default_rng(1).uniform(-2, 2, (300, 4))
        lines = [",".join(map(repr, [*row, float(np.sin(row[0] * row[1]))])) for row in table.tolist()]
        form = {"spec": '{"model": "m", "basis_size": 30, "adapt": false, "method": "rand"}'}
        answer = client.post("/train", files={"file": ("m.csv", "a,b,c,d,y\n" + "\n".join(lines))}, data=form)
        assert follow(client, answer.json()["id"])[-1]["state"] == "succeeded"
        client.post("/predict", json={"model": "m", "rows": [[0, 0, 0, 0]]})
        yield running, client


def peak(pid: int) -> int:
    """Most bytes that a process has had in memory since `forget_peak`."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) << 10


def forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def table_of(kind: str, rows: "np.ndarray[tuple[int, int], np.dtype[np.float64]]") -> bytes:
    if kind == CSV:
        text = io.BytesIO(b"")
        text.write(b"id,a,b,c,d\n")
        for start in range(0, len(rows), 50_000):
            part = rows[start : start + 50_000]
            text.write(
                "".join(
                    f"r{start + i},{a!r},{b!r},{c!r},{d!r}\n" for i, (a, b, c, d) in enumerate(part.tolist())
                ).encode()
            )
        return text.getvalue()
    if kind == NPY:
        sink = io.BytesIO()
        np.save(sink, rows)
        return sink.getvalue()
    columns = {"id": pa.array(np.arange(len(rows))), **dict(zip("abcd", map(pa.array, rows.T), strict=True))}
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


@pytest.mark.parametrize(("kind", "accept"), [(CSV, CSV), (PARQUET, PARQUET), (NPY, NPY)])
def test_a_million_rows_stream_through(
    served: tuple[System, httpx.Client],
    rows: "np.ndarray[tuple[int, int], np.dtype[np.float64]]",
    tmp_path: Path,
    kind: str,
    accept: str,
) -> None:
    running, client = served
    assert running.api is not None
    body = table_of(kind, rows)
    places = [0, 123_456, ROWS - 1]
    expected = client.post("/predict", json={"model": "m", "rows": rows[places].tolist()}).json()
    out, slowest, pid = tmp_path / "answer", 0.0, running.api.pid
    forget_peak(pid)
    idle = peak(pid)
    with httpx.Client(base_url=running.url, timeout=900.0, trust_env=False) as other:
        predict_to_file(other, table_of(kind, rows[:FIRST_ROWS]), kind, accept, out)
    before = peak(pid)
    with ThreadPoolExecutor(1) as thread, httpx.Client(base_url=running.url, timeout=900.0, trust_env=False) as other:
        answering = thread.submit(predict_to_file, other, body, kind, accept, out)
        while not answering.done():
            began = time.monotonic()
            assert client.post("/predict", json={"model": "m", "rows": rows[:1].tolist()}).status_code == 200
            slowest = max(slowest, time.monotonic() - began)
            time.sleep(0.05)
        answering.result()
    growth = peak(pid) - before
    print(
        f"{kind}: {len(body) >> 20} MiB in, {out.stat().st_size >> 20} MiB out; {(before - idle) >> 20} MiB for the "
        f"first {FIRST_ROWS:,} rows, {growth >> 20} MiB more for {ROWS:,}; one row took at most {slowest:.3f} s"
    )
    assert before - idle < MOST_MEMORY
    assert growth < MOST_GROWTH
    assert slowest < 3.0, "a prediction of one row waits for no file"
    if accept == CSV:
        lines = out.read_bytes().splitlines()
        assert lines[0] == b"id,mean,std,lower,upper"
        assert len(lines) == ROWS + 1
        means = [float(lines[place + 1].split(b",")[1]) for place in places]
        assert lines[places[1] + 1].startswith(b"r123456,")
    elif accept == NPY:
        means = np.load(out, mmap_mode="r")[places, 0].tolist()
    else:
        table = pq.read_table(out)
        assert table.num_rows == ROWS
        assert table.column("id")[123_456].as_py() == 123_456  # a kept column has the type it came with
        means = [table.column("mean")[place].as_py() for place in places]
    assert means == expected["mean"]
    wait_until(lambda: not list(running.directory.rglob("upload-*")), 10.0)


def predict_to_file(client: httpx.Client, body: bytes, kind: str, accept: str, out: Path) -> None:
    headers = {"content-type": kind, "accept": accept}
    with client.stream("POST", "/predict?model=m", content=body, headers=headers) as answer, out.open("wb") as file:
        assert answer.status_code == 200, answer.read()
        for piece in answer.iter_bytes():
            file.write(piece)


def test_a_dataset_is_predicted_by_a_worker_and_the_job_can_be_cancelled(
    served: tuple[System, httpx.Client], rows: "np.ndarray[tuple[int, int], np.dtype[np.float64]]"
) -> None:
    running, _ = served
    with httpx.Client(base_url=running.url, timeout=600.0, trust_env=False) as client:
        upload = client.post("/datasets", files={"file": ("rows.csv", table_of(CSV, rows))})
        assert upload.status_code == 201, upload.text
        asked = {"model": "m", "dataset": upload.json()["id"]}
        address = client.post("/predict", json=asked).headers["location"]
        wait_until(lambda: client.get(address).json()["progress"]["phase"] == "predicting", 60.0)
        client.delete(address)
        wait_until(lambda: client.get(address).json()["state"] == "cancelled", 30.0)
        assert client.get(f"{address}/predictions").status_code == 409
        job = client.post("/predict", json=asked).json()
        events = follow(client, job["id"])
        assert events[-1]["state"] == "succeeded", events[-1]
        fractions = [event["progress"]["fraction"] for event in events]
        assert fractions == sorted(fractions)
        assert len({fraction for fraction in fractions if 0.0 < fraction < 1.0}) > 3
        file = client.get(events[-1]["result"]["predictions"]).content
        table = pq.read_table(io.BytesIO(file))
        expected = client.post("/predict", json={"model": "m", "rows": rows[:2].tolist()}).json()
    assert table.num_rows == ROWS
    assert table.column_names == ["id", "mean", "std", "lower", "upper"]
    assert table.column("upper")[:2].to_pylist() == expected["upper"]
