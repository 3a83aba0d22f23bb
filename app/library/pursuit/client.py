"""A client of a server: train on a frame, predict one, look after models and jobs.

It is the client of the `pursuit` command, with frames instead of files and patience with a server that is busy or away.
"""

import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from app.cli.client import Client as ServerClient

from .datasets import Datasets, dataset_id, named_file, predict_file, used_columns
from .errors import (
    ArgumentError,
    InvalidError,
    NotFoundError,
    RefusalError,
    TooLargeError,
    read_file,
    server_errors,
    warn,
)
from .explanation import Explanation, explain
from .feedback import Feedback
from .files import form_of, write_whole
from .frames import JSON, NPY, Rows, pieces, rows_of
from .job import Job
from .options import Interval, Options
from .questions import ModelQuestions, Questions, start_update

DEFAULT_URL = "http://127.0.0.1:8000"
PATIENCE = 60.0
CHAMPION, LATEST = "champion", "latest"
_PAGE = 500


class Client(Datasets, Questions, Feedback):
    """A server. A context manager that closes it; threads may share one.

    Args:
        url: of the server; by default PURSUIT_URL of the environment, else http://127.0.0.1:8000.
        key: API key, where the server asks for one; by default PURSUIT_API_KEY of the environment.
        patience: seconds for which requests are repeated while the server is busy or away; what is sent twice, such
            as a training, an update or an upload, is done once.
    """

    def __init__(self, url: str | None = None, key: str | None = None, *, patience: float = PATIENCE) -> None:
        with server_errors():
            self.http = ServerClient(url or os.environ.get("PURSUIT_URL") or DEFAULT_URL, key=key, patience=patience)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.http.url!r})"

    def close(self) -> None:
        """Close the connections to the server."""
        self.http.close()

    def train(
        self,
        data: Any,
        target: str | Sequence[str] | None = None,
        *,
        model: str | None = None,
        idempotency_key: str | None = None,
        from_model: str | None = None,
        **spec: Any,
    ) -> "Job":
        """Start a training; return its job, which `wait` waits for.

        Args:
            data: a data frame, a dict of columns, a list of dicts, the path of a file of any format that the service
                reads, a Dataset or the id of one.
            target: column to predict; by default the last. A list, or a pattern such as "y*", for several, whose
                predictions have columns of their own: y1_mean, y1_std and so on.
            model: name to publish under; by default the file's stem, or `model`.
            idempotency_key: of this training, by default a new one; the same key gives the same job.
            from_model: model to begin at (`name@3`): its hyperparameters, and basis vectors that are in the data.
            spec: any other field of the specification, such as missing="impute" or effort="best".

        Raises InvalidError, which names wrong cells and fields.
        """
        asked = spec | {name: value for name, value in (("target", target), ("model", model)) if value is not None}
        if not isinstance(target, str | None):
            asked["target"] = list(target)
        with server_errors():
            if (dataset := dataset_id(data)) is not None:
                return Job(self, self.http.train_dataset(dataset, asked, key=idempotency_key, origin=from_model))
            name, file = named_file(data)
            return Job(self, self.http.train_on(name, file, asked, key=idempotency_key, origin=from_model))

    def update(self, model: str, data: Any, *, extra_basis: int = 0, forget: Sequence[int] = ()) -> "Job":
        """Add rows with their target to a model without training it again; return the job, whose model is the next
        version. `job.report["update"]["drift"]` says whether a full training pays.

        Args:
            model: `name` for its latest version, `name@3` or `name@alias`.
            data: a data frame, a dict of columns, a list of dicts, the path of a file, a Dataset or the id of one.
            extra_basis: basis vectors to add from the new rows.
            forget: numbers of rows to forget: of the table that was trained on, and of updates after it.
        """
        return Job(self, start_update(self.http, model, data, extra_basis, forget))

    def predict(
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
        """Predict rows.

        Args:
            model: `name`, `name@3` or `name@alias`.
            data: a data frame; a dict of columns; a matrix of numpy in the order of the model's columns; a list of
                dicts or lists; the path of a file of any format that the service reads, whose predictions are an Arrow
                table.
            interval: coverage of `lower` and `upper`, 0.95 by default; of several, [.5, .95], the columns are called
                lower_0.5 and so on; False: the mean alone, which is quicker.
            quantiles: probabilities, each a column such as quantile_0.1.
            include: more columns: latent_std, median, support, imputed.
            on_error: `null`: rows that cannot be predicted have nulls (NaN) instead of refusing all.
            keep: the caller's columns that stand before the predictions: `none`, `others` (neither inputs nor the
                target, such as an id) or `all`. By default none; of a file the others.

        Returns:
            mean, std, lower, upper and what else is asked for, one row for each: a frame of the caller's kind with its
            index, for a dict of columns a dict of arrays, for a matrix an array with these fields, for a list a list of
            dicts. Many rows are sent in several requests, all answered by the version that answered the first.

        Raises InvalidError, which lists row, column and value of wrong cells; warns of rows far from the training rows.
        """
        options = Options.of(interval, quantiles, include, on_error, keep)
        if isinstance(data, str | PathLike):
            return predict_file(self.http, model, data, options)
        return self.predict_in_parts(model, data, options)[0]

    def predict_in_parts(self, model: str, data: Any, options: Options) -> tuple[Any, list[Mapping[str, str]]]:
        """Predict rows; return what `predict` does, and the headers of each answer, in the order of the rows."""
        rows = rows_of(data)
        parts: list[dict[str, NDArray[np.float64]]] = []
        headers: list[Mapping[str, str]] = []
        waiting = [*pieces(rows)][::-1]
        while waiting:
            start, stop = waiting.pop()
            try:
                part, told = self._piece(model, rows, start, stop, options)
                parts.append(part)
                headers.append(told)
                model = told["x-model"]
            except TooLargeError as error:
                if stop - start < 2:
                    raise error.from_row(start, stop - start) from None
                middle = (start + stop) // 2
                waiting += [(middle, stop), (start, middle)]
            except RefusalError as error:
                raise error.from_row(start, stop - start) from None
        kept = options.kept(rows.names, lambda: used_columns(self.version(model)))
        arrays = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return rows.restore(arrays, kept), headers

    def explain(self, model: str, data: Any, *, nearest: int = 5, target: str | None = None) -> Explanation:
        """Explain predictions: each column's part of the difference to the average, the nearest rows, the distance.

        Args:
            model: `name`, `name@3` or `name@alias`.
            data: rows as `predict` takes them, as many as you like: they are sent some at a time.
            nearest: how many of the nearest rows of the model to name.
            target: which of several targets.

        Raises InvalidError as `predict` does. Seconds a row where the mean rests on very many rows.
        """
        return explain(self.http, model, data, nearest, target)

    def _piece(
        self, model: str, rows: Rows, start: int, stop: int, options: Options
    ) -> tuple[dict[str, NDArray[np.float64]], Mapping[str, str]]:
        body, query = rows.body(start, stop), None
        if rows.media_type == JSON:
            body = json.dumps(options.fields(model)).encode()[:-1] + b', "rows": ' + body + b"}"
        else:
            query = options.query(model)
        with server_errors():
            answer = self.http.predict_body(body, content_type=rows.media_type, accept=NPY, query=query)
        if told := answer.headers.get("x-warnings"):
            where = f" (rows counted from row {start})" if start else ""
            warn(f"{told}{where}")
        matrix = np.load(io.BytesIO(answer.content), allow_pickle=False)
        names = map(unquote, answer.headers["x-columns"].split(","))
        return {name: matrix[:, place] for place, name in enumerate(names)}, answer.headers

    def model(self, reference: str) -> "Model":
        """Return a model: `name`, `name@3` or `name@alias`. NotFoundError where there is none."""
        self.resolve(reference)
        return Model(self, reference)

    def model_at(self, reference: str) -> "Model":
        """Return a model without asking whether it is there."""
        return Model(self, reference)

    def models(self) -> list[dict[str, Any]]:
        """List all models: name, latest, aliases, versions, created_at."""
        return [item for page in self._pages("models") for item in page]

    def jobs(self, *, state: str | None = None, model: str | None = None) -> list["Job"]:
        """List the jobs, the newest first; those in a state or of a model alone."""
        return [Job(self, item) for page in self._pages("jobs", state=state, model=model) for item in page]

    def job(self, job_id: str) -> "Job":
        """Return a job in its current state."""
        with server_errors():
            return Job(self, self.http.job(job_id))

    def version(self, reference: str, *, target: str | None = None) -> dict[str, Any]:
        """Return all about the version that a reference means: hyperparameters, basis, report, aliases. target: of
        several, by default the first."""
        name, number = self.resolve(reference)
        with server_errors():
            return self.http.version_at(name, number, target)

    def promote(self, reference: str, alias: str = CHAMPION) -> None:
        """Point an alias at a version: `promote("cars@3")` makes 3 what the plain name `cars` means."""
        name, number = self.resolve(reference)
        with server_errors():
            self.http.put_alias(name, alias, number)

    def remove_alias(self, name: str, alias: str) -> None:
        """Remove an alias; the version that it points at stays."""
        with server_errors():
            self.http.delete("models", name, "aliases", alias)

    def delete(self, reference: str, *, force: bool = False) -> None:
        """Delete a version (`cars@3`) or a model with all versions (`cars`).

        ConflictError where an alias points at it, unless it is forced, and the alias deleted with it.
        """
        name, at, _ = reference.partition("@")
        which = ("versions", str(self.resolve(reference)[1])) if at else ()
        with server_errors():
            self.http.delete("models", name, *which, force=force)

    def artefact(
        self, reference: str, *, form: str | None = None, interval: float | None = None, target: str | None = None
    ) -> bytes:
        """Download a version as safetensors, which `load` and `push` read, or in another form: see `Model.export`."""
        name, number = self.resolve(reference)
        asked = {"format": form, "interval": interval, "target": target}
        with server_errors():
            return self.http.artefact(name, number, **{key: given for key, given in asked.items() if given is not None})

    def push(self, model: Any, name: str) -> "Model":
        """Publish a model as the next version of `name`: a fitted SparseGPRegressor, a LocalModel, or the path or bytes
        of an artefact.

        What comes before an estimator in a Pipeline is not in its artefact: the server predicts from its inputs.
        """
        data = getattr(model, "artefact_", None) or getattr(model, "artefact", None) or model
        if isinstance(data, str | PathLike):
            data = read_file(data)
        if not isinstance(data, bytes):
            if hasattr(data, "predict_quantiles"):  # an estimator of ours, whose class needs scikit-learn
                raise InvalidError(f"this {type(model).__name__} is not fitted yet: call its fit(X, y) first")
            raise ArgumentError(
                f"expected a fitted SparseGPRegressor, a LocalModel or an artefact, got {type(model).__name__}: of a "
                "Pipeline push the last step"
            )
        with server_errors():
            version = self.http.import_version(name, data)
        return Model(self, f"{version['model']}@{version['version']}")

    def resolve(self, reference: str) -> tuple[str, int]:
        """Return the name and the number of the version that a reference means now."""
        name, _, which = reference.partition("@")
        with server_errors():
            found = self.http.model(name)
            aliases: Mapping[str, int] = found["aliases"]
            if which.isascii() and which.isdigit():
                self.http.version(reference)
                return name, int(which)
        for alias in (which,) if which else (CHAMPION, LATEST):
            if alias in aliases:
                return name, aliases[alias]
        raise NotFoundError(f"model {name!r} has no alias {which!r}; it has {', '.join(sorted(aliases))}", status=404)

    def _pages(self, what: str, **filters: str | None) -> Iterator[list[dict[str, Any]]]:
        cursor: str | None = None
        while True:
            with server_errors():
                page = getattr(self.http, what)(limit=_PAGE, cursor=cursor, **filters)
            yield page[what]
            cursor = page.get("next_cursor")
            if cursor is None:
                return


class Model(ModelQuestions):
    """A model on the server: `name`, which may mean another version later, or one version of it, `name@3`."""

    client: Client

    def __init__(self, client: Client, reference: str) -> None:
        self.client = client
        self.reference = reference

    def __repr__(self) -> str:
        return f"Model({self.reference!r})"

    @property
    def name(self) -> str:
        """Name without version or alias."""
        return self.reference.partition("@")[0]

    @property
    def report(self) -> dict[str, Any]:
        """Report of the training: scores, how columns were read, warnings."""
        return dict(self.details()["report"])

    def details(self, *, target: str | None = None) -> dict[str, Any]:
        """Return all about it: see `Client.version`."""
        return self.client.version(self.reference, target=target)

    def predict(
        self,
        data: Any,
        *,
        interval: Interval = None,
        quantiles: Sequence[float] = (),
        include: Sequence[str] = (),
        on_error: str | None = None,
        keep: str | None = None,
    ) -> Any:
        """Predict rows: see `Client.predict`."""
        options: dict[str, Any] = {"interval": interval, "quantiles": quantiles, "include": include}
        return self.client.predict(self.reference, data, **options, on_error=on_error, keep=keep)

    def explain(self, data: Any, *, nearest: int = 5, target: str | None = None) -> Explanation:
        """Explain predictions: see `Client.explain`."""
        return self.client.explain(self.reference, data, nearest=nearest, target=target)

    def update(self, data: Any, *, extra_basis: int = 0, forget: Sequence[int] = ()) -> Job:
        """Add rows without training again: see `Client.update`."""
        return self.client.update(self.reference, data, extra_basis=extra_basis, forget=forget)

    def promote(self, alias: str = CHAMPION) -> None:
        """Point an alias at it: as `champion` it is what the plain name means."""
        self.client.promote(self.reference, alias)

    def delete(self, *, force: bool = False) -> None:
        """Delete it: see `Client.delete`."""
        self.client.delete(self.reference, force=force)

    def save(self, path: str | PathLike[str]) -> Path:
        """Download it as a file for `load`; return the path."""
        return write_whole(path, self.client.artefact(self.reference))

    def export(
        self,
        path: str | PathLike[str],
        *,
        form: str | None = None,
        interval: float | None = None,
        target: str | None = None,
    ) -> Path:
        """Download it in a form that predicts mean, std, lower and upper without a server and this package.

        Args:
            path: of the file.
            form: `onnx`, a model for ONNX runtimes; `numpy`, a zip of predict.py and its arrays; by default what the
                path's suffix says, .onnx or .zip.
            interval: level of `lower` and `upper`, 0.95 by default.
            target: one of several; by default all of them, which ONNX alone has in one file.

        Returns the path. InvalidError where the form does not express the model, with the reason.
        """
        form = form_of(path, form)
        return write_whole(path, self.client.artefact(self.reference, form=form, interval=interval, target=target))
