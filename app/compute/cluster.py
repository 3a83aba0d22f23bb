"""A Dask cluster that adds up over shards of rows: passes that survive the loss of its workers and of its scheduler.

A pass is one graph: a task for what all share (the basis, factors), one for each shard, and a binary tree of additions.
Tasks are functions of `app.compute.shards` with arrays; results have the bits of `core.numeric.shards.tree_total`.

    a worker dies       Dask gives its tasks to others, which read its shards from the folder again
    the scheduler dies  the pass is begun again once there is one; after `patience` seconds ComputeAwayError, and the
                        job waits in the queue with its last checkpoint
    a file is gone      the shards are written again, and the pass is done again

Dask ships tasks and results between its own processes as pickles (`deploy/README.md`: who may reach its ports); nothing
of that is stored or comes from a request.
"""

import asyncio
import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import dask
import numpy as np
from dask.delayed import delayed
from distributed import CancelledError, Client, Future, KilledWorker
from distributed.comm.core import CommClosedError

from app.compute.folder import DamagedShardError, ShardFolder
from app.compute.shards import Shard, added, given, sum_shard
from app.errors import ComputeAwayError, TooLargeError
from core.arrays import IntArray
from core.data import Dataset, Standardization
from core.numeric.shards import Part, cuts_of

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 60.0
"""So long a pass waits for a scheduler or a worker."""
CONNECT_SECONDS, LOOK_SECONDS, PAUSE_SECONDS = 5.0, 2.0, 1.0
RESULT_SECONDS = 600.0
"""So long a result that is there may take to come."""
RETRIES = 2
"""Of a task that fails, and of a pass whose files are gone."""
TRIES = 5
"""Of a pass that loses its scheduler again and again."""
YOUNG_SECONDS = 3_600.0
"""So often the files of a training are made young again."""

_CONFIGURATION = {
    "distributed.comm.timeouts.connect": CONNECT_SECONDS,
    "distributed.admin.large-graph-warning-threshold": "1 GiB",  # what a pass shares may be some hundred MB
}
_LOST = (CancelledError, asyncio.CancelledError, CommClosedError, OSError, TimeoutError)
_GONE = (FileNotFoundError, DamagedShardError)


class _LostError(Exception):
    """No scheduler, or no worker."""


def dask_address(url: str) -> str:
    """Dask's own address of dask://host:port, or of dask+tls://host:port."""
    scheme, _, place = url.partition("://")
    return f"{'tls' if scheme == 'dask+tls' else 'tcp'}://{place}"


class Cluster:
    """The cluster of the scheduler at `address`; connects when it is first needed. See `core.numeric.shards.Compute`.

    TLS certificates and the like come from Dask's own configuration.
    """

    def __init__(self, address: str, folder: Path, *, patience: float = PATIENCE_SECONDS) -> None:
        self._address, self._path, self._patience = address, folder, patience
        self._folder = ShardFolder(folder)
        self._client: Client | None = None
        self._parts: tuple[Dataset, list[str]] | None = None

    def scatter(self, dataset: Dataset, numbers: IntArray, unit: Standardization) -> "SpreadRows":
        """See `core.numeric.shards.Compute`. Writes what is not there yet: the dataset once, and which rows are
        taken."""
        spread = SpreadRows(self, dataset, numbers, unit)
        spread.write()
        return spread

    def parts(self, dataset: Dataset, *, again: bool = False) -> list[str]:
        """The names of the dataset's shards, all of them there. again: written whatever is there."""
        known = self._parts is not None and self._parts[0] is dataset and self._folder.keep(self._parts[1])
        if self._parts is None or not known or again:
            cuts = pairwise(cuts_of(len(dataset.targets)).tolist())
            tables = (np.column_stack((dataset.inputs[a:b], dataset.targets[a:b])) for a, b in cuts)
            self._parts = dataset, [self._folder.put(table, again=again) for table in tables]
        return self._parts[1]

    def shards(self, dataset: Dataset, numbers: IntArray, unit: Standardization, *, again: bool = False) -> list[Shard]:
        """These rows of the dataset, shard by shard, all of them there; without those that have no row."""
        cuts, places = cuts_of(len(dataset.targets)), np.searchsorted(numbers, cuts_of(len(dataset.targets)))
        shards = []
        for part, (begin, end), (first, last) in zip(
            self.parts(dataset, again=again), pairwise(cuts.tolist()), pairwise(places.tolist()), strict=True
        ):
            if first == last:
                continue
            taken = np.zeros(end - begin, np.bool_)
            taken[numbers[first:last] - begin] = True
            some = None if taken.all() else self._folder.put(taken, again=again)
            folder = str(self._path)
            shards.append(Shard(folder=folder, part=part, taken=some, unit=unit, groups=dataset.groups))
        return shards

    def keep(self, shards: Sequence[Shard]) -> None:
        """Makes the files young again."""
        self._folder.keep({name for shard in shards for name in (shard.part, shard.taken) if name is not None})

    def done(self, graph: Any) -> Any:
        """The value of a delayed object, begun again where the scheduler is lost.

        ComputeAwayError, TooLargeError; whatever a task raises.
        """
        for _ in range(TRIES):
            client = self._connected()
            try:
                return self._value(client, graph)
            except _LostError as error:
                log.warning("the scheduler is lost (%s); the pass begins again", error)
                self.close()
        raise ComputeAwayError(f"the cluster at {self._address} was lost {TRIES} times in one pass; the job waits")

    def close(self) -> None:
        """Lets go of the scheduler, which forgets what is not done."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(*_LOST):
                client.close(timeout=CONNECT_SECONDS)

    def _connected(self) -> Client:
        deadline = time.monotonic() + self._patience
        while self._client is None:
            try:
                with dask.config.set(_CONFIGURATION):
                    self._client = Client(self._address, timeout=CONNECT_SECONDS, set_as_default=False)
            except _LOST as error:
                if time.monotonic() >= deadline:
                    raise ComputeAwayError(
                        f"the cluster at {self._address} does not answer; the job waits for it ({_words(error)})"
                    ) from None
                time.sleep(PAUSE_SECONDS)
        return self._client

    def _value(self, client: Client, graph: Any) -> Any:
        try:
            future = client.compute(graph, retries=RETRIES, optimize_graph=False)
            self._wait(client, future)
            return future.result(timeout=RESULT_SECONDS)
        except KilledWorker as error:
            raise TooLargeError(
                f"several workers of the cluster died of one shard: it probably does not fit their memory ({error})"
            ) from None
        except _GONE:
            raise
        except _LOST as error:
            raise _LostError(_words(error)) from None

    def _wait(self, client: Client, future: Future[Any]) -> None:
        """Until it is done; ComputeAwayError where there is no worker for too long, _LostError without a scheduler."""
        over, seen = threading.Event(), time.monotonic()
        future.add_done_callback(lambda _: over.set())
        while not over.wait(LOOK_SECONDS):
            if client.status != "running":
                raise _LostError(f"the connection is {client.status}")
            if client.nthreads():
                seen = time.monotonic()
            if time.monotonic() - seen > self._patience:
                future.cancel()
                raise ComputeAwayError(f"the cluster at {self._address} has no workers; the job waits for them")


@dataclass(slots=True, eq=False)
class SpreadRows:
    """See `core.numeric.shards.ShardedRows`."""

    cluster: Cluster
    dataset: Dataset
    numbers: IntArray
    unit: Standardization
    shards: Sequence[Shard] = ()
    written: float = 0.0

    def write(self, *, again: bool = False) -> None:
        """Sees to it that all files are there. again: whatever is there now is wrong."""
        self.shards = self.cluster.shards(self.dataset, self.numbers, self.unit, again=again)
        self.written = time.monotonic()

    def total(self, work: Callable[[Any, Sequence[slice]], Part], size: int, least: int) -> Part:
        """See `core.numeric.shards.ShardedRows`. Raises what `Cluster.done` does."""
        if time.monotonic() - self.written > YOUNG_SECONDS:
            self.cluster.keep(self.shards)
            self.written = time.monotonic()
        tries = 0
        while True:
            try:
                part: Part = self.cluster.done(_graph(work, self.shards, size, least))
                return part
            except _GONE as error:
                tries += 1
                if tries > RETRIES:
                    raise ComputeAwayError(
                        f"the cluster's machines do not see the folder of shards ({error})"
                    ) from None
                log.warning("a shard is gone (%s); all are written again", error)
                self.write(again=True)


def _graph(work: Callable[[Any, Sequence[slice]], Part], shards: Sequence[Shard], size: int, least: int) -> Any:
    """One task for what all share, one for each shard, and a binary tree of additions."""
    number = uuid.uuid4().hex
    shared = delayed(given, pure=False, traverse=False)(work, dask_key_name=f"given-{number}")
    level = [
        delayed(sum_shard, pure=False, traverse=False)(
            shared, shard, size, least, dask_key_name=f"shard-{number}-{place}"
        )
        for place, shard in enumerate(shards)
    ]
    height = 0
    while len(level) > 1:
        pairs = [level[start : start + 2] for start in range(0, len(level), 2)]
        level = [
            pair[0]
            if len(pair) == 1
            else delayed(added, pure=False, traverse=False)(*pair, dask_key_name=f"add-{number}-{height}-{place}")
            for place, pair in enumerate(pairs)
        ]
        height += 1
    return level[0]


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
