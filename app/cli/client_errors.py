"""Failures between a client and a server, in words for a person."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import httpx

from app.cli.retry import retry_after

Json = dict[str, Any]

_BROKEN = ("disconnected", "peer closed connection")
"""Words for a connection that ended too early, which httpx counts among breaches of the protocol."""
_DAMAGED = "/problems/damaged-file"
"""Type of the problem of a stored file that has to be mended first."""


class ClientError(Exception):
    """Base of what the client reports; the message is for a person. exit_code: of the command that it ends."""

    exit_code = 1


class UnreachableError(ClientError):
    """The server does not answer. refused: there was no connection, so that nothing was done."""

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


class UnexpectedResponseError(ClientError):
    """The server that answers is not one of Pursuit."""


class BrokenConnectionError(UnexpectedResponseError):
    """The connection ended before the answer did."""


class NotFiniteError(ClientError):
    """Error for NaN or an infinity in something that is to be sent."""


class FaultsError(ClientError):
    """Faults found in this process, without a server, as those of a problem document, the first of
    `total`; the message is complete without them."""

    status = None

    def __init__(self, message: str, faults: Sequence[Json], total: int) -> None:
        super().__init__(message)
        self.faults, self.total = list(faults), total


class ProblemError(ClientError):
    """The server answered with a problem document (RFC 9457): its status, its detail and its faults. key_sent:
    the request had an API key."""

    def __init__(
        self, status: int, problem: Mapping[str, Any], retry_after: float | None = None, *, key_sent: bool = False
    ) -> None:
        sentence = problem.get("detail") or problem.get("title") or "no reason was given"
        super().__init__(str(sentence))
        self.status = status
        self.is_lasting = problem.get("type") == _DAMAGED
        """Sending the request again is of no use, whatever the status says."""
        self.retry_after = retry_after
        self.key_sent = key_sent
        faults, total = problem.get("errors"), problem.get("error_count")
        self.faults: list[Json] = [fault for fault in faults if isinstance(fault, dict)] if faults else []
        self.total = total if isinstance(total, int) else len(self.faults)


def json_text(value: Any) -> str:
    """Return JSON to send. NotFiniteError for NaN and infinities, which JSON has no words for."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        raise NotFiniteError("expected finite numbers: JSON has no NaN and no infinity") from None


def protocol_error(url: str, error: httpx.HTTPError) -> UnexpectedResponseError:
    """Return the error for an answer that is none of HTTP, or one that ended too early."""
    broken = any(sign in str(error) for sign in _BROKEN)
    kind = BrokenConnectionError if broken else UnexpectedResponseError
    return kind(f"{url} does not answer as an HTTP server does: {error}")


def problem_error(response: httpx.Response) -> ProblemError:
    """Return the refusal that an answer is."""
    problem: object = None
    if response.headers.get("content-type", "").startswith("application/problem+json"):
        with suppress(ValueError):
            problem = response.json()
    if not isinstance(problem, dict):
        status = f"{response.status_code} {response.reason_phrase}".strip()
        problem = {"detail": f"{status} from {response.url}: not the answer of a Pursuit server"}
    later, key_sent = retry_after(response.headers.get("retry-after")), "authorization" in response.request.headers
    return ProblemError(response.status_code, problem, later, key_sent=key_sent)
