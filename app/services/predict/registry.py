"""Registry of published models: from a reference to a loaded model.

Loaded models are kept in memory by the content key of their artefact, the least recently used go first. What a
reference means is remembered for as long as the catalogue stays as it is, which every request asks the database
(`app.services.predict.generations`): no answer is of an older version than anybody had seen when the request began.
Only while the database does not answer, what was resolved last goes on being resolved.

An artefact whose file is damaged or lost comes into quarantine, in the catalogue, where every process sees it: its
aliases then mean the newest good version before it. A request for that version itself looks at the file again.
"""

import logging
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from anyio import to_thread

from app.database.engine import Database
from app.errors import DamagedFileError, NotFoundError, UnavailableError
from app.services.predict.coalescing import Coalescer
from app.services.predict.generations import Generations, generations_of
from app.services.predict.loaded_model import LoadedModel, load_model
from app.storage import catalog
from app.storage.blobs import BlobStore, damaged_blob
from app.storage.store_identity import check_store_identity
from app.telemetry.measures import Measures
from core.numeric.workspace import Workspace

log = logging.getLogger(__name__)

FRESH_SECONDS = 0.5
"""Seconds for which a reference is taken to mean what it meant where the catalogue's generation is the same: a worker
of an older release publishes without raising it. And so long a database that did not answer is not waited for again."""

DAMAGED_SECONDS = 10.0
"""Seconds that a file that was found damaged is not read again."""

_MOST_REFERENCES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResolvedModel:
    """The version that a reference means now, loaded."""

    name: str
    version: int
    model: LoadedModel

    @property
    def reference(self) -> str:
        """Reference that never means another version."""
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resolution:
    """Meaning of a reference, in which generation of the catalogue, and until when that holds at most."""

    version: catalog.Version
    generation: int
    until: float


class ModelRegistry:
    """Resolves references to loaded models, for the requests of one event loop."""

    def __init__(
        self,
        database: Database,
        blobs: BlobStore,
        *,
        most_models: int,
        most_bytes: int,
        measures: Measures | None = None,
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._workspace = Workspace()
        self._measures = measures or Measures()
        self._cache = _ModelCache(most_models, most_bytes, self._measures)
        self._resolutions: dict[str, _Resolution] = {}
        self._unavailable_until = 0.0
        self._damaged_until: dict[str, float] = {}
        self._generations: Generations[ResolvedModel] = generations_of(database)
        self._loads = Coalescer(self._load_in_thread)

    async def resolve(self, reference: str) -> ResolvedModel:
        """Return what `name`, `name@3` or `name@alias` means, loaded: at some time after this was called.

        Raises NotFoundError, InvalidRequestError for what is no reference, BrokenArtefactError, UnavailableError.
        """
        reading = self._generations.current or await self._generations.read()
        resolved = reading.memo.get(reference)
        if resolved is not None:
            self._measures.cache_hit()
            return resolved
        resolution = self._resolutions.get(reference)
        if resolution is not None and self._is_current(resolution, reading.generation):
            model = self._cache.get(resolution.version.artefact)
            if model is not None:
                resolved = ResolvedModel(name=resolution.version.model, version=resolution.version.version, model=model)
                reading.memo[reference] = resolved
                self._measures.cache_hit()
                return resolved
        return await self._loads.get(reference)

    def verify(self, version: catalog.Version) -> None:
        """Load a version as a prediction does, and keep nothing of it; a damaged file comes into quarantine.

        Raises BrokenArtefactError for one that cannot be read or does not predict its probe row, UnavailableError.
        """
        if self._cache.get(version.artefact) is not None:
            return
        try:
            load_model(self._read(version))
        except DamagedFileError as error:
            if version.quarantined_at is None:
                with suppress(_QuarantinedError):
                    self._quarantine(version, error)
            log.error("%s is in quarantine: %s", version.reference, error.message)

    def close(self) -> None:
        """Give the connection back; call it in the event loop."""
        self._generations.close()

    def _is_current(self, resolution: _Resolution, generation: int | None) -> bool:
        now = time.monotonic()
        if generation is None:
            return now < self._unavailable_until
        return resolution.generation == generation and now < resolution.until

    async def _load_in_thread(self, reference: str) -> ResolvedModel:
        return await to_thread.run_sync(self._load, reference)

    def _load(self, reference: str) -> ResolvedModel:
        while True:
            try:
                return self._load_now(reference)
            except _QuarantinedError as damage:
                log.error("%s", damage)  # and again, for its alias may mean an older version now

    def _load_now(self, reference: str) -> ResolvedModel:
        asked = time.monotonic()
        try:
            with self._database.read() as connection:
                generation = catalog.generation(connection)
                version = catalog.resolve(connection, reference)
        except UnavailableError as error:
            resolution = self._resolutions.get(reference)
            if resolution is None:
                raise
            log.warning("serving %s as it was last known: %s", reference, error)
            self._unavailable_until = time.monotonic() + FRESH_SECONDS
            return self._load_version(reference, resolution.version)
        except NotFoundError:
            self._resolutions.pop(reference, None)
            raise
        resolved = self._load_version(reference, version)
        if len(self._resolutions) >= _MOST_REFERENCES:
            self._resolutions.clear()
        self._resolutions[reference] = _Resolution(version=version, generation=generation, until=asked + FRESH_SECONDS)
        return resolved

    def _load_version(self, reference: str, version: catalog.Version) -> ResolvedModel:
        model = self._cache.get(version.artefact)
        if model is not None:
            self._measures.cache_hit()
        else:
            self._measures.cache_miss()
            try:
                data = self._read(version)
            except DamagedFileError as error:
                if version.quarantined_at is None:
                    self._quarantine(version, error)
                raise DamagedFileError(f"{reference} cannot be loaded: {error.message}") from error
            if version.quarantined_at is not None:
                log.warning("the file of %s is whole again, its quarantine ends", version.reference)
                with self._database.write() as connection:
                    catalog.end_quarantine(connection, version.artefact)
            model = load_model(data, self._workspace)
            self._cache.put(version.artefact, model)
        return ResolvedModel(name=version.model, version=version.version, model=model)

    def _read(self, version: catalog.Version) -> bytes:
        """Return the bytes of an artefact; DamagedFileError where they are damaged, read twice, or lost."""
        key = version.artefact
        if version.quarantined_at is not None and time.monotonic() < self._damaged_until.get(key, 0.0):
            raise damaged_blob(key)
        self._damaged_until.pop(key, None)
        try:
            try:
                return self._blobs.read(key)
            except DamagedFileError:
                return self._blobs.read(key)
        except (DamagedFileError, NotFoundError) as error:
            check_store_identity(self._database, self._blobs)  # in another store every file is lost
            self._damaged_until[key] = time.monotonic() + DAMAGED_SECONDS
            raise DamagedFileError(error.message) from error

    def _quarantine(self, version: catalog.Version, error: DamagedFileError) -> NoReturn:
        with self._database.write() as connection:
            catalog.quarantine(connection, version.artefact)
        raise _QuarantinedError(f"{version.reference} is in quarantine: {error.message}") from error


class _QuarantinedError(Exception):
    """A version came into quarantine: its reference may have another meaning now."""


class _ModelCache:
    """Least recently used models by artefact key, bounded by count and bytes; the newest always stays."""

    def __init__(self, most_models: int, most_bytes: int, measures: Measures) -> None:
        self._measures = measures
        self._most_models = most_models
        self._most_bytes = most_bytes
        self._bytes = 0
        self._models: OrderedDict[str, LoadedModel] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> LoadedModel | None:
        with self._lock:
            model = self._models.get(key)
            if model is not None:
                self._models.move_to_end(key)
            return model

    def put(self, key: str, model: LoadedModel) -> None:
        with self._lock:
            old = self._models.pop(key, None)
            self._bytes += model.size - (old.size if old else 0)
            self._models[key] = model
            while len(self._models) > 1 and (len(self._models) > self._most_models or self._bytes > self._most_bytes):
                _, gone = self._models.popitem(last=False)
                self._bytes -= gone.size
            self._measures.models_loaded.set(len(self._models))
            self._measures.models_bytes.set(self._bytes)
