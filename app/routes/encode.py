"""Encoding of an answer to `POST /predict`: JSON, CSV or npy, as `Accept` asks."""

import csv
import io
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from starlette.responses import Response

from app.errors import NotAcceptableError
from app.routes.http.answers import Bytes
from app.routes.http.bodies import CSV, JSON, NPY
from app.services.predict.far_rows import SUPPORT, TOLD_ROWS, far_message, far_rows
from app.services.predict.npy import write_npy
from app.services.predict.options import EXTRAS, IMPUTED, PredictOptions
from app.services.predict.registry import ResolvedModel
from app.tables.columns.cells import Texts
from core.arrays import FloatArray, IntArray

PIECE_ROWS = 1 << 14
"""Lists are written as JSON so many numbers at a time, so that other threads wait for no more."""

_QUALITY = re.compile(r";\s*q\s*=\s*(\d(?:\.\d{0,3})?)\s*(?:;|$)")
_RANGES = {
    "*/*": (JSON, CSV, NPY),
    "application/*": (JSON, NPY),
    "text/*": (CSV,),
    JSON: (JSON,),
    CSV: (CSV,),
    NPY: (NPY,),
}
"""Media types that are written here, by the ranges of an Accept header; the first of them is preferred."""


@lru_cache(maxsize=256)
def negotiate(accept: str) -> str:
    """The content type of the answer: of those that are written here the one with the largest `q`, the first of
    several (RFC 9110, 12.5.1); NotAcceptableError."""
    asked = [(_quality(parameters), kind.strip()) for kind, _, parameters in _parts(accept)]
    refused = {kind for quality, kind in asked if not quality}
    for quality, kind in sorted(asked, key=lambda each: -each[0]):
        for written in _RANGES.get(kind, ()):
            if quality and written not in refused:
                return written
    raise NotAcceptableError(f"the answer can be {JSON}, {CSV} or {NPY}; the Accept header has {accept[:200]!r}")


def _parts(accept: str) -> list[tuple[str, str, str]]:
    """Media ranges and their parameters; an empty header asks for nothing in particular."""
    return [part.partition(";") for part in (accept.lower() if accept.strip() else "*/*").split(",")]


def _quality(parameters: str) -> float:
    found = _QUALITY.search(f";{parameters}")
    return min(float(found[1]), 1.0) if found else 1.0


def encode(
    resolved: ResolvedModel,
    arrays: dict[str, FloatArray],
    options: PredictOptions,
    media_type: str,
    texts: Mapping[str, Texts] | None = None,
) -> Response:
    """Encode the arrays of a prediction in a media type of `negotiate`. CSV says of rows with missing cells that they
    are such, asked or not. texts: columns of the file, for CSV to have before those of the prediction."""
    if IMPUTED in arrays and IMPUTED not in options.include and not (media_type == CSV and arrays[IMPUTED].any()):
        arrays = {name: array for name, array in arrays.items() if name != IMPUTED}
    far = far_rows(arrays)
    if SUPPORT in arrays and SUPPORT not in options.include:
        arrays = {name: array for name, array in arrays.items() if name != SUPPORT}
    if media_type == JSON:
        return Bytes(_json(resolved, arrays, options, far), JSON)
    headers = {"X-Model": f"{resolved.name}@{resolved.version}"}
    if "std" in arrays:
        headers["X-Interval-Basis"] = ",".join(interval_bases(resolved, options))
    if far is not None:
        headers["X-Warnings"] = far_message(far)
    if media_type == CSV:
        headers["X-Rows"] = str(len(arrays["mean"]))
        return Response(_csv(arrays, texts or {}), media_type=CSV, headers=headers)
    headers["X-Columns"] = ",".join(arrays)
    return Bytes(write_npy(np.stack(list(arrays.values()), axis=1)), NPY, headers)


def interval_bases(resolved: ResolvedModel, options: PredictOptions) -> tuple[str, ...]:
    """Basis of each interval of an answer: see `core.predict.calibration.IntervalBasis`."""
    calibration = resolved.model.predictor.calibration
    return tuple(calibration.basis(level).value for level in options.interval_levels)


def _json(
    resolved: ResolvedModel, arrays: dict[str, FloatArray], options: PredictOptions, far: IntArray | None
) -> bytes:
    content: dict[str, object] = {"model": resolved.name, "version": resolved.version, "mean": arrays["mean"]}
    if "std" in arrays:
        levels = options.interval_levels
        content["std"] = arrays["std"]
        if options.one_interval:
            content |= {"lower": arrays["lower"], "upper": arrays["upper"]}
        else:
            content |= {end: [arrays[f"{end}_{level!r}"] for level in levels] for end in ("lower", "upper")}
        if options.include:
            content |= {name: arrays[name] for name in EXTRAS if name in options.include}
        bases = interval_bases(resolved, options)
        content["interval"] = levels[0] if options.one_interval else levels
        content["interval_basis"] = bases[0] if options.one_interval else bases
    if IMPUTED in arrays:
        content[IMPUTED] = arrays[IMPUTED].astype(np.int64)
    if options.quantiles:
        values = [arrays[f"quantile_{probability!r}"] for probability in options.quantiles]
        content |= {"quantiles": options.quantiles, "quantile_values": values}
    if far is not None:
        warning = {"kind": "far", "message": far_message(far), "count": len(far), "rows": far[:TOLD_ROWS].tolist()}
        content["warnings"] = [warning]
    if len(arrays["mean"]) > PIECE_ROWS:
        content = {name: _in_pieces(value) for name, value in content.items()}
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)


def _in_pieces(value: object) -> object:
    """Long arrays written already."""
    if isinstance(value, list | tuple):
        return [_in_pieces(one) for one in value]
    if not isinstance(value, np.ndarray):
        return value
    parts = (
        orjson.dumps(value[start : start + PIECE_ROWS], option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]
        for start in range(0, len(value), PIECE_ROWS)
    )
    return orjson.Fragment(b"[" + b",".join(parts) + b"]")


def _csv(arrays: dict[str, FloatArray], texts: Mapping[str, Texts]) -> bytes:
    columns: dict[str, Any] = dict(texts)
    for name, array in arrays.items():
        columns[f"predicted_{name}" if name in texts else name] = array.astype(np.int64) if name == IMPUTED else array
    header = io.StringIO()
    csv.writer(header, lineterminator="\n").writerow(columns)
    sink = pa.BufferOutputStream()
    sink.write(header.getvalue().encode())  # Arrow would put every name in quotation marks, and every text
    special = any(pc.any(pc.match_substring_regex(cells, r'[",\r\n]')).as_py() for cells in texts.values())
    quoting: Any = "needed" if special else "none"
    pa_csv.write_csv(pa.table(columns), sink, pa_csv.WriteOptions(include_header=False, quoting_style=quoting))
    return sink.getvalue().to_pybytes()
