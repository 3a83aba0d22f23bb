"""Import of a version: an artefact that was trained elsewhere, checked in every part before it is published."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from app.database.engine import Database
from app.errors import BrokenArtefactError, InvalidRequestError, MalformedError
from app.identifiers import check_name
from app.services.artefact_checks import check_header, check_model, differing_field, read_header, refuse
from app.services.keys.caller import ANYBODY, Caller
from app.services.predict.loaded_model import LoadedModel, prepare_model
from app.services.predict.options import DEFAULT_OPTIONS, PredictOptions
from app.services.predict.run import answer_arrays
from app.services.targets_checks import check_file, check_together, refuse_part
from app.storage import artefact, catalog
from app.storage.artefact import ModelArtefact
from app.storage.artefact_document import TARGETS, read_document, text_of
from app.storage.audit import AuditAction
from app.storage.blobs import MODELS, BlobStore
from app.storage.catalog import Version
from app.storage.several_artefact import parts_of
from app.tables import Schema
from core.errors import CoreError

PROBED_ROWS = 8
"""Basis vectors that are predicted before a model is taken."""
MAX_BYTES = 512 << 20
"""Bytes that an artefact of several targets may unfold to, where nothing else is said."""
_PROBE = PredictOptions(
    levels=(0.5, 0.95, 0.999), quantiles=(0.1,), include=frozenset({"latent_std", "median"}), one_interval=False
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtefactImport:
    """The service. max_basis_size: the largest basis of a compact model, whose expansion takes the square of it;
    max_bytes: the most that an artefact of several targets unfolds to."""

    database: Database
    blobs: BlobStore
    max_basis_size: int
    max_bytes: int

    def add(self, model: str, path: Path, *, caller: Caller = ANYBODY) -> tuple[Version, ModelArtefact]:
        """Publish the artefact in a file as the next version of a model, which may be new. Memory: some times the file.

        Raises MalformedError for a file of another format, InvalidRequestError naming what is wrong, TooLargeError.
        """
        check_name(model)
        data = path.read_bytes()
        if caller.has_byte_limit:  # before it is in the store
            with self.database.read() as connection:
                caller.check_bytes(connection, len(data))
        stored = check_artefact(data, max_basis_size=self.max_basis_size, max_bytes=self.max_bytes)
        key = self.blobs.put(MODELS, ".safetensors", data)
        with self.database.write() as connection:
            caller.hold(connection)
            version = catalog.publish(
                connection,
                model=model,
                artefact=key,
                size=len(data),
                job_id=None,
                summary=artefact.summary_of(stored.report),
                owner=caller.owner,
            )
            caller.check_bytes(connection)
            caller.record(connection, AuditAction.IMPORT, f"{model}@{version.version}")
        return version, stored


def check_artefact(data: bytes, *, max_basis_size: int, max_bytes: int = MAX_BYTES) -> ModelArtefact:
    """Return the artefact in these bytes, every part of it checked. max_bytes: of the tensors of all targets of one of
    several. Raises as `ArtefactImport.add`."""
    header, document = read_header(data)
    if TARGETS not in document:
        stored = _check_model(data, max_basis_size=max_basis_size)
        refuse_part(stored)
        with _told():
            artefact.verify(data)
        return stored
    check_file(data, header, document, max_bytes=max_bytes)
    models = []
    with _told():
        for place, part in enumerate(parts_of(data, check_digest=False)):
            with _of_target(place):
                models.append(_check_model(part, max_basis_size=max_basis_size))
                artefact.verify(part)
        check_together(models)
        stored = replace(models[0], others=tuple(models[1:]))
        with np.errstate(all="ignore"):
            _probe(prepare_model(stored), stored)
    return stored


def _check_model(data: bytes, *, max_basis_size: int) -> ModelArtefact:
    """Check all of an artefact of one target but its digest, which is the last thing."""
    check_header(data)
    with _told(), np.errstate(all="ignore"):  # what is not finite is looked for
        stored = artefact.load(data, check_digest=False)
        schema = Schema.from_json(stored.schema)
        check_model(stored, schema, max_basis_size=max_basis_size)
        _check_document(stored, data)
        _probe(prepare_model(stored), stored)
    return stored


@contextmanager
def _told() -> Iterator[None]:
    """Make of what an artefact can be wrong by a refusal."""
    try:
        yield
    except (BrokenArtefactError, MalformedError, CoreError) as error:
        raise InvalidRequestError(str(error)) from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise InvalidRequestError(f"the artefact does not make a model: {error!r:.500}") from error


@contextmanager
def _of_target(place: int) -> Iterator[None]:
    """Say of which target a refusal is."""
    where = f"{TARGETS}[{place}]"
    try:
        yield
    except (BrokenArtefactError, MalformedError, InvalidRequestError) as error:
        faults = [replace(fault, column=f"{where}.{fault.column}" if fault.column else where) for fault in error.faults]
        raise InvalidRequestError(f"{where}: {error.message}", faults) from error


def _check_document(stored: ModelArtefact, data: bytes) -> None:
    """Refuse fields of the calibration and the transform that nothing reads."""
    document = read_document(text_of(data))
    for name, read in (("calibration", stored.calibration), ("transform", stored.transform)):
        if differing := differing_field(document[name], read.to_json(), name):
            refuse(differing, "unknown field, or a value that is written otherwise than here")


def _probe(model: LoadedModel, stored: ModelArtefact) -> None:
    """Predict some of the model's own basis vectors, and one with a missing cell where it takes them."""
    rows = np.array(stored.posterior.basis[:PROBED_ROWS])
    if model.integrated is not None:
        incomplete = rows[:1].copy()
        for feature, block in zip(model.schema.used, model.schema.blocks, strict=True):
            if feature.integrate:
                incomplete[:, block] = np.nan
                break
        rows = np.concatenate([rows, incomplete])
    try:
        answer_arrays(model, rows, DEFAULT_OPTIONS if model.predictor.mean_only else _PROBE)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"predictions of the model's own basis vectors fail: {error.message}") from error
