"""A measurement of few rows, run for real: what is written down is what the simulation knows, and adds up."""

import math
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from app.services.intake import large_table
from core.numeric import shards
from tests.benchmarks.sets import FOLDER
from tests.benchmarks.simulation.measure import SET, measure
from tests.benchmarks.simulation.parts import Gap, MappedWork, MeasuredSum, Reading
from tests.benchmarks.simulation.plan import Planned
from tests.benchmarks.simulation.report import SCENARIOS, run
from tests.benchmarks.simulation.steps import Serial, Spread

ROWS, SAMPLE, PLANNED = 20_000, 4_000, 1_000_000
COUNTED = 20_000, 2_000_000


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_is_measured_is_known_to_the_simulation_and_adds_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (FOLDER / f"{SET}.csv.gz").exists():
        pytest.skip(f"the set {SET} is not in {FOLDER}: PURSUIT_BENCHMARK_DATA names another folder")
    monkeypatch.setattr(shards, "SHARDED_ROWS", ROWS // 2)  # a table is very large from these on
    monkeypatch.setattr(large_table, "SAMPLE_ROWS", SAMPLE)
    begin = time.process_time()
    adapt = {"rounds": 1, "steps": 2}
    parts = measure(tmp_path, PLANNED, rows=ROWS, counted=COUNTED, size=20, adapt=adapt, effort="quick")
    taken = time.process_time() - begin
    kinds = [type(event) for event in parts.events]
    assert kinds.count(Reading) == 1
    assert {Gap, Reading, MeasuredSum} <= set(kinds) <= {Gap, Reading, MeasuredSum, MappedWork}
    assert kinds[0] is kinds[-1] is Gap

    assert (parts.rows, parts.size, parts.reading.rows) == (ROWS, 20, ROWS)
    assert parts.sample == pytest.approx(SAMPLE, rel=0.5)
    beyond = [each for each in parts.sums if each.beyond]
    assert beyond
    assert {sum(each.rows) for each in beyond} == {ROWS - parts.sample}
    assert all(sum(each.rows) <= parts.sample for each in parts.sums if not each.beyond)
    for each in parts.sums:
        lengths = {len(numbers) for numbers in (each.shards, each.rows, each.believed, each.seconds, each.read)}
        assert lengths == {len(each.shards)}
        assert min(*each.rows, *each.read, each.size, each.shared, each.answer, each.told) > 0, each.name
        assert min(*each.seconds, each.add, each.telling) >= 0.0, each.name
        assert sum(each.seconds) > 0.0, each.name
    for mapped in parts.mapped:
        assert min(*mapped.seconds, *mapped.requests, *mapped.answers) > 0.0, mapped.name

    read, messages = parts.reading, parts.messages
    numbers = asdict(read) | asdict(messages)
    numbers |= {name: getattr(parts, name) for name in ("file", "taken_in", "imports", "detection")}
    assert {name: number for name, number in numbers.items() if not 0.0 < number < math.inf} == {}
    assert parts.counted == pytest.approx(1e-7, abs=3e-7)  # a difference of two measurements
    assert abs(parts.written) < 0.1  # nothing is stored for each row
    gaps, sums = sum(gap.seconds for gap in parts.gaps), sum(sum(each.seconds) for each in parts.sums)
    mapped_seconds = sum(sum(mapped.seconds) for mapped in parts.mapped)
    assert min(gap.seconds for gap in parts.gaps) >= 0.0
    assert gaps + sums + mapped_seconds + ROWS * read.seconds < taken

    planned = Planned(parts=parts, rows=PLANNED)
    steps = planned.steps(SCENARIOS[0].hardware)
    assert len(steps) == len(parts.events) + 1  # and what grows with the table
    assert all(isinstance(step, Serial | Spread) for step in steps)
    serial = sum(step.seconds for step in steps if isinstance(step, Serial))
    assert serial == pytest.approx(gaps + max(parts.counted, 0.0) * (PLANNED - ROWS))
    for scenario in SCENARIOS[:3]:
        found = run(scenario, planned, 0)[1]
        assert found.seconds > serial
        assert sum(found.path.values()) == pytest.approx(found.seconds)
