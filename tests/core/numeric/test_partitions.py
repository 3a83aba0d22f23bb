"""core/numeric/partitions.py: one order of additions, parts of several widths, and a rule by multiply-adds alone."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from core.numeric.partitions import LEAST_PASS, Concatenation, LocalPartitions, VectorSum, dividing, partitioned
from core.numeric.shards import Partitions


def scaled(common: float, partition: int, shared: float, own: float | None) -> VectorSum:
    """A row that is as long as the partition's number says."""
    return VectorSum(np.full((1, partition), common * shared + (own or 0.0)))


def test_missing_columns_are_zero() -> None:
    found = LocalPartitions(2.0, [1, 3, 3, 6]).total(scaled, 5.0, [0.1, 0.2, 0.3, 0.4])
    np.testing.assert_allclose(found.values, [[41.0, 30.9, 30.9, 10.4, 10.4, 10.4]])


def test_what_was_added_stays_as_it_was() -> None:
    first, other = VectorSum(np.ones((1, 2))), VectorSum(np.full((1, 4), 3.0))
    first.add(other)
    np.testing.assert_array_equal(first.values, [[4.0, 4.0, 3.0, 3.0]])
    np.testing.assert_array_equal(other.values, [[3.0, 3.0, 3.0, 3.0]])
    pieces, more = Concatenation([np.zeros(1)]), Concatenation([np.ones(2)])
    pieces.add(more)
    np.testing.assert_array_equal(pieces.joined(), [0.0, 1.0, 1.0])
    assert len(more.pieces) == 1


def uneven(common: int, partition: int, _: None, __: None) -> VectorSum:
    return VectorSum(np.random.default_rng([common, partition]).normal(size=(3, 50)))


@pytest.mark.parametrize("count", [1, 5, 32])
def test_the_number_of_threads_changes_no_bit(count: int) -> None:
    found = [LocalPartitions(0, range(count), workers).total(uneven).values for workers in (1, 2, 3, 7)]
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


class Elsewhere:
    """Processes that are never asked."""

    def partitions(self, common: Any, partitions: Sequence[Any], cost: float, here: Partitions) -> Partitions:
        """Return what is here."""
        assert (common, partitions, cost) == (2.0, [1], 7.0)
        return here

    scatter: Any = None
    map: Any = None


def test_multiply_adds_decide_who_does_a_pass() -> None:
    other = Elsewhere()
    assert dividing(other, LEAST_PASS) is other
    assert dividing(other, 0.99 * LEAST_PASS) is None
    assert dividing(None, 2 * LEAST_PASS) is None
    found = partitioned(2.0, [1], 1, other, 7.0)
    np.testing.assert_array_equal(found.total(scaled, 5.0).values, [[10.0]])
