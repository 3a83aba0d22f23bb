"""app/tables/schema/feature_cells.py: what a table was encoded from comes back."""

from typing import Any

import numpy as np
import pytest

from app.tables import Schema
from app.tables.schema.feature_cells import cell_of, value_columns

SCHEMA = Schema.from_json(
    {
        "target": "y",
        "unseen": "prior",
        "features": [
            {"name": "x", "kind": "number", "levels": [], "fill": 7.5, "indicator": True},
            {"name": "id", "kind": "number", "levels": [], "fill": None, "indicator": False, "offset": str(2**60)},
            {"name": "k", "kind": "category", "levels": ["a", "b"], "fill": None, "indicator": True, "other": True},
            {"name": "u", "kind": "category", "levels": ["a", "b"], "fill": None, "indicator": False},
            {"name": "f", "kind": "boolean", "levels": [], "fill": None, "indicator": False},
            {
                "name": "d",
                "kind": "date",
                "levels": [],
                "fill": None,
                "indicator": False,
                "order": "year-first",
                "cycles": ["week"],
            },
            {"name": "g", "kind": "number", "levels": [], "fill": None, "indicator": True, "integrate": True},
        ],
    }
)
ROWS: list[dict[str, Any]] = [
    {"x": 0.1, "id": 2**60 + 3, "k": "b", "u": "a", "f": True, "d": "2024-02-29", "g": 1.0},
    {"x": None, "id": 2**60 - 5, "k": None, "u": "b", "f": False, "d": "1999-12-31T23:59:58", "g": None},
    {"x": -1e300, "id": 2**60, "k": "else", "u": "else", "f": True, "d": "2024-01-01", "g": 0.0},
]


def test_cells_come_back() -> None:
    inputs = SCHEMA.encode_rows(ROWS)
    found = [
        {feature.name: cell_of(feature, row[block]) for feature, block in zip(SCHEMA.used, SCHEMA.blocks, strict=True)}
        for row in inputs
    ]
    assert found == [ROWS[0], ROWS[1], {**ROWS[2], "k": "other", "u": None}]


@pytest.mark.parametrize("name", ["x", "f", "d"])
def test_columns_are_those_of_the_design_matrix(name: str) -> None:
    inputs = SCHEMA.encode_rows([ROWS[0], ROWS[2]])
    (place,) = (place for place, feature in enumerate(SCHEMA.used) if feature.name == name)
    block = SCHEMA.blocks[place]
    np.testing.assert_array_equal(value_columns(SCHEMA.used[place], inputs[:, block.start]), inputs[:, block])


def test_a_moved_vector_is_the_nearest_level() -> None:
    feature = SCHEMA.used[2]
    assert cell_of(feature, np.array([0.1, 0.8, 0.05, 0.0])) == "b"
    assert cell_of(feature, np.array([0.3, 0.3, 0.3, 0.0])) is None
    assert cell_of(feature, np.array([0.1, 0.2, 0.0, 0.9])) is None
