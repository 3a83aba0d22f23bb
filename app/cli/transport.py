"""HTTP to a server: requests that are sent again where that is of use, and answers that are checked."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from app.cli.addresses import KEY_VARIABLE, authorization, server_url
from app.cli.client_errors import (
    BrokenConnectionError,
    ClientError,
    Json,
    ProblemError,
    UnexpectedResponseError,
    UnreachableError,
    json_text,
    problem_error,
    protocol_error,
)
from app.cli.retry import ATTEMPTS, pause_seconds

_TIMEOUT = httpx.Timeout(600.0, connect=5.0)  # reading a large upload takes the server a while
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class Transport:
    """One server, by URL or by the path of its Unix socket. A context manager that closes it.

    key: an API key, sent with every request; by default KEY_VARIABLE, if any. patience: so many seconds requests
    are sent again to a server that is busy or away, where they can be without doing anything twice. tell: called with a
    sentence when that begins.
    """

    def __init__(
        self,
        url: str,
        *,
        socket: Path | None = None,
        key: str | None = None,
        patience: float = 0.0,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.url = server_url(url)
        self._patience = patience
        self._tell = tell
        # A proxy named in the environment is for the outside world, not for a server on this machine.
        local = socket is not None or urlsplit(self.url).hostname in _LOOPBACK
        try:
            self._http = httpx.Client(
                base_url=self.url,
                headers=authorization(os.environ.get(KEY_VARIABLE) if key is None else key),
                transport=None if socket is None else httpx.HTTPTransport(uds=str(socket)),
                timeout=_TIMEOUT,
                trust_env=not local,
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise ClientError(
                f"the server {self.url}, or a proxy that the environment names, cannot be used: {error}"
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def _page(self, name: str, required: Sequence[str], filters: Mapping[str, str | int | None]) -> Json:
        page = self._json("GET", f"/{name}", (name,), params={k: v for k, v in filters.items() if v is not None})
        items = page[name]
        if not isinstance(items, list) or not all(isinstance(item, dict) and {*required} <= {*item} for item in items):
            raise self._unexpected_response()
        return page

    def _json(self, method: str, path: str, required: Sequence[str], **request: Any) -> Json:
        """Send a request; return the JSON object of the answer, which has at least the `required` names."""
        response = self._send(method, path, **request)
        try:
            answer = response.json()
        except ValueError:
            raise self._unexpected_response() from None
        if not isinstance(answer, dict) or not {*required} <= {*answer}:
            raise self._unexpected_response()
        return answer

    def _send(self, method: str, path: str, *, repeatable: bool | None = None, **request: Any) -> httpx.Response:
        """Send a request, again where that is of use. repeatable: may be done twice, as all but POST may by default."""
        repeatable = method != "POST" if repeatable is None else repeatable
        deadline, told = time.monotonic() + self._patience, False
        for attempt in range(ATTEMPTS):
            try:
                return self._send_once(method, path, **request)
            except (UnreachableError, BrokenConnectionError, ProblemError) as error:
                refused = error if isinstance(error, ProblemError) else None
                pause = pause_seconds(
                    attempt,
                    status=None if refused is None else refused.status,
                    asked=None if refused is None else refused.retry_after,
                    repeatable=repeatable or (isinstance(error, UnreachableError) and error.refused),
                )
                lasting = refused is not None and refused.is_lasting
                if pause is None or lasting or time.monotonic() + pause > deadline:
                    raise
                if not told:
                    told = True
                    self._tell(f"{error}; trying again for up to {self._patience:.0f} s")
            time.sleep(pause)
        raise AssertionError("the last attempt has no pause")

    def _send_once(self, method: str, path: str, **request: Any) -> httpx.Response:
        if "json" in request:
            headers = {"content-type": "application/json", **request.pop("headers", {})}
            request |= {"content": json_text(request.pop("json")), "headers": headers}
        try:
            response = self._http.request(method, path, **request)
        except (httpx.ProtocolError, httpx.DecodingError) as error:
            raise protocol_error(self.url, error) from None
        except httpx.TransportError as error:
            raise self._unreachable(error) from None
        if response.is_redirect:
            raise UnexpectedResponseError(
                f"{self.url} leads on to {response.headers['location']}: name the server itself"
            )
        if not response.is_success:
            raise problem_error(response)
        return response

    def _unexpected_response(self) -> UnexpectedResponseError:
        return UnexpectedResponseError(f"{self.url} does not answer like a Pursuit server")

    def _unreachable(self, error: httpx.TransportError) -> UnreachableError:
        refused = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
        return UnreachableError(f"no answer from {self.url}: {error or type(error).__name__}", refused=refused)
