"""The state of a model's training as bytes: safetensors, beside the artefact, which is what serves and travels.

An update of the model needs it (`core.train.update`); a model without one, such as an imported one, cannot be updated.
Those of several targets are in one file, tensors that they have in common once.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from app.errors import BrokenArtefactError
from core.errors import CoreError
from core.numeric.linalg import pack_upper, unpack_upper
from core.predict.calibration import LeftOut
from core.train.state import TrainingState

STATES = "states"
"""Prefix of these files in the store."""

_KEY, _FORMAT, _SEVERAL = "pursuit", "pursuit-state/1", "pursuit-states/1"
_LEFT_OUT = ("places", "error", "latent_variance", "noise_variance", "far_variance", "group")
_WHOLE = ("numbers", "left_out.places", "left_out.group")

__all__ = ["STATES", "keeps_rows", "load", "save"]


def save(states: Sequence[TrainingState]) -> bytes:
    """Encode the state of each target; the same states give the same bytes."""
    documents, tensors = zip(*map(_described, states), strict=True)
    if len(states) == 1:
        return save_tensors(tensors[0], metadata={_KEY: json.dumps(documents[0], sort_keys=True)})
    kept: dict[str, NDArray[Any]] = {}
    places: dict[tuple[Any, ...], str] = {}
    for number, (document, arrays) in enumerate(zip(documents, tensors, strict=True)):
        where = {}
        for name, array in arrays.items():
            place = places.setdefault((array.dtype.str, array.shape, array.tobytes()), f"{number}.{name}")
            kept.setdefault(place, array)
            where[name] = place
        document["tensors"] = where
    whole = {"format": _SEVERAL, "targets": list(documents)}
    return save_tensors(kept, metadata={_KEY: json.dumps(whole, sort_keys=True)})


def load(data: bytes) -> list[TrainingState]:
    """Decode the state of each target. BrokenArtefactError for anything else."""
    try:
        arrays = load_tensors(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        document = json.loads(header["__metadata__"][_KEY])
        if document["format"] == _FORMAT:
            return [_restored(document, arrays)]
        if document["format"] != _SEVERAL:
            raise BrokenArtefactError(f"the state has format {document['format']!r}, expected {_FORMAT!r}")
        return [
            _restored(target, {name: arrays[place] for name, place in target["tensors"].items()})
            for target in document["targets"]
        ]
    except (SafetensorError, CoreError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise BrokenArtefactError(f"the state of the model's training cannot be read: {error!r:.300}") from error


def keeps_rows(file: BinaryIO) -> bool:
    """Return whether the rows themselves are in a file of states, of all targets; reads its head alone.
    BrokenArtefactError for anything else."""
    try:
        head = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        document = json.loads(head["__metadata__"][_KEY])
        where = [target["tensors"] for target in document["targets"]] if document["format"] == _SEVERAL else [{}]
        return all(
            head[each.get("targets", "targets")]["shape"] == head[each.get("numbers", "numbers")]["shape"]
            for each in where
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BrokenArtefactError(f"the state of the model's training cannot be read: {error!r:.300}") from error


def _described(state: TrainingState) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    tensors = {
        "numbers": state.numbers,
        "inputs": state.inputs,
        "targets": state.targets,
        "information": pack_upper(state.information),
        "b": state.b,
    }
    document: dict[str, Any] = {"format": _FORMAT, "trained": state.trained, "added": state.added, "left_out": None}
    if state.beyond:
        document["beyond"] = state.beyond
    if state.left_out is not None:
        tensors |= {f"left_out.{name}": getattr(state.left_out, name) for name in _LEFT_OUT}
        document["left_out"] = {"noise_floor": state.left_out.noise_floor}
    return document, {
        name: np.ascontiguousarray(array, np.int64 if name in _WHOLE else np.float64)
        for name, array in sorted(tensors.items())
    }


def _restored(document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> TrainingState:
    left_out = None
    if document["left_out"] is not None:
        floor = float(document["left_out"]["noise_floor"])
        if not math.isfinite(floor):
            raise BrokenArtefactError("the state has a noise floor that is not finite")
        parts = {name: arrays[f"left_out.{name}"] for name in _LEFT_OUT}
        left_out = LeftOut(**parts, noise_floor=floor)
    upper = unpack_upper(arrays["information"])
    return TrainingState(
        numbers=arrays["numbers"],
        inputs=arrays["inputs"],
        targets=arrays["targets"],
        information=upper + np.triu(upper, 1).T,
        b=arrays["b"],
        left_out=left_out,
        trained=int(document["trained"]),
        added=int(document["added"]),
        beyond=int(document.get("beyond", 0)),
    )
