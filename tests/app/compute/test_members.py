"""Runs of a sum that processes have done, in whatever order, are the tree of one process, and few nodes at any time."""

import math
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from app.compute.members import Nodes, _keep
from core.numeric.shards import joined, tree_nodes
from tests.core.numeric.test_shards import Written, by_levels


@given(st.integers(1, 70), st.integers(0, 3), st.randoms())
def test_runs_are_joined_as_they_come(count: int, level: int, random: Random) -> None:
    words = [str(place) for place in range(count)]
    length, done = 1 << level, Nodes()
    runs = [range(start, min(start + length, count)) for start in range(0, count, length)]
    random.shuffle(runs)
    for places in runs:
        _keep(done, places, tree_nodes(Written, words, places, 1))
        gaps = len(done)
        assert sum(map(len, done.values())) <= gaps * (2 * math.ceil(math.log2(count + 1)))
    ((places, nodes),) = done.items()
    assert places == range(count)
    assert len(nodes) <= math.ceil(math.log2(count + 1))
    assert joined(nodes).words == by_levels(words)
