"""Random tables with all that a fit looks for in a column, for comparisons of one reading with another."""

from typing import Any

import numpy as np

_KINDS = 15


def messy_columns(seed: int, rows: int) -> dict[str, list[str | None]]:
    """Columns of text by name, the target `y` last."""
    random = np.random.default_rng(seed)
    columns = {}
    for place in range(int(random.integers(1, 6))):
        cells = _cells(int(random.integers(_KINDS)), random, rows)
        if random.random() < 0.4:
            holes = random.random(rows) < random.choice([0.01, 0.2, 0.9])
            blank = str(random.choice(["", "NA", "-200", "?"]))
            cells = [blank if hole else cell for cell, hole in zip(cells, holes.tolist(), strict=True)]
        if random.random() < 0.2:
            cells[int(random.integers(rows))] = "oops"
        columns[str(random.choice(["id", "Unnamed: 0", f"x{place}"])) if place == 0 else f"x{place}"] = cells
    y = random.normal(size=rows).round(int(random.integers(0, 4)))
    if random.random() < 0.1:
        y[:] = 1.5
    if random.random() < 0.2:
        y[random.random(rows) < 0.1] = -999.0
    targets = list(map(repr, y.tolist()))
    if random.random() < 0.3:
        targets = [
            "" if gone else cell for cell, gone in zip(targets, (random.random(rows) < 0.1).tolist(), strict=True)
        ]
    return {**columns, "y": targets}


def _cells(kind: int, random: np.random.Generator, rows: int) -> list[Any]:  # noqa: PLR0911, PLR0912  one line each
    days = np.datetime64("2020-01-01") + np.sort(random.integers(0, 700, rows))
    match kind:
        case 0:
            return list(map(repr, random.normal(size=rows).tolist()))
        case 1:
            return list(map(str, range(rows)))
        case 2:
            return list(map(str, (1 + random.permutation(rows)).tolist()))
        case 3:
            return list(map(str, random.choice(["red", "green", "blue", "violet"], rows)))
        case 4:
            return [f"name {number}" for number in random.permutation(rows).tolist()]
        case 5:
            return list(map(str, days))
        case 6:
            return [day.strftime("%d/%m/%Y") for day in days.tolist()]
        case 7:
            return list(map(str, random.choice(["true", "false", "True"], rows)))
        case 8:
            return [f"{number:05d}" for number in random.integers(0, 99_999, rows).tolist()]
        case 9:
            return [str(2**60 + number) for number in random.integers(0, 2**20, rows).tolist()]
        case 10:
            return ["7.5"] * rows
        case 11:
            return [f"{value:.1f}".replace(".", ",") for value in random.normal(size=rows).tolist()]
        case 12:
            return [day.strftime("%Y%m%d") for day in days.tolist()]
        case 13:
            return [f"{number}%" for number in random.integers(0, 100, rows).tolist()]
        case _:
            return list(map(str, random.choice([1, 2, 3, 9999], rows).tolist()))
