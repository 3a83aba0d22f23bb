"""Sums over shards of rows on a Dask cluster, which survive the loss of its workers and of its scheduler.

A sum is one graph: a task for the shared input (the basis, factors), one for each shard, a binary tree of additions.
Tasks are functions of `app.compute.shards` with arrays; results have the bits of `core.numeric.shards.tree_total`.

    a worker dies       Dask gives its tasks to others, which read its shards from the folder again
    the scheduler dies  the sum is computed again once there is one; after `timeout` seconds ComputeUnavailableError,
                        and the job waits in the queue with its last checkpoint
    a file is missing   the shards are written again, and the sum is computed again

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
from app.compute.shards import Shard, add_parts, share_input, sum_shard
from app.errors import ComputeUnavailableError, TooLargeError
from core.arrays import IntArray
from core.data import Dataset, Standardization
from core.numeric.shards import Part, cuts_of

log = logging.getLogger(__name__)

CLUSTER_TIMEOUT_SECONDS = 60.0
"""Seconds that a sum waits for a scheduler or a worker."""
CONNECT_SECONDS, POLL_SECONDS, RECONNECT_SECONDS = 5.0, 2.0, 1.0
RESULT_SECONDS = 600.0
"""Seconds that the transfer of a finished result may take."""
MAX_RETRIES = 2
"""Retries of a task that fails, and of a sum whose files are missing."""
MAX_CONNECTIONS = 5
"""Schedulers that one sum may lose before its job goes back to the queue."""
SHARD_TOUCH_SECONDS = 3_600.0
"""Seconds after which a training renews the age of its shards."""

_CONFIGURATION = {
    "distributed.comm.timeouts.connect": CONNECT_SECONDS,
    "distributed.admin.large-graph-warning-threshold": "1 GiB",  # the shared input of a sum may be some hundred MB
}
_LOST_ERRORS = (CancelledError, asyncio.CancelledError, CommClosedError, OSError, TimeoutError)
_MISSING_ERRORS = (FileNotFoundError, DamagedShardError)


class _SchedulerLostError(Exception):
    """The connection to the scheduler is lost."""


def dask_address(url: str) -> str:
    """Convert dask://host:port or dask+tls://host:port to Dask's own form of an address."""
    scheme, _, place = url.partition("://")
    return f"{'tls' if scheme == 'dask+tls' else 'tcp'}://{place}"


class Cluster:
    """The cluster of the scheduler at `address`; connects when it is first needed; a `core.numeric.shards.Compute`.

    TLS certificates and the like come from Dask's own configuration.
    """

    def __init__(self, address: str, folder: Path, *, timeout: float = CLUSTER_TIMEOUT_SECONDS) -> None:
        self._address, self._path, self._timeout = address, folder, timeout
        self._folder = ShardFolder(folder)
        self._client: Client | None = None
        self._parts: tuple[Dataset, list[str]] | None = None

    def scatter(self, dataset: Dataset, numbers: IntArray, unit: Standardization) -> "SpreadRows":
        """Write the shards that are not there yet: the dataset once, and the mask of the rows; return their sums."""
        spread = SpreadRows(self, dataset, numbers, unit)
        spread.write()
        return spread

    def parts(self, dataset: Dataset, *, rewrite: bool = False) -> list[str]:
        """Return the names of the dataset's shards, after writing the missing ones. rewrite: write all of them."""
        known = self._parts is not None and self._parts[0] is dataset and self._folder.touch(self._parts[1])
        if self._parts is None or not known or rewrite:
            cuts = pairwise(cuts_of(len(dataset.targets)).tolist())
            tables = (np.column_stack((dataset.inputs[a:b], dataset.targets[a:b])) for a, b in cuts)
            self._parts = dataset, [self._folder.put(table, rewrite=rewrite) for table in tables]
        return self._parts[1]

    def shards(
        self, dataset: Dataset, numbers: IntArray, unit: Standardization, *, rewrite: bool = False
    ) -> list[Shard]:
        """Return the shards with these rows of the dataset, after writing the missing ones; none without a row."""
        cuts, places = cuts_of(len(dataset.targets)), np.searchsorted(numbers, cuts_of(len(dataset.targets)))
        shards = []
        for part, (begin, end), (first, last) in zip(
            self.parts(dataset, rewrite=rewrite), pairwise(cuts.tolist()), pairwise(places.tolist()), strict=True
        ):
            if first == last:
                continue
            selected = np.zeros(end - begin, np.bool_)
            selected[numbers[first:last] - begin] = True
            mask = None if selected.all() else self._folder.put(selected, rewrite=rewrite)
            folder = str(self._path)
            shards.append(Shard(folder=folder, part=part, mask=mask, unit=unit, groups=dataset.groups))
        return shards

    def touch(self, shards: Sequence[Shard]) -> None:
        """Renew the age of the files."""
        self._folder.touch({name for shard in shards for name in (shard.part, shard.mask) if name is not None})

    def compute(self, graph: Any) -> Any:
        """Compute a delayed object, again where the scheduler is lost.

        ComputeUnavailableError, TooLargeError; whatever a task raises.
        """
        for _ in range(MAX_CONNECTIONS):
            client = self._connected()
            try:
                return self._value(client, graph)
            except _SchedulerLostError as error:
                log.warning("the scheduler is lost (%s); the sum is computed again", error)
                self.close()
        raise ComputeUnavailableError(
            f"the cluster at {self._address} was lost {MAX_CONNECTIONS} times in one sum; the job waits"
        )

    def close(self) -> None:
        """Close the connection to the scheduler, which then cancels what is not done."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(*_LOST_ERRORS):
                client.close(timeout=CONNECT_SECONDS)

    def _connected(self) -> Client:
        deadline = time.monotonic() + self._timeout
        while self._client is None:
            try:
                with dask.config.set(_CONFIGURATION):
                    self._client = Client(self._address, timeout=CONNECT_SECONDS, set_as_default=False)
            except _LOST_ERRORS as error:
                if time.monotonic() >= deadline:
                    raise ComputeUnavailableError(
                        f"the cluster at {self._address} does not answer; the job waits for it ({_describe(error)})"
                    ) from None
                time.sleep(RECONNECT_SECONDS)
        return self._client

    def _value(self, client: Client, graph: Any) -> Any:
        try:
            future = client.compute(graph, retries=MAX_RETRIES, optimize_graph=False)
            self._wait(client, future)
            return future.result(timeout=RESULT_SECONDS)
        except KilledWorker as error:
            raise TooLargeError(
                f"several workers of the cluster died of one shard: it probably does not fit their memory ({error})"
            ) from None
        except _MISSING_ERRORS:
            raise
        except _LOST_ERRORS as error:
            raise _SchedulerLostError(_describe(error)) from None

    def _wait(self, client: Client, future: Future[Any]) -> None:
        """Wait for the result; ComputeUnavailableError without a worker for too long, _SchedulerLostError."""
        done, seen = threading.Event(), time.monotonic()
        future.add_done_callback(lambda _: done.set())
        while not done.wait(POLL_SECONDS):
            if client.status != "running":
                raise _SchedulerLostError(f"the connection is {client.status}")
            if client.nthreads():
                seen = time.monotonic()
            if time.monotonic() - seen > self._timeout:
                future.cancel()
                raise ComputeUnavailableError(f"the cluster at {self._address} has no workers; the job waits for them")


@dataclass(slots=True, eq=False)
class SpreadRows:
    """Rows of a dataset in the cluster's shards; a `core.numeric.shards.ShardedRows`."""

    cluster: Cluster
    dataset: Dataset
    numbers: IntArray
    unit: Standardization
    shards: Sequence[Shard] = ()
    touched_at: float = 0.0

    def write(self, *, rewrite: bool = False) -> None:
        """Write the missing files. rewrite: write all, as those that are there are wrong."""
        self.shards = self.cluster.shards(self.dataset, self.numbers, self.unit, rewrite=rewrite)
        self.touched_at = time.monotonic()

    def total(self, work: Callable[[Any, Sequence[slice]], Part], size: int, least: int) -> Part:
        """Sum `work` over all shards. Raises what `Cluster.compute` does."""
        if time.monotonic() - self.touched_at > SHARD_TOUCH_SECONDS:
            self.cluster.touch(self.shards)
            self.touched_at = time.monotonic()
        tries = 0
        while True:
            try:
                part: Part = self.cluster.compute(_graph(work, self.shards, size, least))
                return part
            except _MISSING_ERRORS as error:
                tries += 1
                if tries > MAX_RETRIES:
                    raise ComputeUnavailableError(
                        f"the cluster's machines do not see the folder of shards ({error})"
                    ) from None
                log.warning("a shard is missing (%s); all are written again", error)
                self.write(rewrite=True)


def _graph(work: Callable[[Any, Sequence[slice]], Part], shards: Sequence[Shard], size: int, least: int) -> Any:
    """Graph of one task for the shared input, one for each shard, and a binary tree of additions."""
    number = uuid.uuid4().hex
    shared = delayed(share_input, pure=False, traverse=False)(work, dask_key_name=f"input-{number}")
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
            else delayed(add_parts, pure=False, traverse=False)(*pair, dask_key_name=f"add-{number}-{height}-{place}")
            for place, pair in enumerate(pairs)
        ]
        height += 1
    return level[0]


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
