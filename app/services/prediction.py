"""Predictions: from a reference to a loaded model, from rows to means and intervals.

Loaded models are kept in memory by the content key of their artefact, the least recently used go first. What a
reference means is looked up in the database at most twice a second; while the database does not answer, what was
known last goes on being served.
"""

import asyncio
import logging
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from anyio import to_thread
from numpy.typing import NDArray

from app.database import Database
from app.errors import BrokenArtefactError, InvalidRequestError, MalformedError, UnavailableError
from app.services.npy import NPY, read_npy
from app.services.rows import RowReader
from app.storage import artefact, catalog
from app.storage.blobs import BlobStore
from app.tables import Limits, Schema, read_table
from core.metrics import interval_factor
from core.prediction import Predictor

log = logging.getLogger(__name__)

FRESH_SECONDS = 0.5
"""For so long a reference is taken to mean what it meant."""

_MOST_REFERENCES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedModel:
    """A model ready to predict. size: bytes it holds in memory, about."""

    schema: Schema
    predictor: Predictor
    rows: RowReader
    size: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Served:
    """What a reference means now."""

    name: str
    version: int
    model: LoadedModel


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Intervals:
    """Predictions for new observations in the target's unit, each (m,); latent_std only if it was asked for."""

    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    latent_std: NDArray[np.float64] | None


@dataclass(slots=True, kw_only=True)
class _Known:
    version: catalog.Version
    until: float


class Predictions:
    """Loads, keeps and asks models. `find` is for the event loop; the rest may run in any thread."""

    def __init__(
        self, database: Database, blobs: BlobStore, *, most_models: int, most_bytes: int, limits: Limits
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._limits = limits
        self._cache = _ModelCache(most_models, most_bytes)
        self._known: dict[str, _Known] = {}
        self._looking: dict[str, asyncio.Task[Served]] = {}

    async def find(self, reference: str) -> Served:
        """What `name`, `name@3` or `name@alias` means, loaded. Costs nothing but a dictionary look-up when it is fresh.

        Raises NotFoundError, InvalidRequestError for what is no reference, BrokenArtefactError, UnavailableError.
        """
        known = self._known.get(reference)
        if known is not None and time.monotonic() < known.until:
            model = self._cache.get(known.version.artefact)
            if model is not None:
                return Served(name=known.version.model, version=known.version.version, model=model)
        looking = self._looking.get(reference)
        if looking is None:
            looking = asyncio.create_task(to_thread.run_sync(self._look, reference))
            self._looking[reference] = looking
            looking.add_done_callback(lambda _: self._looking.pop(reference, None))
        return await asyncio.shield(looking)

    def forget(self) -> None:
        """Look every reference up again: an alias or a version was changed here."""
        self._known.clear()

    def _look(self, reference: str) -> Served:
        asked = time.monotonic()
        try:
            with self._database.read() as connection:
                version = catalog.resolve(connection, reference)
        except UnavailableError as error:
            known = self._known.get(reference)
            if known is None:
                raise
            log.warning("serving %s as it was last known: %s", reference, error)
            version = known.version
        if len(self._known) >= _MOST_REFERENCES:
            self._known.clear()
        model = self._cache.get(version.artefact)
        if model is None:
            model = load_model(self._blobs.read(version.artefact))
            self._cache.put(version.artefact, model)
        self._known[reference] = _Known(version=version, until=asked + FRESH_SECONDS)
        return Served(name=version.model, version=version.version, model=model)

    def read_table(self, served: Served, body: bytes) -> NDArray[np.float64]:
        """A file of any format to the model's inputs (m, p)."""
        schema = served.model.schema
        if body.startswith(NPY):
            return schema.encode_rows(read_npy(body).tolist())
        return schema.encode_table(read_table(body, limits=self._limits, known=schema.names, least_columns=1))


def load_model(data: bytes) -> LoadedModel:
    """An artefact's bytes made ready to predict. Raises BrokenArtefactError."""
    stored = artefact.load(data)
    try:
        schema = Schema.from_json(stored.schema)
    except MalformedError as error:
        raise BrokenArtefactError(f"the artefact's columns cannot be read: {error}") from error
    inputs = stored.posterior.basis.shape[1]
    if schema.width != inputs:
        raise BrokenArtefactError(f"the artefact's columns make {schema.width} inputs, its model has {inputs}")
    return LoadedModel(schema=schema, predictor=Predictor(stored.posterior), rows=RowReader(schema), size=3 * len(data))


def predict(model: LoadedModel, inputs: NDArray[np.float64], *, interval: float, latent: bool = False) -> Intervals:
    """Mean and interval for each row. interval: the probability that a new observation lies inside, above 0, below 1.

    Raises InvalidRequestError for rows so extreme that the result is not a finite number.
    """
    if not 0.0 < interval < 1.0:
        raise InvalidRequestError(f"interval: expected a probability above 0 and below 1, got {interval!r}")
    with np.errstate(over="ignore", invalid="ignore"):  # looked for below
        found = model.predictor.predict(inputs)
    std = np.sqrt(found.target_variance)
    half = interval_factor(interval) * std
    lower, upper = found.mean - half, found.mean + half
    finite = np.isfinite(lower) & np.isfinite(upper) & np.isfinite(std)
    if not finite.all():
        row = int(np.flatnonzero(~finite)[0])
        raise InvalidRequestError(f"row {row}: its numbers are so large that the prediction is not a finite number")
    latent_std = np.sqrt(found.latent_variance) if latent else None
    return Intervals(mean=found.mean, std=std, lower=lower, upper=upper, latent_std=latent_std)


class _ModelCache:
    """Least recently used models by artefact key, bounded by count and bytes; the newest always stays."""

    def __init__(self, most_models: int, most_bytes: int) -> None:
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
