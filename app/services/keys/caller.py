"""Caller: the API key of a request, and where it came from."""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from sqlalchemy import Connection

from app.errors import ForbiddenError, LimitExceededError
from app.storage import api_keys, audit
from app.storage.api_keys import ApiKey
from app.storage.audit import AuditAction

STORED_RETRY_SECONDS = 60
"""Seconds after which one whose bytes are all used is told to come again: deleting something makes room."""


class KeyScope(StrEnum):
    """Purpose of a key. `admin` includes all others, `train` includes `predict`: see `granted`."""

    PREDICT = "predict"
    TRAIN = "train"
    ADMIN = "admin"
    MONITOR = "monitor"


_INCLUDED = {KeyScope.ADMIN: frozenset(KeyScope), KeyScope.TRAIN: frozenset({KeyScope.TRAIN, KeyScope.PREDICT})}


@lru_cache(maxsize=256)
def granted(scopes: frozenset[str]) -> frozenset[str]:
    """Return the scopes that a key has with these, those that they include among them."""
    return scopes.union(*(_INCLUDED[scope] for scope in KeyScope if scope in scopes and scope in _INCLUDED))


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """key: None where none is needed; address: of the client; request_id: as in the log."""

    key: ApiKey | None = None
    address: str = ""
    request_id: str = ""

    @property
    def owner(self) -> str | None:
        """Id of the key that what is made belongs to."""
        return None if self.key is None else self.key.id

    @property
    def models(self) -> frozenset[str] | None:
        """The only models that this caller may use; None: all."""
        return None if self.key is None else self.key.models

    @property
    def most_queued(self) -> int | None:
        """Most jobs of this caller that may wait."""
        return None if self.key is None else self.key.limits.queued_jobs

    @property
    def has_byte_limit(self) -> bool:
        """True if its bytes in the store are limited."""
        return self.key is not None and self.key.limits.stored_bytes is not None

    def check_model(self, name: str) -> None:
        """Raise ForbiddenError for a model that this key may not use, whether or not there is one."""
        if self.key is not None and self.key.models is not None and name not in self.key.models:
            raise ForbiddenError(f"this API key may not use the model {name[:80]!r}; it may use {self.allowed}")

    def check_all_models(self) -> None:
        """Raise ForbiddenError for a key of some models: keys and the audit log are about all of them."""
        if self.models is not None:
            raise ForbiddenError(f"this API key is for the models {self.allowed} alone: it sees and changes no keys")

    @property
    def allowed(self) -> str:
        """The models that it may use, in words."""
        return "all" if self.models is None else ", ".join(sorted(self.models))

    def check_bytes(self, connection: Connection, size: int = 0) -> None:
        """Raise LimitExceededError where so many bytes more would be too many."""
        limit = None if self.key is None else self.key.limits.stored_bytes
        if self.key is None or limit is None:
            return
        used = api_keys.stored_bytes(connection, self.key.id)
        if used + size > limit:
            raise LimitExceededError(
                f"{used + size:,} bytes of tables and models in the store would be this API key's, which may have "
                f"{limit:,}: delete some",
                retry_seconds=STORED_RETRY_SECONDS,
            )

    def hold(self, connection: Connection) -> None:
        """Hold the key's row until the transaction ends, so that two requests do not both take what is left."""
        if self.key is not None and (self.most_queued is not None or self.has_byte_limit):
            api_keys.get(connection, self.key.id, hold=True)

    def record(self, connection: Connection, action: AuditAction, subject: str, **detail: object) -> None:
        """Write into the audit log, in the transaction of what is done."""
        audit.record(
            connection,
            action=action,
            subject=subject,
            detail=detail or None,
            key_id=self.owner,
            address=self.address,
            request_id=self.request_id,
        )


ANYBODY = Caller()
"""Whoever calls where no key is needed, and the service itself."""
