"""Speed, latency and memory of served predictions, against the predictor alone.

python -m tests.benchmarks.serving

One API process has one core, the load generator the other; a rate is rows (or requests) per processor second of the
server, so that what else runs on the machine counts little. PURSUIT_BENCHMARK_MLSERVER adds MLServer's figures.
"""

import contextlib
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from tests.benchmarks import mlserver
from tests.benchmarks.serving_processes import (
    BASIS,
    COLUMNS,
    NAMES,
    SERVER_CORE,
    Request,
    Server,
    api,
    environment,
    in_single_precision,
    publish,
    surface,
    trained,
)
from tests.benchmarks.sets import conditions, csv

JSON = {"Content-Type": "application/json"}
NPY = {"Content-Type": "application/x-npy", "Accept": "application/x-npy"}
SIZES = ((10_000, 1, 3.0), (100, 4, 2.0), (1, 16, 2.0))
"""Rows of a request, connections, seconds."""
MODELS = 16
PREDICTIONS = 1_000_000
MIB = float(1 << 20)


def rows_of(count: int) -> Any:
    """Rows (count, COLUMNS) to ask for."""
    return np.random.default_rng(2).uniform(-1.0, 1.0, (count, COLUMNS))


def json_rows(count: int, connections: int = 1, *, pause: float = 0.0, **more: Any) -> Request:
    """POST /predict, rows as lists."""
    body = json.dumps({"model": "m", "rows": rows_of(count).tolist(), **more}).encode()
    return Request(path="/predict", body=body, headers=JSON, connections=connections, pause=pause)


def npy_rows(count: int, connections: int = 1, query: str = "", *, model: str = "m") -> Request:
    """POST /predict, NumPy's files both ways."""
    file = io.BytesIO()
    np.save(file, rows_of(count))
    return Request(path=f"/predict?model={model}{query}", body=file.getvalue(), headers=NPY, connections=connections)


def v2_json(count: int, connections: int = 1, **more: Any) -> Request:
    """The Open Inference Protocol, numbers as flat JSON."""
    tensor = {"name": "rows", "shape": [count, COLUMNS], "datatype": "FP64", "data": rows_of(count).ravel().tolist()}
    body = json.dumps({"inputs": [tensor], **more}).encode()
    return Request(path="/v2/models/m/infer", body=body, headers=JSON, connections=connections)


def v2_binary(count: int, connections: int = 1) -> Request:
    """The same, numbers as bytes both ways."""
    data = rows_of(count).tobytes()
    tensor = {
        "name": "rows",
        "shape": [count, COLUMNS],
        "datatype": "FP64",
        "parameters": {"binary_data_size": len(data)},
    }
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    headers = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(head))}
    return Request(path="/v2/models/m/infer", body=head + data, headers=headers, connections=connections)


FORMS: dict[str, Callable[[int, int], Request]] = {
    "JSON rows": json_rows,
    "npy": npy_rows,
    "V2 JSON": v2_json,
    "V2 binary": v2_binary,
}


class Floor:
    """The predictor alone on the server's core; measured beside every figure, since a machine has moods."""

    def __init__(self, artefact: Path) -> None:
        self.artefact = artefact
        self._last: dict[tuple[int, str], float] = {}

    def before(self, rows: int, what: str) -> float:
        """The rate that was measured last, after the figure before, if it was of the same calls."""
        return self._last.pop((rows, what), 0.0) or self.after(rows, what)

    def after(self, rows: int, what: str) -> float:
        """Rows per processor second of calls of so many rows."""
        command = [sys.executable, "-m", "tests.benchmarks.floor"]
        arguments = [str(self.artefact), str(SERVER_CORE), str(rows), what]
        done = subprocess.run([*command, *arguments], env=environment(), stdout=subprocess.PIPE, check=True)
        self._last = {(rows, what): float(done.stdout)}
        return self._last[rows, what]


def measured(server: Server, floor: Floor, request: Request, rows: int, seconds: float, what: str = "predict") -> str:
    """Cells of a table: rows per processor second, the floor before and after, the share, the waits."""
    before = floor.before(rows, what)
    found = server.load(seconds, only=request)
    alone = 0.5 * (before + floor.after(rows, what))
    figures = found["only"]
    rate = rows * figures["count"] / found["cpu"]
    return f"{rate:,.0f} | {alone:,.0f} | {rate / alone:.2f} | {figures['p50_ms']:.1f}, {figures['p99_ms']:.1f}"


def header(first: str) -> None:
    """Print the header of a table of `measured`."""
    print(f"\n| {first} | form | rows per processor second | floor | share | p50, p99 ms |\n|---|---|---|---|---|---|")


def table(server: Server, floor: Floor, rivals: dict[int, str]) -> None:
    """The figures by size and form."""
    header("rows, connections")
    for rows, connections, seconds in SIZES:
        for form, make in FORMS.items():
            cells = measured(server, floor, make(rows, connections), rows, seconds)
            print(f"| {rows:,}, {connections} | {form} | {cells} |", flush=True)
        if rows in rivals:
            print(f"| {rows:,}, {connections} | MLServer, V2 JSON | {rivals[rows]} |", flush=True)


def mean_alone(server: Server, floor: Floor) -> None:
    """Print the rates without the variance: the floor is that of the mean."""
    header("the mean alone")
    for form, request in (
        ("npy, `interval=false`", npy_rows(10_000, 1, "&interval=false")),
        ("JSON rows, `interval: false`", json_rows(10_000, interval=False)),
        ("V2 JSON, `outputs: mean`", v2_json(10_000, outputs=[{"name": "mean"}])),
    ):
        print(f"| 10,000, 1 | {form} | {measured(server, floor, request, 10_000, 1.0, 'mean')} |", flush=True)


def single_precision(server: Server, floor: Floor) -> None:
    """The same model where it predicts in float32: the floor is that of float64."""
    header("float32")
    for rows, connections, seconds in SIZES:
        cells = measured(server, floor, npy_rows(rows, connections, model="single"), rows, seconds / 2)
        print(f"| {rows:,}, {connections} | npy | {cells} |", flush=True)


def beside(server: Server) -> None:
    """Single rows and probes while somebody sends 10,000 rows again and again."""
    probe = Request(path="/health/live", body=b"", headers={}, pause=0.005)
    print("\n| beside a stream of | single rows p50, p99 ms | /health/live p50, p99 ms |\n|---|---|---|")
    for name, stream in (("10,000 JSON rows", json_rows(10_000)), ("10,000 npy rows", npy_rows(10_000))):
        found = server.load(4.0, stream=stream, single=json_rows(1, pause=0.002), probe=probe)
        waits = (f"{found[group]['p50_ms']:.1f}, {found[group]['p99_ms']:.1f}" for group in ("single", "probe"))
        print(f"| {name} | {' | '.join(waits)} |", flush=True)


def loaded_models(server: Server, artefact_bytes: int) -> None:
    """Print the memory that a loaded model adds, in a process that has no memory to spare yet."""
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", trust_env=False) as client:
        sizes = []
        for name in model_names():
            client.post("/predict", json={"model": name, "rows": rows_of(1).tolist()}).raise_for_status()
            sizes.append(server.resident_bytes())
    each = (sizes[-1] - sizes[0]) / (MODELS - 1)
    print(f"\nA loaded model: {each / MIB:.2f} MiB, {each / artefact_bytes:.2f} times its artefact.", flush=True)


def memory(server: Server) -> None:
    """Print the memory that a million predictions leave."""
    server.load(1.0, warm=npy_rows(10_000, 2))
    before, done = server.resident_bytes(), 0
    while done < PREDICTIONS:
        done += 10_000 * server.load(1.0, only=npy_rows(10_000, 2))["only"]["count"]
    grown = (server.resident_bytes() - before) / MIB
    print(f"\nResident memory after {done:,} predictions more: {grown:+.1f} MiB.", flush=True)


def crowd(server: Server, directory: Path) -> None:
    """Two hundred clients of single rows, and probes, while a job trains on the other core."""
    training = surface(20_000)
    form = {"spec": json.dumps({"model": "busy", "basis_size": BASIS, "adapt": {"rounds": 50, "steps": 50}})}
    content = csv((*NAMES, "y"), np.column_stack((training.inputs, training.targets)))
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", trust_env=False) as client, worker(directory):
        job = client.post("/train", files={"file": ("busy.csv", content)}, data=form).json()["id"]
        while (state := client.get(f"/jobs/{job}").json()["state"]) == "queued":
            pass
        probes = {name: Request(path=f"/health/{name}", body=b"", headers={}, pause=0.02) for name in ("live", "ready")}
        found = server.load(8.0, single=json_rows(1, 200), **probes)
        still = client.get(f"/jobs/{job}").json()["state"]
        client.delete(f"/jobs/{job}")
    print(
        f"\n| 200 clients while a job is {state} to {still} | answers a second | p50 ms | p99 ms |\n|---|---|---|---|"
    )
    for name in ("single", *probes):
        figures = found[name]
        rate = figures["count"] / found["seconds"]
        print(f"| {name} | {rate:,.0f} | {figures['p50_ms']:.1f} | {figures['p99_ms']:.1f} |", flush=True)


@contextlib.contextmanager
def worker(directory: Path) -> Iterator[None]:
    """A worker of one thread over the same data directory."""
    with (directory / "worker.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "app.cli", "worker", "--data-dir", str(directory)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment(PURSUIT_THREADS="1"),
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def model_names() -> list[str]:
    """Models that are published: `m`, and others to see what each takes."""
    return ["m", *(f"m{place}" for place in range(1, MODELS))]


def main() -> None:
    """Prints a section in Markdown."""
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made, "data")
        directory.mkdir()
        data = trained()
        publish(directory, data, model_names())
        publish(directory, in_single_precision(data), ["single"])
        floor = Floor(Path(made, "model.safetensors"))
        floor.artefact.write_bytes(data)
        print(f"## Serving\n\n{conditions()}\n\nd = {BASIS}, p = {COLUMNS}; the server and its floor on one core.")
        rivals: dict[int, str] = {}
        interpreter = mlserver.python()
        if interpreter is None:
            print(f"\nMLServer was not measured: {mlserver.VARIABLE} is not set.")
        else:
            with mlserver.mlserver(interpreter, Path(made, "mlserver"), data) as rival:
                for rows, connections, seconds in SIZES:
                    rivals[rows] = measured(rival, floor, v2_json(rows, connections), rows, seconds)
        with api(directory) as server:
            loaded_models(server, len(data))
            server.load(0.5, warm=json_rows(1))
            table(server, floor, rivals)
            mean_alone(server, floor)
            single_precision(server, floor)
            beside(server)
            memory(server)
            crowd(server, directory)


if __name__ == "__main__":
    main()
