"""Sender of a request: the key that `app.routes.http.guard` has found, for the routes."""

from starlette.requests import Request

from app.routes.http.services import Services
from app.services.keys.caller import Caller
from app.services.keys.usage import PREDICT
from app.storage.api_keys import ApiKey

KEY = "api_key"
"""Name under which the guard leaves the key in the scope; absent where none is needed."""
ROUTE = "refused_route"
"""Name under which it leaves the path, as its route writes it, of a request that it refuses."""


def caller_of(request: Request) -> Caller:
    """Return who sent this request."""
    scope = request.scope
    client = scope.get("client")
    return Caller(
        key=scope.get(KEY),
        address=client[0] if client else "local socket",
        request_id=scope.get("state", {}).get("request_id", ""),
    )


def check_model(request: Request, reference: str) -> None:
    """Raise ForbiddenError where the key may not use the model of `name`, `name@3` or `name@alias`."""
    key: ApiKey | None = request.scope.get(KEY)
    if key is not None and key.models is not None:
        Caller(key=key).check_model(reference.partition("@")[0])


async def count_rows(request: Request, app: Services, model: str, rows: int) -> None:
    """Count the rows of a prediction towards the key's limit and use. Raises LimitExceededError, TooLargeError."""
    key: ApiKey | None = request.scope.get(KEY)
    if key is not None:
        await app.budgets.take_rows(key, rows)
        app.usage.count(key, PREDICT, model, rows)
