"""MLServer, serving the benchmark's posterior with our predictor, for comparison: its runtime, and how it is started.

PURSUIT_BENCHMARK_MLSERVER is the Python of an environment that has mlserver, numpy and scipy. As pip installs it today
it needs uvloop<0.22 beside it where it runs parallel workers; here it runs without them, which is its quickest.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np

from app.storage import artefact
from tests.benchmarks.serving_processes import Server, environment, pin
from tests.processes import wait_until

VARIABLE = "PURSUIT_BENCHMARK_MLSERVER"
PORT = 18_090

_RUNTIME = """
import json
import numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse
from core.sparse.posterior import SparsePosterior
from core.predict.predictor import Predictor

class Posterior(MLModel):
    async def load(self):
        arrays = dict(np.load("arrays.npz"))
        with open("scalars.json") as file:
            self._predictor = Predictor(SparsePosterior.restore(arrays, json.load(file)))
        return True

    async def predict(self, payload):
        inputs = NumpyCodec.decode_input(payload.inputs[0])
        found = self._predictor.moments(inputs)
        std = np.sqrt(found.target_variance)
        outputs = {"mean": found.mean, "std": std, "lower": found.mean - 1.96 * std, "upper": found.mean + 1.96 * std}
        return InferenceResponse(
            model_name=self.name,
            outputs=[NumpyCodec.encode_output(name, values) for name, values in outputs.items()],
        )
"""


def python() -> str | None:
    """The interpreter that has MLServer, if there is one."""
    return os.environ.get(VARIABLE)


@contextmanager
def mlserver(interpreter: str, directory: Path, data: bytes) -> Iterator[Server]:
    """MLServer on the server's core, with the posterior of an artefact as model `m`."""
    directory.mkdir()
    posterior = artefact.load(data).model().posterior
    np.savez(directory / "arrays.npz", **posterior.arrays())  # type: ignore[arg-type]  # numpy: its own keyword first
    (directory / "scalars.json").write_text(json.dumps(posterior.scalars()))
    (directory / "runtime.py").write_text(_RUNTIME)
    ports = {"http_port": PORT, "grpc_port": PORT + 1, "metrics_port": PORT + 2}
    settings = {"host": "127.0.0.1", "parallel_workers": 0, "debug": False, **ports}
    (directory / "settings.json").write_text(json.dumps(settings))
    (directory / "model-settings.json").write_text(json.dumps({"name": "m", "implementation": "runtime.Posterior"}))
    paths = os.pathsep.join((str(directory), str(Path(__file__).parents[2])))
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(Path(interpreter).parent / "mlserver"), "start", str(directory)],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment(PYTHONPATH=paths),
            preexec_fn=pin,  # noqa: PLW1509 -- no other thread runs here
        )
    try:
        wait_until(lambda: process.poll() is not None or _ready(), 60.0)
        if process.poll() is not None:
            print((directory / "log").read_text(), file=sys.stderr)
            raise SystemExit("MLServer did not start")
        yield Server(process=process, port=PORT)
    finally:
        process.terminate()
        process.wait()


def _ready() -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{PORT}/v2/models/m/ready") as answer:
            return bool(answer.status == 200)
    except URLError:
        return False
