"""Products of kernel matrices with a few vectors, by strips of rows that are stored or made again each time.

    square    K(X, X) P: strip i holds rows b..e and columns 0..e, so that every pair of rows is there once;
              (K P)_b..e += T P_0..e  and  (K P)_0..b += T_0..b' P_b..e
    feature   V = T^-T K(S, X), Nystroem features of M centres: V'U and V (W o U), in one pass

Strips have about STRIP_NUMBERS values each, whatever the number of threads; strips come in RUNS runs, each of which
adds up for itself, and the runs are added in a binary tree (`core.numeric.shards`): the result has the same bits for
any number of threads. The vectors lie as rows, (r, n), while they are multiplied: with the strip as second factor a
product of so few rows reads it once, with the strip as first factor BLAS copies it before.

A strip is stored in float64 while all of them fit the limit, in float32 where these fit and rounding is small against
the noise, and is made again for each product otherwise. Sums are in float64 always. Rounding to float32 changes K by
independent errors of at most 2^-24 v0, a matrix whose norm is about 2^-24 v0 sqrt(n): it may be MOST_ROUNDING of the
smallest noise variance.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from core.arrays import FloatArray
from core.numeric.linalg import ROW_UNIT
from core.numeric.shards import tree_total
from core.numeric.threads import split_evenly
from core.process.kernel import Kernel

STRIP_NUMBERS = 1 << 19
"""Numbers in one strip: 4 MiB, made and multiplied while in the cache."""
RUNS = 32
STORED_BYTES = 1 << 30
"""Strips are stored up to this size."""
MOST_ROUNDING = 1e-2

Numbers = NDArray[np.float32] | FloatArray
Make = Callable[[slice, FloatArray], tuple[FloatArray, FloatArray]]
"""(rows of a strip, room for it) -> the strip, and the room, larger where it was too small."""


class Storage(Enum):
    """Form in which the strips of a kernel matrix are held."""

    FLOAT64 = 8
    FLOAT32 = 4
    NONE = 0


@dataclass(slots=True, eq=False)
class VectorSum:
    """A sum of arrays of one shape."""

    values: FloatArray

    def add(self, other: "VectorSum") -> None:
        """Add another's, in place."""
        self.values += other.values


def storage_for(numbers: int, rows: int, kernel: Kernel, least_noise: float, limit: int = STORED_BYTES) -> Storage:
    """Return how to hold so many kernel values among so many rows.

    Args:
        numbers: kernel values in all strips.
        rows: n, of the matrix.
        kernel: whose values they are.
        least_noise: smallest noise variance on the diagonal that is added to the matrix.
        limit: bytes that may be taken.
    """
    if 8 * numbers <= limit:
        return Storage.FLOAT64
    rounding = 2.0**-24 * kernel.signal_variance * np.sqrt(rows)
    if 4 * numbers <= limit and rounding <= MOST_ROUNDING * least_noise:
        return Storage.FLOAT32
    return Storage.NONE


def square_cuts(rows: int) -> list[int]:
    """Return where the strips of a square matrix begin and end: about STRIP_NUMBERS values in each, by the number of
    rows alone."""
    cuts = [0]
    while cuts[-1] < rows:
        begin = cuts[-1]
        width = 0.5 * (np.sqrt(float(begin) ** 2 + 4.0 * STRIP_NUMBERS) - begin)  # times (begin + width): STRIP_NUMBERS
        cuts.append(min(rows, begin + max(ROW_UNIT, int(width) // ROW_UNIT * ROW_UNIT)))
    return cuts


class _Strips:
    """Strips of a kernel matrix, in runs that threads share: stored, or made again each time."""

    def __init__(self, strips: Sequence[slice], make: Make, storage: Storage, workers: int) -> None:
        self.runs: list[Sequence[slice]] = split_evenly(strips, RUNS)
        self._make = make
        self._stored: dict[int, Numbers] = {}
        if storage is not Storage.NONE:
            dtype = np.float64 if storage is Storage.FLOAT64 else np.float32
            tree_total(lambda run: self._store(run, dtype), self.runs, workers)

    @property
    def nbytes(self) -> int:
        """Bytes of the stored strips."""
        return sum(strip.nbytes for strip in self._stored.values())

    def read(self, place: slice, room: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the strip of these rows, which may lie in `room`, and the room, larger where it was too small."""
        stored = self._stored.get(place.start)
        return self._make(place, room) if stored is None else _as_float64(stored, room)

    def _store(self, run: Sequence[slice], dtype: type) -> VectorSum:
        for place in run:
            self._stored[place.start] = self._make(place, np.empty(0))[0].astype(dtype, copy=False)
        return VectorSum(np.zeros(0))


class SquareProduct:
    """K(X, X) of training rows, ready to be multiplied. Memory n^2 / 2 numbers where it is stored, else O(n p)."""

    def __init__(self, kernel: Kernel, X: FloatArray, storage: Storage, workers: int = 1) -> None:
        """Make the strips, where they are stored: O(n^2 p / 2).

        Args:
            kernel: bias included.
            X: standardized rows (n, p).
            storage: from `storage_for`.
            workers: threads.
        """
        self._size, self._workers = len(X), workers
        strips = [slice(begin, end) for begin, end in pairwise(square_cuts(len(X)))]
        make = partial(_square_strip, kernel, kernel.basis(X), kernel.rows(X))
        self._strips = _Strips(strips, make, storage, workers)

    @property
    def size(self) -> int:
        """n, the number of rows."""
        return self._size

    @property
    def nbytes(self) -> int:
        """Bytes of the stored strips."""
        return self._strips.nbytes

    def times(self, vectors: FloatArray) -> FloatArray:
        """Return K P, (n, r), of vectors P (n, r). n^2 r multiply-adds, to the same bits for any number of threads."""
        transposed = np.ascontiguousarray(vectors.T)
        total = tree_total(lambda run: self._of_run(run, transposed), self._strips.runs, self._workers)
        return np.ascontiguousarray(total.values.T)

    def _of_run(self, run: Sequence[slice], vectors: FloatArray) -> VectorSum:
        total = np.zeros_like(vectors)
        room = np.empty(0)
        for place in run:
            strip, room = self._strips.read(place, room)
            total[:, place] += vectors[:, : place.stop] @ strip.T
            if place.start:
                total[:, : place.start] += vectors[:, place] @ strip[:, : place.start]
        return VectorSum(total)


class FeatureProduct:
    """Features V = T^-T K(S, X) (M, n) of M centres, T'T = K(S, S), without their being held: strips of K(X, S)."""

    def __init__(self, kernel: Kernel, X: FloatArray, S: FloatArray, storage: Storage, workers: int = 1) -> None:
        """Make the strips of K(X, S), where they are stored: O(n M p).

        Args:
            kernel: bias included.
            X: standardized rows (n, p).
            S: standardized centres (M, p).
            storage: from `storage_for`.
            workers: threads.
        """
        self._size, self._workers = len(X), workers
        step = max(ROW_UNIT, STRIP_NUMBERS // len(S) // ROW_UNIT * ROW_UNIT)
        strips = [slice(begin, min(begin + step, len(X))) for begin in range(0, len(X), step)]
        self._strips = _Strips(
            strips, partial(_feature_strip, kernel, kernel.basis(X), kernel.rows(S)), storage, workers
        )

    @property
    def rows(self) -> int:
        """n, the number of rows."""
        return self._size

    def through(
        self, vectors: FloatArray, weigh: Callable[[slice, FloatArray], FloatArray]
    ) -> tuple[FloatArray, FloatArray]:
        """Return K(X, S) P and K(S, X) weigh(K(X, S) P), in one pass.

        Args:
            vectors: P, (M, r).
            weigh: (rows of a strip, their values (m, r)) -> what stands in for them, (m, r).

        Returns:
            (n, r) and (M, r). 2 n M r multiply-adds, to the same bits for any number of threads.
        """
        transposed = np.ascontiguousarray(vectors.T)
        values = np.empty((self.rows, vectors.shape[1]))

        def of_run(run: Sequence[slice]) -> VectorSum:
            total, room = np.zeros_like(transposed), np.empty(0)
            for place in run:
                strip, room = self._strips.read(place, room)
                values[place] = (transposed @ strip.T).T
                total += np.ascontiguousarray(weigh(place, values[place]).T) @ strip
            return VectorSum(total)

        return values, np.ascontiguousarray(tree_total(of_run, self._strips.runs, self._workers).values.T)


def _square_strip(
    kernel: Kernel, basis: FloatArray, rows: FloatArray, place: slice, room: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Make a strip of K(X, X) up to its diagonal. No method of the product: the strips would hold it, and it them, and
    both stay in memory until garbage is collected."""
    shape = (place.stop - place.start, place.stop)
    if room.size < shape[0] * shape[1]:
        room = np.empty(shape[0] * shape[1])
    strip = room[: shape[0] * shape[1]].reshape(shape)
    kernel.block(basis[place], rows[: place.stop], out=strip)
    corner = strip[:, place]
    corner[:] = np.tril(corner) + np.tril(corner, -1).T  # rounding depends on which of two inputs is the row
    np.fill_diagonal(corner, kernel.diagonal)
    return strip, room


def _feature_strip(
    kernel: Kernel, rows: FloatArray, centres: FloatArray, place: slice, room: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Make a strip of K(X, S)."""
    return kernel.block(rows[place], centres), room


def _as_float64(strip: Numbers, room: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the strip itself, or its numbers in `room`, and the room, larger where it was too small."""
    if strip.dtype == np.float64:
        return np.asarray(strip, np.float64), room
    if room.size < strip.size:
        room = np.empty(strip.size)
    wide = room[: strip.size].reshape(strip.shape)
    np.copyto(wide, strip)
    return wide, room
