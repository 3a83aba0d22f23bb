"""A very large table for its training: a sample of its rows in memory, and all others in shard files.

The table is read by parts, here or by the workers of a cluster, which write what they read where
every machine sees it; nobody ever holds all of it, nor a number of every column for each row. A row is in the sample by
the hash of its inputs, so equal ones are all in it or none, and it is the same however the table is cut and whoever
reads it. Where inputs come ten times each and more, new rows will have known ones too (`core.row_groups`), and rows are
drawn one by one.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from app.compute.folder import ShardFolder
from app.compute.stored_rows import SpreadsShards, StoredRows
from app.errors import NotFoundError
from app.services.intake.stored_tables import read_rows
from app.services.specification import SpecBody
from app.tables import (
    DesignMatrix,
    RowSet,
    Schema,
    TableFit,
    TrainingRows,
    build_design_matrix,
)
from core.arrays import FloatArray, IntArray
from core.numeric.shards import Compute
from core.numeric.threads import map_threads
from core.row_groups import MANY_REPLICATES, row_hashes
from core.spec import Artefact, MeanRows, Variance

log = logging.getLogger(__name__)

SAMPLE_ROWS = 200_000
"""Rows of the sample: as many as a choice of the basis looks at, and of their tenth the scores have three digits."""
SAMPLE_NUMBERS, LEAST_SAMPLE_ROWS = 8_000_000, 50_000
"""Numbers of the sample's inputs at most, where that is not fewer rows than the search for hyperparameters uses."""
MOST_SHARE = 0.5
"""Most of a table's rows that a sample is of."""
PART_ROWS = 1 << 16
"""Rows of a part, which threads read one each: the same of a table in one file and in many, for the same sums."""
WIDE = 100
"""Columns of the inputs from which on a part has half as many."""
UNEVEN = 1.5
"""Times that a sample may be larger or smaller than it was meant, before rows are drawn one by one."""


class Cluster(Compute, SpreadsShards, Protocol):
    """A cluster whose workers read and sum."""

    def map(self, work: Callable[[Any], Any], items: Sequence[Any], tell: Callable[[float], None] = ...) -> list[Any]:
        """Return work(item) of each, computed where there is room. work: a function of a module; tell: hears the share
        that is done, and may raise to cancel."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartRequest:
    """A part to read.

    table: address of the stored table; rows: of it; kept: bits of the part's rows, set where one is trained on, None
    where all are; schema: as JSON; folder: of the shards; share: of the rows that is the sample; salt: which sample;
    alone: rows are drawn one by one.
    """

    table: str
    rows: range
    kept: bytes | None
    schema: Mapping[str, Any]
    folder: Path
    share: float
    salt: int
    alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadPart:
    """Rows (m, p), targets (m,) and row numbers (m,) of a part that are of the sample; the file of the others, None
    where there are none, and how many they are; ends of their columns and targets, (2, p + 1)."""

    inputs: FloatArray
    targets: FloatArray
    rows: IntArray
    stored: str | None
    count: int
    ends: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LargeTable:
    """A table that was read by parts. sample: of its rows, with their numbers; beyond: the others, without; lowest and
    highest (p,): ends of each column over all rows; seconds: that the reading took."""

    sample: DesignMatrix
    beyond: StoredRows
    lowest: FloatArray
    highest: FloatArray
    seconds: float

    @property
    def count(self) -> int:
        """Return the number of all its rows."""
        return len(self.sample.rows) + self.beyond.count

    def with_ends(self) -> FloatArray:
        """Return the sample's inputs, and two more rows with the ends of all columns: (m + 2, p)."""
        return np.vstack((self.sample.inputs, self.lowest, self.highest))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LargeTables:
    """The reading of tables of more than so many rows by parts. folder: of the shards; cluster: what reads and sums in
    place of this process."""

    folder: Path
    least: int
    cluster: Cluster | None = None

    def read(
        self, table: str, fit: TableFit, body: SpecBody, *, workers: int, tell: Callable[[float], None]
    ) -> LargeTable | None:
        """Read a table, None where it is to be held in memory. Args and errors as in `read_large_table`."""
        if not is_large(fit, body, least=self.least):
            return None
        return read_large_table(
            table, fit, self.folder, seed=body.seed, workers=workers, cluster=self.cluster, tell=tell
        )


def is_large(fit: TableFit, body: SpecBody, *, least: int) -> bool:
    """Return whether a training reads a table by parts: of more than so many rows, and nothing is asked that needs each
    of them: no groups, order, weights or cells to integrate over, no other target, bounds, mean or full process."""
    return (
        fit.training_rows.kept.count > least
        and fit.training_rows.row_groups is None
        and fit.training_rows.weights is None
        and fit.schema.other_targets is None
        and not fit.schema.integrates
        and body.bounds is None
        and body.artefact is Artefact.FULL
        and body.mean_rows in (MeanRows.AUTO, MeanRows.BASIS)
        and body.variance is not Variance.NEAR
    )


def sample_rows(rows: int, columns: int) -> int:
    """Return about how many rows the sample of a table has, whose inputs have so many columns."""
    affordable = max(SAMPLE_NUMBERS // columns, LEAST_SAMPLE_ROWS)
    return min(SAMPLE_ROWS, affordable, int(MOST_SHARE * rows))


def read_large_table(
    table: str,
    fit: TableFit,
    folder: Path,
    *,
    seed: int,
    workers: int = 1,
    cluster: Cluster | None = None,
    tell: Callable[[float], None] = lambda _: None,
) -> LargeTable | None:
    """Read a table by parts. None where the sample has one target throughout, or all rows.

    Args:
        table: address of the stored table, of which nobody reads more than its parts.
        fit: of the table.
        folder: of the shards.
        seed: draws the sample.
        workers: threads that read here.
        cluster: what reads instead where its machines see `table`, and then sums; they see `folder`.
        tell: hears the share that is read; may raise to cancel.

    Memory: the sample, and for each thread a part. Raises MalformedError, UnavailableError, and what the cluster does.
    """
    began = time.perf_counter()
    rows = fit.training_rows.kept.count
    wanted = sample_rows(rows, fit.schema.width)
    parts = list(_parts(table, fit, folder, seed))
    found = _read(parts, workers, cluster, tell)
    sampled = sum(len(part.rows) for part in found)
    if not wanted / UNEVEN <= sampled <= wanted * UNEVEN or _replicated(found):
        found = _read([replace(part, alone=True) for part in parts], workers, cluster, tell)
        sampled = sum(len(part.rows) for part in found)
    sample = DesignMatrix(
        inputs=np.concatenate([part.inputs for part in found]),
        targets=np.concatenate([part.targets for part in found]),
        groups=fit.schema.groups,
        indicator=fit.schema.indicator,
        rows=np.concatenate([part.rows for part in found]),
        dropped=fit.training_rows.dropped,
        warnings=(*fit.training_rows.warnings, _told(sampled, rows)),
    )
    if sampled == rows or sample.targets.min() == sample.targets.max():
        return None
    stored = [part for part in found if part.stored is not None]
    low, high = (end([part.ends[side] for part in stored], axis=0) for side, end in enumerate((np.min, np.max)))
    beyond = StoredRows(
        folder=folder,
        parts=[str(part.stored) for part in stored],
        count=sum(part.count for part in stored),
        target_range=(float(low[-1]), float(high[-1])),
        groups=fit.schema.groups,
        workers=workers,
        cluster=cluster,
    )
    return LargeTable(
        sample=sample,
        beyond=beyond,
        lowest=np.minimum(low[:-1], sample.inputs.min(axis=0)),
        highest=np.maximum(high[:-1], sample.inputs.max(axis=0)),
        seconds=time.perf_counter() - began,
    )


def _read(
    parts: Sequence[PartRequest], workers: int, cluster: Cluster | None, tell: Callable[[float], None]
) -> list[ReadPart]:
    if cluster is not None:
        try:
            return cluster.map(read_part, parts, tell)
        except NotFoundError as error:  # such as a folder of this machine
            log.warning("the table is read here, for the cluster's machines cannot: %s", error)
    found = list[ReadPart]()
    for begin in range(0, len(parts), workers):
        found += map_threads(read_part, parts[begin : begin + workers])
        tell(len(found) / len(parts))
    return found


def _replicated(found: Sequence[ReadPart]) -> bool:
    """Return whether the inputs of sampled rows come so often that new rows will have known ones."""
    hashes = np.concatenate([row_hashes(part.inputs) for part in found])
    return len(hashes) >= MANY_REPLICATES * len(np.unique(hashes))


def read_part(asked: PartRequest) -> ReadPart:
    """Read a part of a table, write the rows that are not of the sample and return the others. Memory: the part."""
    schema = Schema.from_json(asked.schema)
    names = [schema.target, *(feature.name for feature in schema.used)]
    given, first = read_rows(asked.table, names, asked.rows), asked.rows.start
    rows = RowSet.every(given.rows)
    if asked.kept is not None:
        rows = RowSet.of(np.unpackbits(np.frombuffer(asked.kept, np.uint8), count=given.rows).astype(np.bool_))
    matrix = build_design_matrix(given, schema, TrainingRows(kept=rows))
    kept = rows.numbers
    drawn_by = (first + kept).astype(np.float64)[:, None] if asked.alone else matrix.inputs
    sampled = is_sampled(drawn_by, asked.share, asked.salt)
    others = np.column_stack((matrix.inputs[~sampled], matrix.targets[~sampled]))
    return ReadPart(
        inputs=matrix.inputs[sampled],
        targets=matrix.targets[sampled],
        rows=first + kept[sampled],
        stored=ShardFolder(asked.folder).put(others) if len(others) else None,
        count=len(others),
        ends=np.stack((others.min(axis=0), others.max(axis=0))) if len(others) else np.empty((0, 0)),
    )


def is_sampled(inputs: FloatArray, share: float, salt: int) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Return which rows (m, p) are of a sample of about this share, (m,): equal rows all or none. O(m p)."""
    salted = np.column_stack((np.full(len(inputs), float(salt)), inputs))
    uniform = row_hashes(salted).view(np.uint64) >> np.uint64(11)
    return np.asarray(uniform < np.uint64(int(share * 2.0**53)))


def _parts(table: str, fit: TableFit, folder: Path, seed: int) -> Iterator[PartRequest]:
    rows = fit.training_rows.kept
    make = partial(
        PartRequest,
        table=table,
        schema=fit.schema.to_json(),
        folder=folder,
        share=sample_rows(rows.count, fit.schema.width) / rows.count,
        salt=seed,
    )
    size = PART_ROWS if fit.schema.width <= WIDE else PART_ROWS // 2
    for first in range(0, fit.table_rows, size):
        last = min(first + size, fit.table_rows)
        kept = rows.kept(first, last)
        if kept is None or kept.any():
            bits = None if kept is None else np.packbits(kept).tobytes()
            yield make(rows=range(first, last), kept=bits)


def _told(sampled: int, rows: int) -> str:
    return (
        "the table is read by parts: the kernel's hyperparameters, the choice of the basis, the error bars and the "
        f"scores come from {sampled:,} of its {rows:,} rows, drawn at random, and the posterior from all of them"
    )
