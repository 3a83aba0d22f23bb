"""Watching predictions: samples of what is asked, counted in a thread of its own, added to the database now and then.

The event loop does no more than copy some rows: SAMPLE_NUMBERS of a request at most, and none while WAITING_NUMBERS
wait; all rows are counted as rows. What a process has not written yet is lost with it, FLUSH_SECONDS at most.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from app.database.engine import Database
from app.errors import UnavailableError
from app.services.monitoring.profile import TrainingProfile, target_profiles
from app.services.monitoring.summary import Summary
from app.services.predict.array_names import of_target
from app.services.predict.far_rows import FAR, SUPPORT
from app.services.predict.registry import ResolvedModel
from app.storage import monitoring
from core.arrays import FloatArray

log = logging.getLogger(__name__)

SAMPLE_NUMBERS = 1 << 14
WAITING_NUMBERS = 1 << 19
COUNT_SECONDS = 1.0
FLUSH_SECONDS = 15.0
MOST_SUMMARIES = 1_000
"""Versions and days that wait to be written while the database does not answer."""
MOST_PROFILES = 256

Key = tuple[str, int, str]
"""Model, version, day."""
Profiles = tuple[TrainingProfile | None, ...]
"""Of each target."""


@dataclass(slots=True, eq=False)
class _Sample:
    """means: of each target (t, k) for the inputs (k, p); rows: of all; near_prior: of each target, None: not known."""

    resolved: ResolvedModel
    inputs: FloatArray
    means: FloatArray
    rows: int
    near_prior: tuple[int | None, ...]


class Monitor:
    """Watcher of one API process. `observe` is for its event loop; `open` starts the thread, `close` ends it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._samples: deque[_Sample] = deque()
        self._taken_in = 0
        self._counted = 0
        self._summaries: dict[Key, Summary] = {}
        self._profiles: dict[tuple[str, int], Profiles] = {}
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="monitor", daemon=True)

    def open(self) -> None:
        """Start to count."""
        self._thread.start()

    def close(self) -> None:
        """Count and write what is left."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self.flush()

    def observe(self, resolved: ResolvedModel, inputs: FloatArray, arrays: Mapping[str, FloatArray]) -> None:
        """Take note of rows (m, p) and their predictions."""
        rows, columns = inputs.shape
        if not rows:
            return
        places = range(len(resolved.model.every_target))
        near_prior = tuple(_near_prior(arrays.get(of_target(SUPPORT, place))) for place in places)
        step = max(1, rows * columns // SAMPLE_NUMBERS)
        taken = slice(0) if self._taken_in - self._counted > WAITING_NUMBERS else slice(None, None, step)
        means = np.stack([arrays[of_target("mean", place)][taken] for place in places])
        sample = inputs[taken].copy()
        self._taken_in += sample.size + 1
        self._samples.append(_Sample(resolved, sample, means, rows, near_prior))

    def flush(self) -> None:
        """Count what waits, and add it to the database. While that does not answer the counts are kept."""
        with self._lock:
            self._count()
            if not self._summaries:
                return
            try:
                with self._database.write() as connection:
                    for (model, version, day), summary in self._summaries.items():
                        monitoring.add(connection, model, version, day, summary.to_json(), merge=_merged)
            except UnavailableError as error:
                log.warning("the summaries of predictions are not written yet: %s", error)
                while len(self._summaries) > MOST_SUMMARIES:
                    del self._summaries[next(iter(self._summaries))]
                return
            self._summaries.clear()

    def _run(self) -> None:
        flushed = time.monotonic()
        while not self._stop.wait(COUNT_SECONDS):
            try:
                if time.monotonic() - flushed >= FLUSH_SECONDS:
                    flushed = time.monotonic()
                    self.flush()
                else:
                    with self._lock:
                        self._count()
            except Exception:
                log.exception("predictions could not be summarised")

    def _count(self) -> None:
        by_model: dict[tuple[str, int], list[_Sample]] = {}
        while self._samples:
            sample = self._samples.popleft()
            self._counted += sample.inputs.size + 1
            by_model.setdefault((sample.resolved.name, sample.resolved.version), []).append(sample)
        day = datetime.now(UTC).date().isoformat()
        for (model, version), samples in by_model.items():
            summary = self._summaries.setdefault((model, version, day), Summary())
            summary.add(_summary_of(samples, self._profiles_of(samples[0].resolved)))

    def _profiles_of(self, resolved: ResolvedModel) -> Profiles:
        key = resolved.name, resolved.version
        if key not in self._profiles:
            if len(self._profiles) >= MOST_PROFILES:
                self._profiles.clear()
            stored = [(each.schema, each.profile) for each in resolved.model.every_target]
            self._profiles[key] = target_profiles(stored)
        return self._profiles[key]


def _near_prior(support: FloatArray | None) -> int | None:
    return None if support is None else int(np.count_nonzero(support >= FAR))


def _summary_of(samples: list[_Sample], profiles: Profiles) -> Summary:
    inputs = np.concatenate([sample.inputs for sample in samples])
    means = np.concatenate([sample.means for sample in samples], axis=1)
    first, *others = (
        _target_summary(samples, place, profile, inputs, means[place], profiles[0])
        for place, profile in enumerate(profiles)
    )
    first.others = others
    first.counted = len(inputs) if any(profile is not None for profile in profiles) else 0
    return first


def _target_summary(
    samples: list[_Sample],
    place: int,
    profile: TrainingProfile | None,
    inputs: FloatArray,
    means: FloatArray,
    first: TrainingProfile | None,
) -> Summary:
    """Counts of the target of a place; only the first's have the rows, and the columns where both have the same."""
    summary = Summary() if place else Summary(rows=sum(sample.rows for sample in samples))
    for sample in samples:
        near_prior = sample.near_prior[place]
        if near_prior is not None:
            summary.known += sample.rows
            summary.near_prior += near_prior
    if profile is not None and len(inputs):
        if not place or first is None or profile.columns is not first.columns:
            summary.columns = profile.count(inputs)
        summary.means = profile.target.count(means, np.isnan(means)).tolist()[-len(profile.target.shares) :]
    return summary


def _merged(stored: Mapping[str, object], new: Mapping[str, object]) -> dict[str, object]:
    summary = Summary.from_json(stored)
    summary.add(Summary.from_json(new))
    return summary.to_json()
