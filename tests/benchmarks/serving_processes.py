"""Processes of the serving benchmark: a model of known size, an API process on one core, its processor time and
memory, and a load generator on the other core."""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from app.database.engine import Database
from app.storage import artefact, catalog
from app.storage.artefact import ModelArtefact
from app.storage.blobs import LocalBlobStore
from core.data import Dataset
from core.spec import Method, Precision, TrainSpec
from core.train.run import train
from tests.processes import wait_until

SERVER_CORE, CLIENT_CORE = 0, 1
COLUMNS = 8
BASIS = 500
NAMES = tuple("abcdefgh")

_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Request that every connection of a group repeats."""

    path: str
    body: bytes
    headers: Mapping[str, str]
    connections: int = 1
    pause: float = 0.0

    def raw(self) -> bytes:
        """Request as bytes."""
        method = "POST" if self.body else "GET"
        lines = [f"{method} {self.path} HTTP/1.1", "Host: pursuit", f"Content-Length: {len(self.body)}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + self.body


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A process that listens on a port, and the processes below it."""

    process: "subprocess.Popen[bytes]"
    port: int

    def cpu_seconds(self) -> float:
        """Processor seconds of all its threads so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def resident_bytes(self) -> int:
        """Memory that it holds now."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def load(self, seconds: float, **groups: Request) -> dict[str, Any]:
        """Figures of the load generator by group, with the server's `cpu` seconds meanwhile."""
        described = [
            {
                "name": name,
                "connections": group.connections,
                "request": base64.b64encode(group.raw()).decode(),
                "pause": group.pause,
            }
            for name, group in groups.items()
        ]
        before = self.cpu_seconds()
        found: dict[str, Any] = json.loads(
            subprocess.run(
                [
                    *(sys.executable, "-m", "tests.benchmarks.load"),
                    *("127.0.0.1", str(self.port), str(seconds), str(CLIENT_CORE)),
                ],
                input=json.dumps(described).encode(),
                stdout=subprocess.PIPE,
                check=True,
            ).stdout
        )
        found["cpu"] = self.cpu_seconds() - before
        for name in groups:
            if found[name]["bad"]:
                raise SystemExit(f"{name}: {found[name]['bad']} answers were refusals")
        return found


def environment(**more: str) -> dict[str, str]:
    """Environment of a process that is measured: OpenBLAS as it finds the machine, one thread."""
    kept = {name: v for name, v in os.environ.items() if name not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    return kept | {"OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"} | more


def pin() -> None:
    """Pin this process, before it becomes the server, to the server's core."""
    os.sched_setaffinity(0, {SERVER_CORE})


def surface(rows: int, seed: int = 0) -> Dataset:
    """A smooth function of COLUMNS inputs between -1 and 1, and a little noise."""
    chance = np.random.default_rng(seed)
    inputs = chance.uniform(-1.0, 1.0, (rows, COLUMNS))
    targets = np.sin(3.0 * inputs[:, 0]) * inputs[:, 1] + inputs[:, 2:].sum(axis=1) + chance.normal(0.0, 0.1, rows)
    return Dataset(inputs=inputs, targets=targets)


def trained() -> bytes:
    """The artefact of a model of BASIS basis vectors."""
    spec = TrainSpec(adaptation=None, basis_size=BASIS, method=Method.RAND, holdout=0.0)
    result = train(surface(2_000), spec)
    feature: dict[str, Any] = {"kind": "number", "levels": [], "fill": None, "indicator": False}
    return artefact.save(
        ModelArtefact(
            posterior=result.stored,
            schema={"target": "y", "unseen": "error", "features": [{"name": name, **feature} for name in NAMES]},
            spec={},
            hyperparameters={},
            basis_columns=NAMES,
            basis_rows=(),
            gains=(),
            report={},
        )
    )


def in_single_precision(data: bytes) -> bytes:
    """The artefact of the same model, which predicts in float32."""
    return artefact.save(replace(artefact.load(data), precision=Precision.FLOAT32))


def publish(directory: Path, data: bytes, names: Sequence[str]) -> None:
    """Put a model into a data directory under these names, each a file of its own, before there is a server."""
    (directory / "blobs").mkdir(parents=True, exist_ok=True)
    blobs = LocalBlobStore(directory / "blobs")
    with Database(f"sqlite:///{directory}/pursuit.db") as database:
        database.migrate()
        for name in names:
            own = artefact.save(replace(artefact.load(data), report={"name": name}))
            key = blobs.put("models", ".safetensors", own)
            with database.write() as connection:
                catalog.publish(connection, model=name, artefact=key, size=len(own), job_id=None, summary={})


@contextmanager
def api(directory: Path) -> Iterator[Server]:
    """An API process on the server's core, over a data directory."""
    announced = directory / "api.out"
    with announced.open("wb") as out, (directory / "api.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "app.cli", "api", "--data-dir", str(directory)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=log,
            env=environment(PURSUIT_PORT="0", PURSUIT_HOST="127.0.0.1"),
            preexec_fn=pin,  # noqa: PLW1509 -- no other thread runs here
        )
    try:
        wait_until(lambda: b"\n" in announced.read_bytes() or process.poll() is not None)
        if process.poll() is not None:
            raise SystemExit((directory / "api.log").read_text())
        yield Server(process=process, port=int(announced.read_text().split()[-1].rpartition(":")[2]))
    finally:
        process.terminate()
        process.wait()
