"""Fit of a schema to a table, kept with the table so that nobody has to fit it again.

Everything that was decided on the table's cells is here: what the columns are, which rows are trained on, and the
warnings. Only the options of the specification that are about tables can change it, so it is theirs: other options,
another fit. A file of JSON, with a bit for each row where some are left out.
"""

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import numpy as np

from app.errors import MalformedError
from app.tables.columns.row_set import RowSet
from app.tables.columns.table import Table
from app.tables.schema.design_matrix import TrainingRows
from app.tables.schema.fitting import fit_table
from app.tables.schema.row_groups import RowGroupColumn
from app.tables.schema.schema import Schema
from app.tables.schema.table_options import TableOptions

_FORMAT: Final = "pursuit-table-fit/5"
"""Counts up whenever the document changes, or fitting decides otherwise than before: kept fits are then made again."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableFit:
    """Schema and training rows of a table of so many rows under these options. seconds: cost of each step so far."""

    options: TableOptions
    table_rows: int
    schema: Schema
    training_rows: TrainingRows
    seconds: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Table, options: TableOptions, seconds: Mapping[str, float] | None = None) -> "TableFit":
        """Fit a schema to a table; see `fit_table`, also for what it raises."""
        schema, training_rows = fit_table(table, options)
        return cls(
            options=options, table_rows=table.rows, schema=schema, training_rows=training_rows, seconds=seconds or {}
        )

    def is_of(self, table: Table, options: TableOptions) -> bool:
        """Return whether fitting this table under these options would give the same."""
        return self.table_rows == table.rows and _document_of(self.options) == _document_of(options)

    def to_bytes(self) -> bytes:
        """Return a JSON document that `from_bytes` reads back."""
        groups, bits = self.training_rows.row_groups, self.training_rows.kept.bits
        document = {
            "format": _FORMAT,
            "options": _document_of(self.options),
            "table_rows": self.table_rows,
            "rows_kept": None if bits is None else base64.b85encode(zlib.compress(bits.tobytes(), 1)).decode(),
            "schema": self.schema.to_json(),
            "warnings": list(self.training_rows.warnings),
            "row_groups": None if groups is None else groups.to_json(),
            "weights": self.training_rows.weights,
            "seconds": dict(self.seconds),
        }
        return json.dumps(document).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "TableFit":
        """Read what `to_bytes` wrote. MalformedError for something else."""
        try:
            document = json.loads(data)
            if document["format"] != _FORMAT:
                raise MalformedError(f"the fit of a table has format {document['format']!r}, expected {_FORMAT!r}")
            rows, groups = int(document["table_rows"]), document["row_groups"]
            return cls(
                options=TableOptions(**document["options"]),
                table_rows=rows,
                schema=Schema.from_json(document["schema"]),
                training_rows=TrainingRows(
                    kept=_rows_of(document["rows_kept"], rows),
                    warnings=tuple(map(str, document["warnings"])),
                    row_groups=None if groups is None else RowGroupColumn.from_json(groups),
                    weights=None if document["weights"] is None else str(document["weights"]),
                ),
                seconds={str(name): float(cost) for name, cost in document["seconds"].items()},
            )
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, zlib.error) as error:
            raise MalformedError(f"this is not the fit of a table: {error!r}") from error


def _rows_of(encoded: str | None, total: int) -> RowSet:
    """Decode the rows that are kept of so many. ValueError, zlib.error."""
    if encoded is None:
        return RowSet.every(total)
    size = (total + 7) // 8
    unpacker = zlib.decompressobj()
    data = unpacker.decompress(base64.b85decode(encoded), size)
    if len(data) != size or not unpacker.eof:
        raise ValueError(f"expected a bit for each of {total} rows")
    bits = np.frombuffer(data, np.uint8)
    return RowSet(total=total, count=int(np.bitwise_count(bits).sum(dtype=np.int64)), bits=bits)


def options_digest(options: TableOptions) -> str:
    """Return the name of a fit among those of one table: equal for equal options and the same release, 64 letters."""
    parts = [_FORMAT, _release(), json.dumps(_document_of(options), sort_keys=True)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@lru_cache(maxsize=1)
def _release() -> str:
    try:
        return version("pursuit-gp")
    except PackageNotFoundError:  # a checkout that is not installed
        return ""


def _document_of(options: TableOptions) -> dict[str, Any]:
    """Return options as JSON has them, where a tuple is a list and an enum its value."""
    document: dict[str, Any] = json.loads(json.dumps(asdict(options)))
    return document
