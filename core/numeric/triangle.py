"""Squared norms |R k|^2 for an upper triangular R, in tiles.

R is cut into panels of PANEL_ROWS rows, each into the triangle on the diagonal and squares to its right, of at most
WIDEST columns. Panel by panel, from the top, R k overwrites k: a panel needs what lies below it and nothing above.
Beside one triangular product this holds 0.6 of the square instead of all of it, is as quick for many rows and twice as
quick for few.

A column's norm has the same bits whatever columns are beside it, if their number is a multiple of `unit`. That is why
no square is wider than WIDEST: BLAS adds up so many products in one go whichever of its ways it takes, and some have
a way of their own for small products. (Not so for float32 without AVX-512: there OpenBLAS adds up the rows of one
register in two ways, and the last digits of single precision depend on a column's place.)
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from core.arrays import FloatArray
from core.numeric.linalg import ROW_UNIT
from core.numeric.workspace import Workspace

Numbers = NDArray[np.floating[Any]]

PANEL_ROWS = 128
WIDEST = 256


class Triangle:
    """An upper triangular matrix (d, d), copied into tiles of float64 or float32.

    unit: columns of k come in multiples of this, as many as fit into the same registers.
    """

    def __init__(self, R: FloatArray, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self.unit = ROW_UNIT * (8 // dtype.itemsize)
        single = dtype == np.float32
        self._trmm = blas.strmm if single else blas.dtrmm
        self._gemm = blas.sgemm if single else blas.dgemm
        self._panels: list[tuple[slice, Numbers, list[tuple[slice, Numbers]]]] = []
        size = len(R)
        for start in range(0, size, PANEL_ROWS):
            own = slice(start, min(start + PANEL_ROWS, size))
            right = [slice(place, min(place + WIDEST, size)) for place in range(own.stop, size, WIDEST)]
            tiles = [(place, np.array(R[own, place].T, dtype, order="F")) for place in right]
            self._panels.append((own, np.array(R[own, own], dtype, order="F"), tiles))

    @property
    def nbytes(self) -> int:
        """Bytes of its tiles."""
        return sum(corner.nbytes + sum(tile.nbytes for _, tile in tiles) for _, corner, tiles in self._panels)

    def squared_norms(self, k: FloatArray, workspace: Workspace) -> FloatArray:
        """Return |R k|^2 of each column of k (d, m), in C order, which is overwritten: (m,). O(m d^2 / 2)
        multiply-adds.

        For float32 nothing in k may be so small that it is no normal number there: products take many times as long.
        """
        if self._dtype == np.float64:
            return _squared_norms(self._multiply(k))
        with workspace.borrow(len(k), k.shape[1] // 2) as room:
            single = room.view(np.float32)
            np.copyto(single, k, casting="same_kind")
            return _squared_norms(self._multiply(single))

    def product(self, k: FloatArray) -> FloatArray:
        """Return R k of k (d, m), in C order, which may be overwritten: (d, m). O(m d^2 / 2) multiply-adds."""
        return np.asarray(self._multiply(k.astype(self._dtype, copy=False)), np.float64)

    def _multiply(self, k: Numbers) -> Numbers:
        for own, corner, tiles in self._panels:
            # Fortran's view of some rows of k is their transpose, and both products write into it.
            target = k[own].T
            self._trmm(1.0, corner, target, side=1, trans_a=1, overwrite_b=1)
            for place, tile in tiles:
                self._gemm(1.0, k[place].T, tile, beta=1.0, c=target, overwrite_c=1)
        return k


def _squared_norms(product: Numbers) -> FloatArray:
    return np.asarray(np.einsum("km,km->m", product, product), np.float64)
