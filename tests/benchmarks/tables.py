"""Do the tables that people have train as they are? Over HTTP, with a target and, where needed, what is missing.

python -m tests.benchmarks.tables [FILE ..]
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from app.cli.client import Client, ClientError
from app.cli.service import start
from tests.benchmarks.sets import FOLDER, conditions

FILES: dict[str, dict[str, Any]] = {
    "messy/auto-mpg.csv": {"target": "mpg", "missing": "drop"},
    "messy/winequality-red.csv": {},
    "messy/AirQualityUCI.csv": {"target": "CO(GT)", "missing": "impute", "missing_values": [-200]},
    "messy/bike_sharing_day.csv": {},
    "messy/forestfires.csv": {},
    "messy/AmesHousing.csv": {"missing": "impute"},
    "abalone.csv.gz": {},
    "diamonds.csv.gz": {"target": "price"},
    "nycflights13.csv.gz": {"target": "arr_delay", "missing": "drop"},
}
"""The files, and the little that they are trained with."""


def main(names: tuple[str, ...]) -> None:
    """Prints a Markdown table, then what was said of each file."""
    print(conditions())
    print(
        "\n| file | asked | rows | dropped | d | holdout NMSE | 95% coverage | s |\n|---|---|---|---|---|---|---|---|"
    )
    said: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        service = start(Path(folder, "data"), Path(folder, "serve.log"))
        try:
            with service.client() as client:
                for name in names:
                    said[name] = _train(client, name, FILES[name])
        finally:
            service.stop()
    for name, lines in said.items():
        print(f"\n{name}:\n")
        for line in lines or ["nothing"]:
            print(f"- {line}")


def _train(client: Client, name: str, spec: dict[str, Any]) -> list[str]:
    """Prints the row of a file; the warnings of its training."""
    begin = time.monotonic()
    asked = ", ".join(f"{key} {value}" for key, value in spec.items()) or "-"
    try:
        *_, job = client.follow(client.train(FOLDER / name, spec)["id"])
    except ClientError as error:
        print(f"| {name} | {asked} | refused: {error} | | | | | |", flush=True)
        return []
    seconds = time.monotonic() - begin
    if job["state"] != "succeeded":
        print(f"| {name} | {asked} | {job['state']}: {job['error']} | | | | | {seconds:.0f} |", flush=True)
        return []
    report: dict[str, Any] = job["result"]["report"]
    scores = report["holdout"]
    print(
        f"| {name} | {asked} | {report['rows']:,} | {report['rows_dropped']:,} | {report['basis_size']} | "
        f"{scores['nmse']:.4f} | {scores['coverage']['0.95']:.3f} | {seconds:.0f} |",
        flush=True,
    )
    return list(report["warnings"])


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or tuple(FILES))
