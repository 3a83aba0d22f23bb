"""How fast, how evenly and in how much memory are predictions served? Everything against the predictor alone.

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
    publish,
    surface,
    trained,
)
from tests.benchmarks.sets import conditions, csv

JSON = {"Content-Type": "application/json"}
NPY = {"Content-Type": "application/x-npy", "Accept": "application/x-npy"}
SIZES = ((10_000, 1, 4.0), (100, 4, 2.0), (1, 16, 2.0))
"""Rows of a request, connections, seconds."""
MODELS = 16
PREDICTIONS = 1_000_000
MIB = float(1 << 20)

Figures = dict[str, Any]


def rows_of(count: int) -> Any:
    """Rows (count, COLUMNS) to ask for."""
    return np.random.default_rng(2).uniform(-1.0, 1.0, (count, COLUMNS))


def json_rows(count: int, connections: int = 1, *, pause: float = 0.0, **more: Any) -> Request:
    """POST /predict, rows as lists."""
    body = json.dumps({"model": "m", "rows": rows_of(count).tolist(), **more}).encode()
    return Request(path="/predict", body=body, headers=JSON, connections=connections, pause=pause)


def npy_rows(count: int, connections: int = 1, query: str = "") -> Request:
    """POST /predict, NumPy's files both ways."""
    file = io.BytesIO()
    np.save(file, rows_of(count))
    return Request(path=f"/predict?model=m{query}", body=file.getvalue(), headers=NPY, connections=connections)


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


def floor(path: Path) -> dict[str, float]:
    """Rows per processor second of the predictor alone, by rows of a call."""
    command = [sys.executable, "-m", "tests.benchmarks.floor", str(path), str(SERVER_CORE)]
    done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measured(server: Server, request: Request, rows: int, seconds: float) -> Figures:
    """Rows per processor second, and the waits."""
    found = server.load(seconds, only=request)
    figures: Figures = found["only"]
    return figures | {"rate": rows * figures["count"] / found["cpu"]}


def table(server: Server, alone: dict[str, float], rivals: dict[int, Figures]) -> None:
    """The figures by size and form, as shares of the floor; of single rows requests per processor second."""
    print(
        "\n| rows, connections | form | rows per processor second | of the floor | p50, p99 ms |\n|---|---|---|---|---|"
    )
    for rows, connections, seconds in SIZES:
        for form, make in FORMS.items():
            _line(rows, connections, form, measured(server, make(rows, connections), rows, seconds), alone)
        if rows in rivals:
            _line(rows, connections, "MLServer, V2 JSON", rivals[rows], alone)


def _line(rows: int, connections: int, form: str, found: Figures, alone: dict[str, float]) -> None:
    share = found["rate"] / alone[str(rows)]
    waits = f"{found['p50_ms']:.1f}, {found['p99_ms']:.1f}"
    print(f"| {rows:,}, {connections} | {form} | {found['rate']:,.0f} | {share:.2f} | {waits} |", flush=True)


def mean_alone(server: Server, alone: dict[str, float]) -> None:
    """What leaving out the variance saves."""
    print("\n| the mean alone | rows per processor second | of its floor |\n|---|---|---|")
    for name, request in (
        ("10,000 rows, npy, `interval=false`", npy_rows(10_000, 1, "&interval=false")),
        ("10,000 rows, JSON, `interval: false`", json_rows(10_000, interval=False)),
        ("10,000 rows, V2 JSON, `outputs: mean`", v2_json(10_000, outputs=[{"name": "mean"}])),
    ):
        found = measured(server, request, 10_000, 1.5)
        print(f"| {name} | {found['rate']:,.0f} | {found['rate'] / alone['mean']:.2f} |", flush=True)


def beside(server: Server) -> None:
    """Single rows and probes while somebody sends 10,000 rows again and again."""
    probe = Request(path="/health/live", body=b"", headers={}, pause=0.005)
    print("\n| beside a stream of | single rows p50, p99 ms | /health/live p50, p99 ms |\n|---|---|---|")
    for name, stream in (("10,000 JSON rows", json_rows(10_000)), ("10,000 npy rows", npy_rows(10_000))):
        found = server.load(4.0, stream=stream, single=json_rows(1, pause=0.002), probe=probe)
        waits = (f"{found[group]['p50_ms']:.1f}, {found[group]['p99_ms']:.1f}" for group in ("single", "probe"))
        print(f"| {name} | {' | '.join(waits)} |", flush=True)


def memory(server: Server, artefact_bytes: int) -> None:
    """What a loaded model adds, and what a million predictions leave."""
    before = server.resident_bytes()
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", trust_env=False) as client:
        for name in model_names()[1:]:
            client.post("/predict", json={"model": name, "rows": rows_of(1).tolist()}).raise_for_status()
    each = (server.resident_bytes() - before) / (MODELS - 1)
    print(f"\nA loaded model: {each / MIB:.2f} MiB, {each / artefact_bytes:.2f} times its artefact.", flush=True)
    server.load(1.0, warm=npy_rows(10_000, 2))
    before, done = server.resident_bytes(), 0
    while done < PREDICTIONS:
        done += 10_000 * server.load(1.0, only=npy_rows(10_000, 2))["only"]["count"]
    grown = (server.resident_bytes() - before) / MIB
    print(f"Resident memory after {done:,} predictions more: {grown:+.1f} MiB.", flush=True)


def crowd(server: Server, directory: Path) -> None:
    """Two hundred clients of single rows, and probes, while a job trains on the other core."""
    training = surface(20_000)
    form = {"spec": json.dumps({"model": "busy", "basis_size": BASIS, "adapt": {"rounds": 50, "steps": 50}})}
    content = csv((*NAMES, "y"), np.column_stack((training.inputs, training.targets)))
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", trust_env=False) as client, worker(directory):
        job = client.post("/train", files={"file": ("busy.csv", content)}, data=form).json()["id"]
        while (state := client.get(f"/jobs/{job}").json()["state"]) == "queued":
            pass
        probes = {name: Request(path=f"/health/{name}", body=b"", headers={}, pause=0.05) for name in ("live", "ready")}
        found = server.load(5.0, single=json_rows(1, 200), **probes)
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
        path = Path(made, "model.safetensors")
        path.write_bytes(data)
        print(f"## Serving\n\n{conditions()}\n\nd = {BASIS}, p = {COLUMNS}; the server and its floor on one core.")
        alone = floor(path)
        print(
            "\nThe predictor alone, rows per processor second: "
            + ", ".join(f"{rate:,.0f} ({rows if rows == 'mean' else f'{int(rows):,}'})" for rows, rate in alone.items())
        )
        rivals: dict[int, Figures] = {}
        interpreter = mlserver.python()
        if interpreter is None:
            print(f"\nMLServer was not measured: {mlserver.VARIABLE} is not set.")
        else:
            with mlserver.mlserver(interpreter, Path(made, "mlserver"), data) as rival:
                for rows, connections, seconds in SIZES:
                    rivals[rows] = measured(rival, v2_json(rows, connections), rows, seconds)
        with api(directory) as server:
            server.load(0.5, warm=json_rows(1))
            table(server, alone, rivals)
            mean_alone(server, alone)
            beside(server)
            memory(server, len(data))
            crowd(server, directory)


if __name__ == "__main__":
    main()
