"""Rows as JSON objects: a msgspec decoder for each set of keys that clients send.

Such a decoder knows every key, also of columns that the model does not use: so it sees a number that is none there, and
a key that is there twice. Which keys a client sends the first row says; the decoder is made when they have come a few
times, or with many rows.
"""

import re
import threading
import types
from collections.abc import Sequence
from typing import Any

import msgspec

from app.tables import Feature
from app.tables.read.strict_json import check_duplicate_keys

IGNORED = str | float | bool | None
"""A cell of a column that is not used: whole numbers too are to be no larger than a double's."""

_MOST_DECODERS = 16
_MOST_COUNTED = 1_000
_MOST_KEYS = 2_000
_MANY_BYTES = 1 << 14
_SOME_TIMES = 3
_UNSPEAKABLE = re.compile(r'["\\\x00-\x1f]')  # what msgspec does not take in the name of a field

Decoder = msgspec.json.Decoder[list[msgspec.Struct]]


class RowObjects:
    """Decoder of `[{"a": 1, ..}, ..]` to tuples in the order of the features; msgspec.DecodeError for what it does not
    take. Thread-safe.

    needed: which features must be there; for the others a cell that is left out is None.
    """

    def __init__(self, features: Sequence[Feature], kinds: Sequence[Any], needed: Sequence[bool]) -> None:
        self._kinds = {feature.name: kind for feature, kind in zip(features, kinds, strict=True)}
        self._needed = {name for name, need in zip(self._kinds, needed, strict=True) if need}
        self._decoders: dict[tuple[str, ...], Decoder] = {}
        self._times: dict[tuple[str, ...], int] = {}
        self._lock = threading.Lock()
        self._usual: tuple[tuple[str, ...], Decoder] | None = None

    def decode(self, data: memoryview | bytes) -> list[tuple[Any, ...]]:
        """The rows. InvalidRequestError for an object that has a key twice."""
        usual = self._usual
        if usual is not None:
            try:
                return self._rows(data, *usual)
            except msgspec.DecodeError:
                pass
        keys = _first_keys(data)
        if usual is not None and keys == usual[0]:
            raise msgspec.DecodeError("rows with several sets of keys")
        found = self._usual = keys, self._decoder(keys, len(data))
        return self._rows(data, *found)

    def _rows(self, data: memoryview | bytes, keys: tuple[str, ...], decoder: Decoder) -> list[tuple[Any, ...]]:
        rows = decoder.decode(data)
        check_duplicate_keys(data, len(rows) * len(keys), where="rows")
        cells, features = map(msgspec.structs.astuple, rows), len(self._kinds)
        return list(cells) if self._kinds.keys() >= set(keys) else [row[:features] for row in cells]

    def _decoder(self, keys: tuple[str, ...], size: int) -> Decoder:
        with self._lock:
            if keys not in self._decoders:
                self._times[keys] = times = self._times.get(keys, 0) + 1
                if times < _SOME_TIMES and size < _MANY_BYTES:
                    if len(self._times) > _MOST_COUNTED:
                        self._times.clear()
                    raise msgspec.DecodeError("keys that have not come often enough")
                if not self._needed <= set(keys) or len(keys) > _MOST_KEYS or any(map(_UNSPEAKABLE.search, keys)):
                    raise msgspec.DecodeError("keys that need a slower reading")
                self._decoders[keys] = self._made(keys)
                if len(self._decoders) > _MOST_DECODERS:
                    del self._decoders[next(iter(self._decoders))]
            return self._decoders[keys]

    def _made(self, keys: tuple[str, ...]) -> Decoder:
        """A class with a field for each feature, then one for each other key; features that do not come are None."""
        given = set(keys)
        names = [*self._kinds, *(key for key in keys if key not in self._kinds)]
        fields: list[Any] = []
        for place, name in enumerate(names):
            kind = self._kinds.get(name, IGNORED)
            fields.append((f"f{place}", kind) if name in given else (f"f{place}", None, None))
        renamed = {f"f{place}": name for place, name in enumerate(names)}
        row = msgspec.defstruct("Row", fields, rename=renamed, kw_only=True, gc=False, forbid_unknown_fields=True)
        return msgspec.json.Decoder(types.GenericAlias(list, (row,)))


def _first_keys(data: memoryview | bytes) -> tuple[str, ...]:
    """Return the keys of the first row. msgspec.DecodeError where it is not simple."""
    text = bytes(data[:_MANY_BYTES]) if b"}" in bytes(data[:_MANY_BYTES]) else bytes(data)
    start = text.index(b"{")
    end = text.find(b"}", start)
    return tuple(msgspec.json.decode(text[start : end + 1], type=dict[str, msgspec.Raw]))
