"""Training of tables that are read by parts: seconds and memory of the job's process, here and on a cluster.

    python -m tests.benchmarks.large_tables [ROWS ..]

flights_delay_2m, d = 300, all else by default: the stored table of so many rows is read by parts and trained on, in a
process of its own with one thread; the same with two Dask workers of one thread each; the same with one of them killed
(SIGKILL) on the way. All three must predict the same to the last bit. Unset OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE
before. The peak is that of the process that has the job; its processor's seconds stand beside.
"""

import io
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from app.posix import peak_memory
from app.services.core_spec import core_spec
from app.services.intake.large_table import read_large_table
from app.services.intake.training_checks import table_options
from app.services.specification import SpecBody
from app.services.train.assemble import dataset_of
from app.tables import Limits, Source, TableFit, open_canonical, open_file, write_text_blocks
from tests.benchmarks.sets import conditions, load

SIZE = 300
ASKED = 20_000
"""Rows whose predictions are compared."""
KILLED_AFTER = 0.4
"""Share of the undisturbed seconds after which a worker is killed."""
MIB = float(1 << 20)
JOB = "job"


def main(words: Sequence[str]) -> None:
    """Prints Markdown."""
    print(conditions(), flush=True)
    whole = load("flights_delay_2m").train
    for count in [int(word) for word in words] or [1_000_000, 2_000_000]:
        with tempfile.TemporaryDirectory() as folder:
            stored = Path(folder, "table.parquet")
            _store(whole[:count], stored)
            print(f"\n{count:,} rows, d = {SIZE}, a stored table of {stored.stat().st_size / 1e6:.0f} MB\n")
            print(
                "| run | s | times as fast | MiB at most in the job's process | its processor's seconds | phases, s |"
            )
            print("|---" * 6 + "|", flush=True)
            alone = _job(stored, Path(folder, "here"), None)
            _say("one process, one thread", alone, alone)
            from distributed import LocalCluster  # noqa: PLC0415  a second to load, which the job's process is spared

            with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as workers:
                address = workers.scheduler_address
                spread = _job(stored, Path(folder, "shards"), address)
                _say("two workers", spread, alone)
                pid = next(iter(workers.workers.values())).pid
                timer = threading.Timer(KILLED_AFTER * spread["seconds"], os.kill, (pid, signal.SIGKILL))
                timer.start()
                killed = _job(stored, Path(folder, "shards"), address)
                timer.cancel()
                _say("two workers, one killed", killed, alone)


def _store(table: Any, stored: Path) -> None:
    """The canonical file of a table."""
    text = io.StringIO()
    names = [f"x{column}" for column in range(table.shape[1] - 1)]
    text.write(",".join((*names, "y")) + "\n")
    np.savetxt(text, table, fmt="%.9g", delimiter=",")
    source = stored.with_suffix(".csv")
    source.write_text(text.getvalue())
    limits = Limits(bytes=1 << 34, rows=1 << 30)
    write_text_blocks(stored, open_file(Source(origin=source, limits=limits)))
    source.unlink()


def _job(stored: Path, shards: Path, address: str | None) -> Mapping[str, Any]:
    """One training in a process of its own."""
    asked = json.dumps({"stored": str(stored), "shards": str(shards), "address": address})
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
    command = [sys.executable, "-m", "tests.benchmarks.large_tables", JOB]
    done = subprocess.run(command, input=asked, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _do_job() -> None:
    """The side of the process: what `app.services.train.training_job` does, without a store and a queue."""
    asked = json.load(sys.stdin)
    stored, cluster = Path(asked["stored"]), None
    body = SpecBody.model_validate({"basis_size": SIZE})
    fit = TableFit.of(open_canonical(stored), table_options(body))
    fitted = peak_memory()
    from core.predict.model import ModelPredictor  # noqa: PLC0415  after the fit, whose peak is told by itself
    from core.train.run import train  # noqa: PLC0415

    if asked["address"] is not None:
        from app.compute.cluster import Cluster  # noqa: PLC0415  see above

        cluster = Cluster(asked["address"], Path(asked["shards"]))
    began = time.perf_counter()
    large = read_large_table(str(stored), fit, Path(asked["shards"]), seed=0, cluster=cluster)
    assert large is not None
    reading = time.perf_counter() - began
    spec = core_spec(body, fit.schema.group_names, large.sample.rows)
    result = train(dataset_of(large.sample), spec, compute=cluster, beyond=large.beyond)
    seconds = time.perf_counter() - began
    predicted = ModelPredictor(result.model).predict(large.sample.inputs[:ASKED])
    used = resource.getrusage(resource.RUSAGE_SELF)
    if cluster is not None:
        cluster.close()
    print(
        json.dumps(
            {
                "seconds": seconds,
                "phases": {"reading": reading, **result.report.seconds},
                "peak": peak_memory(),
                "fitted": fitted,
                "processor": used.ru_utime + used.ru_stime,
                "mean": predicted.centre.tolist(),
                "variance": predicted.variance.tolist(),
            }
        )
    )


def _say(name: str, run: Mapping[str, Any], alone: Mapping[str, Any]) -> None:
    if run["mean"] != alone["mean"] or run["variance"] != alone["variance"]:
        raise AssertionError(f"{name}: other predictions than those of one process")
    phases = ", ".join(f"{phase} {seconds:.1f}" for phase, seconds in run["phases"].items())
    print(
        f"| {name} | {run['seconds']:.1f} | {alone['seconds'] / run['seconds']:.2f} | {run['peak'] / MIB:.0f} "
        f"(fit {run['fitted'] / MIB:.0f}) | {run['processor']:.1f} | {phases} |",
        flush=True,
    )


if __name__ == "__main__":
    if sys.argv[1:] == [JOB]:
        _do_job()
    else:
        main(sys.argv[1:])
