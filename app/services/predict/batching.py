"""Who is predicted with whom, and where: few rows together in the event loop, many rows in one thread.

Requests of few rows that have come for the same model and want the same are predicted by one call: a call for one row
costs as much as one for eight. Nothing waits for company: whatever is queued when the event loop comes round goes. A
row's numbers do not depend on the rows beside it (`core.predict.predictor`), so nobody can tell.

Requests of many rows go to one thread, TURN_ROWS at a time in turns, and the predictor cuts these into blocks: between
blocks the event loop has the interpreter, between turns the other large requests have the thread.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from app.errors import PursuitError
from app.services.predict.registry import Answers, LoadedModel, Wanted, joined, predict
from core.errors import CoreError

P = ParamSpec("P")
T = TypeVar("T")

FEW_ROWS = 128
"""Requests of up to so many rows are predicted in the event loop ..."""
MOST_WORK = 512 * 500**2
"""... by calls of at most so many multiply-adds, some 3 ms, that is 512 rows of a model of 500 basis vectors."""
TURN_ROWS = 2048
"""Rows of a large request that are predicted before another's turn: enough that taking turns costs nothing."""

_ROW_UNIT = 8


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    inputs: NDArray[np.float64]
    answers: "asyncio.Future[Answers]"


@dataclass(frozen=True, slots=True, eq=False)
class _Turns:
    """A large request on its way through the thread. No closure that knows itself: that would be a cycle, and hold the
    rows until the next collection of garbage."""

    thread: ThreadPoolExecutor
    model: LoadedModel
    inputs: NDArray[np.float64]
    wanted: Wanted
    whole: "Future[Answers]" = field(default_factory=Future)
    parts: list[Answers] = field(default_factory=list)

    def take(self) -> None:
        """Predict the next part, and stand in line for the one after it."""
        if self.whole.cancelled():
            return
        try:
            start = TURN_ROWS * len(self.parts)
            self.parts.append(predict(self.model, self.inputs[start : start + TURN_ROWS], self.wanted, start))
            if start + TURN_ROWS < len(self.inputs):
                self.thread.submit(self.take)
            elif self.whole.set_running_or_notify_cancel():
                self.whole.set_result(joined(self.parts))
        except Exception as error:  # noqa: BLE001 -- whatever it is, the one who waits is to hear of it
            if self.whole.set_running_or_notify_cancel():
                self.whole.set_exception(error)


class Batcher:
    """Predicts for the requests of one event loop. `close` it when no more come."""

    def __init__(self) -> None:
        self._queues: dict[tuple[LoadedModel, Wanted], list[_Waiting]] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="predictions")

    async def predict(self, model: LoadedModel, inputs: NDArray[np.float64], wanted: Wanted) -> Answers:
        """As `app.services.predict.registry.predict` for inputs (m, p), to the same bits, with the same refusals."""
        if len(inputs) <= FEW_ROWS and len(inputs) <= _capacity(model):
            return await self._together(model, inputs, wanted)
        return await asyncio.wrap_future(self._in_turns(model, inputs, wanted))

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What belongs to a large request and computes for long, in the same thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: work(*args, **kwargs))

    def close(self) -> None:
        """Let the thread end; what it has begun it finishes."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _in_turns(self, model: LoadedModel, inputs: NDArray[np.float64], wanted: Wanted) -> "Future[Answers]":
        """Predict a part and go to the end of the thread's queue, until there are no more parts."""
        turns = _Turns(self._thread, model, inputs, wanted)
        self._thread.submit(turns.take)
        return turns.whole

    def _together(self, model: LoadedModel, inputs: NDArray[np.float64], wanted: Wanted) -> "asyncio.Future[Answers]":
        loop = asyncio.get_running_loop()
        answers: asyncio.Future[Answers] = loop.create_future()
        if not self._queues:
            loop.call_soon(self._flush_next, loop)
        self._queues.setdefault((model, wanted), []).append(_Waiting(inputs, answers))
        return answers

    def _flush_next(self, loop: asyncio.AbstractEventLoop) -> None:
        """Once more round the loop, which takes what lies in the sockets already: nothing is waited for."""
        loop.call_soon(self._flush, loop)

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        """Predict the first queue, or as much of it as fits; the rest when everything else has had its turn."""
        key = next(iter(self._queues))
        model, wanted = key
        waiting = self._queues.pop(key)
        fitting = _fitting(waiting, _capacity(model))
        if fitting < len(waiting):
            self._queues[key] = waiting[fitting:]
        if self._queues:
            loop.call_soon(self._flush, loop)
        _answer(model, wanted, waiting[:fitting])


def _answer(model: LoadedModel, wanted: Wanted, waiting: list[_Waiting]) -> None:
    """One call for all; where it is refused one for each, so that each hears of its own rows."""
    try:
        rows = waiting[0].inputs if len(waiting) == 1 else np.concatenate([one.inputs for one in waiting])
        found = predict(model, rows, wanted)
    except (PursuitError, CoreError) as error:
        if len(waiting) > 1:
            for one in waiting:
                _answer(model, wanted, [one])
            return
        _fail(waiting, error)
    except Exception as error:  # noqa: BLE001 -- a bug: who waits must hear of it, or would wait for ever
        _fail(waiting, error)
    else:
        start = 0
        for one in waiting:
            stop = start + len(one.inputs)
            if not one.answers.done():
                one.answers.set_result(found if len(waiting) == 1 else found.rows(start, stop))
            start = stop


def _fail(waiting: list[_Waiting], error: Exception) -> None:
    for one in waiting:
        if not one.answers.done():
            one.answers.set_exception(error)


def _capacity(model: LoadedModel) -> int:
    """Rows of one call in the event loop; fewer than one where even one row takes long."""
    return MOST_WORK // model.predictor.row_work // _ROW_UNIT * _ROW_UNIT


def _fitting(waiting: list[_Waiting], capacity: int) -> int:
    """How many requests make up to so many rows; the first always."""
    rows = 0
    for place, one in enumerate(waiting):
        rows += len(one.inputs)
        if rows > capacity and place:
            return place
    return len(waiting)
