"""core/train/shares.py: shares are in order for tables of every size, and what grows with the rows has more of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.data import Dataset
from core.spec import Adaptation, MeanRows, TrainSpec
from core.train.progress import Checkpoint, Phase, Progress
from core.train.run import train
from core.train.run_rows import SEARCH_ROWS
from core.train.shares import Shares, share_searched

AUTO = TrainSpec(mean_rows=MeanRows.AUTO)


@given(rows=st.integers(1, 10**8), mean=st.sampled_from([MeanRows.AUTO, MeanRows.ALL, MeanRows.BASIS]))
def test_steps_end_one_after_the_other(rows: int, mean: MeanRows) -> None:
    found = Shares.of(rows, TrainSpec(mean_rows=mean))
    ends = [0.0, found.started, found.searched, found.evaluated, found.fitted, 1.0]
    assert ends == sorted(ends)
    assert 0.0 < found.choices < 0.5
    assert 0.0 < found.sparse <= 1.0


@pytest.mark.parametrize("rows", [100, 10_000, 20_000])
def test_tables_that_a_full_process_may_learn_have_the_same_shares(rows: int) -> None:
    assert Shares.of(rows, TrainSpec()) == Shares.of(1_000, TrainSpec())


def test_folds_that_calibrate_have_a_share() -> None:
    by_folds, closed = Shares.of(10_000, TrainSpec(basis_size=500)), Shares.of(10_000, TrainSpec(basis_size=100))
    assert by_folds.fitted < 0.85
    assert closed.fitted > 0.9


def test_both_fits_of_millions_of_rows_take_as_long_as_the_search() -> None:
    found = Shares.of(2_000_000, AUTO)
    assert found.sparse == 1.0, "no mean on more rows follows"
    assert 0.3 < found.fitted - found.searched < 0.5
    assert 0.3 < found.searched < 0.6
    assert found.evaluated - found.searched == pytest.approx(found.fitted - found.evaluated, rel=0.1)
    assert found.choices < Shares.of(20_000, AUTO).choices


def test_a_mean_on_many_rows_takes_more_than_the_sparse_model() -> None:
    assert Shares.of(50_000, TrainSpec(mean_rows=MeanRows.ALL)).sparse < 0.45 < Shares.of(10_000, AUTO).sparse


def test_a_search_that_settled_early_has_more_left_to_do() -> None:
    whole, early = share_searched(2_000_000, 200.0, 1.5), share_searched(2_000_000, 100.0, 1.5)
    assert whole is not None
    assert early is not None
    assert 0.2 < early < 0.5 < whole < 0.8
    assert share_searched(SEARCH_ROWS, 200.0, 1.5) is None
    assert share_searched(2_000_000, 200.0, 0.0) is None, "nothing was evaluated: a search that goes on from its end"


def test_fits_tell_how_far_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a search on a fiftieth of the rows the fits are told in pieces, in their order."""
    monkeypatch.setattr("core.train.shares.SEARCH_ROWS", 40)
    random = np.random.default_rng(0)
    inputs = random.normal(size=(2_000, 2))
    told: list[tuple[Phase, float]] = []

    def listen(event: Progress | Checkpoint) -> None:
        if isinstance(event, Progress):
            told.append((event.phase, event.fraction))

    spec = TrainSpec(basis_size=20, adaptation=Adaptation(rounds=1, steps=3))
    train(Dataset(inputs=inputs, targets=np.sin(inputs[:, 0])), spec, listen=listen)
    fractions = [fraction for _, fraction in told]
    assert fractions == sorted(fractions)
    fitting = [place for place, (phase, _) in enumerate(told) if phase is Phase.FITTING]
    evaluating = [place for place, (phase, _) in enumerate(told[: fitting[0]]) if phase is Phase.EVALUATING]
    for places in (evaluating, fitting):
        assert len(places) >= 3, "its begin, a basis, factors"
    assert fractions[evaluating[0]] < fractions[fitting[0]]
