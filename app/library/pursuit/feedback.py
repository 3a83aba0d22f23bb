"""Predictions that the server keeps for the truth that comes later, as methods of a client and of a model."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from app.cli.client import Client as ServerClient
from app.cli.client import Truth

from .errors import InvalidError, UnavailableError, server_errors
from .frames import frame_columns
from .options import Interval, Options


@dataclass(frozen=True, slots=True)
class KeptPrediction:
    """Predictions that wait for their truth.

    values: as `predict` returns them. ids: of the requests that they came by, in the order of the rows; keep these
    where the truth comes in another process. rows: of each of them.
    """

    values: Any
    ids: tuple[str, ...]
    rows: tuple[int, ...]

    @property
    def prediction_id(self) -> str:
        """Id that the rows are kept under, as the server calls it. InvalidError where they took several requests, each
        with an id of its own."""
        if len(self.ids) > 1:
            raise InvalidError(f"the rows came by {len(self.ids)} requests, each with an id of its own: see `ids`")
        return self.ids[0]


class _Predicting(Protocol):
    http: ServerClient

    def predict_in_parts(self, model: str, data: Any, options: Options) -> tuple[Any, list[Mapping[str, str]]]: ...


class Feedback:
    """Truths of predictions, as a client tells them."""

    http: ServerClient

    def predict_for_feedback(
        self: _Predicting,
        model: str,
        data: Any,
        *,
        interval: Interval = None,
        quantiles: Sequence[float] = (),
        include: Sequence[str] = (),
    ) -> KeptPrediction:
        """Predict rows as `predict` does; the server keeps mean and interval of each, for `feedback`.

        Raises UnavailableError where its database does not answer: then nothing is kept.
        """
        options = Options.of(interval, quantiles, include, keep_for_feedback=True)
        values, headers = self.predict_in_parts(model, data, options)
        if any("x-prediction-id" not in one for one in headers):
            raise UnavailableError("the predictions were not kept: the server's database does not answer", status=503)
        return KeptPrediction(
            values, tuple(one["x-prediction-id"] for one in headers), tuple(int(one["x-rows"]) for one in headers)
        )

    def feedback(self, prediction: KeptPrediction | str, truth: Any) -> dict[str, Any]:
        """Tell the truth of predictions; each row counts once for each target. It goes into live coverage and error
        (`GET /models/{name}/monitoring`).

        Args:
            prediction: of `predict_for_feedback`, or one of its ids.
            truth: a number for each row; None or NaN where it is not known yet. Of several targets a data frame, or a
                dict of such lists, with their names; one that is not known of any row may be left out.

        Returns:
            rows that were counted, how many of them are covered by their 95% intervals (None without intervals), and
            how many rows still wait; of several targets each a dict by target. message: where the model was trained
            with weights, what error bars covered is of.

        Raises ConflictError for a row whose truth came before, NotFoundError for a prediction that is too old.
        """
        numbers = _truth(truth)
        if isinstance(prediction, str):
            parts = [(prediction, numbers)]
        else:
            rows = sum(prediction.rows)
            for name, array in numbers.items():
                if array.shape != (rows,):
                    raise InvalidError(f"{_field(name)}: expected {rows} numbers, got an array of {array.shape}")
            cuts = np.cumsum(prediction.rows)[:-1]
            pieces = {name: np.split(array, cuts) for name, array in numbers.items()}
            parts = [
                (one, {name: split[place] for name, split in pieces.items()})
                for place, one in enumerate(prediction.ids)
            ]
        with server_errors():
            found = [self.http.feedback(name, _body(part)) for name, part in parts]
        counts = {field: _sum([one[field] for one in found]) for field in ("rows", "covered", "waiting")}
        messages = [one["message"] for one in found if "message" in one]
        return counts | ({"message": messages[0]} if messages else {})


def _truth(truth: Any) -> dict[str | None, NDArray[np.float64]]:
    """Numbers by target; of one that is not named by None."""
    if isinstance(truth, Mapping) or hasattr(truth, "columns"):
        columns = truth if isinstance(truth, Mapping) else frame_columns(truth)
        return {str(name): _numbers(column, str(name)) for name, column in columns.items()}
    return {None: _numbers(truth, None)}


def _numbers(truth: Any, name: str | None) -> NDArray[np.float64]:
    try:
        numbers = np.asarray(truth, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidError(f"{_field(name)}: expected numbers, None or NaN where it is not known: {error}") from None
    if numbers.ndim != 1:
        several = "" if name else "; of several targets a data frame or a dict with their names"
        raise InvalidError(f"{_field(name)}: expected a number for each row, got an array of {numbers.shape}{several}")
    return numbers


def _field(name: str | None) -> str:
    return "truth" if name is None else f"truth of {name!r}"


def _body(part: Mapping[str | None, NDArray[np.float64]]) -> Truth:
    lists = {name: [None if np.isnan(one) else one for one in array.tolist()] for name, array in part.items()}
    return lists[None] if None in lists else {str(name): numbers for name, numbers in lists.items()}


def _sum(counts: Sequence[Any]) -> Any:
    """Sums of what the requests were answered, by target where they are so; None where all are."""
    if isinstance(counts[0], Mapping):
        return {name: _sum([one[name] for one in counts]) for name in counts[0]}
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


class _AsyncClient(Protocol):
    @property
    def _client(self) -> Any: ...


class AsyncFeedback:
    """The same, awaited."""

    async def predict_for_feedback(self: _AsyncClient, model: str, data: Any, **options: Any) -> KeptPrediction:
        """Predict rows that are kept for their truth: see `Client.predict_for_feedback`."""
        found: KeptPrediction = await asyncio.to_thread(self._client.predict_for_feedback, model, data, **options)
        return found

    async def feedback(self: _AsyncClient, prediction: KeptPrediction | str, truth: Any) -> dict[str, Any]:
        """Tell the truth of predictions: see `Client.feedback`."""
        found: dict[str, Any] = await asyncio.to_thread(self._client.feedback, prediction, truth)
        return found
