"""core/train/local_coverage.py: parts of the left-out rows counted one by one, and alarms that are none by chance."""

import json

import numpy as np
import pytest
from scipy import stats

from core.arrays import BoolArray, FloatArray, IntArray
from core.data import Dataset
from core.spec import Adaptation, Noise, TrainSpec
from core.train.local_coverage import LEAST_ROWS, LocalCoverage, local_coverage
from core.train.run import train

NAMES = ["x", "z", "kind"]


def coverage(
    x: FloatArray, inside: BoolArray, *, levels: IntArray | None = None, groups: IntArray | None = None
) -> LocalCoverage:
    """Columns x and z, of which z does not matter, and a category of three levels."""
    kind = np.eye(3)[np.zeros(len(x), np.int64) if levels is None else levels]
    inputs = np.column_stack((x, np.zeros(len(x)), kind))
    dataset = Dataset(
        inputs=inputs,
        targets=np.arange(len(x), dtype=np.float64),
        groups=np.array([0, 1, 2, 2, 2]),
        indicator=np.array([False, False, True, True, True]),
    )
    return local_coverage(inputs, inside, 1.0 + x, dataset, np.array([1.0, 50.0, 2.0]), groups)


def test_parts_are_those_counted_by_hand() -> None:
    x = np.arange(200.0)
    inside = np.ones(200, bool)
    inside[[3, 7, 60, *range(150, 190)]] = False
    levels, groups = np.where(x < 120, 0, 2), (x // 50).astype(np.int64)
    found = coverage(x, inside, levels=levels, groups=groups)
    counted = {(part.by, part.lowest, part.highest): (part.rows, part.covered) for part in found.parts}
    quarters = {(50 * k, 50 * k + 49): (50, int(inside[50 * k : 50 * k + 50].sum())) for k in range(4)}
    expected: dict[tuple[str, float, float], tuple[int, int]] = {
        **{("std", 1.0 + low, 1.0 + high): value for (low, high), value in quarters.items()},
        **{("column", low, high): value for (low, high), value in quarters.items()},
        ("level", 0.0, 0.0): (120, 117),
        ("level", 2.0, 2.0): (80, 40),
        **{("group", k, k): value for k, value in enumerate(quarters.values())},
    }
    assert counted == expected
    worst = found.worst
    assert worst is not None
    assert (worst.rows, worst.covered) == (50, 10)
    assert worst.chance == pytest.approx(stats.binom.cdf(10, 50, 0.95), rel=1e-9)
    said = found.sentence(NAMES)
    assert said == (
        "of 50 left-out rows with a predicted std from 151 to 200 10 (20.0%) are inside of their 95% intervals: "
        "fewer than chance would have it"
    )
    assert found.sentence(NAMES, ["a", "b", "c", "d"]) == said  # the worst part need not be a group
    document = json.loads(json.dumps(found.to_json(NAMES), allow_nan=False))
    assert (document["level"], document["alarming"], document["worst"]) == (0.95, True, said)
    assert {part["column"] for part in document["parts"]} == {None, "x", "kind"}
    assert document["parts"][3]["coverage"] == 0.2


def test_intervals_that_hold_raise_no_alarm() -> None:
    """One table in fifty may, at most: of 400 tables that is 8, and 18 are three standard deviations more."""
    random = np.random.default_rng(0)
    alarms = [coverage(random.normal(size=300), random.uniform(size=300) < 0.95).alarming for _ in range(400)]
    assert sum(alarms) <= 18


def test_intervals_that_fail_in_one_quarter_do() -> None:
    random = np.random.default_rng(1)
    for _ in range(20):
        x = random.uniform(size=600)
        found = coverage(x, random.uniform(size=600) < np.where(x < 0.25, 0.75, 0.97))
        assert found.alarming
        assert found.worst is not None
        assert found.worst.lowest < 1.1


def test_few_rows_and_ties_make_fewer_parts() -> None:
    assert coverage(np.arange(LEAST_ROWS - 1.0), np.ones(LEAST_ROWS - 1, bool)).parts == ()
    assert coverage(np.arange(19.0), np.ones(19, bool)).sentence(NAMES) is None
    tied = coverage(np.repeat([0.0, 1.0], 100), np.ones(200, bool))
    assert [part.rows for part in tied.parts if part.by == "column"] == [100, 100]


def test_a_report_tells_where_constant_noise_fails() -> None:
    """Noise of 1 in a quarter and .1 in the others: a constant one leaves out a fifth of the rows there."""
    random = np.random.default_rng(2)
    x = random.uniform(0.0, 10.0, size=(600, 1))
    y = np.where(x[:, 0] < 7.5, 0.1, 1.0) * random.normal(size=600) + 3.0 * np.sin(x[:, 0])
    spec = TrainSpec(basis_size=15, noise=Noise.CONSTANT, adaptation=Adaptation(rounds=1, steps=10))
    found = train(Dataset(inputs=x, targets=y), spec).report
    local = found.local_coverage
    assert local.alarming
    worst = min((part for part in local.parts if part.by == "column"), key=lambda part: part.covered / part.rows)
    assert worst.lowest > 6.0
    assert worst.covered / worst.rows < 0.9
    inside = sum(part.covered for part in local.parts if part.by == "std") / sum(
        part.rows for part in local.parts if part.by == "std"
    )
    assert inside == pytest.approx(0.95, abs=0.01)  # in all they are right
    assert found.to_json()["local_coverage"]["worst"].startswith("of 150 left-out rows with 'feature 0' from ")
