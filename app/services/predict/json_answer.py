"""The answer to a prediction as JSON: its fields, and the numbers written some at a time, in memory or by way of files.

An answer has a list for each array, so that one of many rows is put together from a file for each list.
"""

import re
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np
import orjson

from app.services.predict.array_names import target_of
from app.services.predict.joint import drawn_json
from app.services.predict.loaded_model import LoadedModel
from app.services.predict.options import EXTRAS, IMPUTED, PredictOptions
from app.services.predict.row_notes import RowNotes
from app.services.predict.run import interval_bases
from core.arrays import FloatArray

PIECE_ROWS = 1 << 14
"""Lists are written as JSON so many numbers at a time, so that other threads wait for no more."""

_COPIED_BYTES = 1 << 20
_COMMON = frozenset({"interval", "quantiles", "warnings", IMPUTED})
"""Fields that are the same for all targets."""


def json_content(
    model: LoadedModel, head: Mapping[str, object], arrays: Mapping[str, Any], options: PredictOptions, notes: RowNotes
) -> dict[str, Any]:
    """Return the fields of an answer. head: the first of them; arrays: by name, or what stands for them. With several
    targets each field of a target is an object with a value for each."""
    if model.others is None:
        return _content(model, head, arrays, options, notes)
    content: dict[str, Any] = {}
    for place, each in enumerate(model.every_target):
        own = {}
        for name, array in arrays.items():
            base, owner = target_of(name)
            if owner == place or base == IMPUTED:
                own[base] = array
        for field, value in _content(each, head, own, options, notes).items():
            if field in head or field in _COMMON:
                content[field] = value
            else:
                content.setdefault(field, {})[each.schema.target] = value
    return content


def _content(
    model: LoadedModel, head: Mapping[str, object], arrays: Mapping[str, Any], options: PredictOptions, notes: RowNotes
) -> dict[str, Any]:
    content: dict[str, Any] = {**head, "mean": arrays["mean"]}
    if "std" in arrays:
        levels = options.interval_levels
        content["std"] = arrays["std"]
        if options.one_interval:
            content |= {"lower": arrays["lower"], "upper": arrays["upper"]}
        else:
            content |= {end: [arrays[f"{end}_{level!r}"] for level in levels] for end in ("lower", "upper")}
        if options.include:
            content |= {name: arrays[name] for name in EXTRAS if name in options.include}
        bases = interval_bases(model, options)
        content["interval"] = levels[0] if options.one_interval else levels
        content["interval_basis"] = bases[0] if options.one_interval else bases
    if IMPUTED in arrays:
        content[IMPUTED] = arrays[IMPUTED]
    if options.quantiles:
        values = [arrays[f"quantile_{probability!r}"] for probability in options.quantiles]
        content |= {"quantiles": options.quantiles, "quantile_values": values}
    content |= drawn_json(arrays)
    if warnings := notes.to_json():
        content["warnings"] = warnings
    return content


def dump_json(content: Mapping[str, Any], rows: int) -> bytes:
    """Write an answer of so many rows as JSON."""
    if rows > PIECE_ROWS:
        content = {name: _in_pieces(value) for name, value in content.items()}
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)


def json_numbers(name: str, array: FloatArray) -> Any:
    """Return an array as JSON writes it: counts of missing cells are whole numbers, null where there is none."""
    if name != IMPUTED:
        return array
    if np.isnan(array).any():
        return [None if np.isnan(value) else int(value) for value in array]
    return array.astype(np.int64)


class JsonFiles:
    """Arrays of an answer that come part by part, each as JSON in a file of its own in `folder`, put together by
    `finish`. A context manager that closes the files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, IO[bytes]] = {}
        self._token = secrets.token_hex(16)

    def __enter__(self) -> "JsonFiles":
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()

    def write(self, arrays: Mapping[str, Any]) -> None:
        """Add a part of each array, or of a column of texts."""
        for name, array in arrays.items():
            file = self._files.get(name)
            if file is None:
                file = self._files[name] = TemporaryFile(dir=self._folder)  # noqa: SIM115  closed with this object
            text = orjson.dumps(array, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]
            if text:
                file.write(b"," + text if file.tell() else text)

    def finish(self, content: Callable[[Mapping[str, Any]], Mapping[str, Any]], sink: IO[bytes]) -> None:
        """Write the answer. content: makes its fields of what stands for each array."""
        names = list(self._files)
        skeleton = orjson.dumps(content({name: f"{self._token}{place}" for place, name in enumerate(names)}))
        parts = re.split(rb'"%b([0-9]+)"' % self._token.encode(), skeleton)
        for place, part in enumerate(parts):
            if place % 2 == 0:
                sink.write(part)
                continue
            file = self._files[names[int(part)]]
            file.seek(0)
            sink.write(b"[")
            while piece := file.read(_COPIED_BYTES):
                sink.write(piece)
            sink.write(b"]")


def _in_pieces(value: object) -> object:
    """Long arrays written already."""
    if isinstance(value, list | tuple):
        return [_in_pieces(one) for one in value]
    if isinstance(value, dict):
        return {name: _in_pieces(one) for name, one in value.items()}
    if not isinstance(value, np.ndarray):
        return value
    parts = (
        orjson.dumps(value[start : start + PIECE_ROWS], option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]
        for start in range(0, len(value), PIECE_ROWS)
    )
    return orjson.Fragment(b"[" + b",".join(parts) + b"]")
