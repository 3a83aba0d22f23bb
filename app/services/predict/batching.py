"""Choice of event loop or thread, which no other module makes: light work in the loop, few rows of several requests
together; the rest in one thread.

Requests of few rows that have come for the same model and options are predicted by one call: a call for one row costs
as much as one for eight. None waits for others: all that is queued when the event loop comes round is predicted. A
row's numbers do not depend on the rows beside it (`core.predict.predictor`), so batches change no answer.

A row with missing cells counts for the rows it is integrated over. Requests of many rows take turns in one thread,
TURN_ROWS at a time, and the predictor cuts these into blocks: between
blocks the event loop has the interpreter, between turns the other large requests have the thread.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar, TypeVarTuple

import numpy as np

from app.errors import PursuitError
from app.services.predict.loaded_model import LoadedModel
from app.services.predict.options import PredictOptions
from app.services.predict.run import answer_arrays
from app.telemetry.measures import Measures
from core.arrays import FloatArray
from core.errors import CoreError

T = TypeVar("T")
Args = TypeVarTuple("Args")
Arrays = dict[str, FloatArray]

LOOP_BYTES = 64 << 10
"""Bytes of text that are read or written in the event loop; more go to the thread."""
LOOP_ROWS = 128
"""Rows of a request that is predicted in the event loop ..."""
LOOP_WORK = 512 * 500**2
"""... by calls of at most so many multiply-adds, some 3 ms, that is 512 rows of a model of 500 basis vectors."""
ROW_BYTES = LOOP_BYTES // LOOP_ROWS
"""Bytes that a row of an answer counts for."""
TURN_ROWS = 2048
"""Rows of a large request that are predicted before another's turn: enough that taking turns costs nothing."""

_ROW_UNIT = 8


@dataclass(slots=True, eq=False)  # frozen ones take three times as long to make
class _QueuedRequest:
    inputs: FloatArray
    result: "asyncio.Future[Arrays]"


@dataclass(frozen=True, slots=True, eq=False)
class _LargeRequest:
    """A request on its way through the thread. No closure that knows itself: that would be a cycle, and hold the rows
    until the next collection of garbage."""

    thread: ThreadPoolExecutor
    model: LoadedModel
    inputs: FloatArray
    options: PredictOptions
    turn: int = TURN_ROWS
    result: "Future[Arrays]" = field(default_factory=Future)
    parts: list[Arrays] = field(default_factory=list)

    def take_turn(self) -> None:
        """Predict the next part, and queue the one after it."""
        if self.result.cancelled():
            return
        try:
            start = self.turn * len(self.parts)
            rows = self.inputs[start : start + self.turn]
            self.parts.append(answer_arrays(self.model, rows, self.options, first_row=start))
            if start + self.turn < len(self.inputs):
                self.thread.submit(self.take_turn)
            elif self.result.set_running_or_notify_cancel():
                self.result.set_result(_concatenate(self.parts))
        except Exception as error:  # noqa: BLE001 -- the waiting request gets it, whatever it is
            if self.result.set_running_or_notify_cancel():
                self.result.set_exception(error)


class Batcher:
    """Computes for the requests of one event loop. `close` it when no more come."""

    def __init__(self, measures: Measures | None = None) -> None:
        self._measures = measures or Measures()
        self._queues: dict[tuple[LoadedModel, PredictOptions], list[_QueuedRequest]] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="predictions")

    async def run(self, size: int, work: Callable[[*Args], T], *args: *Args) -> T:
        """Return `work(*args)`. size: bytes of text that it reads or writes, ROW_BYTES for each row of an answer."""
        if size <= LOOP_BYTES:
            return work(*args)
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    def submit(self, model: LoadedModel, inputs: FloatArray, options: PredictOptions) -> "asyncio.Future[Arrays]":
        """Predict inputs (m, p), to the bits and with the errors of `answer_arrays`."""
        rows = model.counted_rows(inputs)
        if len(inputs) <= LOOP_ROWS and rows <= _capacity(model):
            return self._enqueue(model, inputs, options)
        turn = TURN_ROWS if rows == len(inputs) else max(_ROW_UNIT, TURN_ROWS * len(inputs) // rows)
        request = _LargeRequest(self._thread, model, inputs, options, turn)
        self._thread.submit(request.take_turn)
        return asyncio.wrap_future(request.result)

    def close(self) -> None:
        """Let the thread end; it finishes the part that it has begun."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _enqueue(self, model: LoadedModel, inputs: FloatArray, options: PredictOptions) -> "asyncio.Future[Arrays]":
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Arrays] = loop.create_future()
        if not self._queues:
            # Once more round the loop, which takes what lies in the sockets already: nothing is waited for.
            loop.call_soon(loop.call_soon, self._flush, loop)
        self._queues.setdefault((model, options), []).append(_QueuedRequest(inputs, result))
        return result

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        """Predict the first queue, or as much of it as fits; the rest when everything else has had its turn."""
        key = next(iter(self._queues))
        model, options = key
        requests = self._queues.pop(key)
        if len(requests) > 1:
            fitting = _fitting(model, requests, _capacity(model))
            if fitting < len(requests):
                self._queues[key] = requests[fitting:]
                requests = requests[:fitting]
        if self._queues:
            loop.call_soon(self._flush, loop)
        self._measures.batch_requests.observe(len(requests))
        self._measures.batch_rows.observe(sum(len(one.inputs) for one in requests))
        _predict_together(model, requests, options)


def _predict_together(model: LoadedModel, requests: list[_QueuedRequest], options: PredictOptions) -> None:
    """One call for all; where it is refused one for each, so that each request gets the error of its own rows."""
    try:
        rows = requests[0].inputs if len(requests) == 1 else np.concatenate([one.inputs for one in requests])
        predicted = answer_arrays(model, rows, options)
    except (PursuitError, CoreError) as error:
        if len(requests) > 1:
            for one in requests:
                _predict_together(model, [one], options)
            return
        _fail(requests, error)
    except Exception as error:  # noqa: BLE001 -- a bug: the waiting requests must get it, or would wait for ever
        _fail(requests, error)
    else:
        start = 0
        for one in requests:
            stop = start + len(one.inputs)
            if not one.result.done():
                one.result.set_result(predicted if len(requests) == 1 else _rows(predicted, start, stop))
            start = stop


def _rows(arrays: Arrays, start: int, stop: int) -> Arrays:
    return {name: array[start:stop] for name, array in arrays.items()}


def _concatenate(parts: list[Arrays]) -> Arrays:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if len(parts) > 1 else parts[0]


def _fail(requests: list[_QueuedRequest], error: Exception) -> None:
    for one in requests:
        if not one.result.done():
            one.result.set_exception(error)


def _capacity(model: LoadedModel) -> int:
    """Rows of one call in the event loop; fewer than one where even one row takes long."""
    return LOOP_WORK // model.row_work // _ROW_UNIT * _ROW_UNIT


def _fitting(model: LoadedModel, requests: list[_QueuedRequest], capacity: int) -> int:
    """Number of requests that make up to so many rows; the first always."""
    rows = 0
    for place, one in enumerate(requests):
        rows += model.counted_rows(one.inputs)
        if rows > capacity and place:
            return place
    return len(requests)
