"""Sets of rows: a bit for each, numbers only when they are asked for."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.tables.columns.row_set import RowSet

MASKS = st.lists(st.booleans(), min_size=1, max_size=200)


@given(MASKS, st.data())
def test_a_set_knows_its_rows(mask: list[bool], data: st.DataObject) -> None:
    kept = np.array(mask)
    rows, found = np.flatnonzero(kept), RowSet.of(kept)
    assert (found.count, found.left_out, found.total) == (len(rows), len(kept) - len(rows), len(kept))
    np.testing.assert_array_equal(found.numbers, rows)
    first, last = sorted(data.draw(st.lists(st.integers(0, len(kept)), min_size=2, max_size=2)))
    np.testing.assert_array_equal(found.between(first, last), rows[(rows >= first) & (rows < last)])
    some = found.kept(first, last)
    assert (some is None) == bool(kept[first:last].all())
    if len(rows):
        places = np.array(data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=9)), np.int64)
        np.testing.assert_array_equal(found.places(places), rows[places])
    np.testing.assert_array_equal(RowSet.of_numbers(rows, len(kept)).numbers, rows)


def test_a_set_of_all_rows_takes_nothing_for_each() -> None:
    assert RowSet.every(10**12).bits is None
    assert RowSet.every(10**12).between(7, 9).tolist() == [7, 8]
    assert RowSet.of(np.ones(9, np.bool_)).bits is None
