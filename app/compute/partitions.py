"""Passes over partitions by the processes of a cluster, each of which keeps what is made of the partitions it has had.

    a worker dies       others do its part, and make again what it kept
    the scheduler dies  what is missing of the pass is done if there is one again at once
    nobody is there     the pass is done by the process that asks, to the same bits (`core.numeric.partitions`), and the
                        next ones, until the cluster is there again

So a job never waits for a cluster because of them: a table that is not very large does not need one. What goes on is
the solver's: it is in the process that asks, and knows nothing of who has done a pass.
"""

import logging
import uuid
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from app.compute.members import Nodes, Summed
from app.errors import ComputeUnavailableError, TooLargeError
from core.numeric.shards import Part, Partitions

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 5.0
"""Seconds that a pass waits for a lost scheduler or worker, before it is done here."""


class Summing(Protocol):
    """What a cluster does for partitions."""

    def is_ready(self) -> bool:
        """Return whether there is a process that sums."""
        ...

    def total(self, asked: Summed, done: Nodes, *, patience: float | None = None) -> Any:
        """Return the sum; see `app.compute.cluster.Cluster.total`."""
        ...

    def forget(self, name: str) -> None:
        """Let the processes give back what they keep under a name."""
        ...


class SpreadPartitions:
    """Partitions that the processes of a cluster pass over; a `core.numeric.shards.Partitions`. What they keep is given
    back when this is."""

    def __init__(self, cluster: Summing, common: Any, partitions: Sequence[Any], cost: float, here: Partitions) -> None:
        """Prepare; nothing is sent before the first pass. Args as `core.numeric.shards.Compute.partitions` has them."""
        self._cluster, self._here = cluster, here
        self._common, self._partitions, self._cost = common, partitions, cost
        self._name = uuid.uuid4().hex
        self._too_large = False
        weakref.finalize(self, cluster.forget, self._name).atexit = False

    def total(
        self, work: Callable[[Any, Any, Any, Any], Part], shared: Any = None, own: Sequence[Any] | None = None
    ) -> Part:
        """See `core.numeric.shards.Partitions`. Raises what the work raises."""
        if self._too_large or not self._cluster.is_ready():
            return self._here.total(work, shared, own)
        asked = PartitionsSum(
            name=self._name,
            common=self._common,
            partitions=self._partitions,
            each=self._cost / len(self._partitions),
            work=work,
            shared=shared,
            own=own,
        )
        try:
            part: Part = self._cluster.total(asked, {}, patience=PATIENCE_SECONDS)
        except (ComputeUnavailableError, TooLargeError) as error:
            log.warning("%s: this pass is done here, to the same numbers", error)
            self._too_large = isinstance(error, TooLargeError)
            return self._here.total(work, shared, own)
        return part


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartitionsSum:
    """A pass over partitions, as `app.compute.members` divides it; each: multiply-adds of a partition."""

    name: str
    common: Any
    partitions: Sequence[Any]
    each: float
    work: Callable[..., Any]
    shared: Any
    own: Sequence[Any] | None

    @property
    def count(self) -> int:
        """Number of partitions."""
        return len(self.partitions)

    @property
    def stays(self) -> bool:
        """Return True: processes keep what they make."""
        return True

    def cost(self, places: range) -> float:
        """Return about how many multiply-adds a run of partitions takes."""
        return len(places) * self.each

    def call(self, known: dict[str, set[int]], places: range, threads: int) -> tuple[str, tuple[Any, ...]]:
        """Return the method of a process to call, and its arguments. known: partitions that it was told before, by
        name, to which these are added."""
        first = self.name not in known
        told = known.setdefault(self.name, set())
        new = {place: self.partitions[place] for place in places if place not in told}
        told.update(new)
        own = None if self.own is None else [self.own[place] for place in places]
        common = (self.common,) if first else None
        return "partitions_total", (self.name, common, new, places, self.work, self.shared, own, threads)
