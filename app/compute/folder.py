"""The folder of the shards, which the worker and all machines of a cluster see under the same path.

A shard is an .npy file named by the SHA-256 of its bytes: the numbers as the sums read them, with no decoding, and
written once for all trainings and attempts on the same rows. (The stored table is Parquet of the cells as they were
uploaded; what its columns become, levels, dates, filled gaps, is known only once all of it was read, so every machine
would have to read all of it.) No references are counted: each training renews the age
of its own files, and old ones are removed.
"""

import hashlib
import io
import os
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.errors import UnavailableError, unwritable

SHARD_RETENTION_SECONDS = 86_400.0
"""Files that no training has touched for so long are removed."""

Array = NDArray[Any]


class DamagedShardError(Exception):
    """A file's bytes are not those of its name; whoever has the rows writes it again."""


class ShardFolder:
    """A folder of arrays by content; made when the first one is written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def put(self, array: Array, *, rewrite: bool = False) -> str:
        """Store the array; return its name. Memory: a copy of it. UnavailableError where the folder cannot be written.

        rewrite: write even where a file of that name and size is there, since its bytes may be others.
        """
        stream = io.BytesIO()
        np.save(stream, array, allow_pickle=False)
        data = stream.getvalue()
        name = f"{hashlib.sha256(data).hexdigest()}.npy"
        try:
            if rewrite or not self._touch(name, len(data)):
                self._write(name, data)
        except OSError as error:
            raise UnavailableError(
                f"the folder of the shards (PURSUIT_SHARD_DIR, here {self._path}) cannot be written: "
                f"{os.strerror(error.errno) if error.errno else error}"
            ) from None
        return name

    def read(self, name: str) -> Array:
        """Return an array. FileNotFoundError where it is not there, DamagedShardError where its bytes are others."""
        data = (self._path / name).read_bytes()
        if hashlib.sha256(data).hexdigest() != name.removesuffix(".npy"):
            raise DamagedShardError(f"shard {name}: its bytes do not match its name")
        array: Array = np.load(io.BytesIO(data), allow_pickle=False)
        return array

    def touch(self, names: Iterable[str]) -> bool:
        """Renew the age of these; False where one is not there."""
        return all(list(map(self._touch, names)))

    def sweep(self, *, older_than: float = SHARD_RETENTION_SECONDS) -> int:
        """Remove the files that were not put or touched for so many seconds; return how many."""
        removed, limit = 0, time.time() - older_than
        try:
            for file in self._path.iterdir():
                if file.stat().st_mtime < limit:
                    file.unlink()
                    removed += 1
        except FileNotFoundError:  # no folder, or another sweep was quicker: the next one is soon enough
            pass
        except OSError as error:
            raise unwritable(error) from None
        return removed

    def _touch(self, name: str, size: int | None = None) -> bool:
        path = self._path / name
        try:
            os.utime(path)
            return size is None or path.stat().st_size == size
        except FileNotFoundError:
            return False

    def _write(self, name: str, data: bytes) -> None:
        """Write a file so that no reader ever sees half of it."""
        if not self._path.is_dir():
            self._path.mkdir(parents=True, exist_ok=True)
            self._path.chmod(0o755)  # as below
        with tempfile.NamedTemporaryFile(dir=self._path, prefix=".", suffix=".tmp", delete=False) as file:
            temporary = Path(file.name)
            try:
                file.write(data)
                file.close()
                temporary.chmod(0o644)  # other machines read it, perhaps as other users
                temporary.replace(self._path / name)
            except OSError:
                temporary.unlink(missing_ok=True)
                raise
