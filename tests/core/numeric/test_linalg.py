"""core/numeric/linalg.py against numpy's plain inverses."""

import warnings

import numpy as np
import pytest
from scipy.linalg import solve_triangular

from core.arrays import FloatArray
from core.errors import CoreError, InvalidDataError, NotPositiveDefiniteError, NumericalError
from core.numeric.linalg import (
    JITTERS,
    SOLVED,
    STRIP,
    TILE,
    LowerSolver,
    add_gram,
    add_gram_lower,
    cholesky,
    inverse_from_cholesky,
    jittered_cholesky,
    mirror_lower,
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
    """Memory stays within what makes n d^2 work fit: the block is not copied."""
    block = np.random.default_rng(2).normal(size=(5, 7))
    assert np.shares_memory(solve_lower(cholesky(positive(5), "M"), block), block)


def test_inverse_and_mirror() -> None:
    matrix = positive(6)
    inverse = inverse_from_cholesky(cholesky(matrix, "M"))
    np.testing.assert_array_equal(inverse, inverse.T)
    np.testing.assert_allclose(inverse @ matrix, np.eye(6), atol=1e-10)


@pytest.mark.parametrize("size", [0, 1, 7, TILE, TILE + 1, 2 * TILE + 3, 2 * STRIP + 3])
def test_large_matrices_by_tiles(size: int) -> None:
    rng = np.random.default_rng(size)
    matrix, block = rng.normal(size=(size, size)), rng.normal(size=(size, 5))
    expected = np.tril(matrix + block @ block.T)
    add_gram_lower(matrix, block, np.empty((STRIP, size)))
    np.testing.assert_allclose(np.tril(matrix), expected, rtol=1e-10, atol=1e-12)
    expected = np.tril(matrix) + np.tril(matrix, -1).T
    mirror_lower(matrix)
    np.testing.assert_array_equal(matrix, expected)


def test_inverse_of_a_singular_factor_is_refused() -> None:
    with pytest.raises(NumericalError, match="zero on its diagonal"):
        inverse_from_cholesky(np.asfortranarray(np.diag([1.0, 0.0])))


@pytest.mark.parametrize("size", [1, 2, SOLVED - 1, SOLVED, SOLVED + 1, 2 * SOLVED + 7])
def test_a_triangle_solves_in_runs(size: int) -> None:
    """Every way to cut the rows: one run, full runs, a last one of a single row."""
    rng = np.random.default_rng(size)
    factor = cholesky(positive(size, size), "M")
    triangle = LowerSolver(factor)
    block = rng.normal(size=(size, 5))
    np.testing.assert_allclose(triangle.solve(block.copy()), np.linalg.solve(factor, block), rtol=1e-8, atol=1e-10)
    expected = np.linalg.solve(factor.T, block)
    np.testing.assert_allclose(triangle.solve_transposed(block.copy()), expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(triangle.inverse() @ factor, np.eye(size), atol=1e-9)


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("size", [1, SOLVED, 2 * SOLVED + 7, 300, 400])
def test_inverses_run_by_run_on_threads(size: int, workers: int) -> None:
    """Sizes with and without threads, with a last run that is full, short or alone."""
    matrix = positive(size, size)
    factor = cholesky(matrix, "M")
    lower, inverse = LowerSolver(factor).inverse(workers), inverse_from_cholesky(factor, workers)
    np.testing.assert_array_equal(lower, np.tril(lower))
    np.testing.assert_allclose(lower @ factor, np.eye(size), atol=1e-9)
    np.testing.assert_array_equal(inverse, inverse.T)
    np.testing.assert_allclose(inverse @ matrix, np.eye(size), atol=1e-8)


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("size", [1, SOLVED, 2 * SOLVED + 7, 300])
def test_a_symmetric_matrix_between_two_solves(size: int, workers: int) -> None:
    rng = np.random.default_rng(size)
    factor, root = cholesky(positive(size, size), "M"), rng.normal(size=(size, size))
    inner = root + root.T
    half = solve_triangular(factor, inner, lower=True, trans=1)
    expected = solve_triangular(factor, half.T, lower=True, trans=1)
    found = LowerSolver(factor).between(inner.copy(), workers)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-10 * np.abs(expected).max())


def test_a_triangle_solves_some_columns_of_a_block_in_place() -> None:
    """Some columns at a time, as threads do, each its own columns."""
    factor = cholesky(positive(100), "M")
    block = np.random.default_rng(2).normal(size=(100, 9))
    expected = np.concatenate((block[:, :4], np.linalg.solve(factor, block[:, 4:])), axis=1)
    LowerSolver(factor).solve(block[:, 4:])
    np.testing.assert_allclose(block, expected, rtol=1e-8, atol=1e-10)


def test_solves_keep_what_jitter_leaves() -> None:
    """The factor of a kernel matrix that is nearly singular, against substitution: K = L V as exactly, and |v|^2 to
    less than the jitter, which is as much as a nearly singular matrix says of it."""
    x = np.linspace(0.0, 1.0, 300)
    factor, jitter = jittered_cholesky(np.exp(-8.0 * np.square(x[:, None] - x)), "Kuu")
    assert np.linalg.cond(factor) > 1e4
    block = np.exp(-8.0 * np.square(x[:, None] - np.linspace(-0.1, 1.1, 50)))
    solved = LowerSolver(factor).solve(block.copy())
    np.testing.assert_allclose(factor @ solved, block, rtol=0.0, atol=1e-12)
    explained = np.square(solve_triangular(factor, block, lower=True)).sum(axis=0)
    np.testing.assert_allclose(np.square(solved).sum(axis=0), explained, rtol=0.0, atol=0.1 * jitter)


def test_gram_is_added_with_both_halves() -> None:
    rng = np.random.default_rng(3)
    block = rng.normal(size=(4, 9))
    total = positive(4)
    expected = total + block @ block.T
    add_gram(total, block, np.empty((4, 4)))
    np.testing.assert_allclose(total, expected, rtol=1e-12)
    np.testing.assert_array_equal(total, total.T)


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
