"""The keys as one API process knows them: all live ones in memory, compared with the database every two seconds.

A request waits for the database only where the last look is too old (REVOKED_SECONDS), or where its key is unknown,
which may be a new one; one look serves all who wait. While the database does not answer, what was known last goes on
for STALE_SECONDS: no key can be revoked then, as that is written there too.
"""

import asyncio
import logging
import math
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from anyio import to_thread
from sqlalchemy.exc import SQLAlchemyError

from app.database.engine import Database
from app.errors import ForbiddenError, UnauthenticatedError, UnavailableError
from app.services.keys import tokens
from app.services.keys.caller import KeyScope, granted
from app.storage import api_keys
from app.storage.api_keys import ApiKey, LiveKeys

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""From this age on a request has the keys looked at again, without waiting for it."""
REVOKED_SECONDS = 4.0
"""From this age on it waits: a key that was revoked is refused everywhere after so long, and a look."""
UNKNOWN_SECONDS = 0.2
"""An unknown key is looked for so long after the last look: so often at most, however many are tried."""
PATIENCE_SECONDS = 1.0
"""Seconds that a request waits for a look; then what is known goes on, and nobody waits for LOOK_SECONDS."""
STALE_SECONDS = 600.0
"""Seconds that the keys known last hold while the database does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """keys: the live ones by id; ended: those that ended last, by id; at: the monotonic time of the look; clock: the
    database's minus the monotonic time."""

    keys: dict[str, ApiKey]
    ended: dict[str, ApiKey]
    any_ever: bool
    generation: int
    at: float
    clock: float


class KeyRing:
    """Checks of tokens for the requests of one event loop.

    insecure: requests need no key as long as there is no live one. private: only this machine, or this user, can reach
    the service; then they need none until the first key is created.
    """

    def __init__(self, database: Database, *, insecure: bool = False, private: bool = True) -> None:
        self._database = database
        self._insecure = insecure
        self.private = private
        self._known: _Known | None = None
        self._look: asyncio.Task[None] | None = None
        self._impatient_until = 0.0

    async def identify(self, authorization: bytes) -> ApiKey | None:
        """Return the key of an `Authorization` header; None where none is needed.

        Raises UnauthenticatedError, UnavailableError where the keys are not known.
        """
        known = self._known
        now = time.monotonic()
        if known is None or now - known.at > LOOK_SECONDS:
            known = await self._look_since(now - REVOKED_SECONDS)
        if not known.keys and (self._insecure or (self.private and not known.any_ever)):
            return None
        if not authorization:
            raise UnauthenticatedError(_needed(known))
        scheme, _, text = authorization.partition(b" ")
        parsed = tokens.parse(text.strip()) if scheme.lower() == b"bearer" else None
        if parsed is None:
            raise UnauthenticatedError("the Authorization header has no API key: expected `Bearer pk_..`", invalid=True)
        key = self._matching(known, parsed)
        if key is None and parsed[0] not in known.keys and parsed[0] not in known.ended:
            key = self._matching(await self._looked_after(now, known), parsed)
        if key is None:
            raise UnauthenticatedError(self._reason(parsed), invalid=True)
        return key

    async def is_valid(self, key: ApiKey | None) -> bool:
        """Return whether a request that was let in may go on, as far as can be told: for answers that last."""
        if key is None:
            return True
        with suppress(UnavailableError):
            return self._live(await self._look_since(time.monotonic() - REVOKED_SECONDS), key.id) is not None
        return True

    async def forget(self) -> None:
        """Look again before the next request is checked: this process has changed a key."""
        if self._look is not None:
            await asyncio.wait({self._look})
        self._known = None

    def _reason(self, parsed: tuple[str, bytes]) -> str:
        """Say why a key is not valid; that it has ended only to who has its secret."""
        known = self._known
        key = None if known is None else known.keys.get(parsed[0]) or known.ended.get(parsed[0])
        if key is None or not tokens.matches(parsed[1], key.digest):
            return "the API key is not valid: there is none like it"
        ended = key.expires_at if key.revoked_at is None else key.revoked_at
        how = "expired" if key.revoked_at is None else "was revoked"
        at = "" if ended is None else f" at {datetime.fromtimestamp(ended, UTC):%Y-%m-%d %H:%M:%S} UTC"
        return f"the API key is not valid: it {how}{at}"

    def _matching(self, known: _Known, parsed: tuple[str, bytes]) -> ApiKey | None:
        key = self._live(known, parsed[0])
        return key if key is not None and tokens.matches(parsed[1], key.digest) else None

    @staticmethod
    def _live(known: _Known, key_id: str) -> ApiKey | None:
        key = known.keys.get(key_id)
        if key is None or (key.expires_at is not None and key.expires_at <= time.monotonic() + known.clock):
            return None
        return key

    async def _look_since(self, since: float) -> _Known:
        """Start a look, unless there is one, where the last one began before this monotonic time, and wait for it; also
        where that was LOOK_SECONDS ago, without waiting."""
        for _ in range(2):  # the look that is under way may have begun too early
            known, now = self._known, time.monotonic()
            late = known is None or known.at < since
            if self._look is None and (known is None or late or now - known.at > LOOK_SECONDS):
                self._look = asyncio.create_task(self._look_again())
            if known is not None and (not late or now < self._impatient_until):
                break
            assert self._look is not None
            _, slow = await asyncio.wait({self._look}, timeout=PATIENCE_SECONDS)
            if slow:
                self._impatient_until = time.monotonic() + LOOK_SECONDS
        known = self._known
        if known is None or (known.any_ever and time.monotonic() - known.at > STALE_SECONDS):
            raise UnavailableError("the database does not answer, so API keys cannot be checked")
        return known

    async def _looked_after(self, now: float, known: _Known) -> _Known:
        """Return keys of a look that began after this monotonic time, and UNKNOWN_SECONDS after the one before it,
        however many wait for it; older ones where the database does not answer. known: those of the last look."""
        for _ in range(2):  # the look that is under way may have begun too early
            await asyncio.sleep(max(0.0, known.at + UNKNOWN_SECONDS - time.monotonic()))
            known = self._known or known
            if known.at >= now:
                break
            known = await self._look_since(math.nextafter(known.at, math.inf))
        return known

    async def _look_again(self) -> None:
        try:
            self._known = await to_thread.run_sync(self._read, self._known)
        except (UnavailableError, SQLAlchemyError) as error:  # the latter: no table, as the schema is not there yet
            self._impatient_until = time.monotonic() + LOOK_SECONDS
            log.warning("the API keys cannot be read: %s", str(error).partition("\n")[0])
        finally:
            self._look = None

    def _read(self, before: _Known | None) -> _Known:
        at = time.monotonic()
        with self._database.read() as connection:
            generation, clock = api_keys.generation(connection)
            if before is None or before.generation != generation:
                found = api_keys.live(connection)
            else:
                live = {one.id: one for one in before.keys.values() if one.expires_at is None or one.expires_at > clock}
                expired = {name: key for name, key in before.keys.items() if name not in live}
                found = LiveKeys(keys=live, ended=before.ended | expired, any_ever=before.any_ever)
        return _Known(
            keys=found.keys,
            ended=found.ended,
            any_ever=found.any_ever,
            generation=generation,
            at=at,
            clock=clock - time.monotonic(),
        )


def check_scope(key: ApiKey, scope: KeyScope) -> None:
    """Raise ForbiddenError naming the scope that the key lacks."""
    if scope not in granted(key.scopes):
        raise ForbiddenError(
            f"this API key lacks the scope `{scope}`; it has {', '.join(sorted(key.scopes))}", scope=scope
        )


def _needed(known: _Known) -> str:
    if known.keys:
        return "an API key is needed: send `Authorization: Bearer pk_..`"
    return (
        "an API key is needed, and there is no valid one: create one with `pursuit keys create`, or let everybody in "
        "with PURSUIT_INSECURE=1"
    )
