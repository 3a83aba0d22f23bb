"""The papers' tables and figures, remade beside the published numbers.

    python -m tests.benchmarks.papers [NAME ..] [--quick] [--trials N] [--data DIR] [--scheduler ADDRESS]

Writes RESULTS.md, CSV files and pictures into --out (by default this folder). What is finished is kept in --units, so a
run that was cut off goes on where it was; a page whose units are not all there is not written. With --scheduler the
units go to the workers of a Dask scheduler, which need this checkout and the data (PURSUIT_BENCHMARK_DATA).
"""

import argparse
import os
import shutil
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    """The data's folder is set before the sets are imported."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="papers; all by default")
    parser.add_argument("--quick", action="store_true", help="one or two trials, fewer points")
    parser.add_argument("--trials", type=int, help="partitions of each set")
    parser.add_argument("--data", type=Path, help="where the benchmark sets lie")
    parser.add_argument("--scheduler", help="address of a Dask scheduler, tcp://host:8786")
    parser.add_argument("--processes", type=int, help="units at once; by default as many as there are cores")
    parser.add_argument("--units", type=Path, default=Path("build/papers"), help="where finished units are kept")
    parser.add_argument("--out", type=Path, default=HERE, help="where RESULTS.md, CSV files and pictures go")
    parser.add_argument("--fresh", action="store_true", help="forget what is finished")
    asked = parser.parse_args()
    if asked.trials is not None and asked.trials < 1:
        parser.error("--trials: expected at least 1")
    if asked.data is not None:
        os.environ["PURSUIT_BENCHMARK_DATA"] = str(asked.data.resolve())
    from tests.benchmarks.papers.run import PAPERS, run  # noqa: PLC0415  after the setting, which `sets` reads
    from tests.benchmarks.papers.scale import Scale, Size  # noqa: PLC0415
    from tests.benchmarks.papers.units import Crew  # noqa: PLC0415

    unknown = [name for name in asked.names if name not in PAPERS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(PAPERS)}")
    if asked.fresh:
        shutil.rmtree(asked.units, ignore_errors=True)
    crew = Crew(scheduler=asked.scheduler) if asked.processes is None else Crew(processes=asked.processes)
    scale = Scale(size=Size.QUICK if asked.quick else Size.FULL, trials=asked.trials)
    run(asked.names or list(PAPERS), scale, crew, asked.units, asked.out)


if __name__ == "__main__":
    main()
