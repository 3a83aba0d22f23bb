"""The simulation of a cluster: limits that are known, conservation of work, and what a loss and stragglers may do."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.benchmarks.simulation.events import simulate
from tests.benchmarks.simulation.steps import Hardware, Kind, Loss, Serial, Spread, Step, Stragglers, Task, work_of

IDEAL = Hardware(machines=1, cores=1, link=np.inf, disk=np.inf)
REAL = Hardware(machines=4, cores=2, link=1e6, disk=2e6, latency=1e-3)
SLOW = Stragglers(share=0.2, least=3.0, tail=1.5, most=30.0)

seconds = st.floats(0.01, 5.0)


def spread(times: Sequence[float], **options: object) -> Spread:
    """A step whose tasks read, write and answer something."""
    tasks = [
        Task(seconds=each, reads={place % 5: 1e5, ("own", place): 3e5}, writes=2e5, answer=1e5)
        for place, each in enumerate(times)
    ]
    step = Spread(name="sum", tasks=tasks, shared=5e4, dispatch=1e-3, add=2e-3)
    return replace(step, **options)  # type: ignore[arg-type]


def training(times: Sequence[float]) -> list[Step]:
    return [
        Serial(name="before", seconds=1.0),
        spread(times, start=0.5),
        spread(times[:3], fixed=True, direct=True, told="rows", tell=1e4, telling=1e-3),
        Serial(name="between", seconds=0.5, writes=1e6),
        spread(times[:3], fixed=True, direct=True, told="rows", tell=1e4, telling=1e-3),
    ]


def work(steps: Sequence[Step]) -> float:
    return sum(work_of(step) for step in steps)


@settings(deadline=None, max_examples=30)
@given(times=st.lists(seconds, min_size=1, max_size=12))
def test_one_core_without_messages_takes_the_sum_of_the_parts(times: list[float]) -> None:
    tasks = [Task(seconds=each) for each in times]
    steps: list[Step] = [Serial(name="a", seconds=1.5), Spread(name="b", tasks=tasks), Serial(name="c", seconds=0.5)]
    assert simulate(steps, IDEAL).seconds == pytest.approx(work(steps))


def test_one_core_with_one_task_at_a_time_takes_every_part_of_each() -> None:
    hardware = Hardware(machines=1, cores=1, link=1e6, disk=5e5, latency=0.25)
    step = spread([1.0, 2.0, 3.0], ahead=1, start=0.75, told="rows", tell=1e5, telling=0.125)
    found = simulate([step], hardware)
    once = 0.75 + 0.125 + 0.1 + 0.125  # the start, the telling, its bytes, and adding below
    each = 0.001 + 0.05 + 0.4 / 0.5 + 0.2 / 0.5 + 0.1 + 4 * 0.25
    assert found.seconds == pytest.approx(6.0 + 3 * each + once - 0.125 + 0.002)
    assert sum(found.path.values()) == pytest.approx(found.seconds)


@settings(deadline=None, max_examples=30)
@given(times=st.lists(seconds, min_size=1, max_size=40), machines=st.integers(1, 5), cores=st.integers(1, 3))
def test_without_messages_and_stragglers_the_bounds_of_list_scheduling_hold(
    times: list[float], machines: int, cores: int
) -> None:
    """Graham 1969: at most twice the best, less one part in so many cores."""
    step = Spread(name="sum", tasks=[Task(seconds=each) for each in times], ahead=1)
    found = simulate([step], replace(IDEAL, machines=machines, cores=cores)).seconds
    best = max(*times, sum(times) / (machines * cores)) if len(times) > 1 else times[0]
    assert best - 1e-9 <= found <= (2.0 - 1.0 / (machines * cores)) * best + 1e-9


@settings(deadline=None, max_examples=30)
@given(times=st.lists(seconds, min_size=3, max_size=30), seed=st.integers(0, 99), share=st.floats(0.05, 0.95))
def test_work_is_conserved_and_the_path_is_the_whole_time(times: list[float], seed: int, share: float) -> None:
    steps = training(times)
    undisturbed = simulate(steps, REAL, stragglers=SLOW, seed=seed)
    loss = Loss(machine=1, at=share * undisturbed.seconds, detection=0.5)
    useful = sum(work_of(step) for step in steps if isinstance(step, Spread))
    for found in (undisturbed, simulate(steps, REAL, stragglers=SLOW, loss=loss, seed=seed)):
        assert found.useful == pytest.approx(useful)
        assert found.computed >= useful - 1e-9
        assert sum(found.path.values()) == pytest.approx(found.seconds)
        assert min(found.path.values()) >= -1e-9
        assert all(0.0 <= each <= 1.0 + 1e-9 for each in found.utilisation.values())
        assert found.steps[0][0] == 0.0
        assert found.steps[-1][1] == found.seconds
        assert all(first[1] == second[0] for first, second in pairwise(found.steps))


@settings(deadline=None, max_examples=40)
@given(times=st.lists(seconds, min_size=1, max_size=30), at=st.floats(0.0, 20.0), detection=st.floats(0.0, 3.0))
def test_a_lost_machine_never_makes_it_faster(times: list[float], at: float, detection: float) -> None:
    """Of tasks that wait for nothing but a core, each on the first that is free."""
    step = Spread(name="sum", tasks=[Task(seconds=each) for each in times], ahead=1)
    hardware = replace(IDEAL, machines=3, cores=2)
    loss = Loss(machine=2, at=at, detection=detection)
    assert simulate([step], hardware, loss=loss).seconds >= simulate([step], hardware).seconds - 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_a_loss_and_stragglers_make_a_training_slower(seed: int) -> None:
    steps = training([1.0, 1.2, 0.7] * 8)
    plain, slow = simulate(steps, REAL), simulate(steps, REAL, stragglers=SLOW, seed=seed)
    loss = Loss(machine=0, at=0.5 * sum(plain.steps[1]), detection=6.0)
    lost = simulate(steps, REAL, loss=loss)
    assert slow.seconds > plain.seconds
    assert lost.seconds > plain.seconds + 1.0
    assert lost.computed > plain.computed
    assert {kind for _, kind in lost.path} >= {Kind.LOST, Kind.DETECTION}


def test_equal_seeds_give_equal_runs_and_others_do_not() -> None:
    steps, loss = training([1.0] * 40), Loss(machine=3, at=4.0, detection=0.1)
    runs_of = [simulate(steps, REAL, stragglers=SLOW, loss=loss, seed=seed) for seed in (1, 1, 2)]
    assert runs_of[0] == runs_of[1]
    assert runs_of[0].seconds != runs_of[2].seconds


def test_without_limits_of_the_network_only_cores_count() -> None:
    """Eight equal tasks on eight cores: one after the start, whatever they read and send."""
    fast = replace(REAL, link=np.inf, disk=np.inf, latency=0.0)
    found = simulate([spread([2.0] * 8, dispatch=0.0, add=0.0)], fast)
    assert found.seconds == pytest.approx(2.0)
    assert found.utilisation["cores of the cluster"] == pytest.approx(1.0)


def test_a_link_that_all_need_is_the_limit() -> None:
    """Answers of all tasks go over the one link of the job's machine."""
    tasks = [Task(seconds=0.1, answer=1e6) for _ in range(40)]
    found = simulate([Spread(name="sum", tasks=tasks)], replace(REAL, latency=0.0))
    assert found.seconds == pytest.approx(40.0 + 0.1)
    assert found.utilisation["link of the job's machine, in"] > 0.99
    assert found.path[0, Kind.MESSAGE] == pytest.approx(40.0)


def test_files_are_read_once_by_the_process_that_has_the_task_each_time() -> None:
    step = Spread(name="sum", tasks=[Task(seconds=1.0, reads={"rows": 1e6})] * 8, fixed=True)
    first, second = (end - begin for begin, end in simulate([step, step], replace(REAL, latency=0.0)).steps)
    assert first > 1.4
    assert second == pytest.approx(1.0)


def test_a_machine_that_is_lost_before_is_not_used_once_that_is_known() -> None:
    steps: list[Step] = [Serial(name="before", seconds=3.0), spread([1.0] * 30)]
    known = simulate(steps, REAL, loss=Loss(machine=0, at=1.0, detection=1.0))
    unknown = simulate(steps, REAL, loss=Loss(machine=0, at=1.0, detection=30.0))
    assert known.computed == pytest.approx(30.0)
    assert not {Kind.LOST, Kind.DETECTION} & {kind for _, kind in known.path}
    assert unknown.seconds > 31.0 > known.seconds
    with pytest.raises(ValueError, match="only machine"):
        simulate(steps, IDEAL, loss=Loss(machine=0, at=1.0, detection=1.0))


def test_stragglers_have_the_share_and_the_tail_that_were_asked() -> None:
    found = np.array(SLOW.factors((0, 1), 5_000))
    slow = found[found > 1.0]
    assert len(slow) / len(found) == pytest.approx(0.2, abs=0.02)
    assert slow.min() >= 3.0
    assert slow.max() == 30.0
    assert np.mean(slow > 6.0) == pytest.approx(0.5**1.5, abs=0.05)
