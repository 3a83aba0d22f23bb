"""core/numeric/shards.py: cuts by the number of rows alone, one order of additions, and so the same bits."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import core.numeric.shards
from core.arrays import FloatArray
from core.data import Dataset
from core.numeric.shards import (
    FEWEST_SHARDS,
    MOST_SHARDS,
    SHARD_ROWS,
    SHARDED_ROWS,
    cuts_of,
    even_cuts,
    is_very_large,
    joined,
    sample_cuts,
    tree_nodes,
    tree_total,
)
from core.process.rows import Rows
from core.selection.pool import SUMMED_ROWS, pool_products
from core.selection.size import prefix_measures
from core.selection.state import Selection
from core.sparse.factors import Factors, factorise
from core.sparse.leave_one_out import leave_one_out
from core.sparse.likelihood import nlml, nlml_and_gradients
from core.sparse.scheme import scheme
from core.spec import Approximation
from core.train.fit import Subset
from core.train.run_rows import SEARCH_ROWS
from core.train.search import COMPARED_ROWS
from tests.core.problems import POWER, Problem, problem


@dataclass(slots=True, eq=False)
class Written:
    """A sum that writes down how it was made."""

    words: str

    def add(self, other: "Written") -> None:
        """Concatenate in brackets."""
        self.words = f"({self.words} {other.words})"


def by_levels(words: list[str]) -> str:
    """Pairs of neighbours, again and again; an odd one waits."""
    while len(words) > 1:
        pairs = [words[start : start + 2] for start in range(0, len(words), 2)]
        words = [f"({pair[0]} {pair[1]})" if len(pair) == 2 else pair[0] for pair in pairs]
    return words[0]


@settings(deadline=None, max_examples=40)
@given(count=st.integers(1, 70), workers=st.integers(1, 9))
def test_additions_are_those_of_pairs_of_neighbours_for_any_workers(count: int, workers: int) -> None:
    spent: list[str] = []
    found = tree_total(
        lambda item: Written(str(item)), range(count), workers, discard=lambda part: spent.append(part.words)
    )
    assert found.words == by_levels([str(item) for item in range(count)])
    assert len(spent) == count - 1


@settings(deadline=None, max_examples=40)
@given(count=st.integers(1, 70), cuts=st.lists(st.integers(0, 70), max_size=6), workers=st.integers(1, 4))
def test_nodes_of_any_runs_join_to_the_same_sum(count: int, cuts: list[int], workers: int) -> None:
    ends = [0, *sorted(min(cut, count) for cut in cuts), count]
    found = [
        node
        for begin, end in pairwise(ends)
        if begin < end
        for node in tree_nodes(lambda item: Written(str(item)), range(count), range(begin, end), workers)
    ]
    assert joined(found).words == by_levels([str(item) for item in range(count)])


@pytest.mark.parametrize(
    ("rows", "shards"),
    [
        (10, FEWEST_SHARDS),
        (FEWEST_SHARDS * SHARD_ROWS, FEWEST_SHARDS),
        (FEWEST_SHARDS * SHARD_ROWS + 1, 2 * FEWEST_SHARDS),
        (10**8, MOST_SHARDS),
    ],
)
def test_cuts_are_even_and_a_power_of_two_of_them(rows: int, shards: int) -> None:
    cuts = cuts_of(rows)
    assert len(cuts) == shards + 1
    assert (cuts[0], cuts[-1]) == (0, rows)
    assert np.ptp(np.diff(cuts)) <= 1


@pytest.mark.parametrize(("rows", "shards"), [(10, 16), (50_000, 16), (200_000, 32), (SHARDED_ROWS - 1, 32)])
def test_few_rows_of_a_very_large_table_are_cut_by_their_number_alone(rows: int, shards: int) -> None:
    numbers = np.sort(np.random.default_rng(0).permutation(3 * SHARDED_ROWS)[:rows])
    cuts = sample_cuts(3 * SHARDED_ROWS, numbers)
    assert cuts == even_cuts(rows)
    assert (cuts[0], cuts[-1], len(cuts)) == (0, rows, shards + 1)
    assert np.ptp(np.diff(cuts)) <= 1


def test_samples_are_never_as_many_as_a_very_large_table() -> None:
    """`Rows.sample` cuts them by their number."""
    assert max(SUMMED_ROWS, COMPARED_ROWS, SEARCH_ROWS) < SHARDED_ROWS
    assert not is_very_large(SHARDED_ROWS - 1)
    assert is_very_large(SHARDED_ROWS)


def test_many_rows_are_cut_where_their_table_is() -> None:
    rows = SHARDED_ROWS + 10
    numbers = np.delete(np.arange(rows), np.arange(0, 20, 2))
    cuts = sample_cuts(rows, numbers)
    assert cuts[:2] == (0, int(cuts_of(rows)[1]) - 10)
    assert cuts[-1] == len(numbers)


def sharded(case: Problem, workers: int) -> Rows:
    """Its rows in shards, of which the first has none."""
    return replace(case.changed(workers=workers).rows, cuts=(0, 0, 40, 100, 130, 209))


def everything(rows: Rows, case: Problem, approximation: Approximation) -> dict[str, FloatArray]:
    """Whatever is a pass over all rows."""
    kind = scheme(approximation, POWER)
    factors = factorise(rows, case.Z, case.hyperparameters, kind)
    again = factorise(rows, case.Z, case.hyperparameters, kind, keep=False)
    found = nlml_and_gradients(rows, case.Z, case.hyperparameters, kind)
    selection = Selection(indices=case.indices, gains=np.zeros(len(case.indices)), reason="")
    G, g = pool_products(rows, case.X[:30], case.hyperparameters)
    mean, variance = leave_one_out(factors)
    return {
        **{f"factors.{name}": getattr(factors, name) for name in ("information", "LB", "e", "D", "c", "alpha")},
        **{f"again.{name}": getattr(again, name) for name in ("information", "LB", "e", "D", "c", "alpha")},
        "nlml": np.array(nlml(factors)),
        "value": np.array(found.value),
        "by_theta": found.by_theta,
        "by_basis": found.by_basis,
        "loss": np.array(found.left_out_loss or 0.0),
        "mean": mean,
        "variance": variance,
        "variance without the full prior": leave_one_out(
            replace(again, scheme=replace(again.scheme, full_prior=False))
        )[1],
        "G": G,
        "g": g,
        "measures": prefix_measures(rows, case.hyperparameters, selection),
    }


@pytest.mark.parametrize("approximation", list(Approximation))
def test_shards_have_the_same_bits_on_any_number_of_threads(
    approximation: Approximation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.process.rows.BLOCK_NUMBERS", 1)
    case = problem(5, n=209)
    one = everything(sharded(case, 1), case, approximation)
    for workers in (2, 3, 16):
        for name, found in everything(sharded(case, workers), case, approximation).items():
            np.testing.assert_array_equal(found, one[name], err_msg=name)
    for name, found in everything(case.rows, case, approximation).items():
        np.testing.assert_allclose(one[name], found, rtol=1e-8, atol=1e-9, err_msg=name)


def test_kept_blocks_are_by_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.process.rows.BLOCK_NUMBERS", 1)
    case = problem(5, n=209)

    def rows_of(factors: Factors) -> list[int]:
        return [block.rows.start for run in factors.over_blocks(list) for block in run]

    factors = factorise(sharded(case, 2), case.Z, case.hyperparameters, scheme(Approximation.FITC))
    assert len(factors.kept) == 4
    assert rows_of(factors) == [0, 40, 100, 130, 170]  # the last one in two even blocks


def test_a_fold_of_spread_rows_is_summed_here_and_a_sample_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core.numeric.shards, "SHARDED_ROWS", 100)
    random = np.random.default_rng(0)
    dataset = Dataset(inputs=random.standard_normal((150, 2)), targets=random.standard_normal(150))
    rows = Subset.of(dataset, np.arange(150), standardize=True, workers=2).rows
    assert len(rows.cuts) == FEWEST_SHARDS + 1
    some = rows.take(np.arange(5))
    assert (some.cuts, some.remote, some.workers, len(some)) == ((), None, 1, 5)
    sample = rows.sample(np.arange(0, 150, 2))
    assert (sample.cuts, sample.workers, len(sample)) == (even_cuts(75), 2, 75)
    few = Subset.of(dataset, np.arange(40), standardize=True, workers=1)
    assert few.rows.cuts == even_cuts(40)
    assert Subset.of(dataset, np.arange(40), standardize=True, workers=1, very_large=False).rows.cuts == ()
    assert few.rows.sample(np.arange(7)).cuts == even_cuts(7)
    assert (
        Subset.of(dataset.take(np.arange(40)), np.arange(40), standardize=True, workers=1)
        .rows.sample(np.arange(7))
        .cuts
        == ()
    )
