"""Questions about rows together, as methods of a client and of a model: draws over all of them, totals, scores."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from app.cli.client import Client as ServerClient

from .datasets import dataset_id, named_file
from .errors import ColumnError, InvalidError, server_errors
from .frames import JSON, json_rows, rows_of
from .options import Interval, Options

Aggregate = Literal["sum", "mean"]
Over = Literal["rows", "targets", "both"]
STEPS = 41
"""Values of a what-if curve."""


class Questions:
    """Questions about rows together, in one request."""

    http: ServerClient

    if TYPE_CHECKING:  # what a client has beside them

        def resolve(self, reference: str) -> tuple[str, int]: ...
        def version(self, reference: str, *, target: str | None = None) -> dict[str, Any]: ...
        def predict(self, model: str, data: Any, *, interval: Interval = None) -> Any: ...

    def sample(self, model: str, data: Any, samples: int = 100, *, seed: int = 0) -> NDArray[np.float64]:
        """Draw the latent function over all rows together, (samples, rows); a sum over rows of a draw is a draw of the
        sum. Without the noise of observations. Of several targets (samples, rows, targets), in their order.

        Args:
            model: `name`, `name@3` or `name@alias`.
            data: a data frame, a matrix or a list, as for `predict`; at most 2,000 rows.
            samples: how many draws.
            seed: the same seed gives the same draws.
        """
        found = _ask(self.http, model, data, Options.of(None, (), ()), {"samples": samples, "seed": seed})
        drawn = found["samples"]
        return np.asarray(np.stack([*drawn.values()], axis=-1) if isinstance(drawn, dict) else drawn, np.float64)

    def total(
        self,
        model: str,
        data: Any,
        aggregate: Aggregate = "sum",
        *,
        over: Over = "rows",
        interval: Interval = None,
        quantiles: Sequence[float] = (),
    ) -> dict[str, Any]:
        """Predict the sum or the mean over rows, with its own error bar: mean, std, latent_std, lower, upper, method;
        of several targets a dict of each.

        Args:
            model: `name`, `name@3` or `name@alias`.
            data: a data frame, a matrix or a list, as for `predict`; at most 10,000 rows.
            aggregate: `sum` or `mean`.
            over: of several targets: `rows`, each target's total; `targets`, a list with the total of each row; `both`.
            interval, quantiles: as for `predict`.
        """
        more = {"aggregate": aggregate} | ({} if over == "rows" else {"over": over})
        return _ask(self.http, model, data, Options.of(interval, quantiles, ()), more)

    def evaluate(
        self,
        model: str,
        data: Any,
        *,
        by: Sequence[str] = (),
        worst: int = 10,
        on_error: str = "refuse",
        target: str | None = None,
    ) -> dict[str, Any]:
        """Score a model on rows that have the truth, in the column of its target: scores, groups, worst, warnings.

        Args:
            model: `name`, `name@3` or `name@alias`.
            data: a data frame, a dict of columns, a list of dicts, or the path of a file of any format that the service
                reads.
            by: columns whose groups are scored too.
            worst: how many rows with the largest errors are listed.
            on_error: rows that cannot be predicted: `refuse`, or `null` to leave them out.
            target: which of several targets.
        """
        with server_errors():
            _, file = named_file(data)
            return self.http.evaluate(model, file.read(), by=by, worst=worst, on_error=on_error, target=target)

    def suggest(
        self,
        model: str,
        candidates: Any,
        *,
        count: int = 5,
        criterion: Literal["variance", "improvement"] = "variance",
        **more: Any,
    ) -> dict[str, Any]:
        """Ask which rows to measure next: `suggestions` with `row`, `number`, `gain`, `mean`, `std`, in order.

        Args:
            model: `name`, `name@3` or `name@alias`.
            candidates: rows, as for `predict`, by name of column; or ranges by column: `{"x": [0, 10], "kind":
                {"values": ["a", "b"]}}`, where columns that are not named have the range of the training rows.
            count: how many.
            criterion: `variance`, what leaves the least variance over the region; `improvement`, what may be the best.
            more: `region` (rows or ranges), `goal` ("max", "min"), `best`, `seed`, `candidates` (how many of ranges),
                `target` (which of several).
        """
        question: dict[str, Any] = {"count": count, "criterion": criterion, **more}
        for name, value in (("rows", candidates), ("region", more.get("region"))):
            if name == "rows" and isinstance(value, Mapping):
                question["ranges"] = value
            elif not (value is None or isinstance(value, Mapping)):
                question[name] = [json.loads(row) for row in json_rows(value)]
        with server_errors():
            return self.http.suggest(model, question)

    def importance(self, model: str, *, target: str | None = None) -> dict[str, Any]:
        """Return how far each column moves the predictions of a version, and its `shares` of their variance. target:
        which of several, by default the first."""
        with server_errors():
            return self.http.importance(*self.resolve(model), target)

    def effects(self, model: str, *, target: str | None = None) -> dict[str, Any]:
        """Return what a version predicts over the values of each column, averaged over all others. target: as for
        `importance`."""
        with server_errors():
            return self.http.effects(*self.resolve(model), target)

    def what_if(
        self,
        model: str,
        row: Mapping[str, Any],
        column: str,
        values: Sequence[Any] | None = None,
        *,
        interval: Interval = None,
    ) -> list[dict[str, Any]]:
        """Predict a row with other values of one column, with error bars: one dict for each, its value first.

        Args:
            model: `name`, `name@3` or `name@alias`.
            row: cells by column.
            column: which of them changes.
            values: what it changes to; by default some over its range in training, or its levels.
            interval: as for `predict`.

        Raises ColumnError, a KeyError, where the model has no such column, InvalidError, a ValueError, where its range
        is not known.
        """
        if values is None:
            values = column_values(self.version(model)["report"]["columns"], column)
        predicted = self.predict(model, [{**row, column: value} for value in values], interval=interval)
        return [{column: value, **found} for value, found in zip(values, predicted, strict=True)]


class ModelQuestions:
    """The same of one model."""

    client: Questions
    reference: str

    def importance(self, *, target: str | None = None) -> dict[str, Any]:
        """Return how far each column moves its predictions: see `Client.importance`."""
        return self.client.importance(self.reference, target=target)

    def effects(self, *, target: str | None = None) -> dict[str, Any]:
        """Return the average effect of each column: see `Client.effects`."""
        return self.client.effects(self.reference, target=target)

    def what_if(
        self, row: Mapping[str, Any], column: str, values: Sequence[Any] | None = None, *, interval: Interval = None
    ) -> list[dict[str, Any]]:
        """Predict a row with other values of one column: see `Client.what_if`."""
        return self.client.what_if(self.reference, row, column, values, interval=interval)

    def sample(self, data: Any, samples: int = 100, *, seed: int = 0) -> NDArray[np.float64]:
        """Draw the latent function: see `Client.sample`."""
        return self.client.sample(self.reference, data, samples, seed=seed)

    def total(self, data: Any, aggregate: Aggregate = "sum", **more: Any) -> dict[str, Any]:
        """Predict a sum or a mean over rows, or over targets: see `Client.total`."""
        return self.client.total(self.reference, data, aggregate, **more)

    def evaluate(self, data: Any, *, by: Sequence[str] = (), **more: Any) -> dict[str, Any]:
        """Score it on rows with the truth: see `Client.evaluate`."""
        return self.client.evaluate(self.reference, data, by=by, **more)

    def suggest(self, candidates: Any, **more: Any) -> dict[str, Any]:
        """Ask which rows to measure next: see `Client.suggest`."""
        return self.client.suggest(self.reference, candidates, **more)


class _AsyncModel(Protocol):
    @property
    def _model(self) -> ModelQuestions: ...


class AsyncModelQuestions:
    """The same, awaited."""

    async def importance(self: _AsyncModel, *, target: str | None = None) -> dict[str, Any]:
        """Return how far each column moves its predictions: see `Client.importance`."""
        return await asyncio.to_thread(self._model.importance, target=target)

    async def effects(self: _AsyncModel, *, target: str | None = None) -> dict[str, Any]:
        """Return the average effect of each column: see `Client.effects`."""
        return await asyncio.to_thread(self._model.effects, target=target)

    async def what_if(
        self: _AsyncModel,
        row: Mapping[str, Any],
        column: str,
        values: Sequence[Any] | None = None,
        *,
        interval: Interval = None,
    ) -> list[dict[str, Any]]:
        """Predict a row with other values of one column: see `Client.what_if`."""
        return await asyncio.to_thread(self._model.what_if, row, column, values, interval=interval)

    async def sample(self: _AsyncModel, data: Any, samples: int = 100, *, seed: int = 0) -> NDArray[np.float64]:
        """Draw the latent function: see `Client.sample`."""
        return await asyncio.to_thread(self._model.sample, data, samples, seed=seed)

    async def total(self: _AsyncModel, data: Any, aggregate: Aggregate = "sum", **more: Any) -> dict[str, Any]:
        """Predict a sum or a mean over rows, or over targets: see `Client.total`."""
        return await asyncio.to_thread(self._model.total, data, aggregate, **more)

    async def evaluate(self: _AsyncModel, data: Any, *, by: Sequence[str] = (), **more: Any) -> dict[str, Any]:
        """Score it on rows with the truth: see `Client.evaluate`."""
        return await asyncio.to_thread(self._model.evaluate, data, by=by, **more)

    async def suggest(self: _AsyncModel, candidates: Any, **more: Any) -> dict[str, Any]:
        """Ask which rows to measure next: see `Client.suggest`."""
        return await asyncio.to_thread(self._model.suggest, candidates, **more)


def start_update(http: ServerClient, model: str, data: Any, extra_basis: int, forget: Sequence[int]) -> dict[str, Any]:
    """Send rows for an update of a model; return the job's document."""
    asked = {"extra_basis": extra_basis, "forget": [int(number) for number in forget]}
    with server_errors():
        if (dataset := dataset_id(data)) is not None:
            return http.update_by_dataset(model, dataset, asked)
        name, file = named_file(data)
        return http.update(model, name, file, asked)


def column_values(columns: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    """Return values of a column of a report: of numbers and dates STEPS over the range, of a category its levels."""
    found = next((column for column in columns if column["name"] == name and column["kind"] != "unused"), None)
    if found is None:
        raise ColumnError(f"the model has no column {name!r}: it has {', '.join(each['name'] for each in columns)}")
    if found["kind"] == "category":
        return [*found["levels"]]
    if found["kind"] == "boolean":
        return [False, True]
    if "lowest" not in found:
        raise InvalidError(f"the range of column {name!r} is not known: give its values")
    lowest, highest = found["lowest"], found["highest"]
    if found["kind"] == "date":
        ends = np.array([lowest, highest], "datetime64[s]").astype(np.int64)
        return [*np.unique(np.linspace(ends[0], ends[1], STEPS).astype("datetime64[s]").astype(str)).tolist()]
    if all(float(each).is_integer() for each in (lowest, highest, found["typical"])) and highest - lowest < STEPS:
        return [*range(int(lowest), int(highest) + 1)]
    return [*np.linspace(lowest, highest, STEPS).tolist()]


def _ask(http: ServerClient, model: str, data: Any, options: Options, more: Mapping[str, Any]) -> dict[str, Any]:
    rows = rows_of(data)
    body, query = rows.body(0, rows.count), None
    if rows.media_type == JSON:
        body = json.dumps({**options.fields(model), **more}).encode()[:-1] + b', "rows": ' + body + b"}"
    else:
        query = {**options.query(model), **{name: str(value) for name, value in more.items()}}
    with server_errors():
        answer = http.predict_body(body, content_type=rows.media_type, accept=JSON, query=query)
    found: dict[str, Any] = answer.json()
    return found
