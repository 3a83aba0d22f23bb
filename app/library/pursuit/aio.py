"""The client for asyncio: the most used calls, awaited; for others `asyncio.to_thread` takes those of `Client`.

Requests are sent by threads, so that no call holds the loop up.
"""

import asyncio
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console

from app.cli.client import ENDED
from app.cli.progress import JobBar, has_bar

from .client import CHAMPION, PATIENCE, Client, Model
from .datasets import Dataset, PredictionJob
from .explanation import Explanation
from .feedback import AsyncFeedback
from .job import Job
from .options import Interval
from .questions import AsyncModelQuestions

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0


class AsyncClient(AsyncFeedback):
    """A server; see `Client`. An asynchronous context manager that closes it."""

    def __init__(self, url: str | None = None, key: str | None = None, *, patience: float = PATIENCE) -> None:
        self._client = Client(url, key, patience=patience)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncClient({self._client.http.url!r})"

    async def close(self) -> None:
        """Close the connections to the server."""
        await asyncio.to_thread(self._client.close)

    async def train(self, data: Any, target: str | Sequence[str] | None = None, **spec: Any) -> "AsyncJob":
        """Start a training; see `Client.train`."""
        return AsyncJob(await asyncio.to_thread(self._client.train, data, target, **spec))

    async def update(self, model: str, data: Any, *, extra_basis: int = 0, forget: Sequence[int] = ()) -> "AsyncJob":
        """Add rows to a model without training it again; see `Client.update`."""
        job = await asyncio.to_thread(self._client.update, model, data, extra_basis=extra_basis, forget=forget)
        return AsyncJob(job)

    async def predict(
        self,
        model: str,
        data: Any,
        *,
        interval: Interval = None,
        quantiles: Sequence[float] = (),
        include: Sequence[str] = (),
        on_error: str | None = None,
        keep: str | None = None,
    ) -> Any:
        """Predict rows; see `Client.predict`."""
        options: dict[str, Any] = {"interval": interval, "quantiles": quantiles, "include": include}
        return await asyncio.to_thread(self._client.predict, model, data, **options, on_error=on_error, keep=keep)

    async def upload(self, data: Any, *, target: str | None = None, name: str | None = None) -> Dataset:
        """Keep a table on the server; see `Client.upload`."""
        return await asyncio.to_thread(self._client.upload, data, target=target, name=name)

    async def register(self, location: str, *, target: str | None = None) -> Dataset:
        """Make a dataset of the Parquet files of a folder; see `Client.register`."""
        return await asyncio.to_thread(self._client.register, location, target=target)

    async def predict_dataset(self, model: str, dataset: Dataset | str, **options: Any) -> PredictionJob:
        """Predict a dataset, and wait for the end of its job; see `Client.predict_dataset`, `PredictionJob.wait`."""
        job = await asyncio.to_thread(self._client.predict_dataset, model, dataset, **options)
        return await asyncio.to_thread(job.wait)

    async def datasets(self) -> list[dict[str, Any]]:
        """List all datasets."""
        return await asyncio.to_thread(self._client.datasets)

    async def explain(self, model: str, data: Any, *, nearest: int = 5, target: str | None = None) -> Explanation:
        """Explain predictions; see `Client.explain`."""
        return await asyncio.to_thread(self._client.explain, model, data, nearest=nearest, target=target)

    async def model(self, reference: str) -> "AsyncModel":
        """Return a model; see `Client.model`."""
        return AsyncModel(await asyncio.to_thread(self._client.model, reference))

    async def models(self) -> list[dict[str, Any]]:
        """List all models."""
        return await asyncio.to_thread(self._client.models)

    async def jobs(self, *, state: str | None = None, model: str | None = None) -> list["AsyncJob"]:
        """List the jobs; see `Client.jobs`."""
        return [AsyncJob(job) for job in await asyncio.to_thread(self._client.jobs, state=state, model=model)]

    async def job(self, job_id: str) -> "AsyncJob":
        """Return a job in its current state."""
        return AsyncJob(await asyncio.to_thread(self._client.job, job_id))

    async def version(self, reference: str, *, target: str | None = None) -> dict[str, Any]:
        """Return all about a version; see `Client.version`."""
        return await asyncio.to_thread(self._client.version, reference, target=target)

    async def promote(self, reference: str, alias: str = CHAMPION) -> None:
        """Point an alias at a version; see `Client.promote`."""
        await asyncio.to_thread(self._client.promote, reference, alias)

    async def remove_alias(self, name: str, alias: str) -> None:
        """Remove an alias."""
        await asyncio.to_thread(self._client.remove_alias, name, alias)

    async def delete(self, reference: str, *, force: bool = False) -> None:
        """Delete a version or a model; see `Client.delete`."""
        await asyncio.to_thread(self._client.delete, reference, force=force)

    async def artefact(self, reference: str) -> bytes:
        """Download a version as safetensors."""
        return await asyncio.to_thread(self._client.artefact, reference)

    async def push(self, model: Any, name: str) -> "AsyncModel":
        """Publish a model as the next version of `name`; see `Client.push`."""
        return AsyncModel(await asyncio.to_thread(self._client.push, model, name))


class AsyncJob:
    """A training on the server; see `Job`."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def __repr__(self) -> str:
        return f"Async{self._job!r}"

    @property
    def id(self) -> str:
        """Id of the job."""
        return self._job.id

    @property
    def state(self) -> str:
        """State when the job was last asked for."""
        return self._job.state

    @property
    def progress(self) -> dict[str, Any]:
        """Progress when the job was last asked for."""
        return self._job.progress

    @property
    def report(self) -> dict[str, Any] | None:
        """Report of the training; None before it has succeeded."""
        return self._job.report

    async def refresh(self) -> Self:
        """Ask the server for the current state."""
        await asyncio.to_thread(self._job.refresh)
        return self

    async def wait(self, *, progress: bool | None = None) -> "AsyncModel":
        """Wait for the end; return the model. JobError where there is none.

        progress: show a bar; None: in terminals and notebooks. Cancelling the task ends the waiting and not the job.
        """
        console = Console()
        pause = _FIRST_PAUSE
        with JobBar(console, visible=has_bar(console) if progress is None else progress) as bar:
            while True:
                bar.show((await self.refresh())._job.document)
                if self.state in ENDED:
                    break
                await asyncio.sleep(pause)
                pause = min(1.5 * pause, _LONGEST_PAUSE)
        return AsyncModel(self._job.model())

    async def cancel(self) -> Self:
        """Request that it be cancelled."""
        await asyncio.to_thread(self._job.cancel)
        return self


class AsyncModel(AsyncModelQuestions):
    """A model on the server; see `Model`."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def __repr__(self) -> str:
        return f"Async{self._model!r}"

    @property
    def reference(self) -> str:
        """`name`, `name@3` or `name@alias`."""
        return self._model.reference

    @property
    def name(self) -> str:
        """Name without version or alias."""
        return self._model.name

    async def details(self, *, target: str | None = None) -> dict[str, Any]:
        """Return all about it, its report included; see `Client.version`."""
        return await asyncio.to_thread(self._model.details, target=target)

    async def predict(
        self,
        data: Any,
        *,
        interval: Interval = None,
        quantiles: Sequence[float] = (),
        include: Sequence[str] = (),
        on_error: str | None = None,
        keep: str | None = None,
    ) -> Any:
        """Predict rows; see `Client.predict`."""
        options: dict[str, Any] = {"interval": interval, "quantiles": quantiles, "include": include}
        return await asyncio.to_thread(self._model.predict, data, **options, on_error=on_error, keep=keep)

    async def explain(self, data: Any, *, nearest: int = 5, target: str | None = None) -> Explanation:
        """Explain predictions: see `Client.explain`."""
        return await asyncio.to_thread(self._model.explain, data, nearest=nearest, target=target)

    async def update(self, data: Any, *, extra_basis: int = 0, forget: Sequence[int] = ()) -> AsyncJob:
        """Add rows without training again: see `Client.update`."""
        return AsyncJob(await asyncio.to_thread(self._model.update, data, extra_basis=extra_basis, forget=forget))

    async def promote(self, alias: str = CHAMPION) -> None:
        """Point an alias at it."""
        await asyncio.to_thread(self._model.promote, alias)

    async def delete(self, *, force: bool = False) -> None:
        """Delete it; see `Client.delete`."""
        await asyncio.to_thread(self._model.delete, force=force)

    async def save(self, path: str | PathLike[str]) -> Path:
        """Download it as a file for `load`; return the path."""
        return await asyncio.to_thread(self._model.save, path)

    async def export(
        self,
        path: str | PathLike[str],
        *,
        form: str | None = None,
        interval: float | None = None,
        target: str | None = None,
    ) -> Path:
        """Download it in a form that predicts without a server; see `Model.export`."""
        return await asyncio.to_thread(self._model.export, path, form=form, interval=interval, target=target)
