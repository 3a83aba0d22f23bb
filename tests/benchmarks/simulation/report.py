"""What a simulated training takes, as Markdown: measured parts, assumptions, scenarios, and what limits next."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from tests.benchmarks.simulation.events import simulate
from tests.benchmarks.simulation.parts import MeasuredSum, Parts
from tests.benchmarks.simulation.plan import BEYOND, Planned
from tests.benchmarks.simulation.steps import Hardware, Kind, Loss, Serial, Simulated, Step, Stragglers, work_of

PLANNED_ROWS = 100_000_000
TARGET_SECONDS = 240.0
GIGABIT = 1e9 / 8.0
HARDWARE = Hardware(machines=32, cores=16, link=10.0 * GIGABIT, disk=1e9, latency=2e-4)
STRAGGLERS = Stragglers(share=0.02, least=3.0, tail=1.5, most=30.0)
SEEDS = range(9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A cluster, its stragglers, whether a machine is lost and that is known at once, how many times as long all takes
    that a core of the cluster does, and how many times smaller the pieces of a long sum are than they are now."""

    name: str
    hardware: Hardware = HARDWARE
    stragglers: Stragglers | None = STRAGGLERS
    loses: bool = True
    known_at_once: bool = False
    slower: float = 1.0
    finer: float = 1.0


ASKED = Scenario(name="with stragglers and one machine lost")
SCENARIOS = (
    ASKED,
    Scenario(name="the same, its loss known at once", known_at_once=True),
    Scenario(name="no machine lost", loses=False),
    Scenario(name="no stragglers", stragglers=None),
    Scenario(name="no stragglers, no machine lost", stragglers=None, loses=False),
    Scenario(name="16 machines", hardware=replace(HARDWARE, machines=16)),
    Scenario(name="64 machines", hardware=replace(HARDWARE, machines=64)),
    Scenario(name="network and file server without limits", hardware=replace(HARDWARE, link=1e18, disk=1e18)),
    Scenario(name="network and file server a tenth as fast", hardware=replace(HARDWARE, link=GIGABIT, disk=1e8)),
    Scenario(name="pieces of the pass over all rows four times as large", finer=0.25),
    Scenario(name="pieces of the pass over all rows a quarter as large", finer=4.0),
    Scenario(name="cores half as fast where all 16 are busy", slower=2.0),
)


def run(scenario: Scenario, planned: Planned, seed: int) -> tuple[list[Step], Simulated]:
    """Return the steps of a scenario and one run of it; a machine is lost in the middle of the pass over all rows."""
    hardware = scenario.hardware
    planned = replace(planned, piece_work=planned.piece_work / scenario.finer)
    steps = [slowed(step, scenario.slower) for step in planned.steps(hardware)]
    found = simulate(steps, hardware, stragglers=scenario.stragglers, seed=seed)
    if not scenario.loses:
        return steps, found
    begin, end = next(span for step, span in zip(steps, found.steps, strict=True) if step.name == BEYOND)
    loss = Loss(machine=0, at=0.5 * (begin + end), detection=0.0 if scenario.known_at_once else planned.parts.detection)
    return steps, simulate(steps, hardware, stragglers=scenario.stragglers, loss=loss, seed=seed)


def slowed(step: Step, times: float) -> Step:
    """Return a step whose tasks take so many times as long."""
    if isinstance(step, Serial):
        return step
    tasks = [replace(task, seconds=times * task.seconds) for task in step.tasks]
    return replace(step, tasks=tasks, start=times * step.start)


def report(parts: Parts, rows: int = PLANNED_ROWS, seeds: Sequence[int] = SEEDS) -> None:
    """Print Markdown."""
    planned = Planned(parts=parts, rows=rows)
    _measured(parts)
    _assumed(parts.detection)
    asked = sorted((run(ASKED, planned, seed) for seed in seeds), key=lambda each: each[1].seconds)
    _steps(*asked[len(asked) // 2], rows)
    print(f"\n| {rows:,} rows, {len(seeds)} seeds | median, s | least, s | most, s |\n|---|---|---|---|")
    for scenario in SCENARIOS:
        seconds = [run(scenario, planned, seed)[1].seconds for seed in seeds]
        print(f"| {scenario.name} | {median(seconds):.0f} | {min(seconds):.0f} | {max(seconds):.0f} |", flush=True)
    met = sum(found.seconds < TARGET_SECONDS for _, found in asked)
    print(
        f"\nThe target, under {TARGET_SECONDS:.0f} s with stragglers and one machine lost, is met in {met} of "
        f"{len(asked)} runs."
    )


def _measured(parts: Parts) -> None:
    read = parts.reading
    print(
        f"\nMeasured on one core in processor seconds: {parts.rows:,} rows, p = {parts.columns}, d = {parts.size}, of "
        f"which a sample of {parts.sample:,}.\n\n| tasks | how often | rows | shards | us a row | s, all | MB shared "
        "| MB an answer | ms to add two |\n|---|---|---|---|---|---|---|---|---|"
    )
    print(
        f"| reading: decode, encode, write | 1 | {read.rows:,} | {read.parts} | {1e6 * read.seconds:.2f} | "
        f"{read.seconds * read.rows:.1f} | | | |"
    )
    for found in _grouped(parts.sums):
        first, rows, seconds = found[0], sum(sum(each.rows) for each in found), sum(sum(each.seconds) for each in found)
        where = ", beyond the sample" if first.beyond else ""
        print(
            f"| {first.phase}: {first.name}, {first.size} columns{where} | {len(found)} | {sum(first.rows):,} | "
            f"{len(first.shards)} | {1e6 * seconds / rows:.2f} | {seconds:.1f} | {1e-6 * first.shared:.2f} | "
            f"{1e-6 * first.answer:.2f} | {1e3 * median(each.add for each in found):.1f} |"
        )
    for work in parts.mapped:
        print(
            f"| {work.phase}: {work.name} | 1 | | {len(work.seconds)} | | {sum(work.seconds):.1f} | "
            f"{1e-6 * median(work.requests):.2f} | {1e-6 * median(work.answers):.2f} | |"
        )
    print("\n| the job's process, until it gives the next thing away | times | s |\n|---|---|---|")
    for phase in dict.fromkeys(gap.phase for gap in parts.gaps):
        gaps = [gap.seconds for gap in parts.gaps if gap.phase == phase]
        print(f"| {phase} | {len(gaps)} | {sum(gaps):.1f} |")
    _others_measured(parts)


def _others_measured(parts: Parts) -> None:
    messages, telling = parts.messages, max((each.telling for each in parts.sums), default=0.0)
    others = {
        "the job's process, for each row of the table": f"{1e9 * parts.counted:.0f} ns",
        "what it leaves of each row": f"{parts.written:.1f} bytes",
        "the table's file": f"{parts.file:.1f} bytes a row",
        "its shards": f"{parts.reading.written:.1f} bytes a row",
        "a call of a process that sums, at the caller": f"{1e3 * messages.call:.1f} ms",
        "the same there, beside its sum": f"{1e3 * messages.called:.1f} ms",
        "a task handed out by the scheduler": f"{1e3 * messages.task:.1f} ms",
        "to tell a process of a shard": f"{1e6 * telling:.0f} us",
        "a process that loads the code": f"{parts.imports:.1f} s",
        "before the training, not counted: the upload parsed and fitted": f"{1e6 * parts.taken_in:.1f} us a row",
    }
    print("\n| other parts | |\n|---|---|")
    for name, value in others.items():
        print(f"| {name} | {value} |")


def _grouped(sums: Sequence[MeasuredSum]) -> list[list[MeasuredSum]]:
    found: dict[tuple[str, str, bool, int], list[MeasuredSum]] = {}
    for each in sums:
        found.setdefault((each.phase, each.name, each.beyond, sum(each.rows)), []).append(each)
    return list(found.values())


def _assumed(detection: float) -> None:
    hardware, slow = HARDWARE, STRAGGLERS
    assumed = {
        "cluster": f"{hardware.machines} machines of {hardware.cores} such cores, a process on each, none slows others",
        "links": f"{hardware.link / GIGABIT:.0f} Gbit/s each way for each machine, the job's and the file server; "
        "first come, first served",
        "file server": f"a disk of {1e-9 * hardware.disk:.0f} GB/s",
        "a message": f"{1e3 * hardware.latency:.1f} ms beside its bytes",
        "stragglers": f"{slow.share:.0%} of the tasks take {slow.least:.0f} times as long or more (Pareto, exponent "
        f"{slow.tail}, at most {slow.most:.0f} times); none is started a second time",
        "the lost machine": "falls silent in the middle of the pass over all rows; known after "
        f"{detection:.0f} s, Dask's limit for connections (`distributed.comm.timeouts.tcp`)",
        "the job's process": "one core, no straggler, no loss",
    }
    print("\n| assumed | |\n|---|---|")
    for name, value in assumed.items():
        print(f"| {name} | {value} |")


def _steps(steps: Sequence[Step], found: Simulated, rows: int) -> None:
    """Print where the time of one run went."""
    print(f"\nOf the median run, {found.seconds:.0f} s for {rows:,} rows:\n\n| step | times | s of one core | s |")
    print("|---|---|---|---|")
    for name in dict.fromkeys(step.name for step in steps):
        places = [place for place, step in enumerate(steps) if step.name == name]
        alone = sum(work_of(steps[place]) for place in places)
        taken = sum(found.steps[place][1] - found.steps[place][0] for place in places)
        print(f"| {name} | {len(places)} | {alone:.1f} | {taken:.1f} |")
    print("\n| critical path | s |\n|---|---|")
    path: dict[Kind, float] = {}
    for (_, kind), seconds in found.path.items():
        path[kind] = path.get(kind, 0.0) + seconds
    for kind, seconds in sorted(path.items(), key=lambda each: -each[1]):
        print(f"| {kind} | {seconds:.1f} |")
    print("\n| resource | busy |\n|---|---|")
    for resource, share in sorted(found.utilisation.items(), key=lambda each: -each[1]):
        print(f"| {resource} | {share:.1%} |")
