"""Accuracy of models trained through the service, over HTTP, on the sets of Keerthi & Chu 2005.

    python -m tests.benchmarks.accuracy [adapted | fixed | methods] [SET ..]

`adapted`: defaults with basis_size 500. `fixed`: kin40k with the hyperparameters of theta.json (a full GP on 2,000
rows), DTC, `batch` and `dmax` at d = 100 and 500, mean of three seeds. `methods`: bank8FM with the hyperparameters of
one adapted model, d = 200, every method.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from app.cli.client import Client
from app.cli.service import start
from core.predict.distribution import PredictiveDistribution
from core.predict.metrics import Scores, scores
from core.spec import Method
from tests.benchmarks.sets import FOLDER, Split, conditions, csv, load

SETS = ("kin40k", "bank8FM", "cpu_small", "cal_housing")
PARTS = ("adapted", "fixed", "methods")
_ROWS_A_REQUEST = 10_000


def main(words: tuple[str, ...]) -> None:
    """Starts a service of its own and prints Markdown tables."""
    parts = [word for word in words if word in PARTS] or PARTS
    names = tuple(word for word in words if word not in PARTS) or SETS
    print(conditions())
    with tempfile.TemporaryDirectory() as folder:
        service = start(Path(folder, "data"), Path(folder, "log"))
        try:
            with service.client() as client:
                if "adapted" in parts:
                    adapted(client, Path(folder), names)
                if "fixed" in parts:
                    fixed(client, Path(folder))
                if "methods" in parts:
                    methods(client, Path(folder))
        finally:
            service.stop()


def adapted(client: Client, folder: Path, names: tuple[str, ...]) -> None:
    """Defaults, d = 500, one split of each set."""
    print("\n| set | NMSE | NLPD, unit variance | 95% coverage | holdout NMSE | seconds by phase |")
    print("|---|---|---|---|---|---|")
    for name in names:
        split = load(name)
        score, report = _train_and_score(client, folder, name, split, {"basis_size": 500})
        nlpd = score.nlpd - np.log(np.std(split.test[:, -1]))
        seconds = ", ".join(f"{phase} {spent:.1f}" for phase, spent in report["seconds"].items())
        print(
            f"| {name} | {score.nmse:.4f} | {nlpd:.3f} | {score.coverage['0.95']:.3f} "
            f"| {report['holdout']['nmse']:.4f} | {seconds} |",
            flush=True,
        )


def fixed(client: Client, folder: Path) -> None:
    """kin40k at the hyperparameters of a full GP."""
    split = load("kin40k")
    theta = json.loads((FOLDER / "theta.json").read_text(encoding="utf-8"))["kin40k"]
    hyperparameters = {
        "signal_variance": theta["signal_variance"],
        "noise_variance": theta["noise_variance"],
        "bias_variance": 0.0,
        "lengthscales": dict(zip(split.names, theta["lengthscales"], strict=False)),
    }
    print("\n| method | d | NMSE, three seeds | mean NMSE | mean NLPD |\n|---|---|---|---|---|")
    for method in ("batch", "dmax"):
        for size in (100, 500):
            found = []
            for seed in range(3):
                spec = {
                    "method": method,
                    "basis_size": size,
                    "approximation": "dtc",
                    "adapt": False,
                    "hyperparameters": hyperparameters,
                    "calibrate": False,
                    "seed": seed,
                    "holdout": 0.0,
                }
                found.append(_train_and_score(client, folder, "kin40k", split, spec)[0])
            each = " ".join(f"{score.nmse:.4f}" for score in found)
            nmse, nlpd = np.mean([score.nmse for score in found]), np.mean([score.nlpd for score in found])
            print(f"| {method} | {size} | {each} | {nmse:.4f} | {nlpd:.3f} |", flush=True)


def methods(client: Client, folder: Path) -> None:
    """bank8FM, d = 200, the same hyperparameters for all."""
    split = load("bank8FM")
    adapted_spec = {"basis_size": 200, "approximation": "dtc", "calibrate": False}
    report = _train_and_score(client, folder, "bank8FM", split, adapted_spec)[1]
    print("\n| method | NMSE | NLPD, unit variance | seconds of the job |\n|---|---|---|---|")
    for method in Method:
        spec = adapted_spec | {"method": method.value, "adapt": False, "hyperparameters": report["hyperparameters"]}
        score, found = _train_and_score(client, folder, "bank8FM", split, spec)
        nlpd = score.nlpd - np.log(np.std(split.test[:, -1]))
        print(f"| {method} | {score.nmse:.4f} | {nlpd:.3f} | {sum(found['seconds'].values()):.2f} |", flush=True)


def _train_and_score(
    client: Client, folder: Path, name: str, split: Split, spec: dict[str, Any]
) -> tuple[Scores, dict[str, Any]]:
    """One job, then predictions of the test rows. Raises RuntimeError where the job fails."""
    file = folder / f"{name}.csv"
    file.write_bytes(csv(split.names, split.train))
    *_, job = client.follow(client.train(file, spec)["id"])
    if job["state"] != "succeeded":
        raise RuntimeError(f"{name}: {job['error']}")
    result = job["result"]
    reference = f"{result['model']}@{result['version']}"
    mean, std = [], []
    for begin in range(0, len(split.test), _ROWS_A_REQUEST):
        body = csv(split.names[:-1], split.test[begin : begin + _ROWS_A_REQUEST, :-1])
        answer = client.predict(reference, body).json()
        mean += answer["mean"]
        std += answer["std"]
    return scores(split.test[:, -1], PredictiveDistribution(centre=np.array(mean), variance=np.square(std))), result[
        "report"
    ]


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
