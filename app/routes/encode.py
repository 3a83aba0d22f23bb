"""Encoding of an answer to `POST /predict`: JSON, CSV, npy, Arrow or Parquet, as `Accept` asks."""

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import IO, Any
from urllib.parse import quote

from starlette.responses import Response

from app.errors import NotAcceptableError
from app.routes.http.answers import Bytes
from app.routes.http.bodies import ARROW, CSV, JSON, NPY, PARQUET
from app.services.predict.answer_files import AnswerFile, ArrowStream, CsvFile, NpyFile, ParquetFile
from app.services.predict.json_answer import dump_json, json_content, json_numbers
from app.services.predict.options import IMPUTED, OnError, PredictOptions
from app.services.predict.registry import ResolvedModel
from app.services.predict.row_notes import RowNotes
from app.services.predict.run import interval_bases, named_arrays, shown_arrays
from core.arrays import FloatArray

FILES: Mapping[str, type[AnswerFile]] = {CSV: CsvFile, NPY: NpyFile, ARROW: ArrowStream, PARQUET: ParquetFile}
"""Media types of answers that are files."""
TYPED = frozenset({ARROW, PARQUET})
"""Formats whose columns have types."""
PREDICTION_ID = "X-Prediction-Id"
"""Header of files: the id that a prediction is kept under for its truth."""

_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")
_QUALITY = re.compile(r";\s*q\s*=\s*(\d(?:\.\d{0,3})?)\s*(?:;|$)")
_RANGES = {
    "*/*": (JSON, *FILES),
    "application/*": (JSON, NPY, ARROW, PARQUET),
    "text/*": (CSV,),
    **{kind: (kind,) for kind in (JSON, *FILES)},
}
"""Media types that are written here, by the ranges of an Accept header; the first of them is preferred."""


@dataclass(frozen=True, slots=True)
class KeptForFeedback:
    """The id that a prediction is kept under for its truth; None where the database did not take it."""

    prediction: str | None

    def headers(self) -> dict[str, str]:
        """Description of a file in its headers."""
        return {} if self.prediction is None else {PREDICTION_ID: self.prediction}


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
    written = ", ".join(FILES)
    raise NotAcceptableError(f"the answer can be {JSON}, {written}; the Accept header has {accept[:200]!r}")


def _parts(accept: str) -> list[tuple[str, str, str]]:
    """Media ranges and their parameters; an empty header asks for nothing in particular."""
    return [part.partition(";") for part in (accept.lower() if accept.strip() else "*/*").split(",")]


def _quality(parameters: str) -> float:
    found = _QUALITY.search(f";{parameters}")
    return min(float(found[1]), 1.0) if found else 1.0


def encode(
    resolved: ResolvedModel,
    arrays: Mapping[str, FloatArray],
    options: PredictOptions,
    media_type: str,
    *,
    reason: str | None = None,
    kept: Mapping[str, Any] | None = None,
    kept_for_feedback: KeptForFeedback | None = None,
) -> Response:
    """Encode the arrays of a prediction in a media type of `negotiate`, NaN where there is none. CSV and the files that
    have types say of rows with missing cells that they are such, asked or not.

    reason: why the first row without a prediction has none; kept: columns that stand before the predictions.
    """
    notes = RowNotes()
    notes.add(arrays, reason=reason, tolerated=options.on_error is OnError.NULL)
    incomplete = media_type not in (JSON, NPY) and IMPUTED in arrays and bool((arrays[IMPUTED] > 0).any())
    shown = shown_arrays(arrays, options, imputed=incomplete)
    kept = kept or {}
    if media_type == JSON:
        return Bytes(_json(resolved, shown, options, notes, kept, kept_for_feedback), JSON)
    sink = io.BytesIO()
    file = open_file(sink, media_type, resolved, len(arrays["mean"]))
    named = named_arrays(resolved.model, shown)
    file.write(named, kept)
    file.close(notes.sentence())
    headers = file_headers(resolved, named, options, notes, media_type, len(arrays["mean"]))
    if kept_for_feedback is not None:
        headers |= kept_for_feedback.headers()
    return Bytes(sink.getvalue(), media_type, headers)


def open_file(sink: IO[bytes], media_type: str, resolved: ResolvedModel, rows: int) -> AnswerFile:
    """Begin a file of so many rows."""
    return FILES[media_type](sink, rows=rows, note=f"{resolved.name}@{resolved.version}")


def file_headers(
    resolved: ResolvedModel,
    arrays: Mapping[str, Any],
    options: PredictOptions,
    notes: RowNotes,
    media_type: str,
    rows: int,
) -> dict[str, str]:
    """Return what the headers of a file of so many rows say of it, for it has no other place for that."""
    headers = {"X-Model": f"{resolved.name}@{resolved.version}", "X-Rows": str(rows)}
    if "std" in arrays:
        headers["X-Interval-Basis"] = ",".join(interval_bases(resolved.model, options))
    elif resolved.model.others is not None and any(name.endswith("_std") for name in arrays):
        bases = [basis for each in resolved.model.every_target for basis in interval_bases(each, options)]
        headers["X-Interval-Basis"] = ",".join(bases)
    if sentence := notes.sentence():
        headers["X-Warnings"] = _UNPRINTABLE.sub("?", sentence)
    if notes.failed.count:
        headers["X-Failed-Rows"] = str(notes.failed.count)
    if media_type == NPY:
        headers["X-Columns"] = ",".join(quote(name, safe=" ()[]/") for name in arrays)  # targets may be called anything
    return headers


def _json(
    resolved: ResolvedModel,
    arrays: Mapping[str, FloatArray],
    options: PredictOptions,
    notes: RowNotes,
    kept: Mapping[str, Any],
    kept_for_feedback: KeptForFeedback | None,
) -> bytes:
    numbers = {name: json_numbers(name, array) for name, array in arrays.items()}
    content = json_content(resolved.model, json_head(resolved), numbers, options, notes)
    if kept_for_feedback is not None:
        content["prediction_id"] = kept_for_feedback.prediction
    if kept:
        content["columns"] = {name: column.to_pylist() for name, column in kept.items()}
    return dump_json(content, len(arrays["mean"]))


def json_head(resolved: ResolvedModel) -> dict[str, object]:
    """Return the first fields of an answer."""
    return {"model": resolved.name, "version": resolved.version}
