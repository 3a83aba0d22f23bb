"""A fit that was kept is the fit that was made: schema, rows, warnings, and the bits of the design matrix."""

import base64
import json
import zlib
from typing import Any

import numpy as np
import pytest

from app.errors import MalformedError
from app.tables import Table, TableFit, TableOptions, build_design_matrix, fit_table, read_table

CSV = (
    "when,kind,size,id,price,y\n"
    '2020-01-01,a,"1,5",9007199254740993,10,1\n'
    '2020-01-02,b,"2,5",9007199254740995,,2\n'
    '2020-01-03,,"3,25",9007199254740997,-999,3\n'
    '2020-01-05,a,"0,1",9007199254740999,12,\n'
    '2020-01-09,c,"4,75",9007199254741001,13,5\n'
)
OPTIONS: dict[str, dict[str, Any]] = {
    "rows dropped": {"missing": "drop"},
    "imputed, a target": {"missing": "impute", "target": "size", "unseen": "prior"},
    "declared": {"missing": "impute", "columns": {"kind": "category", "price": "ignore"}, "dates": "cyclic"},
    "codes for missing cells": {"missing": "drop", "missing_values": [-999], "features": ["price", "size"]},
    "a decimal comma, few levels": {"missing": "impute", "decimal": ",", "max_levels": 2, "missing_values": ["z"]},
}


def table() -> Table:
    return read_table(CSV.encode())


@pytest.mark.parametrize("name", OPTIONS)
def test_a_kept_fit_is_the_fit(name: str) -> None:
    options = TableOptions(**OPTIONS[name])
    schema, rows = fit_table(table(), options)
    kept = TableFit.from_bytes(TableFit.of(table(), options, {"parsing": 0.25}).to_bytes())
    assert kept.is_of(table(), options)
    assert kept.schema == schema
    assert kept.seconds == {"parsing": 0.25}
    assert kept.training_rows.rows.tolist() == rows.rows.tolist()
    assert kept.training_rows.rows.dtype == rows.rows.dtype
    assert (kept.training_rows.dropped, kept.training_rows.warnings) == (rows.dropped, rows.warnings)
    ours, theirs = (
        build_design_matrix(table(), fitted, training_rows)
        for fitted, training_rows in ((kept.schema, kept.training_rows), (schema, rows))
    )
    assert ours.inputs.tobytes() == theirs.inputs.tobytes()
    assert ours.targets.tobytes() == theirs.targets.tobytes()
    np.testing.assert_array_equal(ours.groups, theirs.groups)
    np.testing.assert_array_equal(ours.indicator, theirs.indicator)


@pytest.mark.parametrize("first", OPTIONS)
def test_other_options_are_another_fit(first: str) -> None:
    kept = TableFit.of(table(), TableOptions(**OPTIONS[first]))
    assert [name for name in OPTIONS if kept.is_of(table(), TableOptions(**OPTIONS[name]))] == [first]


def test_another_table_is_another_fit() -> None:
    options = TableOptions(missing="drop")
    kept = TableFit.of(table(), options)
    assert not kept.is_of(read_table(CSV.encode() + b"2020-01-10,c,1,9007199254741003,14,6\n"), options)


DAMAGE: dict[str, Any] = {
    "another format": {"format": "pursuit-table-fit/0"},
    "rows of a larger table": {"rows_kept": base64.b85encode(zlib.compress(bytes(9))).decode()},
    "rows that no code is": {"rows_kept": base64.b85encode(b"no rows").decode()},
    "rows that are no text": {"rows_kept": [5]},
    "no schema": {"schema": {"target": "y"}},
    "an option of tomorrow": {"options": {"tomorrow": 1}},
    "no warnings": {"warnings": None},
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_no_fit_is_refused(damage: str) -> None:
    document = json.loads(TableFit.of(table(), TableOptions(missing="drop")).to_bytes()) | DAMAGE[damage]
    with pytest.raises(MalformedError):
        TableFit.from_bytes(json.dumps(document).encode())


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff"])
def test_bytes_that_are_no_document_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedError):
        TableFit.from_bytes(data)
