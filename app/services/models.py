"""Published models: what there is, what a version knows of itself, aliases, deletion."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

from app.database.engine import Database
from app.errors import NotFoundError
from app.services.effects import average_effects
from app.services.export.forms import Form, export
from app.services.importance import Importance, importance
from app.services.keys.caller import ANYBODY, Caller
from app.services.model_report import report_page
from app.storage import artefact, catalog
from app.storage.artefact import PREDICTED_ROWS, ModelArtefact
from app.storage.audit import AuditAction
from app.storage.blobs import BlobStore
from app.storage.catalog import Model, Version


class Models:
    """The catalogue as the API shows it and changes it."""

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        self._database = database
        self._blobs = blobs

    def page(
        self, *, limit: int, cursor: str | None, only: Collection[str] | None = None
    ) -> tuple[Sequence[Model], str | None]:
        """Models by name (`only` these), and the cursor of the next page (None at the end)."""
        with self._database.read() as connection:
            return catalog.list_models(connection, limit=limit, cursor=cursor, only=only)

    def get(self, name: str, *, limit: int, cursor: str | None) -> tuple[Model, Sequence[Version], str | None]:
        """A model with a page of its versions, the newest first. Raises NotFoundError."""
        with self._database.read() as connection:
            found = catalog.get_model(connection, name)
            versions, following = catalog.list_versions(connection, name, limit=limit, cursor=cursor)
            return found, versions, following

    def version(self, name: str, version: int, target: str | None = None) -> tuple[Version, ModelArtefact]:
        """A version with all its artefact says of a target, by default the first. Raises NotFoundError,
        BrokenArtefactError."""
        found, data = self.artefact(name, version)
        return found, artefact.load(data).of_target(target)

    def predicted_rows(self, name: str, version: int, target: str | None = None) -> tuple[Version, dict[str, Any]]:
        """Return rows that a version had not seen, as it predicted them, with its target's name. Raises NotFoundError,
        also for a version of a release that kept none."""
        found, model = self.version(name, version, target)
        rows = model.report.get(PREDICTED_ROWS)
        if rows is None:
            raise NotFoundError(
                f"no held-out rows are kept with version {version} of {name!r}, which an earlier release trained: "
                "train it again to have them"
            )
        return found, {**rows, "name": model.schema["target"]}

    def importance(self, name: str, version: int, target: str | None = None) -> tuple[Version, Importance]:
        """Return how far each feature moves a version's mean. Raises NotFoundError, BrokenArtefactError."""
        found, model = self.version(name, version, target)
        return found, importance(model)

    def report(self, name: str, version: int, target: str | None = None) -> str:
        """Return a version's report as an HTML page. Raises as `version` does."""
        found, model = self.version(name, version, target)
        about = {"model": found.model, "version": found.version, "aliases": found.aliases}
        created = datetime.fromtimestamp(found.created_at, UTC)
        return report_page(model, about | {"created_at": f"{created:%Y-%m-%d %H:%M} UTC"})

    def effects(self, name: str, version: int, target: str | None = None) -> tuple[Version, dict[str, Any]]:
        """Return the average effect of each feature of a version. Raises NotFoundError, BrokenArtefactError."""
        found, model = self.version(name, version, target)
        return found, average_effects(model)

    def artefact(self, name: str, version: int) -> tuple[Version, bytes]:
        """A version's artefact as it is stored. Raises NotFoundError."""
        with self._database.read() as connection:
            found = catalog.get_version(connection, name, version)
        return found, self._blobs.read(found.artefact)

    def exported(
        self, name: str, version: int, form: Form, level: float | None = None, target: str | None = None
    ) -> tuple[Version, bytes]:
        """Return a version in a form, with intervals of a level. Raises NotFoundError; InvalidRequestError that says
        what of the model the form does not express."""
        found, data = self.artefact(name, version)
        return found, export(data, form, label=f"{found.model}@{found.version}", level=level, target=target)

    def put_alias(self, name: str, alias: str, version: int, *, caller: Caller = ANYBODY) -> Version:
        """Point an alias at a version. Raises NotFoundError, InvalidRequestError for a name that is none."""
        with self._database.write() as connection:
            found = catalog.put_alias(connection, model=name, alias=alias, version=version)
            caller.record(connection, AuditAction.SET_ALIAS, f"{name}@{alias}", version=version)
            return found

    def delete_alias(self, name: str, alias: str, *, caller: Caller = ANYBODY) -> None:
        """Remove an alias. Raises NotFoundError; ConflictError for `latest`."""
        with self._database.write() as connection:
            catalog.delete_alias(connection, model=name, alias=alias)
            caller.record(connection, AuditAction.DELETE_ALIAS, f"{name}@{alias}")

    def delete_version(self, name: str, version: int, *, force: bool, caller: Caller = ANYBODY) -> None:
        """Delete a version.

        Raises NotFoundError; ConflictError where an alias other than `latest` points at it, unless forced.
        """
        with self._database.write() as connection:
            catalog.delete_version(connection, model=name, version=version, force=force)
            caller.record(connection, AuditAction.DELETE_VERSION, f"{name}@{version}")

    def delete_model(self, name: str, *, force: bool, caller: Caller = ANYBODY) -> None:
        """Delete a model.

        Raises NotFoundError; ConflictError where it has aliases other than `latest`, unless forced.
        """
        with self._database.write() as connection:
            catalog.delete_model(connection, model=name, force=force)
            caller.record(connection, AuditAction.DELETE_MODEL, name)
