"""Tensors of the Open Inference Protocol (KServe, Triton: "V2") to the inputs of a model, and answers to tensors.

A tensor comes as JSON, its numbers flat or nested, or as bytes behind the JSON, little-endian and row by row (the
binary tensor data extension). Rows come as one tensor of shape [rows, features] in the order of the features, or as
a tensor for every column, of shape [rows] or [rows, 1], with the column's name.
"""

import math
import struct
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from app.errors import InvalidRequestError
from app.services.decoding import decode_any, given
from app.services.predict.row_decoder import RowDecoder, pieces_of_numbers
from app.tables import Schema
from app.tables.read.names import clean_name

NUMBERS = {
    "BOOL": np.dtype("?"),
    **{f"UINT{8 * size}": np.dtype(f"<u{size}") for size in (1, 2, 4, 8)},
    **{f"INT{8 * size}": np.dtype(f"<i{size}") for size in (1, 2, 4, 8)},
    **{f"FP{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)},
}
BYTES = "BYTES"
ROWS = "rows"
"""Name of the tensor of all features in a model's metadata; requests may call it as they like."""

_MOST_DIMENSIONS = 8
_REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_BOOL = NUMBERS["BOOL"]
_numbers = msgspec.json.Decoder(list[float])
_whole_numbers = msgspec.json.Decoder(list[int])


class TensorParameters(msgspec.Struct):
    """Parameters of an input; others are for other servers."""

    binary_data_size: int | None = None


class InputTensor(msgspec.Struct):
    """`data` is missing where the bytes come behind the JSON."""

    name: str
    shape: list[int]
    datatype: str
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    parameters: TensorParameters | None = None


class FlatTensor(InputTensor):
    """The commonest of them, which is read in one pass with the request: a flat list of numbers."""

    data: list[float]  # type: ignore[assignment]  # mypy: in place of Raw

    @property
    def fit(self) -> bool:
        """True where doubles are all it takes: whole numbers keep their type, for they may name categories."""
        return self.datatype in NUMBERS and NUMBERS[self.datatype].kind == "f" and self.parameters is None


class Tensor:
    """One that was read: its name, shape, and cells as an array or, where they are no numbers, as a flat list."""

    __slots__ = ("cells", "name", "shape")

    def __init__(self, name: str, shape: Sequence[int], cells: NDArray[Any] | list[Any]) -> None:
        self.name = name
        self.shape = shape
        self.cells = cells

    def flat(self) -> list[Any]:
        """The cells row by row."""
        found: list[Any] = self.cells.ravel().tolist() if isinstance(self.cells, np.ndarray) else self.cells
        return found


def read_tensors(tensors: Sequence[InputTensor], binary: bytes) -> list[Tensor]:
    """Read all inputs of a request, and all of the bytes behind its JSON. InvalidRequestError naming the tensor."""
    found = []
    start = 0
    for tensor in tensors:
        size = _check(tensor)
        announced = None if tensor.parameters is None else tensor.parameters.binary_data_size
        if announced is None:
            data = tensor.data if isinstance(tensor, FlatTensor) else given(tensor.data)
            if data is None:
                raise InvalidRequestError(f"input {tensor.name!r}: expected data, or parameters.binary_data_size")
            cells: NDArray[Any] | list[Any] = _from_json(tensor, data, size)
        else:
            if isinstance(tensor, FlatTensor) or given(tensor.data) is not None:
                raise InvalidRequestError(f"input {tensor.name!r}: expected data or binary_data_size, got both")
            if not 0 <= announced <= len(binary) - start:
                raise InvalidRequestError(
                    f"input {tensor.name!r}: binary_data_size is {announced}, {len(binary) - start} bytes are left "
                    "behind the JSON (Inference-Header-Content-Length says where it ends)"
                )
            cells = _from_bytes(tensor, binary[start : start + announced], size)
            start += announced
        found.append(Tensor(tensor.name, tensor.shape, cells))
    if start != len(binary):
        raise InvalidRequestError(
            f"{len(binary) - start} bytes behind the JSON belong to no input: give binary_data_size"
        )
    return found


def to_inputs(tensors: Sequence[Tensor], schema: Schema, decoder: RowDecoder) -> NDArray[np.float64]:
    """The model's inputs (m, p). InvalidRequestError naming row and column."""
    names = schema.names
    if len(tensors) == 1 and (not _names_a_column(tensors[0].name, names) or len(names) == 1):
        return _of_rows(tensors[0], names, decoder)
    columns: dict[str, list[Any]] = {}
    for tensor in tensors:
        if tensor.name in columns:
            raise InvalidRequestError(f"input {tensor.name!r} is there twice")
        if _names_a_column(tensor.name, names) and (len(tensor.shape) > 2 or tensor.shape[1:] not in ([], [1])):
            raise InvalidRequestError(f"input {tensor.name!r}: expected shape [rows] or [rows, 1], got {tensor.shape}")
        columns[tensor.name] = tensor.flat()
    return schema.encode_columns(columns)


def _names_a_column(name: str, names: Sequence[str]) -> bool:
    return name in names or clean_name(name) in names


def _of_rows(tensor: Tensor, names: Sequence[str], decoder: RowDecoder) -> NDArray[np.float64]:
    shape = tensor.shape
    if len(names) == 1 and len(shape) == 1:
        shape = [shape[0], 1]
    if len(shape) != 2 or shape[1] != len(names):
        raise InvalidRequestError(
            f"input {tensor.name!r}: expected shape [rows, {len(names)}] ({', '.join(names)}), or a tensor of shape "
            f"[rows] for every column by its name, got {list(tensor.shape)}"
        )
    if isinstance(tensor.cells, np.ndarray):
        return decoder.encode_matrix(tensor.cells.reshape(shape))
    return decoder.encode_cells(
        [tensor.cells[start : start + shape[1]] for start in range(0, math.prod(shape), shape[1])]
    )


def bytes_tensor(values: NDArray[np.float64]) -> bytes:
    """An output as it goes behind the JSON."""
    return values.astype("<f8", copy=False).tobytes()


def _check(tensor: InputTensor) -> int:
    """Return the number of elements that the shape announces."""
    if tensor.datatype not in NUMBERS and tensor.datatype != BYTES:
        known = ", ".join((*NUMBERS, BYTES))
        raise InvalidRequestError(f"input {tensor.name!r}: expected a datatype of {known}, got {tensor.datatype!r}")
    if not 1 <= len(tensor.shape) <= _MOST_DIMENSIONS or min(tensor.shape) < 0:
        raise InvalidRequestError(f"input {tensor.name!r}: shape {tensor.shape} is no shape of rows")
    return math.prod(tensor.shape)


def _miscounted(tensor: InputTensor, expected: int, got: int, what: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"input {tensor.name!r}: shape {tensor.shape} of {tensor.datatype} needs {expected} {what}, got {got}"
    )


def _from_json(tensor: InputTensor, data: msgspec.Raw | list[float], size: int) -> NDArray[Any] | list[Any]:
    if isinstance(data, list):
        if len(data) != size:
            raise _miscounted(tensor, size, len(data), "elements")
        return np.fromiter(data, np.float64, count=size)
    kind = NUMBERS.get(tensor.datatype, _BOOL)
    if kind != _BOOL:
        decoder = _numbers if kind.kind == "f" else _whole_numbers
        try:
            parts = [_array(tensor, decoder.decode(piece)) for piece in pieces_of_numbers(memoryview(data))]
        except _REFUSALS:
            pass  # nested, or something that is no number: looked at one by one below
        else:
            numbers = parts[0] if len(parts) == 1 else np.concatenate(parts)
            if len(numbers) != size:
                raise _miscounted(tensor, size, len(numbers), "elements")
            return numbers
    cells: list[Any] = []
    _flatten(tensor, decode_any(data, where=f"inputs.{tensor.name}.data"), 0, cells)
    if len(cells) != size:
        raise _miscounted(tensor, size, len(cells), "elements")
    _check_cells(tensor, cells)
    return cells if kind == _BOOL or None in cells else _array(tensor, cells)


def _array(tensor: InputTensor, numbers: list[Any]) -> NDArray[Any]:
    """Doubles, or whole numbers of the tensor's own type: a category may be called 3, and is not called 3.0."""
    kind = NUMBERS[tensor.datatype]
    try:
        return np.array(numbers, dtype=np.float64 if kind.kind == "f" else kind)
    except OverflowError:
        raise InvalidRequestError(f"input {tensor.name!r}: data: a number is beyond {tensor.datatype}") from None


def _flatten(tensor: InputTensor, found: Any, depth: int, cells: list[Any]) -> None:
    """Elements row by row. Lists inside of lists are to have the lengths that the shape says."""
    if not isinstance(found, list):
        raise InvalidRequestError(f"input {tensor.name!r}: data: expected a list, flat or nested as its shape")
    if not any(isinstance(one, list) for one in found):
        if depth and len(found) != math.prod(tensor.shape[depth:]):
            raise _miscounted(tensor, math.prod(tensor.shape[depth:]), len(found), f"elements at depth {depth}")
        cells.extend(found)
        return
    if depth + 1 >= len(tensor.shape) or len(found) != tensor.shape[depth]:
        raise InvalidRequestError(f"input {tensor.name!r}: data is nested otherwise than its shape {tensor.shape}")
    for one in found:
        _flatten(tensor, one, depth + 1, cells)


def _check_cells(tensor: InputTensor, cells: list[Any]) -> None:
    """Check the types of cells. None is a missing cell, which the model may know or not."""
    kind = NUMBERS.get(tensor.datatype)
    expected, fits = "a text", frozenset[type]({str})
    if kind is not None:
        expected, fits = {
            "b": ("true or false", frozenset[type]({bool})),
            "f": ("a number", frozenset[type]({int, float})),
        }.get(kind.kind, ("a whole number", frozenset[type]({int})))
    for place, cell in enumerate(cells):
        if cell is not None and type(cell) not in fits:
            raise InvalidRequestError(
                f"input {tensor.name!r}: data: element {place}: expected {expected} for {tensor.datatype}"
            )


def _from_bytes(tensor: InputTensor, data: bytes, size: int) -> NDArray[Any] | list[Any]:
    if tensor.datatype == BYTES:
        return _texts(tensor, data, size)
    kind = NUMBERS[tensor.datatype]
    if len(data) != size * kind.itemsize:
        raise _miscounted(tensor, size * kind.itemsize, len(data), "bytes")
    if kind == _BOOL:
        if data.strip(b"\x00\x01"):
            raise InvalidRequestError(f"input {tensor.name!r}: a byte of BOOL is neither 0 nor 1")
        return [byte == 1 for byte in data]
    found: NDArray[Any] = np.frombuffer(data, dtype=kind)
    return found.astype(np.float64, copy=False) if kind.kind == "f" else found


def _texts(tensor: InputTensor, data: bytes, size: int) -> list[str]:
    """Read texts, each with its length before it, in four bytes."""
    found: list[str] = []
    start = 0
    while start < len(data):
        stop = start + 4
        if stop <= len(data):
            stop += struct.unpack_from("<I", data, start)[0]
        if stop > len(data):
            raise InvalidRequestError(f"input {tensor.name!r}: its bytes end inside of element {len(found)}")
        try:
            found.append(data[start + 4 : stop].decode())
        except UnicodeDecodeError:
            raise InvalidRequestError(f"input {tensor.name!r}: element {len(found)} is not UTF-8") from None
        start = stop
    if len(found) != size:
        raise _miscounted(tensor, size, len(found), "elements")
    return found
