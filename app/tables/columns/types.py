"""Types of the columns of Arrow and Parquet files, by name: what their cells were before they were read as text.

A type is kept where text gives the same cells back; other columns stay text.
"""

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_PLAIN: dict[str, Any] = {
    str(kind): kind
    for kind in (
        pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
        pa.float32(), pa.float64(), pa.date32(), *(pa.timestamp(unit) for unit in ("s", "ms", "us")),
    )
}  # fmt: skip
_ZONED = re.compile(r"timestamp\[(s|ms|us), tz=([A-Za-z0-9_+:/-]{1,64})\]")


def type_name(kind: Any) -> str | None:
    """Return the name of a type that `restored` reads; None for one that stays text."""
    name = str(kind)
    return name if name in _PLAIN or _ZONED.fullmatch(name) else None


def restored(texts: Any, name: str) -> Any:
    """Return the cells of a column as the type of this name; the texts where one is none of it."""
    zoned = _ZONED.fullmatch(name)
    try:
        kind: Any = _PLAIN[f"timestamp[{zoned[1]}]" if zoned else name]
        found: Any = pc.cast(texts, pa.timestamp("us")).cast(kind) if pa.types.is_timestamp(kind) else texts.cast(kind)
        return found if zoned is None else found.cast(pa.timestamp(kind.unit, tz=zoned[2]))
    except (pa.ArrowException, KeyError):
        return texts
