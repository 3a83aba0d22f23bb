"""Exported models against the server: the largest difference and rows per second, on 10,000 rows.

python -m tests.benchmarks.export
"""

import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np  # after the setting, which OpenBLAS reads when it loads
import onnxruntime

from tests.app.routes.exported import Arrays, by_onnx, by_server, cells_of, differences, download, predictor
from tests.app.routes.service import Service, running
from tests.app.routes.test_exports import Case, gaps, mixed, numbers, skewed, trained
from tests.benchmarks.sets import conditions

ROWS = 10_000
BATCH = 1_000
"""Rows that an ONNX model is fed at a time."""
SPARSE: dict[str, Any] = {"basis_size": 500, "method": "rand", "adapt": {"rounds": 1, "steps": 10}}
FULL: dict[str, Any] = {"adapt": {"rounds": 1, "steps": 10}, "variance": "near", "effort": "normal"}
CASES = {
    "gaussian, d = 500": Case(numbers, {**SPARSE, "kernel": "gaussian", "noise": "input-dependent"}, 2_000),
    "matern52, d = 500": Case(numbers, {**SPARSE, "kernel": "matern52"}, 2_000),
    "matern32, d = 500": Case(numbers, {**SPARSE, "kernel": "matern32"}, 2_000),
    "matern12, d = 500": Case(numbers, {**SPARSE, "kernel": "matern12"}, 2_000),
    "matern52, all rows, near": Case(numbers, {**FULL, "kernel": "matern52"}, 1_000),
    "log target, d = 500": Case(skewed, {**SPARSE, "target_transform": "log"}, 2_000),
    "rank-normal target, d = 500": Case(skewed, {**SPARSE, "target_transform": "rank-normal"}, 2_000),
    "categories and dates, d = 500": Case(mixed, {**SPARSE, "dates": "cyclic"}, 2_000),
    "missing cells, d = 100": Case(gaps, {**SPARSE, "basis_size": 100, "missing": "impute"}, 600),
}


def main() -> None:
    """Print a Markdown table."""
    print(f"{conditions()}\n")
    print(
        "| model | numpy: mean / std / lower and upper | ONNX | 1000 rows/s server / numpy / ONNX | KB numpy / ONNX |"
    )
    print("|---|---|---|---|---|")
    with TemporaryDirectory() as folder, running(Path(folder)) as service:
        for number, (label, case) in enumerate(CASES.items()):
            print(_line(service, f"m{number}", label, case, Path(folder)), flush=True)


def _line(service: Service, name: str, label: str, case: Case, folder: Path) -> str:
    trained(service, name, case)
    table = case.table(ROWS, 1)
    spread = float(np.std(table.pop("y")))
    by_server(service, name, {column: cells[:10] for column, cells in table.items()})  # loads the model
    expected, server = _timed(lambda: by_server(service, name, table))
    archive = download(service, name, "numpy")
    predict = predictor(archive, folder / name)
    found, plain = _timed(lambda: predict(table))
    off = [_told(differences(found, expected, spread))]
    answer = service.client.get(f"/models/{name}/versions/1/artefact?format=onnx")
    speeds, sizes = [server, plain], [len(archive)]
    if answer.status_code == 200:
        session = onnxruntime.InferenceSession(answer.content, providers=["CPUExecutionProvider"])
        feeds = {each.name: cells_of(table[each.name], each.type, each.name == "when") for each in session.get_inputs()}
        part = {column: cells[:BATCH] for column, cells in table.items()}
        off.append(_told(differences(by_onnx(answer.content, part, ["when"]), _first(expected), spread)))
        speeds.append(_timed(lambda: _in_batches(session, feeds))[1])
        sizes.append(len(answer.content))
    else:
        off.append("refused")
    rows = " / ".join(f"{ROWS / seconds / 1000:.1f}" for seconds in speeds)
    return f"| {label} | {' | '.join(off)} | {rows} | {' / '.join(f'{size / 1000:.0f}' for size in sizes)} |"


def _first(arrays: Arrays) -> Arrays:
    return {name: array[:BATCH] for name, array in arrays.items()}


def _in_batches(session: onnxruntime.InferenceSession, feeds: dict[str, Any]) -> None:
    for start in range(0, ROWS, BATCH):
        session.run(None, {name: cells[start : start + BATCH] for name, cells in feeds.items()})


def _told(off: dict[str, float]) -> str:
    ends = max(off["lower"], off["upper"])
    return " / ".join(f"{figure:.0e}" for figure in (off["mean"], off["std"], ends))


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    found = work()
    return found, time.perf_counter() - began


if __name__ == "__main__":
    main()
