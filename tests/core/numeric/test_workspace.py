"""core/numeric/workspace.py: nobody is given what another one has."""

import copy
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from core.numeric.workspace import WASTE, Handover, Workspace


def test_what_comes_back_is_given_again_in_another_shape() -> None:
    workspace = Workspace()
    first, second = workspace.take(4, 3), workspace.take(4, 3)
    assert first.shape == second.shape == (4, 3)
    assert not np.shares_memory(first, second)
    workspace.give(first)
    again = workspace.take(2, 5)
    assert again.shape == (2, 5)
    assert again.flags.c_contiguous
    assert np.shares_memory(again, first)
    assert not np.shares_memory(workspace.take(2, 5), first)


def test_little_memory_is_wasted() -> None:
    workspace = Workspace()
    large = workspace.take(100)
    workspace.give(large)
    assert not np.shares_memory(workspace.take(100 // WASTE - 1), large)
    assert not np.shares_memory(workspace.take(101), large)
    assert np.shares_memory(workspace.take(100 // WASTE), large)


def test_a_lent_array_comes_back_after_an_error() -> None:
    workspace = Workspace()
    try:
        with workspace.borrow(4) as array:
            raise KeyError
    except KeyError:
        assert np.shares_memory(workspace.take(4), array)


def test_cleared() -> None:
    workspace = Workspace()
    array = workspace.take(4)
    workspace.give(array)
    workspace.clear()
    assert not np.shares_memory(workspace.take(4), array)


def test_threads_never_hold_the_same_array() -> None:
    workspace = Workspace()

    def work(mark: int) -> bool:
        for _ in range(500):
            with workspace.borrow(64) as array:
                array[:] = mark
                if not (array == mark).all():
                    return False
        return True

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(4)))


def test_what_is_left_is_taken_once_under_its_key_and_stays_in_its_process() -> None:
    handover = Handover()
    assert handover.take("key") is None
    assert handover.leave("old", 1) is None
    assert handover.leave("key", 2) == 1
    assert handover.take("old") is None
    assert copy.deepcopy(handover).take("key") is None
    assert handover.take("key") == 2
    assert handover.take("key") is None
    handover.leave("key", 3)
    handover.clear()
    assert handover.take("key") is None
