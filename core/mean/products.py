"""Products of kernel matrices with a few vectors, by strips of rows that are stored or made again each time.

    square    K(X, X) P: strip i holds rows b..e and columns 0..e, so that every pair of rows is there once;
              (K P)_b..e += T P_0..e  and  (K P)_0..b += T_0..b' P_b..e
    feature   V = T^-T K(S, X), Nystroem features of M centres: V'U and V (W o U), in one pass

Strips have about STRIP_NUMBERS values each, whatever the number of threads; strips come in RUNS runs, each of which
adds up for itself, and the runs are added in a binary tree (`core.numeric.partitions`): the result has the same bits
for any number of threads, and where other processes do it. The vectors lie as rows, (r, n), while they are multiplied:
with the strip as second factor a product of so few rows reads it once, with the strip as first factor BLAS copies it
before.

Each process stores strips up to a limit, when they are first needed, and makes the others again for each product. They
are stored in float64, or where all of them fit one process only so, and rounding is small against the noise, in
float32. Sums are in float64 always. Rounding to float32 changes K by independent errors of at most 2^-24 v0, a matrix
whose norm is about 2^-24 v0 sqrt(n): it may be MOST_ROUNDING of the smallest noise variance.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.arrays import FloatArray
from core.numeric.linalg import ROW_UNIT
from core.numeric.partitions import VectorSum, partitioned
from core.numeric.shards import Compute
from core.numeric.threads import split_evenly
from core.process.kernel import Kernel

STRIP_NUMBERS = 1 << 19
"""Numbers in one strip: 4 MiB, made and multiplied while in the cache."""
RUNS = 32
STORED_BYTES = 1 << 30
"""Strips are stored up to this size, by each process."""
MOST_ROUNDING = 1e-2

Numbers = NDArray[np.float32] | FloatArray


class Storage(Enum):
    """Form of the numbers of a kernel matrix, as many of which are stored as there is room for."""

    FLOAT64 = 8
    FLOAT32 = 4


def storage_for(numbers: int, rows: int, kernel: Kernel, least_noise: float, limit: int = STORED_BYTES) -> Storage:
    """Return how to hold so many kernel values among so many rows.

    Args:
        numbers: kernel values in all strips.
        rows: n, of the matrix.
        kernel: whose values they are.
        least_noise: smallest noise variance on the diagonal that is added to the matrix.
        limit: bytes that one process may take.
    """
    rounding = 2.0**-24 * kernel.signal_variance * np.sqrt(rows)
    small = 4 * numbers <= limit < 8 * numbers
    return Storage.FLOAT32 if small and rounding <= MOST_ROUNDING * least_noise else Storage.FLOAT64


def square_cuts(rows: int) -> list[int]:
    """Return where the strips of a square matrix begin and end: about STRIP_NUMBERS values in each, by the number of
    rows alone."""
    cuts = [0]
    while cuts[-1] < rows:
        begin = cuts[-1]
        width = 0.5 * (np.sqrt(float(begin) ** 2 + 4.0 * STRIP_NUMBERS) - begin)  # times (begin + width): STRIP_NUMBERS
        cuts.append(min(rows, begin + max(ROW_UNIT, int(width) // ROW_UNIT * ROW_UNIT)))
    return cuts


class _StoredStrips:
    """Strips of a kernel matrix that this process has, by the rows that they begin at, up to a limit."""

    def __init__(self, storage: Storage, limit: int) -> None:
        self._storage, self._limit = storage, limit
        self._strips: dict[int, Numbers] = {}
        self._lock = threading.Lock()
        self.nbytes = 0

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process begins with nothing."""
        return _StoredStrips, (self._storage, self._limit)

    def read(
        self, begin: int, shape: tuple[int, int], make: Callable[[FloatArray], None], room: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return a strip, which may lie in `room`, and the room, larger where it was too small.

        make: fills a strip of this shape, where it is not stored.
        """
        stored = self._strips.get(begin)
        if stored is not None:
            return _as_float64(stored, room)
        stays = self._takes(self._storage.value * shape[0] * shape[1])
        if stays and self._storage is Storage.FLOAT64:
            strip = np.empty(shape)
            make(strip)
            self._strips[begin] = strip
            return strip, room
        strip, room = _view(room, shape)
        make(strip)
        if self._storage is Storage.FLOAT32:
            rounded = strip.astype(np.float32)
            strip[:] = rounded
            if stays:
                self._strips[begin] = rounded
        return strip, room

    def _takes(self, size: int) -> bool:
        """Return whether there is room for so many bytes, which are then taken."""
        with self._lock:
            stays = self.nbytes + size <= self._limit
            self.nbytes += size if stays else 0
        return stays


class _SquareStrips:
    """Strips of K(X, X) up to its diagonal."""

    def __init__(self, kernel: Kernel, X: FloatArray, stored: _StoredStrips) -> None:
        self._kernel, self._X, self.stored = kernel, X, stored
        self._basis, self._rows = kernel.basis(X), kernel.rows(X)

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process rows are prepared again, which is quicker than to send them twice."""
        return _SquareStrips, (self._kernel, self._X, self.stored)

    def read(self, place: slice, room: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return a strip and the room, as `_StoredStrips.read` does."""

        def make(strip: FloatArray) -> None:
            self._kernel.block(self._basis[place], self._rows[: place.stop], out=strip)
            corner = strip[:, place]
            corner[:] = np.tril(corner) + np.tril(corner, -1).T  # rounding depends on which of two inputs is the row
            np.fill_diagonal(corner, self._kernel.diagonal)

        return self.stored.read(place.start, (place.stop - place.start, place.stop), make, room)


class SquareProduct:
    """K(X, X) of training rows, ready to be multiplied. Memory n^2 / 2 numbers up to a limit, and O(n p)."""

    def __init__(
        self,
        kernel: Kernel,
        X: FloatArray,
        storage: Storage,
        workers: int = 1,
        *,
        limit: int = STORED_BYTES,
        compute: Compute | None = None,
    ) -> None:
        """Prepare; the first product makes the strips, O(n^2 p / 2).

        Args:
            kernel: bias included.
            X: standardized rows (n, p).
            storage: from `storage_for`.
            workers: threads.
            limit: bytes of strips that a process may store.
            compute: other processes that multiply instead.
        """
        self._size = len(X)
        strips = [slice(begin, end) for begin, end in pairwise(square_cuts(len(X)))]
        self._strips = _SquareStrips(kernel, X, _StoredStrips(storage, limit))
        self._runs = partitioned(self._strips, split_evenly(strips, RUNS), workers, compute, float(len(X)) ** 2)

    @property
    def size(self) -> int:
        """n, the number of rows."""
        return self._size

    @property
    def nbytes(self) -> int:
        """Bytes of the strips that this process has stored."""
        return self._strips.stored.nbytes

    def times(self, vectors: FloatArray) -> FloatArray:
        """Return K P, (n, r), of vectors P (n, r). n^2 r multiply-adds, to the same bits for any number of threads, and
        by other processes."""
        total = self._runs.total(_square_run, np.ascontiguousarray(vectors.T))
        return np.ascontiguousarray(total.values.T)


def _square_run(strips: _SquareStrips, run: Sequence[slice], vectors: FloatArray, _: None) -> VectorSum:
    """Multiply the strips of a run with vectors (r, n): (r, e), e where the run ends."""
    total, room = np.zeros((len(vectors), run[-1].stop)), np.empty(0)
    for place in run:
        strip, room = strips.read(place, room)
        total[:, place] += vectors[:, : place.stop] @ strip.T
        if place.start:
            total[:, : place.start] += vectors[:, place] @ strip[:, : place.start]
    return VectorSum(total)


@dataclass(frozen=True, slots=True, eq=False)
class _Centres:
    """What runs of K(X, S) have in common: the kernel, the centres as its rows, strips by the rows they begin at."""

    kernel: Kernel
    rows: FloatArray
    stored: _StoredStrips


@dataclass(frozen=True, slots=True, eq=False)
class _FeatureRun:
    """Rows from `begin` on, X (m, p), in strips, and the weights of their values (m, r)."""

    begin: int
    X: FloatArray
    weights: FloatArray
    strips: Sequence[slice]


@dataclass(slots=True, eq=False)
class _Through:
    """Values of runs, (m, r) each, and the sum of what goes back, (r, M)."""

    values: list[FloatArray]
    back: FloatArray

    def add(self, other: "_Through") -> None:
        """Add the runs that come next."""
        self.values = [*self.values, *other.values]
        self.back += other.back


class FeatureProduct:
    """Features V = T^-T K(S, X) (M, n) of M centres, T'T = K(S, S), without their being held: strips of K(X, S)."""

    def __init__(
        self,
        kernel: Kernel,
        X: FloatArray,
        S: FloatArray,
        weights: FloatArray,
        storage: Storage,
        workers: int = 1,
        *,
        limit: int = STORED_BYTES,
        compute: Compute | None = None,
    ) -> None:
        """Prepare; the first product makes the strips, O(n M p).

        Args:
            kernel: bias included.
            X: standardized rows (n, p).
            S: standardized centres (M, p).
            weights: of the rows in each column, (n, r).
            storage: from `storage_for`.
            workers: threads.
            limit: bytes of strips that a process may store.
            compute: other processes that multiply instead.
        """
        self._size = len(X)
        step = max(ROW_UNIT, STRIP_NUMBERS // len(S) // ROW_UNIT * ROW_UNIT)
        strips = [slice(begin, min(begin + step, len(X))) for begin in range(0, len(X), step)]
        self._places = [slice(run[0].start, run[-1].stop) for run in split_evenly(strips, RUNS)]
        runs = [
            _FeatureRun(
                begin=place.start,
                X=np.ascontiguousarray(X[place]),
                weights=np.ascontiguousarray(weights[place]),
                strips=[slice(at, min(at + step, place.stop - place.start)) for at in range(0, _length(place), step)],
            )
            for place in self._places
        ]
        common = _Centres(kernel, kernel.rows(S), _StoredStrips(storage, limit))
        self._runs = partitioned(common, runs, workers, compute, float(len(X)) * len(S))

    @property
    def rows(self) -> int:
        """n, the number of rows."""
        return self._size

    def through(self, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return K(X, S) P (n, r) and K(S, X) (W o K(X, S) P) (M, r), in one pass, of vectors P (M, r).

        2 n M r multiply-adds, to the same bits for any number of threads, and by other processes.
        """
        total = self._runs.total(_through_run, np.ascontiguousarray(vectors.T))
        return np.concatenate(total.values), np.ascontiguousarray(total.back.T)

    def back(self, values: FloatArray) -> FloatArray:
        """Return K(S, X) U, (M, r), of values U (n, r). n M r multiply-adds."""
        own = [np.ascontiguousarray(values[place].T) for place in self._places]
        return np.ascontiguousarray(self._runs.total(_back_run, None, own).values.T)


def _length(place: slice) -> int:
    return int(place.stop - place.start)


def _through_run(centres: _Centres, run: _FeatureRun, vectors: FloatArray, _: None) -> _Through:
    """Multiply the strips of a run with vectors (r, M), and what they are weighed to back."""
    back, room = np.zeros_like(vectors), np.empty(0)
    values = np.empty((len(run.X), len(vectors)))
    for place in run.strips:
        strip, room = _feature_strip(centres, run, place, room)
        values[place] = (vectors @ strip.T).T
        back += np.ascontiguousarray((values[place] * run.weights[place]).T) @ strip
    return _Through([values], back)


def _back_run(centres: _Centres, run: _FeatureRun, _: None, values: FloatArray) -> VectorSum:
    """Multiply values (r, m) of a run with its strips."""
    back, room = np.zeros((len(values), len(centres.rows))), np.empty(0)
    for place in run.strips:
        strip, room = _feature_strip(centres, run, place, room)
        back += np.ascontiguousarray(values[:, place]) @ strip
    return VectorSum(back)


def _feature_strip(
    centres: _Centres, run: _FeatureRun, place: slice, room: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return a strip of K(X, S), and the room, as `_StoredStrips.read` does."""

    def make(strip: FloatArray) -> None:
        centres.kernel.block(centres.kernel.basis(run.X[place]), centres.rows, out=strip)

    return centres.stored.read(run.begin + place.start, (_length(place), len(centres.rows)), make, room)


def _view(room: FloatArray, shape: tuple[int, int]) -> tuple[FloatArray, FloatArray]:
    """Return an array of this shape in the room, and the room, larger where it was too small."""
    numbers = shape[0] * shape[1]
    if room.size < numbers:
        room = np.empty(numbers)
    return room[:numbers].reshape(shape), room


def _as_float64(strip: Numbers, room: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the strip itself, or its numbers in `room`, and the room."""
    if strip.dtype == np.float64:
        return np.asarray(strip, np.float64), room
    wide, room = _view(room, (strip.shape[0], strip.shape[1]))
    np.copyto(wide, strip)
    return wide, room
