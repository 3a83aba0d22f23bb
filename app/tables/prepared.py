"""Prepared: the design matrix and all that training says about the upload; and its Arrow IPC file.

The API writes the file, the worker reads it: bit for bit, without a copy beyond the file's own bytes.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from app.errors import MalformedError
from app.tables.cells import BoolArray, FloatArray, IntArray, to_numpy
from app.tables.schema import Schema

_FORMAT = "pursuit-prepared/1"
_KEY = b"pursuit"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prepared:
    """A table ready to train on, in the target's and the inputs' own units.

    inputs (n, p); targets (n,); groups (p,): the lengthscale of each column; indicator (p,): columns of 0 and 1;
    rows (n,): 0-based row numbers of the upload; dropped: how many of its rows are not here; warnings: in plain words.
    """

    inputs: FloatArray
    targets: FloatArray
    groups: IntArray
    indicator: BoolArray
    rows: IntArray
    dropped: int
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("inputs", "targets", "groups", "indicator", "rows"):
            view = getattr(self, name).view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)


def write_prepared(path: Path, schema: Schema, prepared: Prepared) -> None:
    """Writes one Arrow IPC file: columns `inputs` (lists of p), `targets`, `rows`; the rest is JSON metadata."""
    width = prepared.inputs.shape[1]
    flat = pa.array(prepared.inputs.reshape(-1))
    document = {
        "format": _FORMAT,
        "schema": schema.to_json(),
        "dropped": prepared.dropped,
        "warnings": list(prepared.warnings),
    }
    table = pa.table(
        {
            "inputs": pa.FixedSizeListArray.from_arrays(flat, width),
            "targets": pa.array(prepared.targets),
            "rows": pa.array(prepared.rows),
        }
    ).replace_schema_metadata({_KEY: json.dumps(document).encode()})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def read_prepared(source: Path | bytes) -> tuple[Schema, Prepared]:
    """Reads what `write_prepared` wrote. Raises MalformedError if the file is damaged or something else."""
    try:
        buffer = pa.py_buffer(source if isinstance(source, bytes) else source.read_bytes())
        table = pa.ipc.open_file(buffer).read_all()
        table.validate(full=True)
        document = json.loads((table.schema.metadata or {})[_KEY])
        if document["format"] != _FORMAT:
            raise MalformedError(f"the prepared table has format {document['format']!r}, expected {_FORMAT!r}")
        schema = Schema.from_json(document["schema"])
        rows, width = table.num_rows, schema.width
        lists: Any = table["inputs"].combine_chunks()
        inputs = to_numpy(lists.flatten())
        return schema, Prepared(
            inputs=inputs.reshape(rows, width),
            targets=table["targets"].to_numpy(),
            groups=schema.groups,
            indicator=schema.indicator,
            rows=table["rows"].to_numpy(),
            dropped=int(document["dropped"]),
            warnings=tuple(str(warning) for warning in document["warnings"]),
        )
    except (pa.ArrowInvalid, KeyError, ValueError, TypeError) as error:
        raise MalformedError(f"the prepared table is damaged: {error}") from error
