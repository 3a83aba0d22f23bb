"""Predictions as files: CSV, npy, an Arrow IPC stream, Parquet; written part by part, with the columns that are kept.

A row without a prediction has empty cells in CSV, nulls in Arrow and Parquet, NaN in npy, which has no nulls and no
place for text.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack
from typing import IO, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.services.predict.npy import npy_header
from app.services.predict.options import IMPUTED
from core.arrays import FloatArray

Texts = Any
"""An Arrow array of the cells of a kept column: text, or numbers."""

GROUP_ROWS = 1 << 17
"""Rows of a row group of Parquet."""
_NEEDS_QUOTES = '[",\\r\\n]'
_NAME_KEY = "pursuit"


class AnswerFile(ABC):
    """A file of predictions, written into `sink`, which stays open. rows: of the whole; note: what it is of.

    As a context it lets go of the sink where something is raised before `close`; the file has no use then.
    """

    def __init__(self, sink: IO[bytes], *, rows: int, note: str) -> None:
        self._sink = sink
        self._rows = rows
        self._note = note
        self._started = False

    def write(self, arrays: Mapping[str, FloatArray], kept: Mapping[str, Texts]) -> None:
        """Add a part: its arrays (m,), NaN where there is no prediction, and the columns that stand before them."""
        if not self._started:
            self._start(arrays, kept)
            self._started = True
        self._add(arrays, kept)

    def close(self, warning: str | None = None) -> None:  # noqa: B027  most formats end with their last row
        """Write the end. warning: what the file should tell of its rows."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None and self._started:
            self._abandon()

    def _abandon(self) -> None:  # noqa: B027  most formats hold nothing
        """Let go of the sink."""

    @abstractmethod
    def _start(self, arrays: Mapping[str, FloatArray], kept: Mapping[str, Texts]) -> None:
        """Write the beginning."""

    @abstractmethod
    def _add(self, arrays: Mapping[str, FloatArray], kept: Mapping[str, Texts]) -> None:
        """Write rows."""


class CsvFile(AnswerFile):
    """A header line and a line for each row; cells in quotation marks where they need them."""

    def _start(self, arrays: Mapping[str, FloatArray], kept: Mapping[str, Texts]) -> None:
        names = pa.array([*kept_names(kept, arrays).values(), *arrays])
        self._sink.write(",".join(_quoted(names).to_pylist()).encode() + b"\n")

    def _add(self, arrays: Mapping[str, FloatArray], kept: Mapping[str, Texts]) -> None:
        if not len(next(iter(arrays.values()))):
            return
        columns = [_quoted(_one_chunk(column).cast(pa.string())) for column in kept.values()]
        columns += [_nullable(name, array).cast(pa.string()) for name, array in arrays.items()]
        joined: Any = pc.binary_join_element_wise(*columns, ",", null_handling="replace", null_replacement="")
        lines: Any = pc.binary_join_element_wise(joined, "", "\n")
        offsets = np.frombuffer(lines.buffers()[1], np.int32, count=len(lines) + 1)
        self._sink.write(memoryview(lines.buffers()[2])[: int(offsets[-1])])


class NpyFile(AnswerFile):
    """A row of doubles for each row; no column is kept."""

    def _start(self, arrays: Mapping[str, FloatArray], kept: Mapping[str, Texts]) -> None:
        del kept
        self._sink.write(npy_header((self._rows, len(arrays))))

    def _add(self, arrays: Mapping[str, FloatArray], kept: Mapping[str, Texts]) -> None:
        del kept
        self._sink.write(np.stack(list(arrays.values()), axis=1).astype("<f8", copy=False).tobytes())


class ArrowStream(AnswerFile):
    """Record batches of an Arrow IPC stream."""

    def _start(self, arrays: Mapping[str, FloatArray], kept: Mapping[str, Texts]) -> None:
        batch = _batch(arrays, kept)
        self._schema = batch.schema.with_metadata({_NAME_KEY: self._note})
        sink: Any = self._sink  # the stubs know of no other file objects
        self._writer = pa.ipc.new_stream(sink, self._schema)

    def _add(self, arrays: Mapping[str, FloatArray], kept: Mapping[str, Texts]) -> None:
        self._writer.write_batch(_batch(arrays, kept).replace_schema_metadata(self._schema.metadata))

    def close(self, warning: str | None = None) -> None:
        """Write the end of the stream; warnings go with the answer's headers."""
        del warning
        self._writer.close()


class ParquetFile(AnswerFile):
    """Row groups of GROUP_ROWS rows, zstd; the metadata has the model and the warning."""

    def _start(self, arrays: Mapping[str, FloatArray], kept: Mapping[str, Texts]) -> None:
        self._waiting: list[pa.RecordBatch] = []
        self._writer = pq.ParquetWriter(self._sink, _batch(arrays, kept).schema, compression="zstd")

    def _add(self, arrays: Mapping[str, FloatArray], kept: Mapping[str, Texts]) -> None:
        self._waiting.append(_batch(arrays, kept))
        if sum(batch.num_rows for batch in self._waiting) >= GROUP_ROWS:
            self._write()

    def close(self, warning: str | None = None) -> None:
        """Write the rows that wait, and the end."""
        with ExitStack() as stack:
            stack.callback(self._writer.close)
            self._write()
            notes = {_NAME_KEY: self._note} | ({} if warning is None else {"pursuit.warnings": warning})
            self._writer.add_key_value_metadata(notes)

    def _abandon(self) -> None:
        self._writer.close()

    def _write(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting))
            self._waiting = []


def kept_names(kept: Mapping[str, Texts], arrays: Mapping[str, FloatArray]) -> dict[str, str]:
    """Return the names of kept columns in the answer: another one where a prediction is called the same."""
    names: dict[str, str] = {}
    for name in kept:
        chosen = name
        while chosen in arrays or chosen in names.values() or (chosen != name and chosen in kept):
            chosen += "_input"
        names[name] = chosen
    return names


def _batch(arrays: Mapping[str, FloatArray], kept: Mapping[str, Texts]) -> pa.RecordBatch:
    names = kept_names(kept, arrays)
    columns: dict[str, Any] = {names[name]: _one_chunk(column) for name, column in kept.items()}
    columns |= {name: _nullable(name, array) for name, array in arrays.items()}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _nullable(name: str, array: FloatArray) -> Any:
    found = pa.array(array, from_pandas=True)  # NaN is null
    return found.cast(pa.int64()) if name == IMPUTED else found


def _one_chunk(column: Texts) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _quoted(texts: Any) -> Any:
    """Texts as cells of CSV."""
    needs: Any = pc.match_substring_regex(texts, _NEEDS_QUOTES)
    if not pc.any(needs).as_py():
        return texts
    quote = pa.scalar('"')
    doubled: Any = pc.replace_substring(texts, '"', '""')
    return pc.if_else(needs, pc.binary_join_element_wise(quote, doubled, quote, ""), texts)
