"""Predictions kept for the truth that comes later: who asks for it gets an id, which any API process knows.

They are in the database before the request is answered; requests that wait share one transaction, and those that do not
ask for it never come here. Of each row and target mean and 95% interval are kept, 25 bytes.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from anyio import to_thread

from app.database.engine import Database
from app.errors import InvalidRequestError, UnavailableError
from app.identifiers import new_prediction_id
from app.services.predict.array_names import of_target
from app.services.predict.batching import Arrays, Batcher
from app.services.predict.loaded_model import LoadedModel
from app.services.predict.options import PredictOptions, predict_options
from app.services.predict.registry import ResolvedModel
from app.storage import kept_predictions
from app.storage.kept_predictions import KeptPrediction
from core.arrays import BoolArray, FloatArray

log = logging.getLogger(__name__)

LEVEL = 0.95
"""Level of the intervals that the truth is held against."""
MOST_ROWS = 100_000
"""Rows of one prediction that is kept; those of several targets count for each."""
NUMBER_BYTES = 25
"""Bytes of a row of a target."""
TRIM_SHARE = 0.05
"""Share of the bytes that may be kept which a process adds before it looks at what all have added."""


@dataclass(frozen=True, slots=True, eq=False)
class RowNumbers:
    """Numbers of the rows of each target (t, m): mean, and lower and upper end of the interval, which are NaN where
    there is none. waiting: rows whose truth has not come; a row without a prediction waits for none."""

    waiting: BoolArray
    mean: FloatArray
    lower: FloatArray
    upper: FloatArray

    @classmethod
    def of(cls, model: LoadedModel, arrays: Mapping[str, FloatArray]) -> "RowNumbers":
        """Take them out of the arrays of a prediction."""
        places = range(len(model.every_target))
        mean = np.stack([arrays[of_target("mean", place)] for place in places])
        lower, upper = (np.stack([_end(arrays, end, place) for place in places]) for end in ("lower", "upper"))
        return cls(~np.isnan(mean), mean, lower, upper)

    @classmethod
    def concatenate(cls, parts: Sequence["RowNumbers"]) -> "RowNumbers":
        """Put the rows of parts one behind the other."""
        names = ("waiting", "mean", "lower", "upper")
        return cls(*(np.concatenate([getattr(part, name) for part in parts], axis=1) for name in names))

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.mean[0])

    def pack(self) -> bytes:
        """Write as bytes, for `unpack`."""
        numbers = np.stack([self.mean, self.lower, self.upper]).astype("<f8", copy=False)
        return self.waiting.astype(np.uint8).tobytes() + numbers.tobytes()

    @classmethod
    def unpack(cls, data: bytes, *, targets: int, rows: int) -> "RowNumbers":
        """Read what `pack` wrote."""
        shape = targets, rows
        numbers = np.frombuffer(data, "<f8", offset=targets * rows).reshape(3, *shape).astype(np.float64)
        return cls(np.frombuffer(data, np.uint8, count=targets * rows).reshape(shape).astype(np.bool_), *numbers)


class PredictionKeeper:
    """Keeps predictions, for the requests of one event loop. most_bytes: of all that all processes keep, about."""

    def __init__(self, database: Database, *, most_bytes: int) -> None:
        self._database = database
        self._most_bytes = most_bytes
        self._waiting: list[tuple[KeptPrediction, asyncio.Future[bool]]] = []
        self._writing: asyncio.Task[None] | None = None
        self._trimming: asyncio.Task[None] | None = None
        self._added = most_bytes  # so that the first look comes soon after the start

    async def keep(self, resolved: ResolvedModel, arrays: Mapping[str, FloatArray]) -> str | None:
        """Keep the arrays of a prediction; return its id, None where the database does not take it now."""
        return await self.keep_rows(resolved, RowNumbers.of(resolved.model, arrays))

    async def keep_rows(self, resolved: ResolvedModel, numbers: RowNumbers) -> str | None:
        """Keep the numbers of rows, as `keep` does."""
        one = KeptPrediction(
            id=new_prediction_id(),
            model=resolved.name,
            version=resolved.version,
            rows=numbers.rows,
            numbers=numbers.pack(),
        )
        written: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((one, written))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        return one.id if await written else None

    def expect(self, model: LoadedModel, rows: int) -> None:
        """Count the bytes of a prediction that a worker will keep, so that room is made for it."""
        self._added += rows * len(model.every_target) * NUMBER_BYTES + kept_predictions.ROW_OVERHEAD_BYTES
        self._trim_if_due()

    async def _write_all(self) -> None:
        """Write until none waits; those that come while others are written share the next transaction."""
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                try:
                    await to_thread.run_sync(self._write, [one for one, _ in batch])
                    found: bool | Exception = True
                except UnavailableError as error:
                    log.warning("predictions are not kept for their truth: %s", error)
                    found = False
                except Exception as error:  # noqa: BLE001 -- a bug: the waiting requests must get it
                    found = error
                for _, written in batch:
                    if written.done():
                        continue
                    if isinstance(found, Exception):
                        written.set_exception(found)
                    else:
                        written.set_result(found)
                self._trim_if_due()
        finally:
            self._writing = None

    def _write(self, batch: list[KeptPrediction]) -> None:
        with self._database.write() as connection:
            kept_predictions.add(connection, batch)
        self._added += sum(one.size for one in batch)

    def _trim_if_due(self) -> None:
        if self._trimming is None and self._added > TRIM_SHARE * self._most_bytes:
            self._trimming = asyncio.create_task(self._trim())

    async def _trim(self) -> None:
        """Keep to the bytes, apart from the requests: what was stored stays stored where this fails."""
        try:
            self._added = 0
            await to_thread.run_sync(partial(trim, self._database, most_bytes=self._most_bytes))
        except UnavailableError as error:
            log.warning("old kept predictions are not removed now: %s", error)
        finally:
            self._trimming = None
        self._trim_if_due()  # for what was added after this one had looked


def trim(database: Database, *, most_bytes: int) -> None:
    """Remove the oldest kept predictions until all take no more than so many bytes."""
    with database.read() as connection:
        excess = kept_predictions.total_bytes(connection) - most_bytes
    while excess > 0:
        with database.write() as connection:
            freed = kept_predictions.remove_oldest(connection, excess)
        if not freed:
            break
        excess -= freed


def check_kept(model: LoadedModel, rows: int) -> None:
    """InvalidRequestError for more rows than are kept: before they are predicted."""
    targets = len(model.every_target)
    if rows * targets > MOST_ROWS:
        most = f"{MOST_ROWS // targets:,} rows" + (f" of {targets} targets" if targets > 1 else "")
        raise InvalidRequestError(
            f"keep_for_feedback: at most {most} are kept at once, got {rows:,}; send fewer, or later the rows with "
            "their truth"
        )


def lacks_interval(model: LoadedModel, options: PredictOptions) -> bool:
    """Return whether a prediction was asked for without the interval that the truth is held against, which the model
    has."""
    if all(each.predictor.mean_only for each in model.every_target):
        return False
    return options.mean_only or LEVEL not in options.interval_levels


def interval_options(options: PredictOptions) -> PredictOptions:
    """Options of a prediction of the same rows with that interval."""
    return predict_options(on_error=options.on_error)


async def with_interval(
    batcher: Batcher, model: LoadedModel, inputs: FloatArray, found: Arrays, options: PredictOptions
) -> Arrays:
    """Return the arrays of a prediction, or of another one of the same rows (m, p) with that interval."""
    if not lacks_interval(model, options):
        return found
    return await batcher.submit(model, inputs, interval_options(options))


def _end(arrays: Mapping[str, FloatArray], end: str, place: int) -> FloatArray:
    found = arrays.get(of_target(end, place))
    if found is None:
        found = arrays.get(of_target(f"{end}_{LEVEL!r}", place))
    return np.full(len(arrays["mean"]), np.nan) if found is None else found
