"""Files of every format with damage anywhere: read or refused, never a bug of ours."""

from datetime import date
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.errors import PursuitError
from app.tables import Limits, fit_schema, read_table
from tests.app.tables.files import FORMATS

COLUMNS: dict[str, list[Any]] = {
    "x": [1.5, 2.5, None] * 20,
    "c": ["a", "b", "ü"] * 20,
    "d": [date(2011, 1, 1), date(2011, 2, 1)] * 30,
    "y": [float(row) for row in range(60)],
}
FILES = {name: make(COLUMNS) for name, make in FORMATS.items()}


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), name=st.sampled_from(sorted(FILES)))
def test_damage_is_refused_or_harmless(data: st.DataObject, name: str) -> None:
    whole = FILES[name]
    place = data.draw(st.integers(0, len(whole) - 1), "place")
    gone = data.draw(st.integers(0, 40), "gone")
    put = data.draw(st.binary(max_size=20), "put")
    cut = data.draw(st.booleans(), "cut")
    damaged = whole[:place] + put + (b"" if cut else whole[place + gone :])
    try:
        fit_schema(read_table(damaged, limits=Limits(bytes=50_000_000)), missing="impute")
    except PursuitError as error:
        assert error.message  # noqa: PT017  what else it is does not matter
