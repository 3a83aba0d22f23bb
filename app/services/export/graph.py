"""An ONNX graph, written expression by expression: arithmetic on a `Value` adds a node to its graph.

The file is a protocol buffer whose few field numbers are fixed for good (onnx.proto of github.com/onnx/onnx), so that
it is encoded here: a server writes ONNX without the package, which tests hold it against.

Constants are float64 from Python's floats and int64 from its integers: ONNX converts no type by itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

OPSET, ML_OPSET, IR_VERSION = 17, 2, 8
"""Versions of the operators: of 2022, which onnxruntime reads since 1.12."""
MOST_BYTES = 2**31 - 1
"""Bytes of a protocol buffer."""
_TYPES: Final = {"float64": 11, "int64": 7, "bool": 9, "string": 8}
"""Numbers of the element types that are used."""


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """One value of a graph."""

    graph: "Graph"
    name: str
    __array_ufunc__: ClassVar[None] = None
    """numpy leaves operations with its arrays to this class."""

    def __add__(self, other: "Operand") -> "Value":
        return self.graph.op("Add", self, other)

    def __radd__(self, other: "Operand") -> "Value":
        return self.graph.op("Add", other, self)

    def __sub__(self, other: "Operand") -> "Value":
        return self.graph.op("Sub", self, other)

    def __rsub__(self, other: "Operand") -> "Value":
        return self.graph.op("Sub", other, self)

    def __mul__(self, other: "Operand") -> "Value":
        return self.graph.op("Mul", self, other)

    def __rmul__(self, other: "Operand") -> "Value":
        return self.graph.op("Mul", other, self)

    def __truediv__(self, other: "Operand") -> "Value":
        return self.graph.op("Div", self, other)

    def __rtruediv__(self, other: "Operand") -> "Value":
        return self.graph.op("Div", other, self)

    def __matmul__(self, other: "Operand") -> "Value":
        return self.graph.op("MatMul", self, other)

    def __neg__(self) -> "Value":
        return self.graph.op("Neg", self)

    def below(self, other: "Operand") -> "Value":
        """Return where it is less."""
        return self.graph.op("Less", self, other)

    def above(self, other: "Operand") -> "Value":
        """Return where it is more."""
        return self.graph.op("Greater", self, other)

    def reaches(self, other: "Operand") -> "Value":
        """Return where it is as much or more."""
        return self.graph.op("GreaterOrEqual", self, other)

    def equals(self, other: "Operand") -> "Value":
        """Return where both are equal."""
        return self.graph.op("Equal", self, other)

    def either(self, other: "Operand") -> "Value":
        """Return where one of both is true."""
        return self.graph.op("Or", self, other)

    def otherwise(self, condition: "Value", other: "Operand") -> "Value":
        """Return the value, and the other where a condition holds."""
        return self.graph.op("Where", condition, other, self)

    def at_least(self, other: "Operand") -> "Value":
        """Return the larger of both."""
        return self.graph.op("Max", self, other)

    def at_most(self, other: "Operand") -> "Value":
        """Return the smaller of both."""
        return self.graph.op("Min", self, other)

    def total(self, axis: int, *, keep: bool = True) -> "Value":
        """Return the sum over an axis."""
        return self.graph.op("ReduceSum", self, _ints(axis), keepdims=int(keep))

    def extended(self, *axes: int) -> "Value":
        """Return it with more axes of length one."""
        return self.graph.op("Unsqueeze", self, _ints(*axes))

    def cut(self, axis: int, begin: int, end: int) -> "Value":
        """Return a part of an axis."""
        return self.graph.op("Slice", self, _ints(begin), _ints(end), _ints(axis))

    def reshaped(self, *shape: int) -> "Value":
        """Return it in another shape, -1 for what is left."""
        return self.graph.op("Reshape", self, _ints(*shape))

    def swapped(self, *axes: int) -> "Value":
        """Return it with its axes in another order."""
        return self.graph.op("Transpose", self, perm=axes)

    def taken_from(self, table: "Operand", axis: int = 0) -> "Value":
        """Return the entries of a table at these places."""
        return self.graph.op("Gather", table, self, axis=axis)

    def to_float(self) -> "Value":
        """Return it as float64."""
        return self.graph.op("Cast", self, to=_TYPES["float64"])

    def to_integer(self) -> "Value":
        """Return it as int64."""
        return self.graph.op("Cast", self, to=_TYPES["int64"])


Operand = Value | float | int | NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """An input or an output of a graph: (rows, 1) of an element type."""

    name: str
    type: str


class Graph:
    """Nodes and constants in the order in which they were made."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._names = 0
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._tensors: list[bytes] = []
        self._inputs: list[Port] = []
        self._outputs: list[Port] = []

    def input(self, name: str, kind: str) -> Value:
        """Return an input, which is a new one unless it was asked for before."""
        if (port := Port(name=name, type=kind)) not in self._inputs:
            self._inputs.append(port)
        return Value(self, name)

    def output(self, name: str, value: Value) -> None:
        """Make a value (rows, 1) of float64 an output."""
        self._nodes.append(_node("Identity", [value.name], [name], "", {}))
        self._outputs.append(Port(name=name, type="float64"))

    def value(self, operand: Operand) -> Value:
        """Return a constant, unless it is a value already."""
        if isinstance(operand, Value):
            return operand
        if isinstance(operand, np.ndarray):
            array = operand
        else:
            array = np.array(operand, np.int64 if isinstance(operand, int) else np.float64)
        array = np.asarray(array, order="C")
        key = (array.dtype.name, array.shape, array.tobytes())
        name = self._constants.get(key)
        if name is None:
            name = self._constants[key] = f"constant/{len(self._constants)}"
            self._tensors.append(_tensor(name, array))
        return Value(self, name)

    def op(self, kind: str, *operands: Operand, **attributes: Any) -> Value:
        """Add a node with one output; return that."""
        return self.ops(kind, *operands, **attributes)[0]

    def ops(
        self, kind: str, *operands: Operand, results: int = 1, domain: str = "", **attributes: Any
    ) -> tuple[Value, ...]:
        """Add a node; return its outputs."""
        inputs = [self.value(operand).name for operand in operands]
        outputs = [self._name() for _ in range(results)]
        self._nodes.append(_node(kind, inputs, outputs, domain, attributes))
        return tuple(Value(self, name) for name in outputs)

    def repeat(
        self, times: int, carried: Sequence[Value], step: Callable[[Value, Sequence[Value]], Sequence[Value]]
    ) -> tuple[Value, ...]:
        """Return values of float64 after a step was taken so many times, from its number and the values before it."""
        outer, self._nodes = self._nodes, []
        number, going = Value(self, self._name()), Value(self, self._name())
        before = [Value(self, self._name()) for _ in carried]
        after = step(number, before)
        ends = [self.op("Identity", value) for value in (going, *after)]
        kinds = ["bool", *("float64" for _ in carried)]
        body = b"".join(
            (
                *(_block(1, node) for node in self._nodes),
                _block(2, b"step"),
                _block(11, _scalar(number.name, "int64")),
                *(_block(11, _open(value.name, kind)) for value, kind in zip((going, *before), kinds, strict=True)),
                *(_block(12, _open(value.name, kind)) for value, kind in zip(ends, kinds, strict=True)),
            )
        )
        self._nodes = outer
        inputs = [self.value(times).name, self.value(np.array(True)).name, *(value.name for value in carried)]
        outputs = [self._name() for _ in carried]
        self._nodes.append(_node("Loop", inputs, outputs, "", {"body": body}))
        return tuple(Value(self, name) for name in outputs)

    def joined(self, values: Sequence[Value], axis: int = 1) -> Value:
        """Return values one beside the other."""
        return values[0] if len(values) == 1 else self.op("Concat", *values, axis=axis)

    def encode(self, *, name: str, text: str, metadata: Mapping[str, str]) -> bytes:
        """Return the file."""
        graph = b"".join(
            (
                *(_block(1, node) for node in self._nodes),
                _block(2, name.encode()),
                *(_block(5, tensor) for tensor in self._tensors),
                *(_block(11, _port(port)) for port in self._inputs),
                *(_block(12, _port(port)) for port in self._outputs),
            )
        )
        opsets = (("", OPSET), ("ai.onnx.ml", ML_OPSET))
        return b"".join(
            (
                _number(1, IR_VERSION),
                _block(2, b"Pursuit"),
                _block(6, text.encode()),
                _block(7, graph),
                *(_block(8, _block(1, domain.encode()) + _number(2, opset)) for domain, opset in opsets),
                *(_block(14, _block(1, key.encode()) + _block(2, text.encode())) for key, text in metadata.items()),
            )
        )

    def _name(self) -> str:
        self._names += 1
        return f"node/{self._names}"


def _ints(*numbers: int) -> NDArray[np.int64]:
    return np.array(numbers, np.int64)


def _varint(number: int) -> bytes:
    number &= 2**64 - 1  # negative numbers as their complement of two
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)


def _number(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number)


def _block(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _node(
    kind: str, inputs: Sequence[str], outputs: Sequence[str], domain: str, attributes: Mapping[str, Any]
) -> bytes:
    return b"".join(
        (
            *(_block(1, name.encode()) for name in inputs),
            *(_block(2, name.encode()) for name in outputs),
            _block(3, f"{kind} {outputs[0]}".encode()),
            _block(4, kind.encode()),
            *(_block(5, _attribute(name, value)) for name, value in attributes.items()),
            *([_block(7, domain.encode())] if domain else []),
        )
    )


def _attribute(name: str, value: int | bytes | Sequence[int] | Sequence[str]) -> bytes:
    """Return an attribute; bytes are those of a graph."""
    if isinstance(value, bytes):
        return _block(1, name.encode()) + _block(6, value) + _number(20, 5)
    if isinstance(value, int):
        return _block(1, name.encode()) + _number(3, value) + _number(20, 2)
    if value and isinstance(value[0], str):
        return _block(1, name.encode()) + b"".join(_block(9, str(text).encode()) for text in value) + _number(20, 8)
    return _block(1, name.encode()) + b"".join(_number(8, int(number)) for number in value) + _number(20, 7)


def _tensor(name: str, array: NDArray[Any]) -> bytes:
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return b"".join(
        (
            *(_number(1, size) for size in array.shape),
            _number(2, _TYPES[array.dtype.name]),
            _block(8, name.encode()),
            _block(9, little.tobytes()),
        )
    )


def _port(port: Port) -> bytes:
    shape = _block(1, _block(2, b"rows")) + _block(1, _number(1, 1))
    return _block(1, port.name.encode()) + _block(2, _block(1, _number(1, _TYPES[port.type]) + _block(2, shape)))


def _scalar(name: str, kind: str) -> bytes:
    return _block(1, name.encode()) + _block(2, _block(1, _number(1, _TYPES[kind]) + _block(2, b"")))


def _open(name: str, kind: str) -> bytes:
    """Return a port of any shape."""
    return _block(1, name.encode()) + _block(2, _block(1, _number(1, _TYPES[kind])))
