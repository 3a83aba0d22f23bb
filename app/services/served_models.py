"""Do all models load that aliases mean, and predict what they did when they were stored? Each version is asked once."""

import logging
import time

from app.database.engine import Database
from app.errors import BrokenArtefactError, UnavailableError
from app.services.predict.registry import ModelRegistry
from app.storage import catalog
from app.storage.catalog import Version

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""Seconds that one look goes on with models that it has not seen yet; the next one takes the others."""
RETRY_SECONDS = 30.0
"""Seconds that a model that failed is taken to fail."""
TOLD_MODELS = 3


class ServedModels:
    """Check of the models that aliases mean. For one thread at a time."""

    def __init__(self, database: Database, registry: ModelRegistry) -> None:
        self._database = database
        self._registry = registry
        self._generation: int | None = None
        self._good: set[str] = set()
        self._failed: dict[str, tuple[float, str]] = {}
        self._complete = False

    def find_error(self) -> UnavailableError | None:
        """Look at the models that are new since the last look; return what is wrong with those that are served.

        Damaged files are no fault of this process: they come into quarantine, and older versions are served.
        UnavailableError where database or store do not answer.
        """
        until = time.monotonic() + LOOK_SECONDS
        with self._database.read() as connection:
            generation = catalog.generation(connection)
            if generation == self._generation and not self._failed:
                return None
            served = catalog.served(connection)
        all_seen = True
        for version in served:
            if time.monotonic() < until:
                self._look(version)
            else:
                all_seen = all_seen and self._is_known(version)
        keys = {version.artefact for version in served}
        self._good &= keys
        self._failed = {key: failure for key, failure in self._failed.items() if key in keys}
        if all_seen:
            self._generation, self._complete = generation, True
        if self._failed:
            told = "; ".join(message for _, message in list(self._failed.values())[:TOLD_MODELS])
            more = f"; and {len(self._failed) - TOLD_MODELS} more" if len(self._failed) > TOLD_MODELS else ""
            return UnavailableError(f"models that are served do not load here: {told}{more}")
        if not self._complete:
            return UnavailableError("the models that are served are still being checked")
        return None

    def _is_known(self, version: Version) -> bool:
        return version.artefact in self._good or version.artefact in self._failed

    def _look(self, version: Version) -> None:
        key = version.artefact
        at, _ = self._failed.get(key, (0.0, ""))
        if key in self._good or (at and time.monotonic() - at < RETRY_SECONDS):
            return
        try:
            self._registry.verify(version)
        except BrokenArtefactError as error:
            log.error("%s does not load: %s", version.reference, error)
            self._failed[key] = time.monotonic(), f"{version.reference}: {error}"
        else:
            self._good.add(key)
            self._failed.pop(key, None)
