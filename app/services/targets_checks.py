"""Checks of an artefact of several targets from outside: what is around the artefacts of its targets, and that these
belong together. Each of them is checked as an artefact of its own beside this (`app.services.artefact_checks`).

A tensor that targets have in common is one in the file and theirs each in memory: what the file unfolds to is bounded.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors

from app.errors import BrokenArtefactError, InvalidRequestError, TooLargeError
from app.services.artefact_checks import MAX_TENSORS, check_tensor, refuse
from app.storage.artefact import ERROR_CORRELATION, TARGET_NAMES, ModelArtefact
from app.storage.artefact_document import DIGEST, SEVERAL_VERSION, TARGETS, text_of, verify_digest
from app.storage.several_artefact import is_several
from app.tables import Schema, check_targets, schema_of
from app.tables.columns.cell_errors import json_type

_FIELDS = {"format_version", TARGETS, DIGEST}
_PART = {"document", "tensors"}


def check_file(data: bytes, header: Mapping[str, Any], document: Mapping[str, Any], *, max_bytes: int) -> None:
    """Check what is around the artefacts of the targets. header, document: as `read_header` returns them; max_bytes: of
    the tensors of all targets.

    Raises InvalidRequestError naming field or tensor, TooLargeError.
    """
    for name in document:
        if name not in _FIELDS:
            refuse(name[:80], f"unknown field; known are {', '.join(sorted(_FIELDS))}")
    if not is_several(text_of(data)):
        refuse("format_version", f"expected {SEVERAL_VERSION}, as the first field of the description")
    targets = document[TARGETS]
    if not isinstance(targets, list) or not targets:
        refuse(TARGETS, f"expected a list of at least one, got {json_type(targets) if targets != [] else 'none'}")
    used = set[str]()
    for place, target in enumerate(targets):
        used |= _check_part(f"{TARGETS}[{place}]", target, header)
    if unused := sorted(set(header) - used):
        refuse(f"tensor {unused[0][:80]}", "no target has it")
    tensors = _whole(data)
    unfolded = sum(tensors[name].nbytes for target in targets for name in target["tensors"].values())
    if unfolded > max_bytes:
        raise TooLargeError(
            f"the tensors of all {len(targets)} targets have {unfolded:,} bytes in memory, at most {max_bytes:,} "
            "(PURSUIT_MAX_ARTEFACT_BYTES)"
        )


def check_together(models: Sequence[ModelArtefact]) -> None:
    """Check that models are those of the targets of one table. InvalidRequestError naming target and field."""
    first = Schema.from_json(models[0].schema)
    names = [str(model.schema["target"]) for model in models]
    if list(first.targets) != names or len(set(names)) < len(names) or first.other_targets is None:
        refuse(TARGETS, f"expected those of the first one's schema, each once, {list(first.targets)!r:.200}")
    check_targets(first, names)
    for place, (name, model) in enumerate(zip(names, models, strict=True)):
        where = f"{TARGETS}[{place}]"
        if Schema.from_json(model.schema) != schema_of(first, name):
            refuse(f"{where}.schema", "expected the columns of the first target, and all other targets")
        _check_report(f"{where}.report", model.report, names)


def refuse_part(model: ModelArtefact) -> None:
    """Refuse a file of one target that says it is of several: the others would be missed. InvalidRequestError."""
    if "other_targets" in model.schema:
        refuse("schema.other_targets", "the file has the model of one target alone: expected none")
    if TARGET_NAMES in model.report:
        refuse(f"report.{TARGET_NAMES}", "the file has the model of one target alone: expected none")


def _whole(data: bytes) -> dict[str, NDArray[Any]]:
    """The tensors of a file that has the digest of all in it, where it has one."""
    try:
        tensors: dict[str, NDArray[Any]] = load_tensors(data)
    except (SafetensorError, TypeError, ValueError) as error:
        raise InvalidRequestError(
            f"the artefact is damaged or cut short ({error!s:.200}); download it again"
        ) from error
    try:
        verify_digest(text_of(data), tensors)
    except BrokenArtefactError as error:
        raise InvalidRequestError(error.message) from error
    return tensors


def _check_part(where: str, target: Any, header: Mapping[str, Any]) -> set[str]:
    """Tensors of the file that a target has."""
    if not isinstance(target, dict) or set(target) != _PART:
        refuse(where, f"expected an object of {' and '.join(sorted(_PART))}")
    if not isinstance(target["document"], str):
        refuse(f"{where}.document", f"expected text, got {json_type(target['document'])}")
    tensors = target["tensors"]
    if not isinstance(tensors, dict) or not 1 <= len(tensors) <= MAX_TENSORS:
        refuse(f"{where}.tensors", f"expected an object of 1 to {MAX_TENSORS} names")
    for name, place in tensors.items():
        if not isinstance(place, str) or place not in header:
            refuse(f"{where}.tensors.{name[:80]}", f"the file has no tensor {place!r:.80}")
        check_tensor(name, header[place])
    return set(tensors.values())


def _check_report(where: str, report: Mapping[str, Any], names: Sequence[str]) -> None:
    if report.get(TARGET_NAMES) != list(names):
        refuse(f"{where}.{TARGET_NAMES}", f"expected {list(names)!r:.200}")
    sharing = report.get("sharing")
    if not isinstance(sharing, dict) or set(sharing) != {"with", "reason"} or not isinstance(sharing["reason"], str):
        refuse(f"{where}.sharing", "expected an object of with and reason")
    if not isinstance(sharing["with"], list) or not all(name in names for name in sharing["with"]):
        refuse(f"{where}.sharing.with", "expected a list of targets")
    told = report.get(ERROR_CORRELATION)
    if not isinstance(told, dict) or set(told) != {"targets", "correlation"} or told["targets"] != list(names):
        refuse(f"{where}.{ERROR_CORRELATION}", "expected an object of targets, all of them, and correlation")
    rows = told["correlation"]
    square = isinstance(rows, list) and len(rows) == len(names)
    if not square or not all(isinstance(row, list) and len(row) == len(names) for row in rows):
        refuse(
            f"{where}.{ERROR_CORRELATION}.correlation", "expected a square of numbers or null, a row for each target"
        )
    if not all(value is None or _is_correlation(value) for row in rows for value in row):
        refuse(f"{where}.{ERROR_CORRELATION}.correlation", "expected numbers from -1 to 1, or null")


def _is_correlation(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 1.0
