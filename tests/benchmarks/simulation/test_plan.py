"""Steps of a simulated training: what is measured is there as often as it was, and by the row where it counts so."""

from dataclasses import replace

import numpy as np
import pytest

from tests.benchmarks.simulation.events import simulate
from tests.benchmarks.simulation.parts import Gap, MappedWork, MeasuredSum, Messages, Parts, Reading
from tests.benchmarks.simulation.plan import BEYOND, ROWS_OF_TABLE, Planned, piece_length, runs
from tests.benchmarks.simulation.report import SCENARIOS, Scenario, report, run
from tests.benchmarks.simulation.steps import Hardware, Serial, Spread, work_of

IDEAL = Hardware(machines=1, cores=1, link=np.inf, disk=np.inf)


def summed(shards: int, rows: int, *, beyond: bool, spread: int) -> MeasuredSum:
    return MeasuredSum(
        name="_first_pass",
        phase="adapting",
        shards=[f"{spread}-{place}" for place in range(shards)],
        beyond=beyond,
        rows=[rows] * shards,
        believed=[rows] * shards,
        seconds=[5e-6 * rows] * shards,
        read=[72.0 * rows] * shards,
        size=300,
        shared=1e6,
        answer=7e5,
        add=1e-3,
        spread=spread,
        told=300.0,
        telling=1e-5,
    )


PARTS = Parts(
    rows=400_000,
    columns=8,
    size=300,
    events=(
        Gap(phase="reading", seconds=0.5),
        Reading(parts=8, rows=400_000, largest=50_000, seconds=2e-6, written=72.0, answer=0.0, request=700.0),
        Gap(phase="adapting", seconds=2.0),
        summed(16, 3_125, beyond=False, spread=0),
        Gap(phase="fitting", seconds=1.0),
        summed(4, 50_000, beyond=True, spread=1),
        Gap(phase="publishing", seconds=3.0),
    ),
    sample=200_000,
    file=9.0,
    counted=1e-7,
    written=8.0,
    taken_in=1e-5,
    messages=Messages(call=2e-3, called=3e-3, task=1e-3),
    imports=1.5,
    detection=30.0,
)


def test_one_core_without_messages_takes_the_parts_by_their_rows() -> None:
    rows = 2_000_000
    found = simulate(Planned(parts=PARTS, rows=rows).steps(IDEAL), IDEAL).seconds
    by_row = rows * (2e-6 + 5e-6 + 1e-7) - PARTS.rows * 1e-7
    by_sample = 16 * 3_125 * 5e-6
    gaps = 0.5 + 2.0 + 1.0 + 3.0
    pieces = 40 / piece_length([50_000] * 40, 300)
    overhead = 1.5 + 40 * 1e-3 + (1 + pieces) * (2e-3 + 3e-3) + (15 + 39) * 1e-3 + (16 + 40) * 1e-5
    assert found == pytest.approx(by_row + by_sample + gaps + overhead, abs=0.1)  # handing out and adding beside tasks


def test_sums_over_the_sample_are_the_same_whatever_the_table_is() -> None:
    cluster = SCENARIOS[0].hardware
    small, large = (Planned(parts=PARTS, rows=rows).steps(cluster) for rows in (10**6, 10**8))
    assert [step.name for step in small] == [step.name for step in large]
    for first, second in zip(small, large, strict=True):
        if isinstance(first, Spread) and first.fixed:
            assert first == second
            assert len(first.tasks) == 16
        elif first.name in (BEYOND, ROWS_OF_TABLE):
            assert work_of(second) > 50.0 * work_of(first)
    assert isinstance(large[-1], Serial)
    assert large[-1].writes == pytest.approx(8.0 * (10**8 - PARTS.rows))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_scenario_ends_with_all_of_its_work(scenario: Scenario) -> None:
    planned = Planned(parts=PARTS, rows=20_000_000)
    steps, found = run(scenario, planned, 0)
    assert found.useful == pytest.approx(sum(work_of(step) for step in steps if isinstance(step, Spread)))
    assert sum(found.path.values()) == pytest.approx(found.seconds)


@pytest.mark.parametrize(("shards", "processes"), [(16, 512), (32, 512), (16, 3), (64, 64)])
def test_runs_cover_all_shards_evenly(shards: int, processes: int) -> None:
    found = runs(shards, processes)
    assert [place for run in found for place in run] == list(range(shards))
    assert len(found) == min(shards, processes)
    assert max(map(len, found)) - min(map(len, found)) <= 1


def test_pieces_are_of_the_work_that_a_process_may_lose() -> None:
    assert piece_length([32_768] * 3_052, 300) == 2
    assert piece_length([32_768] * 3_052, 2_000) == 1
    assert piece_length([10] * 12, 10) == 16


def test_a_report_has_every_scenario_and_the_target(capsys: pytest.CaptureFixture[str]) -> None:
    report(PARTS, rows=2_000_000, seeds=[0])
    printed = capsys.readouterr().out
    for scenario in SCENARIOS:
        assert f"| {scenario.name} | " in printed
    assert "is met in 1 of 1 runs" in printed


def test_parts_by_themselves_take_as_long_as_the_longest_where_there_is_room() -> None:
    mapped = MappedWork(
        name="_predicted_fold", phase="evaluating", seconds=[2.0, 3.0], requests=[1e6, 3e6], answers=[1e3, 1e3]
    )
    wide = Hardware(machines=2, cores=1, link=np.inf, disk=np.inf)
    with_it = replace(PARTS, events=(*PARTS.events[:-1], mapped, PARTS.events[-1]))
    for hardware, seconds in ((IDEAL, 5.0), (wide, 3.0)):
        before, after = (
            simulate(Planned(parts=parts, rows=10**6).steps(hardware), hardware).seconds for parts in (PARTS, with_it)
        )
        assert after - before == pytest.approx(seconds, abs=0.01)
    (step,) = [each for each in Planned(parts=with_it, rows=10**6).steps(IDEAL) if "by themselves" in each.name]
    assert isinstance(step, Spread)
    assert step.shared == 2e6
