"""Cycles of a date: taken in where they help to predict later rows, and only there."""

from datetime import datetime, timedelta

import numpy as np
import pytest

from app.tables import fit_schema, from_columns
from app.tables.columns.cells import FloatArray, IntArray
from app.tables.columns.date_cycles import choose_cycles, subsample_rows
from app.tables.columns.dates import Cycle

HOUR = 3_600_000_000
NOTHING = np.empty((0, 0))


def times(rows: int, hours: float) -> IntArray:
    """Days from Monday, 2022-01-03."""
    return 18_995 * 24 * HOUR + np.round(np.arange(rows) * hours * HOUR).astype(np.int64)


def chosen(micros: IntArray, y: FloatArray, inputs: FloatArray = NOTHING) -> tuple[Cycle, ...]:
    return choose_cycles(micros, inputs if inputs.size else np.empty((len(y), 0)), y).cycles


def turn(rows: int, hours: float, period: float) -> FloatArray:
    return np.asarray(2.0 * np.pi * np.arange(rows) * hours / period, dtype=np.float64)


@pytest.mark.parametrize("seed", range(3))
def test_a_cycle_that_the_target_follows_is_taken(seed: int) -> None:
    rng = np.random.default_rng(seed)
    day = np.sin(turn(720, 1, 24)) + 0.5 * np.sin(2 * turn(720, 1, 24) + 1)
    assert chosen(times(720, 1), day + 0.3 * rng.normal(size=720)) == (Cycle.DAY,)
    assert chosen(times(720, 1), day + 0.01 * np.arange(720) + 0.3 * rng.normal(size=720)) == (Cycle.DAY,)
    weekend = np.where(np.arange(500) % 7 >= 5, 1.0, 0.0)
    assert chosen(times(500, 24), weekend + 0.3 * rng.normal(size=500)) == (Cycle.WEEK,)
    year = np.sin(turn(1100, 24, 24 * 365.25))
    assert chosen(times(1100, 24), year + 0.3 * rng.normal(size=1100)) == (Cycle.YEAR,)
    x = rng.uniform(size=(960, 1))
    mixed = x[:, 0] * np.sin(turn(960, 1, 24)) + x[:, 0] + 0.1 * rng.normal(size=960)
    assert chosen(times(960, 1), mixed, x) == (Cycle.DAY,)
    irregular = np.sort(rng.uniform(0, 24 * 70, 600))
    both = np.sin(2 * np.pi * irregular / 24) + np.where(irregular // 24 % 7 >= 5, 1.0, 0.0)
    micros = times(1, 1) + np.round(irregular * HOUR).astype(np.int64)
    assert chosen(micros, both + 0.2 * rng.normal(size=600)) == (Cycle.DAY, Cycle.WEEK)


@pytest.mark.parametrize("seed", range(3))
def test_a_target_without_cycles_has_none(seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert chosen(times(500, 24), 0.01 * np.arange(500) + 0.3 * rng.normal(size=500)) == ()
    assert chosen(times(600, 1), rng.normal(size=600)) == ()
    assert chosen(times(800, 1), np.cumsum(rng.normal(size=800))) == ()
    x = rng.uniform(-2, 2, (800, 1))
    assert chosen(times(800, 1), np.sin(2 * x[:, 0]) + 0.2 * rng.normal(size=800), x) == ()


def test_a_cycle_that_another_column_tells_already_is_not_taken() -> None:
    rng = np.random.default_rng(0)
    hours = np.arange(720) % 24
    level = (hours[:, np.newaxis] == np.arange(24)).astype(np.float64)
    y = np.sin(2 * np.pi * hours / 24) + 0.1 * rng.normal(size=720)
    assert chosen(times(720, 1), y) == (Cycle.DAY,)
    assert chosen(times(720, 1), y, level) == ()


def test_too_few_rows_or_periods_to_tell() -> None:
    day = np.sin(turn(720, 1, 24))
    assert chosen(times(39, 4), day[::4][:39]) == ()
    assert chosen(times(60, 1), day[:60]) == ()  # two and a half days
    assert chosen(times(100, 24 * 30), np.sin(turn(100, 24 * 30, 24 * 7))) == ()  # a week that nobody sees
    assert chosen(np.zeros(100, dtype=np.int64), day[:100]) == ()


def test_order_of_rows_and_repetition_change_nothing() -> None:
    rng = np.random.default_rng(1)
    y = np.sin(turn(400, 1, 24)) + 0.2 * rng.normal(size=400)
    mixed = rng.permutation(400)
    assert chosen(times(400, 1)[mixed], y[mixed]) == chosen(times(400, 1), y) == (Cycle.DAY,)
    assert subsample_rows(5_000).tolist() == subsample_rows(5_000).tolist()
    assert len(subsample_rows(5_000)) == 3_000
    assert subsample_rows(7).tolist() == list(range(7))


def test_a_table_takes_them_in_and_tells_it() -> None:
    rng = np.random.default_rng(2)
    when = [(datetime(2022, 1, 3) + timedelta(hours=hour)).isoformat() for hour in range(480)]
    y = np.sin(turn(480, 1, 24)) + 0.1 * rng.normal(size=480)
    table = from_columns({"when": when, "x": rng.uniform(size=480).tolist(), "y": y.tolist()})
    schema, prepared = fit_schema(table)
    assert schema.group_names == ("when", "when (day)", "x")
    (told,) = prepared.warnings
    assert told.startswith("column 'when': where in the day a row is was taken in, which saves 9")
    assert 'say "dates": "elapsed"' in told
    assert fit_schema(table, dates="elapsed")[0].group_names == ("when", "x")
    assert fit_schema(table, dates="cyclic")[0].group_names == ("when", "when (day)", "when (week)", "when (year)", "x")
    gaps = from_columns({"when": [None, *when[1:]], "y": [*y.tolist()[:-1], None]})
    assert fit_schema(gaps, missing="impute")[0].features[0].cycles == (Cycle.DAY,)
    assert fit_schema(gaps, missing="drop")[0].features[0].cycles == (Cycle.DAY,)
