"""Random changes of valid inputs: of their bytes, of the values of JSON, and of what containers hold.

A mutation of a compressed file that is made outside of the compression finds the decompressor; one that is made inside
finds the reader behind it. Both are made.
"""

import gzip
import io
import json
import random
import struct
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

MOST_BYTES = 1 << 16
"""Mutants are no longer: what is large is for tests of limits."""

_NUMBERS = (0, 1, 2, 7, 8, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1)
_TOKENS: tuple[bytes, ...] = (
    *(b",", b";", b"\t", b"|", b'"', b'""', b"'", b"\n", b"\r\n", b"\r", b"\0", b"#", b"\\", b" ", b"=", b"%"),
    *(b"nan", b"NaN", b"inf", b"-Infinity", b"1e400", b"-1e-400", b"1e308", b"9" * 40, b"-0", b"0x1p3", b"1_000"),
    *(b"null", b"true", b"false", b"[]", b"{}", b'{"":', b"[" * 50, b'"\\ud800"', b'"\\u0000"'),
    *(b"2011-02-31", b"0000-00-00", b"9999-12-31T24:00:00", b"1.234,5", b"1,234.5", b"12:30", b"31/12/1999"),
    *(b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\xff", b"\x80", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80"),
    *(b"PAR1", b"ARROW1", b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"\x93NUMPY", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"),
    *(b"<f>", b"<c/>", b"&lt;", b"<!DOCTYPE a [<!ENTITY b 'c'>]>", b"A1048576", b't="s"', b"(2147483648,)", b"|O"),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 0.5, -0.0, 1e-320, 1e300, -1e300, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**40),
    *(
        "",
        "a",
        "auto",
        "x" * 300,
        "\0",
        "\u2028",
        "é",
        "1",
        "-1e5",
        "nan",
        "2011-01-01",
        [],
        {},
        [[]],
        [None],
        [1, "a"],
    ),
    *({"": None}, {"x": {}}, [[1.0]], {"steps": 1}, "FP64", "BYTES", "gaussian", "compact", "number", "date", "error"),
)


class Mutator:
    """Changes of inputs. chance: where all of them come from; others: inputs to take pieces from."""

    def __init__(self, chance: random.Random, others: Sequence[bytes]) -> None:
        self.chance = chance
        self.others = others

    def any_bytes(self, data: bytes) -> bytes:
        """Change some bytes."""
        out = bytearray(data)
        for _ in range(1 + int(self.chance.expovariate(0.7))):
            self._change(out)
        return bytes(out[:MOST_BYTES])

    def json(self, data: bytes) -> bytes:
        """Change values of a JSON document, or its bytes where it is none, or now and then."""
        if self.chance.random() < 0.25:
            return self.any_bytes(data)
        try:
            tree = json.loads(data)
        except (ValueError, RecursionError):
            return self.any_bytes(data)
        for _ in range(1 + int(self.chance.expovariate(1.0))):
            tree = self._value(tree)
        return json.dumps(tree).encode()

    def table(self, data: bytes) -> bytes:
        """Change a table file, inside of its container more often than outside."""
        if self.chance.random() < 0.3:
            return self.any_bytes(data)
        inside = self._inside(data)
        return self.any_bytes(data) if inside is None else inside

    def safetensors(self, data: bytes) -> bytes:
        """Change the header, the description in its metadata, or the numbers of the tensors."""
        way = self.chance.random()
        if way < 0.2:
            return self.any_bytes(data)
        try:
            (length,) = struct.unpack_from("<Q", data)
            header, tensors = data[8 : 8 + length], bytearray(data[8 + length :])
            tree = json.loads(header)
            if way < 0.6:
                document = tree["__metadata__"]["pursuit"]
                tree["__metadata__"]["pursuit"] = self.json(document.encode()).decode(errors="replace")
            elif way < 0.8:
                tree = self._value(tree)
            else:
                for _ in range(1 + int(self.chance.expovariate(0.5))):
                    place = 8 * self.chance.randrange(max(1, len(tensors) // 8))
                    value = self.chance.choice((0.0, -1.0, 1e-300, 1e300, float("nan"), float("inf"), -1e-3, 1e-9))
                    tensors[place : place + 8] = struct.pack("<d", value)
            header = json.dumps(tree).encode()
        except (ValueError, KeyError, TypeError, struct.error, AttributeError, RecursionError):
            return self.any_bytes(data)
        return struct.pack("<Q", len(header)) + header + bytes(tensors)

    def _change(self, out: bytearray) -> None:
        chance = self.chance
        place = chance.randrange(len(out) + 1)
        way = chance.randrange(9)
        if way == 0 and place < len(out):
            out[place] ^= 1 << chance.randrange(8)
        elif way == 1 and place < len(out):
            out[place] = chance.randrange(256)
        elif way == 2:
            del out[place : place + 1 + int(chance.expovariate(0.1))]
        elif way == 3:
            out[place:place] = chance.choice(_TOKENS)
        elif way == 4:
            token = chance.choice(_TOKENS)
            out[place : place + len(token)] = token
        elif way == 5:
            size, sign = chance.choice((1, 2, 4, 8)), chance.choice((1, -1))
            number = sign * (chance.choice(_NUMBERS) + chance.randrange(-1, 2)) % (1 << 8 * size)
            out[place : place + size] = number.to_bytes(size, chance.choice(("little", "big")))
        elif way == 6:
            piece = out[place : place + 1 + int(chance.expovariate(0.02))]
            out[place:place] = piece * chance.choice((1, 1, 2, 50))
        elif way == 7 and self.others:
            other = chance.choice(self.others)
            start = chance.randrange(len(other) + 1)
            out[place : place + chance.choice((0, 30))] = other[start : start + 1 + int(chance.expovariate(0.02))]
        elif len(out) > place and chance.random() < 0.3:
            del out[place:]

    def _inside(self, data: bytes) -> bytes | None:
        """Change what a container holds; None for what is none, or is broken already."""
        try:
            if data.startswith(b"\x1f\x8b"):
                return gzip.compress(self.any_bytes(gzip.decompress(data)), 1)
            if data.startswith(b"\x28\xb5\x2f\xfd"):
                with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
                    inner = bytes(stream.read(MOST_BYTES))
                sink = pa.BufferOutputStream()
                with pa.CompressedOutputStream(sink, "zstd") as written:
                    written.write(self.any_bytes(inner))
                return sink.getvalue().to_pybytes()
            if data.startswith(b"PK\x03\x04"):
                return self._archive(data)
        except (zipfile.BadZipFile, OSError, EOFError, ValueError, NotImplementedError, RuntimeError):
            return None
        except Exception as error:
            if type(error).__module__.startswith(("zlib", "pyarrow")):
                return None
            raise
        return None

    def _archive(self, data: bytes) -> bytes:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        sheets = [name for name in members if "sheet" in name or "Strings" in name or "styles" in name]
        name = self.chance.choice(sheets if sheets and self.chance.random() < 0.7 else list(members))
        if self.chance.random() < 0.05:
            del members[name]
        else:
            members[name] = self.any_bytes(members[name])
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for other, content in members.items():
                archive.writestr(other, content)
        return out.getvalue()

    def _value(self, tree: Any) -> Any:  # noqa: PLR0911  a way to change each kind of value
        """The tree with one of its values changed, at a random depth."""
        chance = self.chance
        if isinstance(tree, dict) and tree and chance.random() < 0.85:
            name = chance.choice(list(tree))
            way = chance.random()
            if way < 0.08:
                return {key: value for key, value in tree.items() if key != name}
            if way < 0.12:
                return tree | {chance.choice(("", "x", name + " ", "é", "steps", "model")): chance.choice(_VALUES)}
            return tree | {name: self._value(tree[name])}
        if isinstance(tree, list) and tree and chance.random() < 0.85:
            place = chance.randrange(len(tree))
            way = chance.random()
            if way < 0.1:
                return tree[:place] + tree[place + 1 :]
            if way < 0.2:
                return [*tree, *tree[place:]]
            return [*tree[:place], self._value(tree[place]), *tree[place + 1 :]]
        if isinstance(tree, int | float) and type(tree) is not bool and abs(tree) < 1e300 and chance.random() < 0.4:
            return chance.choice(
                (tree + 1, -tree, tree * 1e30, tree * 1e-30, int(min(max(tree, -1e18), 1e18)), str(tree))
            )
        return chance.choice(_VALUES)


def mutations(mutator: Mutator) -> dict[str, Callable[[bytes], bytes]]:
    """Ways to change inputs, by the name that targets call them."""
    return {
        "bytes": mutator.any_bytes,
        "json": mutator.json,
        "table": mutator.table,
        "safetensors": mutator.safetensors,
    }
