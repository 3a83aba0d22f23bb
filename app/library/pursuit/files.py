"""Models as files: a whole file or none, in the form that its name says."""

from contextlib import suppress
from os import PathLike
from pathlib import Path

from .errors import InvalidError, file_error

FORMS = {".onnx": "onnx", ".zip": "numpy", ".safetensors": "safetensors"}
"""Forms of a model by the suffix of a file."""


def form_of(path: str | PathLike[str], form: str | None) -> str:
    """Return the form that is asked for, or that a file's name says. InvalidError where it says none."""
    if form is not None:
        return form
    found = FORMS.get(Path(path).suffix.lower())
    if found is None:
        known = ", ".join(f"{suffix} ({name})" for suffix, name in FORMS.items())
        raise InvalidError(f"form: the name {Path(path).name!r} says none; give one, or a suffix of {known}")
    return found


def write_whole(path: str | PathLike[str], data: bytes) -> Path:
    """Write a file, all of it or nothing; return the path. FileError where it cannot be written."""
    place = Path(path)
    partial = place.with_name(place.name + ".part")
    try:
        partial.write_bytes(data)
        partial.replace(place)
    except OSError as error:
        raise file_error(path, error, "write") from None
    finally:
        with suppress(OSError):
            partial.unlink()
    return place
