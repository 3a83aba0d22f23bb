"""The JSON document in the metadata of an artefact (`app.storage.artefact`): its text, its fields, and the digest.

The document ends with `sha256`, over its text before and the tensors: a byte that changed anywhere is found, also where
no prediction shows it. Files of earlier releases have none, and are read as they always were. It is over the text as it
stands in the file, for another release may write a number in another way.
"""

import hashlib
import re
import struct
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import orjson
from numpy.typing import NDArray

from app.errors import BrokenArtefactError
from core.predict.calibration import Calibration
from core.predict.transforms import Transform
from core.spec import Artefact

FORMAT_VERSION = 8
SEVERAL_VERSION = 7
"""Format of a file with the models of several targets."""
TARGETS = "targets"
READ_VERSIONS = range(1, FORMAT_VERSION + 1)
METADATA_KEY = "pursuit"
PARTS = ("schema", "spec", "hyperparameters", "report", "basis_columns", "basis_rows", "gains")
_FIELDS = ("format_version", "kind", "shapes", "scalars", "noise_scalars", "calibration", "transform")
DIGEST = "sha256"
DESCRIPTION = frozenset({*PARTS, *_FIELDS, "precision", "kernel", "probe", DIGEST})
"""Fields of the document in the metadata."""
_DIGEST_FIELD = re.compile(rf',\s*"{DIGEST}"\s*:\s*"([0-9a-f]{{64}})"\s*}}\s*$')

_KINDS = ", ".join(Artefact)
_UNREADABLE_HEADER = "this is not an artefact of Pursuit: its header cannot be read"


def text_of(data: bytes) -> str:
    """The JSON text in the metadata."""
    try:
        (length,) = struct.unpack_from("<Q", data)
        if length > len(data) - 8:
            raise BrokenArtefactError(f"the artefact is truncated: its header has {length} bytes, the file {len(data)}")
        text = orjson.loads(data[8 : 8 + length])["__metadata__"][METADATA_KEY]
    except (struct.error, orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise BrokenArtefactError(_UNREADABLE_HEADER) from error
    if not isinstance(text, str):
        raise BrokenArtefactError(_UNREADABLE_HEADER)
    return text


def read_document(text: str) -> dict[str, Any]:
    """Return the JSON document, its version and parts checked."""
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BrokenArtefactError(_UNREADABLE_HEADER) from error
    version = document.get("format_version") if isinstance(document, dict) else None
    if version not in READ_VERSIONS:
        raise BrokenArtefactError(
            f"the artefact has format version {version!r}; this server reads 1 to {FORMAT_VERSION}: "
            "use the release of Pursuit that wrote it, or a newer one"
        )
    if version == 1:
        document |= {
            "kind": Artefact.FULL.value,
            "noise_scalars": None,
            "calibration": Calibration().to_json(),
            "transform": Transform().to_json(),
        }
    if document.get("kind") not in list(Artefact):
        raise BrokenArtefactError(f"the artefact's header has kind {document.get('kind')!r}, not one of {_KINDS}")
    needed = (*_FIELDS[2:], *PARTS)
    missing = [name for name in needed if name not in document]
    if missing:
        raise BrokenArtefactError(f"the artefact's header lacks {', '.join(missing)}")
    for name in ("shapes", "scalars", "calibration", "transform", "schema", "spec", "hyperparameters", "report"):
        if not isinstance(document[name], dict):
            raise BrokenArtefactError(f"the artefact's header has {name} that is not an object")
    for name in ("basis_columns", "basis_rows", "gains"):
        if not isinstance(document[name], list):
            raise BrokenArtefactError(f"the artefact's header has {name} that is not a list")
    if not isinstance(document["noise_scalars"], dict | None):
        raise BrokenArtefactError("the artefact's header has noise_scalars that is not an object")
    return cast("dict[str, Any]", document)


def with_digest(text: str, arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return the text of a document, an object, with the digest as its last field."""
    return f'{text[:-1]},"{DIGEST}":"{_digest(text, arrays)}"}}'


def verify_digest(text: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Compare with the digest in the text; nothing where there is none. BrokenArtefactError."""
    if DIGEST not in orjson.loads(text):
        return
    found = _DIGEST_FIELD.search(text)
    if found is None or _digest(f"{text[: found.start()]}}}", arrays) != found[1]:
        raise BrokenArtefactError(
            f"the artefact is damaged: its {DIGEST} is not that of its tensors and description; download it again"
        )


def _digest(text: str, arrays: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 of the document's text, without the digest, and of each tensor by name: name, type, shape, bytes."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.data)
    return digest.hexdigest()
