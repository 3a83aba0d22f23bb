"""Administration of keys: create, list, revoke, and read what they did."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.database.engine import Database
from app.errors import InvalidRequestError
from app.identifiers import check_name, new_api_key_id
from app.services.keys import tokens
from app.services.keys.caller import ANYBODY, Caller, KeyScope
from app.storage import api_keys, audit, key_usage
from app.storage.api_keys import UNLIMITED, ApiKey, KeyLimits
from app.storage.audit import AuditAction, AuditEntry
from app.storage.key_usage import Usage
from app.times import rfc3339

LONGEST_SECONDS = 100 * 365 * 86_400.0
_MOST_MODELS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRequest:
    """Request for a new key. models: the only ones that it may use; seconds: until it expires."""

    scopes: Sequence[str]
    name: str = ""
    models: Sequence[str] | None = None
    seconds: float | None = None
    limits: KeyLimits = UNLIMITED


def key_document(key: ApiKey) -> dict[str, object]:
    """Return all of a key but its secret, as JSON has it."""
    limits = key.limits
    return {
        "id": key.id,
        "name": key.name,
        "scopes": sorted(key.scopes),
        "models": None if key.models is None else sorted(key.models),
        "limits": {
            "requests_per_minute": limits.requests_per_minute,
            "rows_per_minute": limits.rows_per_minute,
            "queued_jobs": limits.queued_jobs,
            "stored_bytes": limits.stored_bytes,
        },
        "created_at": rfc3339(key.created_at),
        "created_by": key.created_by,
        "expires_at": rfc3339(key.expires_at),
        "revoked_at": rfc3339(key.revoked_at),
    }


class Keys:
    """The keys as administrators see and change them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, request: KeyRequest, caller: Caller) -> tuple[ApiKey, str]:
        """Create a key; return it with its token, which nobody can read again.

        Raises InvalidRequestError; ForbiddenError where the caller's key is for some models.
        """
        caller.check_all_models()
        _check(request)
        key_id, secret = new_api_key_id(), tokens.new_secret()
        with self._database.write() as connection:
            key = api_keys.add(
                connection,
                key_id=key_id,
                name=request.name,
                digest=tokens.digest(secret),
                scopes=sorted(set(request.scopes)),
                models=None if request.models is None else sorted(set(request.models)),
                limits=request.limits,
                seconds=request.seconds,
                created_by=caller.owner,
            )
            caller.record(connection, AuditAction.CREATE_KEY, key_id, name=key.name, scopes=sorted(key.scopes))
        return key, tokens.token(key_id, secret)

    def page(self, *, limit: int, cursor: str | None, caller: Caller = ANYBODY) -> tuple[Sequence[ApiKey], str | None]:
        """Keys, the newest first, and the cursor of the next page (None at the end). Raises as `create`."""
        caller.check_all_models()
        with self._database.read() as connection:
            return api_keys.page(connection, limit=limit, cursor=cursor)

    def revoke(self, key_id: str, caller: Caller) -> tuple[ApiKey, bool]:
        """End a key for good; return it, and whether it was not revoked before. Raises NotFoundError, and as
        `create`."""
        caller.check_all_models()
        with self._database.write() as connection:
            before = api_keys.get(connection, key_id)
            key = api_keys.revoke(connection, key_id)
            if before.revoked_at is None:
                caller.record(connection, AuditAction.REVOKE_KEY, key_id, name=key.name)
        return key, before.revoked_at is None

    def any_live(self) -> bool:
        """Return whether there is a key that is neither revoked nor expired."""
        with self._database.read() as connection:
            return bool(api_keys.live(connection).keys)

    def audit(
        self,
        *,
        limit: int,
        cursor: str | None,
        action: AuditAction | None = None,
        key_id: str | None = None,
        caller: Caller = ANYBODY,
    ) -> tuple[Sequence[AuditEntry], str | None]:
        """Entries of the audit log, the newest first, and the cursor of the next page. Raises as `create`."""
        caller.check_all_models()
        with self._database.read() as connection:
            return audit.page(connection, limit=limit, cursor=cursor, action=action, key_id=key_id)

    def usage(
        self, *, limit: int, cursor: str | None, key_id: str | None = None, caller: Caller = ANYBODY
    ) -> tuple[Sequence[Usage], str | None]:
        """Predictions and reads by key, minute and model, the newest first, and the cursor. Raises as `create`."""
        caller.check_all_models()
        with self._database.read() as connection:
            return key_usage.page(connection, limit=limit, cursor=cursor, key_id=key_id)


def _check(request: KeyRequest) -> None:
    known = [scope.value for scope in KeyScope]
    unknown = sorted(set(request.scopes) - set(known))
    if unknown or not request.scopes:
        got = repr(unknown[0][:80]) if unknown else "none"
        raise InvalidRequestError(f"scopes: expected one or more of {', '.join(known)}, got {got}")
    if request.models is not None:
        if not 1 <= len(request.models) <= _MOST_MODELS:
            raise InvalidRequestError(f"models: expected 1 to {_MOST_MODELS} names, got {len(request.models)}")
        for name in request.models:
            check_name(name, "models")
    if request.seconds is not None and not 0 < request.seconds <= LONGEST_SECONDS:
        raise InvalidRequestError(f"expires: expected a time from now to a hundred years, got {request.seconds:g} s")
    for name in ("requests_per_minute", "rows_per_minute", "queued_jobs", "stored_bytes"):
        value = getattr(request.limits, name)
        if value is not None and not 1 <= value < 2**63:
            raise InvalidRequestError(f"{name}: expected a number of 1 or more, got {value}")
