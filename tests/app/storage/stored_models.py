"""Models written by an earlier release, and the predictions it made with them: `stored/`.

`python -m tests.app.storage.stored_models FOLDER` writes such a folder anew. The one in the repository stays as it is:
it stands for the models that users have in their stores. A new kind of model gets a file of its own.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from threadpoolctl import threadpool_info

from app.storage.artefact import ModelArtefact, load, save
from core.data import Dataset
from core.predict.model import Model, ModelPredictor
from core.spec import Adaptation, Refinement, TrainSpec
from core.train.progress import Checkpoint, Progress
from core.train.report import TrainResult
from core.train.run import train

FOLDER = Path(__file__).parent / "stored"
QUICK: dict[str, Any] = {"basis_size": 12, "pool_size": 60, "adaptation": Adaptation(rounds=2, steps=6)}
COMPACT: dict[str, Any] = {"artefact": "compact", "tolerance": 0.05, "basis_size": 24}
SPECS: dict[str, dict[str, Any]] = {
    "sor": {"approximation": "sor"},
    "dtc": {"approximation": "dtc", "method": "nlml", "calibrate": None},
    "fitc": {"approximation": "fitc", "calibrate": None},
    "vfe": {"approximation": "vfe", "gain": "vfe", "calibrate": None},
    "pep": {"approximation": "pep"},
    "uncalibrated": {"calibrate": None},
    "asymmetric": {"intervals": "asymmetric"},
    "moved": {"approximation": "vfe", "refinement": Refinement(steps=8), "holdout": 0.5},
    "noise": {"noise": "input-dependent"},
    "log": {"target_transform": "log"},
    "log1p": {"target_transform": "log1p", "calibrate": None},
    "yeo-johnson": {"target_transform": "yeo-johnson"},
    "compact": COMPACT,
    "compact-sor": {
        "artefact": "compact",
        "tolerance": 0.05,
        "basis_size": 24,
        "approximation": "sor",
        "calibrate": None,
    },
    "compact-noise": {"artefact": "compact", "tolerance": 0.05, "basis_size": 24, "noise": "input-dependent"},
    "mean": {"artefact": "mean", "calibrate": None},
    "float32": {"precision": "float32", "calibrate": None},
}
CHECKPOINTED = "pep"
"""The run whose checkpoints are kept too."""


def table() -> Dataset:
    """Units of very different size, a positive skewed target, noise that grows with a column, a constant column."""
    chance = np.random.default_rng(11)
    inputs = chance.normal(size=(240, 4))
    noise = 0.05 * np.exp(0.8 * inputs[:, 0]) * chance.normal(size=240)
    targets = np.exp(0.5 * np.sin(2.0 * inputs[:, 0]) + 0.3 * inputs[:, 1] + noise)
    inputs[:, 3] = 0.0
    return Dataset(inputs=inputs * [0.01, 1.0, 300.0, 1.0] + [5.0, -2.0, 1e4, 7.0], targets=100.0 * targets)


def queries() -> NDArray[np.float64]:
    """Rows near the table, between its rows, far from all of them, and with another value of the constant column."""
    chance = np.random.default_rng(12)
    inputs = chance.normal(size=(16, 4)) * [0.01, 1.0, 300.0, 1.0] + [5.0, -2.0, 1e4, 7.0]
    inputs[:4] = table().inputs[:4]
    inputs[4:8] *= 50.0
    return inputs


def predictions(model: Model) -> dict[str, NDArray[np.float64]]:
    """All that is told of `queries()`."""
    predictor = ModelPredictor(model)
    if predictor.mean_only:
        return {"mean": predictor.mean(queries())}
    found = predictor.predict(queries())
    lower, upper = found.interval(0.9)
    mean, variance = found.moments()
    return {
        "mean": mean,
        "variance": variance,
        "lower": lower,
        "upper": upper,
        "quantile": found.quantile(0.3),
        "density": found.log_density(table().targets[:16]),
        "latent_variance": found.latent.moments()[1],
        "support": found.support,
    }


def machine() -> dict[str, Any]:
    """Return what the last bits of a prediction depend on."""
    kernels = {info["architecture"] for info in threadpool_info() if info["internal_api"] == "openblas"}
    return {"numpy": np.__version__, "scipy": scipy.__version__, "openblas": sorted(kernels)}


def trained(name: str) -> tuple[TrainResult, list[Checkpoint]]:
    """The run of this name, and its checkpoints."""
    checkpoints: list[Checkpoint] = []

    def listen(event: Progress | Checkpoint) -> None:
        if isinstance(event, Checkpoint):
            checkpoints.append(event)

    return train(table(), spec_of(name), listen=listen), checkpoints


def spec_of(name: str) -> TrainSpec:
    """Return what the run of this name was asked."""
    return TrainSpec(**{**QUICK, **SPECS[name]})


def artefact_of(result: TrainResult) -> ModelArtefact:
    """Return the artefact as a worker stores it."""
    return ModelArtefact(
        posterior=result.stored,
        noise=result.model.noise,
        calibration=result.model.calibration,
        transform=result.model.transform,
        precision=result.model.precision,
        schema={"target": "y", "features": []},
        spec={},
        hyperparameters={},
        basis_columns=("a", "b", "c", "d"),
        basis_rows=tuple(result.selection.indices.tolist()),
        gains=tuple(None if np.isnan(gain) else gain for gain in result.selection.gains.tolist()),
        report=json.loads(json.dumps(result.report.to_json())),
    )


def write(folder: Path) -> None:
    """Every model, its predictions, the checkpoints of one run and the machine."""
    folder.mkdir(exist_ok=True)
    arrays: dict[str, NDArray[np.float64]] = {}
    for name in SPECS:
        result, checkpoints = trained(name)
        data = save(artefact_of(result))
        (folder / f"{name}.safetensors").write_bytes(data)
        arrays |= {f"{name}/{key}": value for key, value in predictions(load(data).model()).items()}
        if name == CHECKPOINTED:
            lines = [json.dumps(asdict(checkpoint), allow_nan=False) for checkpoint in checkpoints]
            (folder / "checkpoints.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    np.savez_compressed(folder / "predictions.npz", **arrays)  # type: ignore[arg-type]  # names are data here
    (folder / "machine.json").write_text(json.dumps(machine()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
