"""core/linalg.py against numpy's plain inverses."""

import warnings

import numpy as np
import pytest

from core.errors import CoreError, InvalidDataError, NotPositiveDefiniteError, NumericalError
from core.hyperparameters import FloatArray
from core.linalg import (
    JITTERS,
    add_gram,
    add_product,
    cholesky,
    inverse_from_cholesky,
    jittered_cholesky,
    mirror_lower,
    multiply,
    pack_upper,
    solve_lower,
    solve_vector,
    unpack_upper,
)


def positive(size: int, seed: int = 0) -> FloatArray:
    root = np.random.default_rng(seed).normal(size=(size, size))
    return np.asarray(root @ root.T + np.eye(size))


@pytest.mark.parametrize("size", [1, 2, 9])
def test_cholesky(size: int) -> None:
    matrix = positive(size)
    factor = cholesky(matrix, "M")
    np.testing.assert_allclose(factor @ factor.T, matrix, rtol=1e-12)
    np.testing.assert_array_equal(factor, np.tril(factor))


def test_cholesky_reads_the_lower_half_and_leaves_its_argument_alone() -> None:
    matrix = np.asfortranarray(positive(5))
    expected = cholesky(matrix, "M")
    matrix[np.triu_indices(5, 1)] = np.nan
    before = matrix.copy()
    np.testing.assert_array_equal(cholesky(matrix, "M"), expected)
    np.testing.assert_array_equal(matrix, before)


def test_jitter_is_relative_to_the_diagonal_and_not_climbed_without_need() -> None:
    matrix = 1e6 * positive(6)
    factor, jitter = jittered_cholesky(matrix, "M")
    assert jitter == pytest.approx(JITTERS[0] * np.trace(matrix) / 6, rel=1e-12)
    np.testing.assert_allclose(factor @ factor.T, matrix + jitter * np.eye(6), rtol=1e-12)


@pytest.mark.parametrize("rung", range(1, len(JITTERS)))
def test_jitter_climbs_with_a_warning_at_each_step(rung: int) -> None:
    """An eigenvalue between two rungs below zero needs the upper one."""
    basis = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]
    bad = -np.sqrt(JITTERS[rung - 1] * JITTERS[rung])
    values = np.array([1.0, 1.0, 1.0, 1.0, 2.0 - bad, bad])
    matrix = basis * values @ basis.T
    matrix = 0.5 * (matrix + matrix.T)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _, jitter = jittered_cholesky(matrix, "Kuu")
    assert jitter == pytest.approx(JITTERS[rung], rel=1e-9)
    assert len(caught) == rung
    assert all(issubclass(w.category, RuntimeWarning) and "Kuu" in str(w.message) for w in caught)


@pytest.mark.filterwarnings("ignore:Kuu. jitter raised")
def test_end_of_the_ladder_names_the_matrix_its_size_and_the_jitter() -> None:
    with pytest.raises(NotPositiveDefiniteError, match=r"Kuu \(3 x 3\).*0\.0001") as caught:
        jittered_cholesky(np.diag([1.0, 1.0, -1.0]), "Kuu")
    assert (caught.value.name, caught.value.size, caught.value.jitter) == ("Kuu", 3, JITTERS[-1])
    assert isinstance(caught.value, NumericalError)


@pytest.mark.parametrize("place", [(0, 0), (2, 0), (2, 2), (1, 1)])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_number_that_is_not_finite_is_another_error(place: tuple[int, int], value: float) -> None:
    matrix = positive(3)
    matrix[place] = matrix[place[::-1]] = value
    with pytest.raises(NumericalError, match="not finite") as caught:
        jittered_cholesky(matrix, "Kuu")
    assert not isinstance(caught.value, NotPositiveDefiniteError)
    assert isinstance(caught.value, CoreError)


@pytest.mark.parametrize("transposed", [False, True])
def test_solves(transposed: bool) -> None:
    rng = np.random.default_rng(2)
    factor = cholesky(positive(5), "M")
    inverse = np.linalg.inv(factor.T if transposed else factor)
    block, vector = rng.normal(size=(5, 7)), rng.normal(size=5)
    expected = inverse @ block
    np.testing.assert_allclose(solve_lower(factor, block.copy(), transposed=transposed), expected, rtol=1e-10)
    np.testing.assert_allclose(solve_vector(factor, vector, transposed=transposed), inverse @ vector, rtol=1e-10)


def test_solve_lower_works_in_place() -> None:
    """What makes n d^2 work fit: the block is not copied."""
    block = np.random.default_rng(2).normal(size=(5, 7))
    assert np.shares_memory(solve_lower(cholesky(positive(5), "M"), block), block)


def test_inverse_and_mirror() -> None:
    matrix = positive(6)
    inverse = inverse_from_cholesky(cholesky(matrix, "M"))
    np.testing.assert_array_equal(inverse, inverse.T)
    np.testing.assert_allclose(inverse @ matrix, np.eye(6), atol=1e-10)
    np.testing.assert_array_equal(mirror_lower(np.tril(matrix)), np.tril(matrix) + np.tril(matrix, -1).T)


def test_inverse_of_a_singular_factor_is_refused() -> None:
    with pytest.raises(NumericalError, match="zero on its diagonal"):
        inverse_from_cholesky(np.asfortranarray(np.diag([1.0, 0.0])))


def test_products() -> None:
    rng = np.random.default_rng(3)
    left, right, matrix = rng.normal(size=(4, 9)), rng.normal(size=(3, 9)), rng.normal(size=(5, 4))
    total = np.asfortranarray(rng.normal(size=(4, 4)))
    expected = np.tril(total + left @ left.T)
    np.testing.assert_allclose(np.tril(add_gram(total, left)), expected, rtol=1e-12)
    other = np.asfortranarray(rng.normal(size=(4, 3)))
    expected = other + left @ right.T
    np.testing.assert_allclose(add_product(other, left, right), expected, rtol=1e-12)
    product = multiply(np.asfortranarray(matrix), left)
    np.testing.assert_allclose(product, matrix @ left, rtol=1e-12)
    assert product.flags.c_contiguous


@pytest.mark.parametrize("size", [0, 1, 2, 7])
def test_a_triangle_is_packed_and_unpacked_bit_for_bit(size: int) -> None:
    matrix = np.triu(np.random.default_rng(size).normal(size=(size, size)))
    packed = pack_upper(matrix)
    assert packed.shape == (size * (size + 1) // 2,)
    np.testing.assert_array_equal(packed[:size], matrix[:1].ravel())  # by rows
    assert unpack_upper(packed).tobytes() == matrix.tobytes()


@pytest.mark.parametrize("length", [2, 4, 5, 11])
def test_a_packed_triangle_of_no_size_is_refused(length: int) -> None:
    with pytest.raises(InvalidDataError, match=f"got {length}"):
        unpack_upper(np.zeros(length))
