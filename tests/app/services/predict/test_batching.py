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
from app.services.predict.batching import LOOP_ROWS, TURN_ROWS, Batcher
from app.services.predict.loaded_model import LoadedModel, load_model
from app.services.predict.options import PredictOptions
from app.services.predict.run import answer_arrays
from tests.app.services.predict.test_registry import stored
from tests.processes import wait_until

Inputs = NDArray[np.float64]
OPTIONS = (
    PredictOptions(),
    PredictOptions(mean_only=True),
    PredictOptions(levels=(0.5, 0.9), quantiles=(0.1,), include=frozenset({"latent_std", "support", "median"})),
)


@pytest.fixture
def batcher() -> Iterator[Batcher]:
    made = Batcher()
    yield made
    made.close()


Answer = dict[str, NDArray[np.float64]]


def same_bits(one: Answer, other: Answer) -> bool:
    return {name: array.tobytes() for name, array in one.items()} == {
        name: array.tobytes() for name, array in other.items()
    }


def ask_all(
    batcher: Batcher, asked: Sequence[tuple[LoadedModel, Inputs, PredictOptions]]
) -> list[Answer | BaseException]:
    async def ask() -> list[Answer | BaseException]:
        return await asyncio.gather(*(batcher.submit(*one) for one in asked), return_exceptions=True)

    return asyncio.run(ask())


def test_together_as_alone_to_the_last_bit(batcher: Batcher) -> None:
    models = [load_model(stored(seed)) for seed in (0, 1)]
    chance = np.random.default_rng(0)
    sizes = [1, 1, 7, 1, 64, 1, LOOP_ROWS, 3, 0, 100, 1, LOOP_ROWS + 1, 2 * TURN_ROWS + 5]
    asked = [
        (model, chance.normal(size=(size, 1)), options) for size in sizes for model in models for options in OPTIONS
    ]
    for one, found in zip(asked, ask_all(batcher, asked), strict=True):
        assert isinstance(found, dict)
        assert same_bits(found, answer_arrays(*one))


def test_requests_that_come_together_are_one_call(batcher: Batcher, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(model: LoadedModel, inputs: Inputs, options: PredictOptions) -> Answer:
        calls.append(len(inputs))
        return answer_arrays(model, inputs, options)

    monkeypatch.setattr(batching, "answer_arrays", counted)
    model = load_model(stored(0))
    ask_all(batcher, [(model, np.zeros((1, 1)), PredictOptions())] * 16)
    assert calls == [16]


def test_a_call_takes_no_more_rows_than_its_share(batcher: Batcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "LOOP_WORK", 16 * 5**2)
    model = load_model(stored(0))
    asked = [(model, np.full((7, 1), float(place)), PredictOptions()) for place in range(9)]
    for one, found in zip(asked, ask_all(batcher, asked), strict=True):
        assert isinstance(found, dict)
        assert same_bits(found, answer_arrays(*one))


def test_each_hears_of_its_own_rows(batcher: Batcher) -> None:
    model = load_model(stored(0))
    good, bad = np.zeros((2, 1)), np.array([[0.0], [np.nan]])
    found = ask_all(
        batcher, [(model, good, PredictOptions()), (model, bad, PredictOptions()), (model, good, PredictOptions())]
    )
    assert isinstance(found[0], dict)
    assert "row 1" in str(found[1])
    assert isinstance(found[2], dict)


@pytest.mark.parametrize("rows", [1, LOOP_ROWS + 1, 3 * TURN_ROWS])
def test_nothing_is_held_of_what_was_answered(batcher: Batcher, rows: int) -> None:
    """Without a collection of garbage: rows in a cycle would lie there until the next."""
    inputs = np.zeros((rows, 1))
    left = weakref.ref(inputs)
    gc.disable()
    try:
        ask_all(batcher, [(load_model(stored(0)), inputs, PredictOptions())])
        del inputs
        wait_until(lambda: left() is None)
        assert left() is None
    finally:
        gc.enable()


def test_the_mean_only_wants_nothing_else() -> None:
    for more in (
        PredictOptions(levels=(0.5,)),
        PredictOptions(quantiles=(0.5,)),
        PredictOptions(include=frozenset({"median"})),
    ):
        with pytest.raises(InvalidRequestError, match="the mean alone"):
            PredictOptions(levels=more.levels, quantiles=more.quantiles, include=more.include, mean_only=True)
