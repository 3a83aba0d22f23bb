"""A model of several targets as bytes: the artefacts of its targets in one file, equal tensors once.

    tensors    of target t under `t.` and its name; one that an earlier target has is that one
    document   the format version, and for each target the text of its own document and where its tensors are; and the
               digest over it all

Each target is read as an artefact of its own, with every check of that (`app.storage.artefact`).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from app.errors import BrokenArtefactError
from app.storage.artefact_document import METADATA_KEY, SEVERAL_VERSION, TARGETS, text_of, verify_digest, with_digest


def is_several(text: str) -> bool:
    """Return whether the text of a document is that of several targets."""
    return text.startswith(f'{{"format_version":{SEVERAL_VERSION},')


def joined(parts: Sequence[bytes]) -> bytes:
    """Return one file of the artefacts of all targets."""
    kept: dict[str, NDArray[Any]] = {}
    places: dict[tuple[Any, ...], str] = {}
    targets = []
    for number, data in enumerate(parts):
        where = {}
        for name, array in sorted(load_tensors(data).items()):
            identity = (array.dtype.str, array.shape, array.tobytes())
            place = places.setdefault(identity, f"{number}.{name}")
            kept.setdefault(place, array)
            where[name] = place
        targets.append({"document": text_of(data), "tensors": where})
    document = {"format_version": SEVERAL_VERSION, TARGETS: targets}
    text = orjson.dumps(document, option=orjson.OPT_SORT_KEYS).decode()
    return save_tensors(kept, metadata={METADATA_KEY: with_digest(text, kept)})


def verify_several(data: bytes) -> None:
    """Compare a file with the digest in its document. BrokenArtefactError where it is not whole. Memory: the file."""
    try:
        verify_digest(text_of(data), load_tensors(data))
    except (SafetensorError, TypeError, ValueError) as error:
        raise BrokenArtefactError(
            f"the artefact is damaged or cut short ({error!s:.200}); download it again"
        ) from error


def parts_of(data: bytes, *, check_digest: bool = True) -> Iterator[bytes]:
    """Yield the artefact of each target, one after the other, so that one at a time is in memory twice.
    BrokenArtefactError where the file is not whole."""
    text = text_of(data)
    with _reading():
        tensors = load_tensors(data)
        targets = orjson.loads(text)[TARGETS]
        if check_digest:
            verify_digest(text, tensors)
    for target in targets:
        with _reading():
            part = save_tensors(
                {name: np.ascontiguousarray(tensors[place]) for name, place in target["tensors"].items()},
                metadata={METADATA_KEY: target["document"]},
            )
        yield part


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except (SafetensorError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise BrokenArtefactError(f"the artefact of several targets cannot be read: {error!r:.500}") from error
