"""Predictions: from a reference to a loaded model, from rows to means and intervals.

Loaded models are kept in memory by the content key of their artefact, the least recently used go first. What a
reference means is remembered for as long as the catalogue stays as it is, which every request asks the database
(`app.services.predict.generations`): no answer is of an older version than anybody had seen when the request began.
Only while the database does not answer, what was known last goes on being served.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from anyio import to_thread
from numpy.typing import NDArray

from app.database.engine import Database
from app.errors import BrokenArtefactError, InvalidRequestError, MalformedError, NotFoundError, UnavailableError
from app.services.predict.coalescing import Coalescer
from app.services.predict.generations import Generations, generations_of
from app.services.predict.row_decoder import RowReader
from app.storage import artefact, catalog
from app.storage.blobs import BlobStore
from app.tables import Limits, Schema, read_table
from core.errors import CoreError, MeanOnlyError
from core.numeric.workspace import Workspace
from core.predict.model import ModelPredictor

log = logging.getLogger(__name__)

FRESH_SECONDS = 0.5
"""Seconds for which a reference is taken to mean what it meant where the catalogue's generation is the same: a worker
of an older release publishes without raising it. And so long a database that did not answer is not waited for again."""

INTERVAL = 0.95
"""Where no other was asked for."""

EXTRAS = ("latent_std", "median", "support")
"""Arrays that a request may ask for by name."""

MOST_LEVELS = 100
"""Levels or quantiles of one request."""

OWN_BYTES = 100_000
"""What a loaded model holds beside its arrays, about: its columns and what reads them."""

_MOST_REFERENCES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedModel:
    """A model ready to predict. size: bytes it holds in memory, about."""

    schema: Schema
    predictor: ModelPredictor
    rows: RowReader
    size: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Served:
    """What a reference means now."""

    name: str
    version: int
    model: LoadedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a prediction is to hold: intervals of these levels (None: nobody asked, INTERVAL will do), quantiles of
    these probabilities, extra arrays; or the mean alone, which is had for a tenth of the time or less.

    Raises InvalidRequestError naming the field.
    """

    levels: tuple[float, ...] | None = None
    quantiles: tuple[float, ...] = ()
    include: frozenset[str] = frozenset()
    mean_alone: bool = False

    def __post_init__(self) -> None:
        if self.mean_alone and (self.levels is not None or self.quantiles or self.include):
            raise InvalidRequestError("interval: false asks for the mean alone; leave out `quantiles` and `include`")
        for name, values in (("interval", self.levels or ()), ("quantiles", self.quantiles)):
            if len(values) > MOST_LEVELS:
                raise InvalidRequestError(f"{name}: at most {MOST_LEVELS} at once, got {len(values)}")
            if len(set(values)) < len(values):
                raise InvalidRequestError(f"{name}: every level once, got {', '.join(map(repr, values))}")
            for value in values:
                if not 0.0 < value < 1.0:
                    raise InvalidRequestError(f"{name}: expected a probability above 0 and below 1, got {value!r}")
        unknown = sorted(self.include - set(EXTRAS))
        if unknown:
            raise InvalidRequestError(f"include: expected {' or '.join(EXTRAS)}, got {unknown[0]!r}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answers:
    """Predictions for new observations in the target's unit, each (m,): mean, std, an interval for each of `levels`, a
    list for each quantile, and the extra arrays asked for by name; of a model that keeps its mean alone just that."""

    mean: NDArray[np.float64]
    std: NDArray[np.float64] | None = None
    levels: tuple[float, ...] = ()
    intervals: tuple[tuple[NDArray[np.float64], NDArray[np.float64]], ...] = ()
    quantiles: tuple[NDArray[np.float64], ...] = ()
    extra: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    def rows(self, start: int, stop: int) -> "Answers":
        """Those of some of the rows."""
        return Answers(
            mean=self.mean[start:stop],
            std=None if self.std is None else self.std[start:stop],
            levels=self.levels,
            intervals=tuple((lower[start:stop], upper[start:stop]) for lower, upper in self.intervals),
            quantiles=tuple(values[start:stop] for values in self.quantiles),
            extra={name: values[start:stop] for name, values in self.extra.items()} if self.extra else self.extra,
        )


def joined(parts: Sequence[Answers]) -> Answers:
    """The answers of parts of a table, at least one, as those of the table."""
    first = parts[0]
    if len(parts) == 1:
        return first
    return Answers(
        mean=np.concatenate([part.mean for part in parts]),
        std=None if first.std is None else np.concatenate([part.std for part in parts if part.std is not None]),
        levels=first.levels,
        intervals=tuple(
            (
                np.concatenate([part.intervals[place][0] for part in parts]),
                np.concatenate([part.intervals[place][1] for part in parts]),
            )
            for place in range(len(first.intervals))
        ),
        quantiles=tuple(
            np.concatenate([part.quantiles[place] for part in parts]) for place in range(len(first.quantiles))
        ),
        extra={name: np.concatenate([part.extra[name] for part in parts]) for name in first.extra},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """Meaning of a reference, in which generation of the catalogue, and until when that holds at most."""

    version: catalog.Version
    generation: int
    until: float


class Predictions:
    """Loads, keeps and asks models. `find` is for the event loop; the rest may run in any thread."""

    def __init__(
        self, database: Database, blobs: BlobStore, *, most_models: int, most_bytes: int, limits: Limits
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._limits = limits
        self._workspace = Workspace()
        self._cache = _ModelCache(most_models, most_bytes)
        self._known: dict[str, _Known] = {}
        self._away_until = 0.0
        self._generations: Generations[Served] = generations_of(database)
        self._looks = Coalescer(self._look_apart)

    async def find(self, reference: str) -> Served:
        """Return what `name`, `name@3` or `name@alias` means, loaded: at some time after this was called.

        Raises NotFoundError, InvalidRequestError for what is no reference, BrokenArtefactError, UnavailableError.
        """
        reading = self._generations.current or await self._generations.read()
        served = reading.memo.get(reference)
        if served is not None:
            return served
        known = self._known.get(reference)
        if known is not None and self._holds(known, reading.generation):
            model = self._cache.get(known.version.artefact)
            if model is not None:
                served = Served(name=known.version.model, version=known.version.version, model=model)
                reading.memo[reference] = served
                return served
        return await self._looks.get(reference)

    def close(self) -> None:
        """Give the connection back; call it in the event loop."""
        self._generations.close()

    def _holds(self, known: _Known, generation: int | None) -> bool:
        now = time.monotonic()
        if generation is None:
            return now < self._away_until
        return known.generation == generation and now < known.until

    async def _look_apart(self, reference: str) -> Served:
        return await to_thread.run_sync(self._look, reference)

    def _look(self, reference: str) -> Served:
        asked = time.monotonic()
        try:
            with self._database.read() as connection:
                generation = catalog.generation(connection)
                version = catalog.resolve(connection, reference)
        except UnavailableError as error:
            known = self._known.get(reference)
            if known is None:
                raise
            log.warning("serving %s as it was last known: %s", reference, error)
            self._away_until = time.monotonic() + FRESH_SECONDS
            return self._loaded(reference, known.version)
        except NotFoundError:
            self._known.pop(reference, None)
            raise
        served = self._loaded(reference, version)
        if len(self._known) >= _MOST_REFERENCES:
            self._known.clear()
        self._known[reference] = _Known(version=version, generation=generation, until=asked + FRESH_SECONDS)
        return served

    def _loaded(self, reference: str, version: catalog.Version) -> Served:
        model = self._cache.get(version.artefact)
        if model is None:
            try:
                data = self._blobs.read(version.artefact)
            except NotFoundError as error:  # not the client's fault: another process may have the right store
                raise UnavailableError(f"{reference} cannot be loaded: {error.message}") from error
            model = load_model(data, self._workspace)
            self._cache.put(version.artefact, model)
        return Served(name=version.model, version=version.version, model=model)

    def read_table(self, served: Served, body: bytes) -> NDArray[np.float64]:
        """A file of any format to the model's inputs (m, p)."""
        schema = served.model.schema
        table = read_table(
            body,
            limits=self._limits,
            known=schema.names,
            least_columns=1,
            sheet=schema.read_options.sheet,
            sheet_wanted=False,
        )
        return schema.encode_table(table)


def load_model(data: bytes, workspace: Workspace | None = None) -> LoadedModel:
    """An artefact's bytes made ready to predict, in memory that models may share. Raises BrokenArtefactError."""
    stored = artefact.load(data)
    try:
        schema = Schema.from_json(stored.schema)
    except MalformedError as error:
        raise BrokenArtefactError(f"the artefact's columns cannot be read: {error}") from error
    inputs = stored.posterior.basis.shape[1]
    if schema.width != inputs:
        raise BrokenArtefactError(f"the artefact's columns make {schema.width} inputs, its model has {inputs}")
    try:
        predictor = ModelPredictor(stored.model(), workspace)
    except CoreError as error:
        raise BrokenArtefactError(f"the artefact's arrays do not make a model: {error}") from error
    size = predictor.nbytes + OWN_BYTES
    return LoadedModel(schema=schema, predictor=predictor, rows=RowReader(schema), size=size)


def predict(model: LoadedModel, inputs: NDArray[np.float64], wanted: Wanted, first: int = 0) -> Answers:
    """Mean, intervals and what else is wanted for each row; the mean alone where the model keeps no more.

    first: the number of the first row, for refusals.
    Raises InvalidRequestError for rows so extreme that the result is not a finite number, and for what this model
    cannot say; MeanOnlyError for error bars that it does not have; UnsupportedLevelError for levels beyond its
    calibration.
    """
    mean_only = model.predictor.mean_only
    with np.errstate(over="ignore", invalid="ignore"):  # looked for below
        if mean_only and (wanted.levels is not None or wanted.quantiles or wanted.include):
            raise MeanOnlyError
        if mean_only or wanted.mean_alone:
            answers = Answers(mean=model.predictor.mean(inputs))
        else:
            answers = _answers(model.predictor, inputs, wanted)
    ends = [end for interval in answers.intervals for end in interval]
    arrays = [answers.mean, *ends, *answers.quantiles, *answers.extra.values()]
    finite = np.logical_and.reduce([np.isfinite(array) for array in arrays])
    if answers.std is not None:
        finite &= np.isfinite(answers.std)
    if not finite.all():
        row = first + int(np.flatnonzero(~finite)[0])
        raise InvalidRequestError(f"row {row}: its numbers are so large that the prediction is not a finite number")
    return answers


def _answers(predictor: ModelPredictor, inputs: NDArray[np.float64], wanted: Wanted) -> Answers:
    if "support" in wanted.include and predictor.predictor.reduced:
        raise InvalidRequestError("include: a model of `sor` knows no support: its prior ends where its basis does")
    found = predictor.predict(inputs)
    mean, variance = found.target.moments()
    levels = (INTERVAL,) if wanted.levels is None else wanted.levels
    extra = {}
    if "latent_std" in wanted.include:
        extra["latent_std"] = np.sqrt(found.latent.moments()[1])
    if "median" in wanted.include:
        extra["median"] = found.target.quantile(0.5)
    if "support" in wanted.include:
        extra["support"] = found.support
    return Answers(
        mean=mean,
        std=np.sqrt(variance),
        levels=levels,
        intervals=tuple(found.target.interval(level) for level in levels),
        quantiles=tuple(found.target.quantile(probability) for probability in wanted.quantiles),
        extra=extra,
    )


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
