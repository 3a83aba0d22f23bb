"""Keys for tests, created as the command line does it."""

from app.services.keys.caller import ANYBODY
from app.services.keys.keys import KeyRequest, Keys
from app.storage.api_keys import UNLIMITED, KeyLimits
from tests.app.routes.service import Service


def create(
    service: Service,
    *scopes: str,
    models: list[str] | None = None,
    limits: KeyLimits = UNLIMITED,
    seconds: float | None = None,
) -> dict[str, str]:
    """Create a key; return the headers that send it."""
    request = KeyRequest(scopes=scopes, models=models, limits=limits, seconds=seconds)
    _, token = Keys(service.database).create(request, ANYBODY)
    return {"Authorization": f"Bearer {token}"}


def id_of(headers: dict[str, str]) -> str:
    """Return the id of the key that these headers send."""
    return headers["Authorization"].split("_")[1]
