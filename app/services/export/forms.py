"""Forms that a version is downloaded in."""

from dataclasses import replace
from enum import StrEnum

from app.errors import BrokenArtefactError, InvalidRequestError, MalformedError
from app.services.export.numpy_predictor import numpy_predictor
from app.services.export.onnx_model import onnx_model
from app.storage import artefact
from core.errors import CoreError

LEVEL = 0.95
"""Level of the interval of an exported model where none is asked for."""


class Form(StrEnum):
    """Form of a version: itself, an ONNX model, or a script and its arrays for numpy."""

    SAFETENSORS = "safetensors"
    ONNX = "onnx"
    NUMPY = "numpy"

    @property
    def suffix(self) -> str:
        """Suffix of the file's name."""
        return ".zip" if self is Form.NUMPY else f".{self.value}"

    @property
    def media_type(self) -> str:
        """Media type of the file."""
        return "application/zip" if self is Form.NUMPY else "application/octet-stream"


def parse_form(name: str) -> Form:
    """Return the form of a name. InvalidRequestError."""
    try:
        return Form(name)
    except ValueError:
        raise InvalidRequestError(f"format: expected one of {', '.join(Form)}; got {name[:80]!r}") from None


def export(data: bytes, form: Form, *, label: str, level: float | None = None, target: str | None = None) -> bytes:
    """Return an artefact in another form. O(d^3) for a compact one, else about its size.

    Args:
        data: bytes of the artefact.
        form: to return it in.
        label: name of the version in the file, such as cars@3.
        level: of the interval; None for LEVEL.
        target: of several; None for all of them, which ONNX alone has in one file.

    Raises NotFoundError for another target; BrokenArtefactError; InvalidRequestError that says what of the model the
    form does not express.
    """
    if form is Form.SAFETENSORS:
        if level is not None or target is not None:
            raise InvalidRequestError("interval, target: of formats onnx and numpy alone; safetensors has all of both")
        return data
    level = LEVEL if level is None else level
    if not 0.0 < level < 1.0:
        raise InvalidRequestError(f"interval: expected a probability above 0 and below 1, got {level!r}")
    stored = artefact.load(data)
    if target is not None:
        stored = replace(stored.of_target(target), others=None)
    if form is Form.NUMPY and stored.others:
        names = ", ".join(repr(each.schema["target"]) for each in (stored, *stored.others))
        raise InvalidRequestError(f"target: numpy's files are of one target; expected one of {names}")
    write = onnx_model if form is Form.ONNX else numpy_predictor
    try:
        return write(stored, label=label, level=level)
    except (CoreError, MalformedError) as error:
        raise BrokenArtefactError(f"the artefact's arrays do not make a model: {error}") from error
