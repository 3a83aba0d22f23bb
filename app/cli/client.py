"""A small HTTP client of the service: refusals become exceptions with the server's own words."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

import httpx

Json = dict[str, Any]
ENDED = frozenset({"succeeded", "failed", "cancelled"})
"""States that a job never leaves."""

_TIMEOUT = httpx.Timeout(600.0, connect=5.0)  # reading a large upload takes the server a while
_MOST_RECONNECTS = 5
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class ClientError(Exception):
    """Base of what the client reports; the message is for a person."""


class UnreachableError(ClientError):
    """No answer from the server."""


class RefusedError(ClientError):
    """The server said no: its problem document, and the status."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        sentence = problem.get("detail") or problem.get("title") or "no reason was given"
        super().__init__(str(sentence))
        self.status = status
        self.faults: list[Json] = list(problem.get("errors") or [])
        self.total = int(problem.get("error_count") or len(self.faults))


class Client:
    """One server, by URL or by the path of its Unix socket. A context manager that closes it."""

    def __init__(self, url: str, *, socket: Path | None = None) -> None:
        self.url = url.rstrip("/")
        try:
            # A proxy named in the environment is for the outside world, not for a server on this machine.
            local = socket is not None or urlsplit(url).hostname in _LOOPBACK
            self._http = httpx.Client(
                base_url=self.url,
                transport=None if socket is None else httpx.HTTPTransport(uds=str(socket)),
                timeout=_TIMEOUT,
                trust_env=not local,
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise ClientError(f"not a URL: {url} ({error})") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._http.close()

    def ready(self) -> bool:
        """Whether the service can do its work now. Never raises for a server that is not there."""
        with suppress(httpx.TransportError):
            return self._http.get("/health/ready", timeout=5.0).is_success
        return False

    def train(self, file: Path, spec: Mapping[str, Any]) -> Json:
        """Upload the table and ask for a model; the job, most likely queued."""
        with file.open("rb") as body:
            parts = {
                "file": (file.name, body, "application/octet-stream"),
                "spec": (None, json.dumps(spec, allow_nan=False), "application/json"),
            }
            return self._json("POST", "/train", files=parts)

    def predict(
        self,
        model: str,
        body: bytes,
        *,
        interval: float | Sequence[float] = (),
        quantiles: Sequence[float] = (),
        include: Sequence[str] = (),
        accept: str = "application/json",
    ) -> httpx.Response:
        """Predict the rows of a CSV table; the answer in the form of `accept`. interval: none for the server's own."""
        levels = [interval] if isinstance(interval, int | float) else interval
        wanted = {"interval": levels, "quantiles": quantiles, "include": include}
        return self._send(
            "POST",
            "/predict",
            params={"model": model} | {name: [str(value) for value in values] for name, values in wanted.items()},
            content=body,
            headers={"content-type": "text/csv", "accept": accept},
        )

    def job(self, job_id: str) -> Json:
        """One job as it stands."""
        return self._json("GET", f"/jobs/{quote(job_id, safe='')}")

    def cancel(self, job_id: str) -> Json:
        """Ask for the end of a job."""
        return self._json("DELETE", f"/jobs/{quote(job_id, safe='')}")

    def jobs(self, **filters: str | int | None) -> Json:
        """A page of jobs."""
        return self._json("GET", "/jobs", params={k: v for k, v in filters.items() if v is not None})

    def models(self, **filters: str | int | None) -> Json:
        """A page of models."""
        return self._json("GET", "/models", params={k: v for k, v in filters.items() if v is not None})

    def model(self, name: str) -> Json:
        """One model with its versions."""
        return self._json("GET", f"/models/{quote(name, safe='')}")

    def version(self, reference: str) -> Json:
        """All about the version that `name@3` or `name@alias` means."""
        name, _, which = reference.partition("@")
        if not (name and which):
            raise ClientError(f"{reference!r} names no version: expected name@3 or name@alias")
        number = which if which.isascii() and which.isdigit() else self._aliased(name, which)
        return self._json("GET", f"/models/{quote(name, safe='')}/versions/{number}")

    def _aliased(self, name: str, alias: str) -> int:
        aliases: dict[str, int] = self._json("GET", f"/models/{quote(name, safe='')}", params={"limit": 1})["aliases"]
        if alias not in aliases:
            raise ClientError(f"model {name!r} has no alias {alias!r}; it has {', '.join(sorted(aliases))}")
        return aliases[alias]

    def follow(self, job_id: str) -> Iterator[Json]:
        """The job at every change, from the server's own events, until it has ended.

        A broken stream is taken up again by asking for the job; only repeated failures without news raise.
        """
        failures = 0
        while True:
            job = self.job(job_id)
            yield job
            if job["state"] in ENDED:
                return
            try:
                for job in self._events(job_id):
                    failures = 0
                    yield job
                    if job["state"] in ENDED:
                        return
            except httpx.TransportError as error:
                failures += 1
                if failures > _MOST_RECONNECTS:
                    raise self._unreachable(error) from None

    def _events(self, job_id: str) -> Iterator[Json]:
        timeout = httpx.Timeout(60.0, connect=5.0)  # the server sends something at least every few seconds
        path = f"/jobs/{quote(job_id, safe='')}/events"
        with self._http.stream("GET", path, headers={"accept": "text/event-stream"}, timeout=timeout) as response:
            if response.is_error:
                response.read()
                raise _refusal(response)
            for line in response.iter_lines():
                if line.startswith("data:"):
                    event = json.loads(line.removeprefix("data:"))
                    if isinstance(event, dict) and "state" in event:
                        yield event

    def _json(self, method: str, path: str, **request: Any) -> Json:
        response = self._send(method, path, **request)
        try:
            answer = response.json()
        except ValueError:
            raise ClientError(f"{self.url} does not answer like a Pursuit server") from None
        if not isinstance(answer, dict):
            raise ClientError(f"{self.url} does not answer like a Pursuit server")
        return answer

    def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        try:
            response = self._http.request(method, path, **request)
        except httpx.TransportError as error:
            raise self._unreachable(error) from None
        if response.is_error:
            raise _refusal(response)
        return response

    def _unreachable(self, error: httpx.TransportError) -> UnreachableError:
        return UnreachableError(f"no answer from {self.url}: {error or type(error).__name__}")


def _refusal(response: httpx.Response) -> RefusedError:
    problem: object = None
    with suppress(ValueError):
        problem = response.json()
    if not isinstance(problem, dict):
        problem = {"detail": f"{response.status_code} {response.reason_phrase} from {response.url}"}
    return RefusedError(response.status_code, problem)
