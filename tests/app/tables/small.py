"""Small tables, and what training would read in them."""

from typing import Any

import numpy as np

from app.tables import Kind, fit_schema, read_table

Features = dict[str, list[Any]]
LEFT_OUT: list[Any] = []


def read(data: bytes, **options: Any) -> tuple[Features, list[float], list[str]]:
    """Numbers as they are read, of a category the levels, None for a missing cell, nothing of what is left out; the
    target; the warnings."""
    schema, prepared = fit_schema(read_table(data), **options)
    found: Features = {}
    start = 0
    for feature in schema.features:
        block = prepared.inputs[:, start : start + feature.width]
        start += feature.width
        if feature.kind is Kind.CATEGORY:
            names = [*feature.levels, *["(other)"] * feature.other, *["(missing)"] * feature.indicator]
            found[feature.name] = [
                None if np.isnan(row).all() else names[place]
                for row, place in zip(block, block.argmax(axis=1).tolist(), strict=True)
            ]
        else:
            cells = block[:, 0].tolist() if feature.width else LEFT_OUT
            found[feature.name] = [None if cell != cell else cell for cell in cells]  # noqa: PLR0124  NaN is missing
    return found, prepared.targets.tolist(), list(prepared.warnings)


def table(column: str, cells: list[str]) -> bytes:
    """CSV table of these cells beside two columns of numbers."""
    lines = [f"{cell},{row % 5},{row * row % 17}" for row, cell in enumerate(cells)]
    return (f"{column},x,y\n" + "\n".join(lines) + "\n").encode()
