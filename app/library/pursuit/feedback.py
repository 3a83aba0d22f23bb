"""Predictions that the server keeps for the truth that comes later, as methods of a client and of a model."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from app.cli.client import Client as ServerClient

from .errors import InvalidError, UnavailableError, server_errors
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

    def feedback(self, prediction: KeptPrediction | str, truth: Any) -> dict[str, int | None]:
        """Tell the truth of predictions; each row counts once. It goes into live coverage and error
        (`GET /models/{name}/monitoring`).

        Args:
            prediction: of `predict_for_feedback`, or one of its ids.
            truth: a number for each row; None or NaN where it is not known yet.

        Returns:
            rows that were counted, how many of them are covered by their 95% intervals (None without intervals), and
            how many rows still wait.

        Raises ConflictError for a row whose truth came before, NotFoundError for a prediction that is too old.
        """
        try:
            numbers = np.asarray(truth, np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidError(f"truth: expected numbers, None or NaN where it is not known: {error}") from None
        if numbers.ndim != 1:
            raise InvalidError(f"truth: expected a number for each row, got an array of {numbers.shape}")
        if isinstance(prediction, str):
            parts = [(prediction, numbers)]
        else:
            if numbers.shape != (sum(prediction.rows),):
                raise InvalidError(f"truth: expected {sum(prediction.rows)} numbers, got an array of {numbers.shape}")
            cuts = np.cumsum(prediction.rows)[:-1]
            parts = list(zip(prediction.ids, np.split(numbers, cuts), strict=True))
        with server_errors():
            found = [
                self.http.feedback(name, [None if np.isnan(one) else one for one in part.tolist()])
                for name, part in parts
            ]
        covered = [one["covered"] for one in found if one["covered"] is not None]
        return {
            "rows": sum(one["rows"] for one in found),
            "covered": sum(covered) if covered else None,
            "waiting": sum(one["waiting"] for one in found),
        }


class _AsyncClient(Protocol):
    @property
    def _client(self) -> Any: ...


class AsyncFeedback:
    """The same, awaited."""

    async def predict_for_feedback(self: _AsyncClient, model: str, data: Any, **options: Any) -> KeptPrediction:
        """Predict rows that are kept for their truth: see `Client.predict_for_feedback`."""
        found: KeptPrediction = await asyncio.to_thread(self._client.predict_for_feedback, model, data, **options)
        return found

    async def feedback(self: _AsyncClient, prediction: KeptPrediction | str, truth: Any) -> dict[str, int | None]:
        """Tell the truth of predictions: see `Client.feedback`."""
        found: dict[str, int | None] = await asyncio.to_thread(self._client.feedback, prediction, truth)
        return found
