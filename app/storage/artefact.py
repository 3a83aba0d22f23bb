"""A trained model as bytes: safetensors, so that any language can read it and nothing in it can run.

The tensors are the posterior's arrays (float64), and those of the second one where the noise varies, under `noise.`.
The metadata has one entry, `pursuit`: a JSON document with the format version, the posteriors' scalars, the
calibration, the target's transform and all that is told about the model (schema of the columns, specification,
hyperparameters by column, report, row numbers of the basis). Numbers in it are shortest-repr and round-trip, so
saving and loading changes no bit of a prediction.

Reading is strict: a wrong version, a missing or unknown tensor, a wrong type, a number that is not finite or a
truncated file is a BrokenArtefactError that says which.
"""

import math
import struct
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np
import orjson
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from app.errors import BrokenArtefactError
from core.calibration import Calibration
from core.errors import CoreError
from core.model import Model
from core.posterior import SparsePosterior
from core.transforms import Transform

FORMAT_VERSION = 2
METADATA_KEY = "pursuit"

_MAY_BE_INFINITE = frozenset({"input_scale"})  # of a column that was constant in training

_NOISE = "noise."
_PARTS = ("schema", "spec", "hyperparameters", "report", "basis_columns", "basis_rows", "gains")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelArtefact:
    """All there is to know about one published model.

    model: what predicts. schema: how columns become inputs, as JSON. spec: what was asked, as JSON.
    hyperparameters: by column, as JSON. basis_columns: (p,) names of the inputs. basis_rows: (d,) 0-based row numbers
    of the upload, in the order chosen. gains: (d,) what the criterion said of each, None for a method without.
    report: as the job showed it.
    """

    model: Model
    schema: dict[str, Any]
    spec: dict[str, Any]
    hyperparameters: dict[str, Any]
    basis_columns: tuple[str, ...]
    basis_rows: tuple[int, ...]
    gains: tuple[float | None, ...]
    report: dict[str, Any]


def save(artefact: ModelArtefact) -> bytes:
    """The artefact as safetensors; the same artefact gives the same bytes."""
    model, noise = artefact.model, artefact.model.noise
    named = model.posterior.arrays()
    if noise is not None:
        named |= {_NOISE + name: array for name, array in noise.arrays().items()}
    arrays = {name: np.ascontiguousarray(array, dtype=np.float64) for name, array in named.items()}
    document = {
        "format_version": FORMAT_VERSION,
        "shapes": {name: list(array.shape) for name, array in arrays.items()},
        "scalars": model.posterior.scalars(),
        "noise_scalars": None if noise is None else noise.scalars(),
        "calibration": model.calibration.to_json(),
        "transform": asdict(model.transform),
        **{name: getattr(artefact, name) for name in _PARTS},
    }
    text = orjson.dumps(document, option=orjson.OPT_SORT_KEYS).decode()
    return save_tensors(arrays, metadata={METADATA_KEY: text})


def load(data: bytes) -> ModelArtefact:
    """The artefact in these bytes. Raises BrokenArtefactError saying what is wrong with them."""
    document = _document(data)
    arrays = _arrays(data, document["shapes"])
    try:
        model = _model(arrays, document)
    except (CoreError, KeyError, TypeError, ValueError) as error:
        raise BrokenArtefactError(f"the artefact's arrays do not make a model: {error!r}") from error
    return ModelArtefact(
        model=model,
        schema=document["schema"],
        spec=document["spec"],
        hyperparameters=document["hyperparameters"],
        report=document["report"],
        basis_columns=tuple(document["basis_columns"]),
        basis_rows=tuple(document["basis_rows"]),
        gains=tuple(document["gains"]),
    )


def _model(arrays: dict[str, NDArray[np.float64]], document: dict[str, Any]) -> Model:
    own = {name: array for name, array in arrays.items() if not name.startswith(_NOISE)}
    second = {name.removeprefix(_NOISE): array for name, array in arrays.items() if name.startswith(_NOISE)}
    noise = None
    if second:
        noise = SparsePosterior.restore(second, _scalars(document["noise_scalars"]))
    elif document["noise_scalars"] is not None:
        raise BrokenArtefactError("the artefact's header speaks of noise that varies; its tensors are not there")
    return Model(
        posterior=SparsePosterior.restore(own, _scalars(document["scalars"])),
        noise=noise,
        calibration=Calibration.from_json(document["calibration"]),
        transform=Transform.from_json(document["transform"]),
    )


def _scalars(given: dict[str, Any]) -> dict[str, float]:
    return {name: _finite(name, value) for name, value in given.items()}


def _document(data: bytes) -> dict[str, Any]:
    """The JSON document in the metadata, its version and parts checked."""
    try:
        (length,) = struct.unpack_from("<Q", data)
        if length > len(data) - 8:
            raise BrokenArtefactError(f"the artefact is truncated: its header has {length} bytes, the file {len(data)}")
        header = orjson.loads(data[8 : 8 + length])
        document = orjson.loads(header["__metadata__"][METADATA_KEY])
    except (struct.error, orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise BrokenArtefactError("this is not an artefact of Pursuit: its header cannot be read") from error
    version = document.get("format_version") if isinstance(document, dict) else None
    if version != FORMAT_VERSION:
        raise BrokenArtefactError(
            f"the artefact has format version {version!r}; this server reads {FORMAT_VERSION}: "
            "use the release of Pursuit that wrote it, or a newer one"
        )
    missing = [
        name
        for name in ("shapes", "scalars", "noise_scalars", "calibration", "transform", *_PARTS)
        if name not in document
    ]
    if missing:
        raise BrokenArtefactError(f"the artefact's header lacks {', '.join(missing)}")
    for name in ("shapes", "scalars", "calibration", "transform", "schema", "spec", "hyperparameters", "report"):
        if not isinstance(document[name], dict):
            raise BrokenArtefactError(f"the artefact's header has {name} of another kind than an object")
    return cast("dict[str, Any]", document)


def _arrays(data: bytes, shapes: dict[str, list[int]]) -> dict[str, NDArray[np.float64]]:
    """The tensors, exactly those that `shapes` announces, float64 and finite."""
    try:
        arrays = load_tensors(data)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise BrokenArtefactError(f"the artefact's tensors cannot be read: {error}") from error
    if set(arrays) != set(shapes):
        odd = ", ".join(sorted(set(arrays) ^ set(shapes)))
        raise BrokenArtefactError(f"the artefact's tensors are not those of its header: {odd}")
    for name, array in arrays.items():
        if array.dtype != np.float64:
            raise BrokenArtefactError(f"tensor {name}: expected float64, got {array.dtype}")
        if list(array.shape) != shapes[name]:
            raise BrokenArtefactError(f"tensor {name}: expected shape {shapes[name]}, got {list(array.shape)}")
        if not np.all(np.isfinite(array) | (name.removeprefix(_NOISE) in _MAY_BE_INFINITE and array == np.inf)):
            raise BrokenArtefactError(f"tensor {name} has a number that is not finite")
    return arrays


def _finite(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BrokenArtefactError(f"scalar {name}: expected a finite number, got {value!r}")
    return float(value)
