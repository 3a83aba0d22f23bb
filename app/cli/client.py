"""A small HTTP client of the service: refusals become exceptions with the server's own words."""

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Literal
from urllib.parse import quote

import httpx

from app.cli.addresses import KEY_VARIABLE, model_path
from app.cli.client_errors import (
    BrokenConnectionError,
    ClientError,
    Json,
    ProblemError,
    UnexpectedResponseError,
    UnreachableError,
    json_text,
    problem_error,
)
from app.cli.transport import Transport

__all__ = [
    "KEY_VARIABLE",
    "BrokenConnectionError",
    "Client",
    "ClientError",
    "Json",
    "ProblemError",
    "Truth",
    "UnexpectedResponseError",
    "UnreachableError",
]

ENDED = frozenset({"succeeded", "failed", "cancelled"})
"""States that a job never leaves."""

Truth = Sequence[float | None] | Mapping[str, Sequence[float | None]]
"""Targets that came out, None where they are not known; of several by target."""

_MAX_RECONNECTS = 8
_MAX_RETRY_SECONDS = 2.0
_FOLLOW_PATIENCE_SECONDS = 120.0
"""Seconds that the server of a job that is followed may be away."""
_TOLD_FAILURES = 2
_JOB = ("id", "model", "state", "created_at")
_DATASET = ("id", "rows", "columns", "warnings")
_WAIT_SECONDS = 5.0


class Client(Transport):
    """One server: what may be asked of it, a method for each."""

    def ready(self) -> bool:
        """True if the service can do its work now; False also where nothing answers."""
        with suppress(httpx.HTTPError):
            return self._http.get("/health/ready", timeout=5.0).is_success
        return False

    def train(self, file: Path, spec: Mapping[str, Any], *, key: str | None = None, origin: str | None = None) -> Json:
        """Upload the table and start a training job; return the job, most likely queued. key, origin: as of
        `train_on`."""
        try:
            with file.open("rb") as body:
                return self.train_on(file.name, body, spec, key=key, origin=origin)
        except OSError as error:
            raise ClientError(f"cannot read {file}: {error.strerror or error}") from None

    def train_on(
        self,
        name: str,
        body: BinaryIO,
        spec: Mapping[str, Any],
        *,
        key: str | None = None,
        origin: str | None = None,
    ) -> Json:
        """Do `train` with an open file. key: of this training, by default a new one; the same key gives the same job,
        however often sent. origin: model to begin from."""
        parts: dict[str, Any] = {
            "file": (name, body, "application/octet-stream"),
            "spec": (None, json_text(spec), "application/json"),
        }
        if origin is not None:
            parts["from"] = (None, origin)
        return self._post_once("/train", _JOB, key=key, files=parts)

    def train_dataset(
        self, dataset: str, spec: Mapping[str, Any], *, key: str | None = None, origin: str | None = None
    ) -> Json:
        """Start a training on a dataset; return the job, most likely queued. key, origin: see `train_on`."""
        body = {"dataset": dataset, "spec": spec} | ({} if origin is None else {"from": origin})
        return self._post_once("/train", _JOB, key=key, json=body)

    def update(self, reference: str, name: str, body: BinaryIO, spec: Mapping[str, Any]) -> Json:
        """Start an update of a model by the rows of an open file; return the job, most likely queued."""
        parts = {
            "file": (name, body, "application/octet-stream"),
            "spec": (None, json_text(spec), "application/json"),
        }
        return self._post_once(f"/models/{quote(reference, safe='@')}/update", _JOB, files=parts)

    def update_by_dataset(self, reference: str, dataset: str, spec: Mapping[str, Any]) -> Json:
        """Start an update of a model by the rows of a dataset; return the job, most likely queued."""
        body = {"dataset": dataset, "spec": spec}
        return self._post_once(f"/models/{quote(reference, safe='@')}/update", _JOB, json=body)

    def suggest(self, reference: str, question: Mapping[str, Any]) -> Json:
        """Ask which rows to measure next; see `POST /models/{name}/suggest`."""
        path = f"/models/{quote(reference, safe='@')}/suggest"
        return self._json("POST", path, ("suggestions",), json=question, repeatable=True)

    def predict(
        self,
        model: str,
        body: bytes,
        *,
        interval: float | Sequence[float] | Literal[False] = (),
        quantiles: Sequence[float] = (),
        include: Sequence[str] = (),
        accept: str = "application/json",
        on_error: str | None = None,
        keep: str | None = None,
        aggregate: str | None = None,
        over: str | None = None,
        samples: int | None = None,
        seed: int | None = None,
        keep_for_feedback: bool = False,
    ) -> httpx.Response:
        """Predict the rows of a table file of any format; return the answer as `accept`. interval: empty for the
        default, False for the mean alone."""
        levels = ["false"] if interval is False else [interval] if isinstance(interval, int | float) else interval
        given: Json = {"on_error": on_error, "keep": keep, "aggregate": aggregate, "over": over}
        given |= {"samples": samples, "seed": seed}
        words = {name: [word] for name, word in given.items() if word is not None}
        words |= {"keep_for_feedback": ["true"]} if keep_for_feedback else {}
        options = {"interval": levels, "quantiles": quantiles, "include": include, **words}
        query = {"model": model} | {name: [str(value) for value in values] for name, values in options.items()}
        return self.predict_body(body, content_type="text/csv", accept=accept, query=query)

    def predict_body(
        self, body: bytes, *, content_type: str, accept: str, query: Mapping[str, str | list[str]] | None = None
    ) -> httpx.Response:
        """Predict what a body of any content type asks for; return the answer as `accept`."""
        response = self._send(
            "POST",
            "/predict",
            params=query,
            content=body,
            headers={"content-type": content_type, "accept": accept},
            repeatable=True,
        )
        if response.headers.get("content-type", "").partition(";")[0].strip() != accept:
            raise self._unexpected_response()
        return response

    def evaluate(
        self,
        model: str,
        body: bytes,
        *,
        by: Sequence[str] = (),
        worst: int = 10,
        on_error: str | None = None,
        target: str | None = None,
    ) -> Json:
        """Score a model on the rows of a table file that has the truth."""
        words = {"on_error": on_error, "target": target}
        query = {"model": model, "by": [*by], "worst": worst} | {name: word for name, word in words.items() if word}
        required = ("model", "version", "target", "rows", "scores", "groups", "worst", "warnings")
        headers = {"content-type": "text/csv"}
        return self._json("POST", "/evaluate", required, params=query, content=body, headers=headers, repeatable=True)

    def explain(self, model: str, body: bytes) -> Json:
        """Explain the predictions of the rows of a JSON body; return the explanation."""
        path, headers = f"/models/{quote(model, safe='@')}/explain", {"content-type": "application/json"}
        required = ("model", "version", "scale", "baseline", "rows")
        return self._json("POST", path, required, content=body, headers=headers, repeatable=True)

    def feedback(self, prediction: str, truth: Truth) -> Json:
        """Tell the truth of the rows of a kept prediction, None where it is not known, of several targets by target;
        return the counts."""
        required = ("model", "version", "rows", "covered", "waiting")
        return self._json("POST", "/feedback", required, json={"prediction_id": prediction, "truth": truth})

    def predict_dataset(self, model: str, dataset: str, options: Mapping[str, Any]) -> Json:
        """Start a job that predicts a dataset; return it, most likely queued."""
        fields = {name: value for name, value in options.items() if value not in (None, [])}
        return self._post_once("/predict", _JOB, json={"model": model, "dataset": dataset, **fields})

    def predictions(self, job_id: str) -> bytes:
        """Return the Parquet file that a job of predictions left."""
        return self._send("GET", f"/jobs/{quote(job_id, safe='')}/predictions").content

    def job(self, job_id: str) -> Json:
        """Return a job in its current state."""
        return self._json("GET", f"/jobs/{quote(job_id, safe='')}", _JOB)

    def cancel(self, job_id: str) -> Json:
        """Request that a job be cancelled; return it in its current state, which may still be running."""
        return self._json("DELETE", f"/jobs/{quote(job_id, safe='')}", _JOB)

    def wait_for_job(self, job: Json, *, seconds: float = _WAIT_SECONDS) -> Json:
        """Poll a job until it has ended or the seconds are over; return it in its current state."""
        deadline = time.monotonic() + seconds
        while job["state"] not in ENDED and time.monotonic() < deadline:
            time.sleep(0.1)
            job = self.job(job["id"])
        return job

    def jobs(self, **filters: str | int | None) -> Json:
        """Return a page of jobs."""
        return self._page("jobs", _JOB, filters)

    def models(self, **filters: str | int | None) -> Json:
        """Return a page of models."""
        return self._page("models", ("name", "latest", "versions", "created_at"), filters)

    def model(self, name: str) -> Json:
        """Return one model with its versions."""
        return self._json("GET", model_path(name), ("name", "versions"))

    def version(self, reference: str, target: str | None = None) -> Json:
        """Return the details of the version that `name@3` or `name@alias` refers to."""
        name, _, which = reference.partition("@")
        if not (name and which):
            raise ClientError(f"{reference!r} names no version: expected name@3 or name@alias")
        return self.version_at(*self.resolve(reference), target)

    def version_at(self, name: str, number: int, target: str | None = None) -> Json:
        """Return the details of a version by its number. target: of several, by default the first, here and below."""
        required = ("model", "version", "aliases", "created_at", "size_bytes", "report")
        return self._json("GET", f"{model_path(name)}/versions/{number}", required, params=_of(target))

    def resolve(self, reference: str) -> tuple[str, int]:
        """Return the name and the number of the version that a reference means now: of a plain name its champion, else
        its latest."""
        name, _, which = reference.partition("@")
        if which.isascii() and which.isdigit():
            return name, int(which)
        path = model_path(name)
        aliases: dict[str, int] = self._json("GET", path, ("aliases",), params={"limit": 1})["aliases"]
        for alias in (which,) if which else ("champion", "latest"):
            if alias in aliases:
                return name, aliases[alias]
        raise ClientError(f"model {name!r} has no alias {which!r}; it has {', '.join(sorted(aliases))}")

    def held_out(self, name: str, version: int) -> Json:
        """Return rows that a version had not seen, as it predicted them."""
        required = ("name", "held_out", "total", "rows", "target", "mean", "std", "lower", "upper")
        return self._json("GET", f"{model_path(name)}/versions/{version}/held-out", required)

    def importance(self, name: str, version: int, target: str | None = None) -> Json:
        """Return how far each feature moves a version's mean."""
        path = f"{model_path(name)}/versions/{version}/importance"
        return self._json("GET", path, ("features", "spread", "rows"), params=_of(target))

    def effects(self, name: str, version: int, target: str | None = None) -> Json:
        """Return the average effect of each feature of a version."""
        path = f"/models/{quote(name, safe='')}/versions/{version}/effects"
        return self._json("GET", path, ("target", "scale", "average", "columns"), params=_of(target))

    def datasets(self, **filters: str | int | None) -> Json:
        """Return a page of datasets."""
        return self._page("datasets", ("id", "name", "rows", "created_at"), filters)

    def dataset(self, dataset: str) -> Json:
        """Return a dataset with its columns."""
        return self._json("GET", f"/datasets/{quote(dataset, safe='')}", _DATASET)

    def append_dataset(self, dataset: str, name: str, body: BinaryIO) -> Json:
        """Append the rows of an open file to a dataset; return the new dataset."""
        files = {"file": (name, body, "application/octet-stream")}
        path = f"/datasets/{quote(dataset, safe='')}/rows"
        return self._post_once(path, _DATASET, files=files)

    def add_dataset(self, name: str, body: BinaryIO, **options: str | None) -> Json:
        """Upload a table that is kept; return it with its columns. options: target, decimal, thousands, sheet."""
        files = {"file": (name, body, "application/octet-stream")}
        query = {name: value for name, value in options.items() if value is not None}
        return self._post_once("/datasets", _DATASET, files=files, params=query)

    def register_dataset(self, location: str, *, target: str | None = None) -> Json:
        """Make a dataset of the Parquet files of a folder that the server sees; return it with its columns."""
        query = {} if target is None else {"target": target}
        return self._post_once("/datasets", _DATASET, json={"location": location}, params=query)

    def put_alias(self, name: str, alias: str, version: int) -> Json:
        """Point an alias at a version."""
        path = f"{model_path(name)}/aliases/{quote(alias, safe='')}"
        return self._json("PUT", path, ("model", "alias", "version"), json={"version": version})

    def delete(self, *path: str, force: bool = False) -> None:
        """Delete what is at a path, such as `models`, `cars`; refused where an alias points at it, unless forced."""
        parts = "/".join(quote(part, safe="") for part in path)
        self._send("DELETE", f"/{parts}", params={"force": True} if force else None)

    def artefact(self, name: str, version: int, **query: str | float) -> bytes:
        """Download a version: as safetensors, or in the form and with the intervals of a query."""
        return self._send("GET", f"{model_path(name)}/versions/{version}/artefact", params=query).content

    def report(self, name: str, version: int, target: str | None = None) -> bytes:
        """Return the report of a version as an HTML page."""
        return self._send("GET", f"{model_path(name)}/versions/{version}/report", params=_of(target)).content

    def import_version(self, name: str, artefact: Path | bytes) -> Json:
        """Publish an artefact, or the file of one, as the next version of a model; return the version."""
        try:
            body = artefact if isinstance(artefact, bytes) else artefact.read_bytes()
        except OSError as error:
            raise ClientError(f"cannot read {artefact!s}: {error.strerror or error}") from None
        headers = {"content-type": "application/octet-stream"}
        return self._json("POST", f"{model_path(name)}/versions", ("model", "version"), content=body, headers=headers)

    def follow(self, job_id: str) -> Iterator[Json]:
        """Yield the job at every change, from the server's event stream, until it has ended.

        A broken stream is resumed after reading the job; only repeated failures without an event in between raise.
        """
        known, failures, alive_at = False, 0, time.monotonic()
        while True:
            try:
                job = self.job(job_id)
                known, alive_at = True, time.monotonic()
                yield job
                if job["state"] in ENDED:
                    return
                for job in self._events(job_id):
                    failures = 0
                    yield job
                    if job["state"] in ENDED:
                        return
            except (httpx.TransportError, UnreachableError, BrokenConnectionError, ProblemError) as error:
                failures += 1
                found = self._unreachable(error) if isinstance(error, httpx.TransportError) else error
                lasts = not known or (isinstance(found, ProblemError) and found.status < 500)
                away = time.monotonic() - alive_at > _FOLLOW_PATIENCE_SECONDS
                if lasts or (failures > _MAX_RECONNECTS and (away or isinstance(error, httpx.TransportError))):
                    raise found from None
                if not isinstance(error, httpx.TransportError):  # it may be about to start again
                    if failures == _TOLD_FAILURES:
                        self._tell(f"{found}; the job goes on, asking again for {_FOLLOW_PATIENCE_SECONDS:.0f} s")
                    time.sleep(min(0.1 * 2**failures, _MAX_RETRY_SECONDS))

    def _post_once(self, path: str, required: Sequence[str], *, key: str | None = None, **request: Any) -> Json:
        """Send what the server does once for each key, so that it may be sent again; by default under a new key."""
        headers = {"idempotency-key": key or uuid.uuid4().hex}
        return self._json("POST", path, required, headers=headers, repeatable=True, **request)

    def _events(self, job_id: str) -> Iterator[Json]:
        timeout = httpx.Timeout(60.0, connect=5.0)  # the server sends something at least every few seconds
        path = f"/jobs/{quote(job_id, safe='')}/events"
        with self._http.stream("GET", path, headers={"accept": "text/event-stream"}, timeout=timeout) as response:
            if response.is_error:
                response.read()
                raise problem_error(response)
            for line in response.iter_lines():
                if line.startswith("data:"):
                    event = json.loads(line.removeprefix("data:"))
                    if isinstance(event, dict) and "state" in event:
                        yield event


def _of(target: str | None) -> dict[str, str]:
    return {} if target is None else {"target": target}
