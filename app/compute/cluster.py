"""Sums over shards of rows on a Dask cluster, which survive the loss of its workers and of its scheduler.

Results have the bits of `core.numeric.shards.tree_total`: the processes add up runs of shards (`app.compute.members`),
and what they answer is added here.

    a worker dies       others do its part, and read its shards from the folder
    the scheduler dies  what is missing of the sum is computed once there is one again; after `timeout` seconds
                        ComputeUnavailableError, and the job waits in the queue with its last checkpoint
    a file is missing   the shards are written again, and what is missing of the sum is computed again

Dask ships what is asked and answered between its own processes as pickles (`deploy/README.md`: who may reach its
ports); nothing of that is stored or comes from a request.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import dask
import numpy as np
from distributed import CancelledError, Client
from distributed.comm.core import CommClosedError

from app.compute.folder import DamagedShardError, ShardFolder
from app.compute.mapping import Item, Result, fill_results
from app.compute.members import Members, Nodes, NoProcessesError, SchedulerLostError, Sum, Summed
from app.compute.partitions import SpreadPartitions
from app.compute.shards import Shard
from app.errors import ComputeUnavailableError
from core.arrays import IntArray
from core.data import Dataset, Standardization
from core.numeric.shards import Part, Partitions, cuts_of, even_cuts, is_very_large, joined

log = logging.getLogger(__name__)

CLUSTER_TIMEOUT_SECONDS = 60.0
"""Seconds that a sum waits for a scheduler or a worker."""
CONNECT_SECONDS, RECONNECT_SECONDS = 5.0, 1.0
MAX_RETRIES = 2
"""Retries of a sum whose files are missing."""
MAX_CONNECTIONS = 5
"""Schedulers that one sum may lose before its job goes back to the queue."""
ABSENT_SECONDS = 60.0
"""Seconds after which it is looked again whether there is a cluster, by who does without it meanwhile."""
SHARD_TOUCH_SECONDS = 3_600.0
"""Seconds after which a training renews the age of its shards."""

_CONFIGURATION = {"distributed.comm.timeouts.connect": CONNECT_SECONDS}
_LOST_ERRORS = (CancelledError, asyncio.CancelledError, CommClosedError, OSError, TimeoutError)
_MISSING_ERRORS = (FileNotFoundError, DamagedShardError)


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
        self._members: Members | None = None
        self._parts: tuple[Dataset, list[str]] | None = None
        self._absent_at = -ABSENT_SECONDS

    def scatter(self, dataset: Dataset, numbers: IntArray, unit: Standardization) -> "SpreadRows":
        """Write the shards that are not there yet; return their sums.

        Many rows: the dataset once, and the mask of the rows. Few: the rows alone.
        """
        spread = SpreadRows(self, dataset, numbers, unit, alone=not is_very_large(len(numbers)))
        spread.write()
        return spread

    def sums(self, shards: Sequence[Shard], rows: Sequence[int]) -> "SpreadShards":
        """Return the sums of shards that are there already. rows: how many each has, about."""
        return SpreadShards(self, shards, rows)

    def partitions(self, common: Any, partitions: Sequence[Any], cost: float, here: Partitions) -> SpreadPartitions:
        """Return partitions that the cluster passes over while it is there; see `core.numeric.shards.Compute`."""
        return SpreadPartitions(self, common, partitions, cost, here)

    def is_ready(self) -> bool:
        """Return whether the cluster has a process at the moment, without waiting for one; where it has none it is
        looked for again ABSENT_SECONDS later."""
        if time.monotonic() - self._absent_at < ABSENT_SECONDS:
            return False
        with suppress(ComputeUnavailableError):
            for _ in range(2):
                try:
                    if self._connected(patience=0.0).any():
                        return True
                    break
                except SchedulerLostError:  # since the last pass: there may be one again
                    self.close()
        self._absent_at = time.monotonic()
        return False

    def forget(self, name: str) -> None:
        """Let the processes give back what they keep under a name."""
        if self._members is not None:
            self._members.forget(name)

    def parts(self, dataset: Dataset, *, rewrite: bool = False) -> list[str]:
        """Return the names of the dataset's shards, after writing the missing ones. rewrite: write all of them."""
        known = self._parts is not None and self._parts[0] is dataset and self._folder.touch(self._parts[1])
        if self._parts is None or not known or rewrite:
            cuts = pairwise(cuts_of(len(dataset.targets)).tolist())
            tables = (np.column_stack((dataset.inputs[a:b], dataset.targets[a:b])) for a, b in cuts)
            self._parts = dataset, [self._folder.put(table, rewrite=rewrite) for table in tables]
        return self._parts[1]

    def own_shards(
        self, dataset: Dataset, numbers: IntArray, unit: Standardization, *, rewrite: bool = False
    ) -> list[Shard]:
        """Return shards with these rows of the dataset and no others, after writing the missing ones."""
        shards = []
        for first, last in pairwise(even_cuts(len(numbers))):
            if first == last:
                continue
            some = numbers[first:last]
            table = np.column_stack((dataset.inputs[some], dataset.targets[some]))
            part, folder = self._folder.put(table, rewrite=rewrite), str(self._path)
            shards.append(Shard(folder=folder, part=part, mask=None, unit=unit, groups=dataset.groups))
        return shards

    def shards(
        self, dataset: Dataset, numbers: IntArray, unit: Standardization, *, rewrite: bool = False
    ) -> list[Shard]:
        """Return the dataset's shards with these rows, after writing the missing ones; none without a row."""
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

    def total(self, asked: Summed, done: Nodes, *, patience: float | None = None) -> Any:
        """Compute a sum of which `done` is known, which gets the rest, again where the scheduler is lost.

        patience: seconds that a scheduler or a worker is waited for, by default those of the cluster.
        ComputeUnavailableError, TooLargeError; whatever the work raises.
        """
        patience = self._timeout if patience is None else patience
        self._persist(lambda: self._connected(patience).total(asked, done, patience))
        return joined(node for places in sorted(done, key=lambda run: run.start) for node in done[places])

    def _persist(self, ask: Callable[[], None]) -> None:
        """Ask again where the scheduler is lost. ComputeUnavailableError."""
        for _ in range(MAX_CONNECTIONS):
            try:
                return ask()
            except SchedulerLostError as error:
                log.warning("the scheduler is lost (%s); what is missing is computed again", error)
                self.close()
            except NoProcessesError:
                raise ComputeUnavailableError(
                    f"the cluster at {self._address} has no workers; the job waits for them"
                ) from None
        raise ComputeUnavailableError(
            f"the cluster at {self._address} was lost {MAX_CONNECTIONS} times in one sum; the job waits"
        )

    def map(
        self, work: Callable[[Item], Result], items: Sequence[Item], tell: Callable[[float], None] = lambda _: None
    ) -> list[Result]:
        """Return work(item) of each, computed where there is room, again where the scheduler is lost.

        work: a function of a module. tell: hears the share that is done; may raise to cancel.
        ComputeUnavailableError, TooLargeError; whatever the work raises.
        """
        found: dict[int, Result] = {}
        self._persist(lambda: fill_results(self._connection(), work, items, found, self._timeout, tell))
        return [found[place] for place in range(len(items))]

    def close(self) -> None:
        """Close the connection to the scheduler, which then forgets what was done for it."""
        client, self._client, self._members = self._client, None, None
        if client is not None:
            with suppress(*_LOST_ERRORS):
                client.close(timeout=CONNECT_SECONDS)

    def _connected(self, patience: float | None = None) -> Members:
        client = self._connection(patience)
        if self._members is None:
            self._members = Members(client)
        return self._members

    def _connection(self, patience: float | None = None) -> Client:
        """Return the connection, after making it if there is none. patience: seconds that it may take, by default those
        of the cluster. ComputeUnavailableError."""
        deadline = time.monotonic() + (self._timeout if patience is None else patience)
        while self._client is None:
            try:
                with dask.config.set(_CONFIGURATION):
                    self._client = Client(
                        self._address, timeout=CONNECT_SECONDS, set_as_default=False, direct_to_workers=True
                    )
            except _LOST_ERRORS as error:
                if time.monotonic() >= deadline:
                    raise ComputeUnavailableError(
                        f"the cluster at {self._address} does not answer; the job waits for it ({_describe(error)})"
                    ) from None
                time.sleep(RECONNECT_SECONDS)
        return self._client


@dataclass(slots=True, eq=False)
class SpreadRows:
    """Rows of a dataset in the cluster's shards; a `core.numeric.shards.ShardedRows`.

    alone: in shards of their own, not in those of all rows of the dataset.
    """

    cluster: Cluster
    dataset: Dataset
    numbers: IntArray
    unit: Standardization
    alone: bool = False
    spread: "SpreadShards" = field(init=False)
    touched_at: float = 0.0

    def write(self, *, rewrite: bool = False) -> None:
        """Write the missing files. rewrite: write all, as those that are there are wrong."""
        if self.alone:
            shards = self.cluster.own_shards(self.dataset, self.numbers, self.unit, rewrite=rewrite)
            counts = np.diff(even_cuts(len(self.numbers)))
        else:
            shards = self.cluster.shards(self.dataset, self.numbers, self.unit, rewrite=rewrite)
            counts = np.diff(np.searchsorted(self.numbers, cuts_of(len(self.dataset.targets))))
        self.spread = self.cluster.sums(shards, counts[counts > 0].tolist())
        self.touched_at = time.monotonic()

    def total(self, work: Callable[[Any, Sequence[slice]], Part], size: int, least: int) -> Part:
        """Sum `work` over all shards. Raises what `Cluster.total` does."""
        if time.monotonic() - self.touched_at > SHARD_TOUCH_SECONDS:
            self.cluster.touch(self.spread.shards)
            self.touched_at = time.monotonic()
        done: Nodes = {}
        tries = 0
        while True:
            try:
                part: Part = self.spread.rest(work, size, least, done)
                return part
            except _MISSING_ERRORS as error:
                tries += 1
                if tries > MAX_RETRIES:
                    raise ComputeUnavailableError(
                        f"the cluster's machines do not see the folder of shards ({error})"
                    ) from None
                log.warning("a shard is missing (%s); all are written again", error)
                self.write(rewrite=True)


@dataclass(slots=True, eq=False)
class SpreadShards:
    """Shards of so many rows each, which are in the folder already, and their sums; a
    `core.numeric.shards.ShardedRows`."""

    cluster: Cluster
    shards: Sequence[Shard]
    rows: Sequence[int]
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    def total(self, work: Callable[[Any, Sequence[slice]], Part], size: int, least: int) -> Part:
        """Sum `work` over all shards. Raises what `Cluster.total` does; ComputeUnavailableError for a missing file."""
        try:
            part: Part = self.rest(work, size, least, {})
            return part
        except _MISSING_ERRORS as error:
            raise ComputeUnavailableError(
                f"the cluster's machines do not see a file of the training's rows, which are read again ({error})"
            ) from None

    def rest(self, work: Callable[[Any, Sequence[slice]], Part], size: int, least: int, done: Nodes) -> Any:
        """Return the sum of which `done` is known, which gets the rest. Raises what `Cluster.total` does, and for a
        missing file what reading it does."""
        asked = Sum(name=self.name, shards=self.shards, rows=self.rows, work=work, size=size, least=least)
        return self.cluster.total(asked, done)


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
