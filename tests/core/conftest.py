"""Fixtures of trainings: shorter ones where it is not about how long they take."""

import pytest

from core.train import fold_fits, search


@pytest.fixture
def short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four folds in place of twenty, and a start from a hundred rows in place of a thousand: the same code on less."""
    monkeypatch.setattr(fold_fits, "CROSS_FIT_FOLDS", 4)
    monkeypatch.setattr(search, "SCREEN_ROWS", 100)
    monkeypatch.setattr(search, "POLISH_ROWS", 100)
