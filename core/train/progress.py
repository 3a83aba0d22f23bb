"""Progress of a training run, and the state from which it can go on."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self
from warnings import WarningMessage


class Phase(StrEnum):
    """Phase of a run."""

    STARTING = "starting"
    SELECTING = "selecting"
    ADAPTING = "adapting"
    REFINING = "refining"
    FITTING = "fitting"
    CALIBRATING = "calibrating"
    EVALUATING = "evaluating"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """fraction: of the whole run, from 0 to 1, never falling. objective: the last value, or None before the first."""

    phase: Phase
    fraction: float
    round: int
    rounds: int
    basis_size: int
    objective: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """All that a run needs to go on after `round` completed rounds (0: the start is found).

    theta: log ARD weights, signal, bias, noise. indices: basis rows of the last round, rows of the dataset.
    gains: of those rows, None for a method that has none. basis: where the basis vectors moved to, raw units, once
    they have (the round after the last). kernel: its family.
    """

    round: int
    theta: tuple[float, ...]
    indices: tuple[int, ...] = ()
    objectives: tuple[float, ...] = ()
    warnings: tuple[str, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    basis: tuple[tuple[float, ...], ...] = ()
    gains: tuple[float | None, ...] = ()
    kernel: str = "gaussian"

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Restore what `dataclasses.asdict` and a JSON round trip made of one."""
        return cls(
            round=int(document["round"]),
            theta=tuple(float(value) for value in document["theta"]),
            indices=tuple(int(value) for value in document["indices"]),
            objectives=tuple(float(value) for value in document["objectives"]),
            warnings=tuple(str(value) for value in document["warnings"]),
            seconds={str(name): float(value) for name, value in document["seconds"].items()},
            basis=tuple(tuple(float(value) for value in vector) for vector in document["basis"]),
            gains=tuple(None if value is None else float(value) for value in document["gains"]),
            kernel=str(document.get("kernel", "gaussian")),  # of an older release
        )


Listener = Callable[[Progress | Checkpoint], None]


class Journal:
    """Tells the listener, and keeps seconds per phase, objectives and warnings for the report.

    caught: where Python's own warnings are collected meanwhile.
    """

    def __init__(self, listener: Listener | None, rounds: int, resume: Checkpoint | None) -> None:
        self._listener = listener
        self._rounds = rounds
        self._fraction = 0.0
        self.round = 0 if resume is None else resume.round
        self.basis_size = 0 if resume is None else len(resume.indices)
        self.objectives: list[float] = [] if resume is None else list(resume.objectives)
        self.warnings: list[str] = [] if resume is None else list(resume.warnings)
        self.seconds: dict[str, float] = {} if resume is None else dict(resume.seconds)
        self.caught: list[WarningMessage] = []
        self._phase = Phase.STARTING
        self._begin, self._end = 0.0, 1.0

    def beside(self, warnings: list[str]) -> "Journal":
        """Return a journal for another target of the same run, to which nobody listens. warnings: of all targets."""
        found = Journal(None, self._rounds, None)
        found.round, found.basis_size = self.round, self.basis_size
        found.objectives, found.warnings, found.seconds = list(self.objectives), list(warnings), dict(self.seconds)
        return found

    def part(self, begin: float, end: float) -> None:
        """Fractions that are told from now on are of this part of the run."""
        self._begin, self._end = begin, end

    @contextmanager
    def phase(self, phase: Phase, fraction: float) -> Iterator[None]:
        """Everything inside counts as `phase`, which begins at `fraction` of the run."""
        self._phase = phase
        self.tell(fraction)
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - begin

    def tell(self, fraction: float, objective: float | None = None) -> None:
        """Progress; the fraction never falls."""
        self._fraction = min(max(self._fraction, self._begin + (self._end - self._begin) * fraction), 1.0)
        if self._listener is not None:
            last = self.objectives[-1] if self.objectives else None
            self._listener(
                Progress(
                    phase=self._phase,
                    fraction=self._fraction,
                    round=self.round,
                    rounds=self._rounds,
                    basis_size=self.basis_size,
                    objective=last if objective is None else objective,
                )
            )

    def warn(self, message: str) -> None:
        """A sentence for the report, once."""
        if message not in self.warnings:
            self.warnings.append(message)

    def withdraw(self, beginning: str) -> None:
        """Take back what was said with this beginning."""
        self.warnings[:] = [message for message in self.warnings if not message.startswith(beginning)]

    def hear(self) -> None:
        """Numerical warnings so far become sentences of the report, and of the checkpoint."""
        while self.caught:
            self.warn(str(self.caught.pop(0).message))

    def save(
        self,
        *,
        theta: tuple[float, ...],
        indices: tuple[int, ...],
        gains: tuple[float | None, ...],
        basis: tuple[tuple[float, ...], ...],
        kernel: str,
    ) -> None:
        """A checkpoint after the current round."""
        if self._listener is not None:
            self._listener(
                Checkpoint(
                    round=self.round,
                    theta=theta,
                    indices=indices,
                    gains=gains,
                    basis=basis,
                    kernel=kernel,
                    objectives=tuple(self.objectives),
                    warnings=tuple(self.warnings),
                    seconds=dict(self.seconds),
                )
            )
