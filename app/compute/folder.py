"""The folder in which shards lie: one that the worker and all machines of a cluster see under the same path.

A shard is an .npy file named by the SHA-256 of its bytes: the numbers as the sums read them, with no decoding, and
written once for all trainings and tries on the same rows. (The stored table is Parquet of cells as they were uploaded;
what its columns become, levels, dates, filled gaps, is known only once all of it was read, so every machine would have
to read all of it.) Nothing counts who uses a file: each training makes its own young again, and the old ones go.
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

from app.errors import unwritable

OLD_SECONDS = 86_400.0
"""Files that no training has touched for so long are removed."""

Array = NDArray[Any]


class DamagedShardError(Exception):
    """A file's bytes are not those of its name; whoever has the rows writes it again."""


class ShardFolder:
    """A folder of arrays by content; made when the first one is written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def put(self, array: Array, *, again: bool = False) -> str:
        """Keeps the array; its name. Memory: a copy of it. UnavailableError where the folder cannot be written.

        again: written even where a file of that name and size is there, since its bytes may be others.
        """
        stream = io.BytesIO()
        np.save(stream, array, allow_pickle=False)
        data = stream.getvalue()
        name = f"{hashlib.sha256(data).hexdigest()}.npy"
        try:
            if again or not self._touched(name, len(data)):
                self._write(name, data)
        except OSError as error:
            raise unwritable(error) from None
        return name

    def read(self, name: str) -> Array:
        """The array. FileNotFoundError where it is not there, DamagedShardError where it is something else."""
        data = (self._path / name).read_bytes()
        if hashlib.sha256(data).hexdigest() != name.removesuffix(".npy"):
            raise DamagedShardError(f"shard {name}: its bytes do not match its name")
        array: Array = np.load(io.BytesIO(data), allow_pickle=False)
        return array

    def keep(self, names: Iterable[str]) -> bool:
        """Makes these young again; False where one is not there."""
        return all(list(map(self._touched, names)))

    def sweep(self, *, older_than: float = OLD_SECONDS) -> int:
        """Removes what was not put or kept for so many seconds; how many."""
        gone, limit = 0, time.time() - older_than
        try:
            for file in self._path.iterdir():
                if file.stat().st_mtime < limit:
                    file.unlink()
                    gone += 1
        except FileNotFoundError:  # no folder, or another broom was quicker: the next time is soon enough
            pass
        except OSError as error:
            raise unwritable(error) from None
        return gone

    def _touched(self, name: str, size: int | None = None) -> bool:
        path = self._path / name
        try:
            os.utime(path)
            return size is None or path.stat().st_size == size
        except FileNotFoundError:
            return False

    def _write(self, name: str, data: bytes) -> None:
        """No reader ever sees half a file."""
        self._path.mkdir(parents=True, exist_ok=True)
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
