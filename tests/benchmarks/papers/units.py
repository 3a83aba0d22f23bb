"""Units of work that are done once: each is a file when it is done, and a run that was cut off does the others.

A unit is a function of this package and its arguments; what it returns is JSON. Units are independent: joblib runs as
many at once as there are cores, each with one thread (so that seconds of one thread can be compared), or gives them to
a Dask scheduler. A file is found again by the unit's name and arguments, not by the code: `--fresh` forgets.
"""

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed, parallel_config
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from threadpoolctl import threadpool_limits

Found = dict[str, Any]
"""Result of a unit: numbers, strings, and lists of them, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """call(**arguments) -> Found, with a name that says which of them it is (`table-1/bank8FM/adapt-dmax/3`).

    weight: about how long it takes beside the others; the long ones go first, so that no core waits for the last.
    """

    name: str
    call: Callable[..., Found]
    arguments: Mapping[str, Any]
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The folder in which each finished unit is a JSON file."""

    folder: Path

    def found(self, unit: Unit) -> Found | None:
        """Result of a unit, or None if it has not been done."""
        try:
            found: Found = json.loads(self._file(unit).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return found

    def keep(self, unit: Unit, found: Found) -> None:
        """Whole or not at all, whenever the process ends."""
        file = self._file(unit)
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, suffix=".part", delete=False, encoding="utf-8") as part:
            json.dump(found, part)
        Path(part.name).replace(file)

    def _file(self, unit: Unit) -> Path:
        arguments = json.dumps([unit.call.__qualname__, dict(unit.arguments)], sort_keys=True)
        return self.folder / unit.name.replace("/", "__") / f"{sha256(arguments.encode()).hexdigest()[:16]}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """Executor of the units: processes of this machine, or the workers of a Dask scheduler."""

    processes: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    scheduler: str | None = None

    def results(self, units: Sequence[Unit]) -> Iterable[tuple[int, Found]]:
        """(number of the unit, what it returned), as they are finished. A unit that raises ends the run."""
        calls = (delayed(_done)(number, unit.call, dict(unit.arguments)) for number, unit in enumerate(units))
        if self.scheduler is None:
            yield from Parallel(n_jobs=self.processes, return_as="generator_unordered", batch_size=1)(calls)
            return
        from distributed import Client  # noqa: PLC0415  only where a scheduler is given

        with Client(self.scheduler), parallel_config(backend="dask"):
            yield from Parallel(n_jobs=-1, return_as="generator_unordered", batch_size=1)(calls)


def work_through(units: Sequence[Unit], ledger: Ledger, crew: Crew) -> dict[str, Found]:
    """Results of all units by name; those that are not in the ledger are done now, with a progress bar."""
    names = [unit.name for unit in units]
    if len(set(names)) != len(names):
        raise ValueError("two units have one name")
    everything = {unit.name: ledger.found(unit) for unit in units}
    missing = sorted((unit for unit in units if everything[unit.name] is None), key=lambda unit: -unit.weight)
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    with bars:
        bar = bars.add_task("units", total=len(units), completed=len(units) - len(missing))
        for number, found in crew.results(missing):
            ledger.keep(missing[number], found)
            everything[missing[number].name] = found
            bars.update(bar, advance=1, description=missing[number].name)
    return {name: found for name, found in everything.items() if found is not None}


def _done(number: int, call: Callable[..., Found], arguments: dict[str, Any]) -> tuple[int, Found]:
    """Run a unit with one thread; its processor seconds are added to the result."""
    with threadpool_limits(1):
        begin = time.process_time()
        found = call(**arguments)
        return number, {"seconds": time.process_time() - begin, **found}
