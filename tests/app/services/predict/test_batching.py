"""Batches of requests: the answer has the same bits in any batch, and no fault of another request."""

import asyncio
import gc
import weakref
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from app.errors import InvalidRequestError
from app.services.predict import batching
from app.services.predict.batching import FEW_ROWS, TURN_ROWS, Batcher
from app.services.predict.registry import Answers, LoadedModel, Wanted, load_model, predict
from tests.app.services.predict.test_registry import stored
from tests.processes import wait_until

Inputs = NDArray[np.float64]
WANTED = (
    Wanted(),
    Wanted(mean_alone=True),
    Wanted(levels=(0.5, 0.9), quantiles=(0.1,), include=frozenset({"latent_std", "support", "median"})),
)


@pytest.fixture
def batcher() -> Iterator[Batcher]:
    made = Batcher()
    yield made
    made.close()


def numbers(answers: Answers) -> list[list[float]]:
    ends = [end for interval in answers.intervals for end in interval]
    std = [] if answers.std is None else [answers.std]
    return [array.tolist() for array in (answers.mean, *std, *ends, *answers.quantiles, *answers.extra.values())]


def ask_all(batcher: Batcher, asked: Sequence[tuple[LoadedModel, Inputs, Wanted]]) -> list[Answers | BaseException]:
    async def ask() -> list[Answers | BaseException]:
        return await asyncio.gather(*(batcher.predict(*one) for one in asked), return_exceptions=True)

    return asyncio.run(ask())


def test_together_as_alone_to_the_last_bit(batcher: Batcher) -> None:
    models = [load_model(stored(seed)) for seed in (0, 1)]
    chance = np.random.default_rng(0)
    sizes = [1, 1, 7, 1, 64, 1, FEW_ROWS, 3, 0, 100, 1, FEW_ROWS + 1, 2 * TURN_ROWS + 5]
    asked = [(model, chance.normal(size=(size, 1)), wanted) for size in sizes for model in models for wanted in WANTED]
    for one, found in zip(asked, ask_all(batcher, asked), strict=True):
        assert isinstance(found, Answers)
        assert numbers(found) == numbers(predict(*one))


def test_requests_that_come_together_are_one_call(batcher: Batcher, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(model: LoadedModel, inputs: Inputs, wanted: Wanted) -> Answers:
        calls.append(len(inputs))
        return predict(model, inputs, wanted)

    monkeypatch.setattr(batching, "predict", counted)
    model = load_model(stored(0))
    ask_all(batcher, [(model, np.zeros((1, 1)), Wanted())] * 16)
    assert calls == [16]


def test_a_call_takes_no_more_rows_than_its_share(batcher: Batcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "MOST_WORK", 16 * 5**2)
    model = load_model(stored(0))
    asked = [(model, np.full((7, 1), float(place)), Wanted()) for place in range(9)]
    for one, found in zip(asked, ask_all(batcher, asked), strict=True):
        assert isinstance(found, Answers)
        assert numbers(found) == numbers(predict(*one))


def test_each_hears_of_its_own_rows(batcher: Batcher) -> None:
    model = load_model(stored(0))
    good, bad = np.zeros((2, 1)), np.array([[0.0], [np.nan]])
    found = ask_all(batcher, [(model, good, Wanted()), (model, bad, Wanted()), (model, good, Wanted())])
    assert isinstance(found[0], Answers)
    assert "row 1" in str(found[1])
    assert isinstance(found[2], Answers)


@pytest.mark.parametrize("rows", [1, FEW_ROWS + 1, 3 * TURN_ROWS])
def test_nothing_is_held_of_what_was_answered(batcher: Batcher, rows: int) -> None:
    """Without a collection of garbage: rows in a cycle would lie there until the next."""
    inputs = np.zeros((rows, 1))
    left = weakref.ref(inputs)
    gc.disable()
    try:
        ask_all(batcher, [(load_model(stored(0)), inputs, Wanted())])
        del inputs
        wait_until(lambda: left() is None)
        assert left() is None
    finally:
        gc.enable()


def test_the_mean_alone_wants_nothing_else() -> None:
    for more in (Wanted(levels=(0.5,)), Wanted(quantiles=(0.5,)), Wanted(include=frozenset({"median"}))):
        with pytest.raises(InvalidRequestError, match="the mean alone"):
            Wanted(levels=more.levels, quantiles=more.quantiles, include=more.include, mean_alone=True)
