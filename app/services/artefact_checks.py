"""Checks of an artefact from outside, before anything is computed with it: header, tensors, scalars, description.

`app.storage.artefact` reads what this service wrote and finds damage. Here the file may be made to do harm: no number
in it is used before it is known to be in its range, nothing is allocated that is much larger than the file, and every
refusal names the tensor or the field.
"""

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from app.errors import Fault, InvalidRequestError, MalformedError, TooLargeError
from app.services.decoding import check_depth, decode_any
from app.services.spec_reading import read_spec
from app.storage.artefact import TYPES, ModelArtefact
from app.storage.artefact_document import DESCRIPTION, METADATA_KEY
from app.tables import Schema
from app.tables.columns.cell_errors import json_type
from core.predict.compact import CompactPosterior
from core.sparse.posterior import SparsePosterior

MAX_HEADER_BYTES = 16 << 20
"""Limit of the header: names, levels and report of the largest models take a third of it."""
MAX_CONTAINERS, MAX_VALUES = 250_000, 4_000_000
"""Limits of the lists and objects of the header, and of the values in them, which take more memory than their text."""
MAX_DEPTH = 24
MAX_TENSORS = 64
MAX_DIMENSION = 2**31
MAX_SCORES = 64
"""Numbers of a score of the report, such as coverage by level."""

_POSITIVE = ("target_scale", "signal_variance", "noise_variance")
_NOT_NEGATIVE = ("bias_variance", "variance_base", "far_variance")
_SCORES = ("holdout", "leave_one_out")


def read_header(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the tensors that a file announces by their names, and the description in its header: JSON that nobody has
    looked at.

    Raises MalformedError for what is no safetensors file, InvalidRequestError naming the field, TooLargeError.
    """
    header = _read_header(data)
    metadata = header.pop("__metadata__", None)
    if not isinstance(metadata, dict) or set(metadata) != {METADATA_KEY} or not isinstance(metadata[METADATA_KEY], str):
        refuse("__metadata__", f"expected one entry {METADATA_KEY!r} with the model's description: no model of Pursuit")
    document = _read_json(metadata[METADATA_KEY].encode(), METADATA_KEY, "the description in the file's header")
    if not isinstance(document, dict):
        refuse(METADATA_KEY, f"expected an object, got {json_type(document)}")
    return header, document


def check_header(data: bytes) -> None:
    """Check what can be known of a model of one target without reading a tensor. Raises as `read_header`, and
    InvalidRequestError naming the tensor."""
    header, document = read_header(data)
    if not 1 <= len(header) <= MAX_TENSORS:
        refuse("tensors", f"expected 1 to {MAX_TENSORS}, got {len(header)}")
    for name, tensor in header.items():
        check_tensor(name, tensor)
    for name in document:
        if name not in DESCRIPTION:
            refuse(name, f"unknown field; known are {', '.join(sorted(DESCRIPTION))}")


def check_model(model: ModelArtefact, schema: Schema, *, max_basis_size: int) -> None:
    """Check tensors, scalars and description of an artefact that was read. Raises InvalidRequestError.

    max_basis_size: of a compact model, whose expansion takes the square of it.
    """
    posterior = model.posterior
    if isinstance(posterior, CompactPosterior):
        if len(posterior.basis) > max_basis_size:
            refuse(
                "basis", f"a compact model has at most {max_basis_size} basis vectors here, got {posterior.basis.shape}"
            )
        posterior = posterior.mean
    if posterior.basis.shape[1] != schema.width:
        refuse("basis", f"expected {schema.width} columns, those of the schema, got shape {posterior.basis.shape}")
    _check_posterior("", posterior, schema)
    if model.noise is not None:
        _check_posterior("noise.", model.noise.posterior, schema)
    if model.mean is not None and model.mean.basis.shape[1] != schema.width:
        refuse("mean.basis", f"expected {schema.width} columns, got shape {model.mean.basis.shape}")
    if not np.isfinite(schema.offsets).all():
        refuse("schema", "the offset of a feature is beyond a 64-bit number")
    if differing := differing_field(model.schema, schema.to_json(), "schema"):
        refuse(differing, "unknown field, or a value that is written otherwise than here")
    _check_description(model, schema)


def refuse(field: str, what: str) -> NoReturn:
    """Raise InvalidRequestError for a tensor or a field of the description."""
    raise InvalidRequestError(f"{field}: {what}", [Fault(column=field, message=what)])


def differing_field(given: Any, expected: Any, path: str) -> str | None:
    """Return the path of the first place where two JSON documents differ; None where they are equal."""
    if isinstance(given, Mapping) and isinstance(expected, Mapping):
        for name in (*given, *expected):
            if name not in given or name not in expected:
                return f"{path}.{name}"
        parts = [(given[name], expected[name], f"{path}.{name}") for name in given]
    elif isinstance(given, list) and isinstance(expected, list | tuple) and len(given) == len(expected):
        parts = [(one, other, f"{path}[{i}]") for i, (one, other) in enumerate(zip(given, expected, strict=True))]
    else:
        return None if given == expected and isinstance(given, bool) == isinstance(expected, bool) else path
    return next((found for part in parts if (found := differing_field(*part))), None)


def _read_header(data: bytes) -> dict[str, Any]:
    if len(data) < 8:
        raise MalformedError(f"this is no safetensors file: it has {len(data)} bytes")
    (length,) = struct.unpack_from("<Q", data)
    if length > MAX_HEADER_BYTES and length <= len(data) - 8:
        raise TooLargeError(f"the file's header has {length} bytes, at most {MAX_HEADER_BYTES} are read")
    if length > len(data) - 8:
        raise MalformedError(f"this is no safetensors file, or it is cut: its header is to have {length} bytes")
    text = data[8 : 8 + length]
    if text.count(b"[") + text.count(b"{") > MAX_CONTAINERS or text.count(b",") > MAX_VALUES:
        raise TooLargeError(
            f"the file's header has more than {MAX_CONTAINERS} lists and objects, or more than {MAX_VALUES} values"
        )
    header = _read_json(text, "header", "the file's header")
    if not isinstance(header, dict):
        raise MalformedError(f"this is no safetensors file: its header is {json_type(header)}")
    return header


def _read_json(text: bytes, where: str, what: str) -> Any:
    """Decode a part of the file. MalformedError that says of which, where it is no JSON."""
    check_depth(text, MAX_DEPTH)
    try:
        return decode_any(text, where=where)
    except MalformedError as error:
        said = error.message.removeprefix("the body is not JSON: ")
        raise MalformedError(
            f"this is no artefact of Pursuit, or it is damaged: {what} is not JSON ({said})", error.faults
        ) from error


def check_tensor(name: str, tensor: Any) -> None:
    """Check type and shape of a tensor as the header has them, by the name that it has in a model of one target.
    InvalidRequestError."""
    if not isinstance(tensor, dict) or set(tensor) != {"dtype", "shape", "data_offsets"}:
        refuse(f"tensor {name[:80]}", "expected dtype, shape and data_offsets")
    types = TYPES if name == "directions" else TYPES[-1:]
    if tensor["dtype"] not in types:
        refuse(f"tensor {name[:80]}", f"expected {' or '.join(types)}, got {tensor['dtype']!r:.80}")
    shape = tensor["shape"]
    if not isinstance(shape, list) or not 1 <= len(shape) <= 2 or not all(map(_is_whole, shape)):
        refuse(f"tensor {name[:80]}", f"expected a shape of one or two whole numbers, got {shape!r:.80}")
    least = (1, 0) if name == "directions" else (1, 1)
    if any(not low <= size < MAX_DIMENSION for size, low in zip(shape, least, strict=False)):
        refuse(f"tensor {name[:80]}", f"expected no empty dimension and none of {MAX_DIMENSION} or more, got {shape}")


def _check_posterior(prefix: str, posterior: SparsePosterior, schema: Schema) -> None:
    p, groups = posterior.basis.shape[1], posterior.groups
    if p != schema.width:
        refuse(f"{prefix}basis", f"expected {schema.width} columns, got shape {posterior.basis.shape}")
    if not (groups == schema.groups).all():
        refuse(f"{prefix}groups", "expected the lengthscale of each column of the schema, from 0 on")
    if len(posterior.lengthscales) != len(schema.group_names):
        expected = len(schema.group_names)
        refuse(
            f"{prefix}lengthscales",
            f"expected one for each of the {expected} features, got {len(posterior.lengthscales)}",
        )
    numbers = ~schema.indicator & (np.bincount(schema.groups)[schema.groups] == 1)
    if not numbers[posterior.input_transform.columns].all():
        refuse(
            f"{prefix}input_transform",
            "expected power 1 for columns of categories, booleans, marks and dates' cycles, which stay as they are",
        )
    for name in ("lengthscales", "input_scale"):
        if not (getattr(posterior, name) > 0.0).all():
            refuse(f"{prefix}{name}", "expected numbers above zero")
    scalars = posterior.scalars() | {"far_variance": posterior.far_variance}
    for name in (*_POSITIVE, *_NOT_NEGATIVE):
        if not scalars[name] >= 0.0 or (name in _POSITIVE and scalars[name] == 0.0):
            refuse(
                f"{prefix}{name}",
                f"expected a number {'above' if name in _POSITIVE else 'not below'} zero, got {scalars[name]!r}",
            )
    if abs(posterior.variance_sign) != 1.0:
        refuse(f"{prefix}variance_sign", f"expected 1 or -1, got {posterior.variance_sign!r}")


def _check_description(model: ModelArtefact, schema: Schema) -> None:
    read_spec(model.spec, max_basis_size=MAX_DIMENSION)
    _equal("basis_columns", model.basis_columns, schema.column_names)
    if not all(_is_whole(row) and row >= 0 for row in model.basis_rows):
        refuse("basis_rows", "expected row numbers, from 0 on")
    if model.near is None and len(model.basis_rows) != len(model.posterior.basis):
        refuse("basis_rows", f"expected one for each of the {len(model.posterior.basis)} basis vectors")
    if len(model.gains) != len(model.basis_rows) or not all(map(_is_number_or_null, model.gains)):
        refuse("gains", "expected a number or null for each of basis_rows")
    _check_hyperparameters(model.hyperparameters, schema.group_names)
    _check_report(model.report, schema)


def _check_hyperparameters(given: Mapping[str, Any], names: Sequence[str]) -> None:
    known = {"signal_variance", "bias_variance", "noise_variance", "lengthscales"}
    if set(given) != known:
        refuse("hyperparameters", f"expected {', '.join(sorted(known))}")
    scales = given["lengthscales"]
    if not isinstance(scales, dict) or set(scales) != set(names):
        refuse("hyperparameters.lengthscales", "expected one for each feature by its name")
    for name, value in (*given.items(), *scales.items()):
        if value is not scales and (not _is_number(value) or value < 0.0):
            refuse(f"hyperparameters.{name}", f"expected a number not below zero, got {value!r:.80}")


def _check_report(report: Mapping[str, Any], schema: Schema) -> None:
    """Check the fields that lists, answers and commands show; the rest is JSON that is handed on as it is."""
    for name in ("rows", "basis_size"):
        if not (_is_whole(report.get(name)) and 0 < report[name] < 2**53):
            refuse(f"report.{name}", f"expected a whole number above zero, got {report.get(name)!r:.80}")
    _equal("report.target", report.get("target"), schema.target)
    if not isinstance(report.get("moved"), bool):
        refuse("report.moved", "expected true or false")
    for name in _SCORES:
        scores = report.get(name)
        if scores is not None or name not in report:
            _check_scores(f"report.{name}", scores)
    warnings = report.get("warnings", [])
    if not isinstance(warnings, list) or not all(isinstance(text, str) for text in warnings):
        refuse("report.warnings", "expected a list of texts")
    for name, kind in (("columns", list), ("seconds", dict), ("artefact", dict | None), ("local_coverage", dict)):
        if name in report and not isinstance(report[name], kind):
            refuse(f"report.{name}", f"got {json_type(report[name])}")


def _check_scores(path: str, scores: Any, depth: int = 2) -> None:
    if not isinstance(scores, dict) or len(scores) > MAX_SCORES:
        refuse(path, f"expected an object of at most {MAX_SCORES} scores")
    for name, value in scores.items():
        if isinstance(value, dict) and depth > 1:
            _check_scores(f"{path}.{name[:80]}", value, depth - 1)
        elif not _is_number_or_null(value):
            refuse(f"{path}.{name[:80]}", f"expected a number, got {json_type(value)}")


def _equal(field: str, given: Any, expected: Any) -> None:
    if given != expected:
        refuse(field, f"expected what the schema says, {expected!r:.200}; got {given!r:.200}")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_number_or_null(value: object) -> bool:
    return value is None or _is_number(value)
