"""The `spec` of a training request as it is read: defaults that follow from other fields, a sentence for each fault."""

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from app.errors import Fault, InvalidRequestError
from app.services.specification import (
    BY_HAND,
    NAME_RULE,
    AdaptationBody,
    BoundsBody,
    HyperparametersBody,
    RefinementBody,
    SpecBody,
)
from app.services.validation_messages import plain_message, shortened
from app.tables.columns.cell_errors import json_type
from core.spec import Effort, InputTransforms, KernelChoice, MeanRows, TargetTransform

_CLOSE = 0.75  # from which likeness on a word may be the one that was meant
_AS_THEY_ARE = {"target_transform": TargetTransform.NONE, "input_transform": InputTransforms.NONE}
"""Defaults where hyperparameters are given, in units of target and columns as they are ..."""
_SPARSE = _AS_THEY_ARE | {"kernel": KernelChoice.GAUSSIAN, "mean_rows": MeanRows.BASIS}
"""... and with `effort: quick`, which is that of a sparse model with a part chosen by hand, too ..."""
_QUICK = {
    "adapt": AdaptationBody(rounds=1, steps=10),
    "refine": RefinementBody(steps=18),
    "max_basis_size": 600,
    "power": 0.6,
}
"""... and where it is asked for and nothing is chosen by hand: one short round, then steps in which a few more basis
vectors move, which reach in a third of the time what rounds reach, or more."""


def read_spec(given: object, *, max_basis_size: int) -> SpecBody:
    """Read the specification in a decoded JSON value.

    max_basis_size: the server's; a specification without one of its own gets it where it is below the default.
    Raises InvalidRequestError naming every wrong field.
    """
    if not isinstance(given, Mapping):
        raise InvalidRequestError(f"spec: expected an object, got {json_type(given)}")
    try:
        body = SpecBody.model_validate(given)
    except ValidationError as error:
        faults = list({fault.column: fault for fault in map(_fault, error.errors())}.values())
        raise InvalidRequestError("; ".join(fault.message for fault in faults), faults=faults) from error
    if body.decimal is not None and body.decimal == body.thousands:
        message = f"spec.thousands: expected another sign than spec.decimal; got {body.decimal!r} for both"
        raise InvalidRequestError(message, faults=[Fault(message=message, column="thousands")])
    if body.calibrate is None and (body.groups is not None or body.order is not None):
        field = "groups" if body.order is None else "order"
        message = f"spec.{field}: rows are left out by it to calibrate the error bars: not with calibrate off"
        raise InvalidRequestError(message, faults=[Fault(message=message, column=field)])
    if body.weights is not None and body.missing == "impute":
        message = "spec.weights: rows of missing cells all count the same: not with missing impute; use drop or error"
        raise InvalidRequestError(message, faults=[Fault(message=message, column="weights")])
    for field in ("basis_size", "max_basis_size"):
        asked = getattr(body, field)
        if field in body.model_fields_set and asked is not None and asked > max_basis_size:
            message = f"spec.{field}: this server takes at most {max_basis_size}, got {asked}"
            raise InvalidRequestError(message, faults=[Fault(message=message, column=field)])
    defaults: dict[str, Any] = {}
    if "effort" not in body.model_fields_set and _chosen_by_hand(body):
        defaults["effort"] = Effort.QUICK
    if body.hyperparameters is not None:
        defaults |= {name: value for name, value in _AS_THEY_ARE.items() if name not in body.model_fields_set}
    if defaults.get("effort", body.effort) is Effort.QUICK:
        several = body.share is not False and (isinstance(body.target, list) or "*" in (body.target or ""))
        given_by_hand = _chosen_by_hand(body) or "mean_rows" in body.model_fields_set or several  # none moves then
        quick = _SPARSE if given_by_hand else _SPARSE | _QUICK
        defaults |= {name: value for name, value in quick.items() if name not in body.model_fields_set}
    if defaults.get("max_basis_size", body.max_basis_size) > max_basis_size:
        defaults["max_basis_size"] = max_basis_size
    return body.model_copy(update=defaults) if defaults else body


def _chosen_by_hand(body: SpecBody) -> bool:
    """Return whether a part of a sparse model is another than by default."""
    return any(getattr(body, name) != SpecBody.model_fields[name].default for name in BY_HAND)


def _fault(detail: ErrorDetails) -> Fault:
    path = ".".join(str(part) for part in detail["loc"])
    value: Any = detail["input"]
    if detail["loc"][0] == "missing_values" and len(detail["loc"]) > 1:  # pydantic has a fault for each type it may be
        path = path.rpartition(".")[0]
        return Fault(message=f"spec.{path}: expected a number or a text; got {shortened(value)}", column=path)
    if detail["type"] == "extra_forbidden":
        inside: dict[str, type[BaseModel]] = {
            "adapt": AdaptationBody,
            "hyperparameters": HyperparametersBody,
            "refine": RefinementBody,
            "bounds": BoundsBody,
        }
        model = inside.get(str(detail["loc"][0]), SpecBody) if len(detail["loc"]) > 1 else SpecBody
        known = list(model.model_fields)
        close = difflib.get_close_matches(str(detail["loc"][-1]), known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
        return Fault(message=f"spec.{path}: unknown field; {hint}", column=path)
    if detail["type"] in ("enum", "literal_error"):
        expected = detail.get("ctx", {}).get("expected", "").replace("'", "").replace(" or ", ", ")
        close = difflib.get_close_matches(str(value), expected.split(", "), n=1, cutoff=_CLOSE)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        return Fault(message=f"spec.{path}: expected one of {expected}; got {shortened(value)}{hint}", column=path)
    if detail["type"] == "string_pattern_mismatch":
        return Fault(message=f"spec.{path}: expected {NAME_RULE}; got {shortened(value)}", column=path)
    if detail["type"] == "missing":
        return Fault(message=f"spec.{path}: missing", column=path)
    what = plain_message(detail["msg"])
    if path in ("basis_size", "max_levels") and detail["type"].startswith("int"):
        what += ' or "auto"'
    return Fault(message=f"spec.{path}: expected {what}; got {shortened(value)}", column=path)
