"""One table in every format that is read, from columns of Python values."""

import csv
import gzip
import io
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from openpyxl import Workbook

from app.tables import Table, from_columns, from_rows, read_table

Columns = Mapping[str, Sequence[Any]]


def text(cell: Any, decimal: str = ".") -> str:
    """A cell as a CSV file has it."""
    match cell:
        case None:
            return ""
        case bool():
            return "true" if cell else "false"
        case float():
            return repr(cell).replace(".", decimal)
        case date():
            return cell.isoformat()
        case _:
            return str(cell)


def delimited(columns: Columns, delimiter: str = ",", decimal: str = ".", end: str = "\n") -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator=end)
    writer.writerow(columns)
    writer.writerows([text(cell, decimal) for cell in row] for row in zip(*columns.values(), strict=True))
    return out.getvalue()


def json_cell(cell: Any) -> Any:
    return text(cell) if isinstance(cell, date) else cell


def rows_of(columns: Columns) -> list[dict[str, Any]]:
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, map(json_cell, row), strict=True)) for row in rows]


def json_lines(columns: Columns) -> bytes:
    return b"\n".join(json.dumps(row, ensure_ascii=False).encode() for row in rows_of(columns)) + b"\n"


def parquet(columns: Columns) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({name: pa.array(cells) for name, cells in columns.items()}), sink)
    return sink.getvalue().to_pybytes()


def arrow(columns: Columns, *, stream: bool) -> bytes:
    table = pa.table({name: pa.array(cells) for name, cells in columns.items()})
    sink = pa.BufferOutputStream()
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)
    return sink.getvalue().to_pybytes()


def workbook(columns: Columns) -> bytes:
    book = Workbook()
    sheet: Any = book.active
    sheet.append(list(columns))
    for row in zip(*columns.values(), strict=True):
        sheet.append(list(row))
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


FORMATS: dict[str, Callable[[Columns], bytes]] = {
    "comma": lambda c: delimited(c).encode(),
    "tab": lambda c: delimited(c, "\t").encode(),
    "pipe": lambda c: delimited(c, "|").encode(),
    "semicolon and decimal comma": lambda c: delimited(c, ";", ",").encode(),
    "CRLF and byte order mark": lambda c: delimited(c, end="\r\n").encode("utf-8-sig"),
    "UTF-16": lambda c: delimited(c, ";", ",").encode("utf-16"),
    "Latin-1": lambda c: delimited(c).encode("latin-1"),
    "gzip": lambda c: gzip.compress(delimited(c).encode()),
    "zstd": lambda c: zstd(delimited(c).encode()),
    "JSON Lines": json_lines,
    "JSON Lines, zstd": lambda c: zstd(json_lines(c)),
    "Parquet": parquet,
    "Parquet, gzip": lambda c: gzip.compress(parquet(c)),
    "Arrow file": lambda c: arrow(c, stream=False),
    "Arrow stream": lambda c: arrow(c, stream=True),
    "Excel": workbook,
}


def by_rows(columns: Columns) -> Table:
    """Read the columns as JSON rows."""
    return from_rows([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)])


def written(write: Callable[[Columns], bytes], columns: Columns) -> Table:
    """Write the columns in a format and read them."""
    return read_table(write(columns))


FORMAT_READERS: dict[str, Callable[[Columns], Table]] = {
    **{name: partial(written, write) for name, write in FORMATS.items()},
    "JSON columns": lambda columns: from_columns(dict(columns)),
    "JSON rows": by_rows,
}
"""Every way for columns to come in."""
