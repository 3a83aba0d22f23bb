"""Models of every kind whose inputs are transformed before they are standardized."""

from functools import cache
from typing import Any

import numpy as np

from app.storage.artefact import ModelArtefact
from app.tables import fit_schema, from_columns
from core.arrays import FloatArray
from core.data import Dataset
from core.spec import Adaptation, TrainSpec
from core.train.run import train

ROWS = 200
QUICK: dict[str, Any] = {
    "input_transform": "yeo-johnson",
    "basis_size": 16,
    "method": "rand",
    "adaptation": Adaptation(rounds=1, steps=4),
    "holdout": 0.0,
    "noise": "constant",
}
SPECS: dict[str, dict[str, Any]] = {
    "sparse": {},
    "matern12": {"kernel": "matern12"},
    "compact": {"artefact": "compact", "tolerance": 0.05},
    "mean": {"artefact": "mean"},
    "noise": {"noise": "input-dependent", "kernel": "matern52"},
    "mean-rows": {"mean_rows": "all"},
    "near": {"effort": "normal", "mean_rows": "auto", "variance": "near", "kernel": "matern32"},
    "gaps": {},
}


def table(rows: int, seed: int) -> dict[str, list[Any]]:
    """Columns with a long tail above and below, a category; noise that grows with the first."""
    chance = np.random.default_rng(seed)
    a, b = chance.normal(size=(2, rows))
    kind = chance.choice(["low", "high"], rows)
    noise = 0.1 * np.exp(1.2 * a) * chance.normal(size=rows)
    y = np.sin(1.5 * a) + b + (kind == "high") + noise
    return {
        "a": (1e-3 * np.exp(2.0 * a) + 5.0).tolist(),
        "b": (-300.0 * np.exp(1.5 * b)).tolist(),
        "kind": kind.tolist(),
        "y": (10.0 * y).tolist(),
    }


def queries(rows: int = 200) -> dict[str, list[Any]]:
    """Rows like those of training, and some far outside, on both sides of both columns."""
    found = table(rows, 1)
    del found["y"]
    far = [-1.7e308, -1e300, -1e20, -50.0, 0.0, 5.0, 50.0, 1e20, 1e300, 1.7e308]
    found["a"][: len(far)] = far
    found["b"][5 : 5 + len(far)] = far
    return found


def encoded(model: ModelArtefact, columns: dict[str, list[Any]]) -> FloatArray:
    """Columns as inputs (m, 4)."""
    a, b, kind = columns["a"], columns["b"], columns["kind"]
    levels = next(each["levels"] for each in model.schema["features"] if each["name"] == "kind")
    rows = [[x, z, *(float(k == level) for level in levels)] for x, z, k in zip(a, b, kind, strict=True)]
    return np.array([[np.nan if cell is None else cell for cell in row] for row in rows])


@cache
def transformed(name: str) -> ModelArtefact:
    """A model of one kind, trained once."""
    cells = table(ROWS, 0)
    gaps = name == "gaps"
    if gaps:
        cells["b"] = [None if row % 17 == 3 else cell for row, cell in enumerate(cells["b"])]
    schema, matrix = fit_schema(from_columns(cells), missing="impute" if gaps else "error")
    whole = np.isfinite(matrix.inputs).all(axis=1)
    inputs, targets = matrix.inputs[whole], matrix.targets[whole]
    dataset = Dataset(inputs=inputs, targets=targets, groups=schema.groups, indicator=schema.indicator)
    result = train(dataset, TrainSpec(**(QUICK | SPECS[name])))
    model = result.model
    rows = result.selection.indices.tolist()
    return ModelArtefact(
        posterior=result.stored,
        noise=model.noise,
        calibration=model.calibration,
        transform=model.transform,
        mean=model.mean,
        near=model.near,
        donors=inputs[:40] if gaps else None,
        shifts=np.array([0.0, 0.25, 0.0]) if gaps else None,
        schema=schema.to_json(),
        spec={},
        hyperparameters={
            "signal_variance": 1.0,
            "bias_variance": 1.0,
            "noise_variance": 1.0,
            "lengthscales": dict.fromkeys(schema.group_names, 1.0),
        },
        basis_columns=schema.column_names,
        basis_rows=tuple(rows),
        gains=(None,) * len(rows),
        report={
            "rows": ROWS,
            "basis_size": 16,
            "target": "y",
            "moved": False,
            "holdout": None,
            "leave_one_out": None,
        },
    )
