"""The catalogue of models: immutable versions, and aliases that point at them.

A version's number is given once: not again after the version, nor after the whole model, is deleted, so `name@3`
never changes meaning. For that the row in `models` stays when all versions are gone; a model exists while it has a
version. Everything that changes a model locks its row first, and raises the catalogue's generation last. Functions take
an open connection, so that a version is published in the transaction that ends its job; those that change something
need `Database.write()`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Connection,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    String,
    Table,
    UniqueConstraint,
    delete,
    func,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from app.database import metadata, now
from app.errors import ConflictError, InvalidRequestError, NotFoundError

LATEST = "latest"
"""The alias that every publication moves."""
CHAMPION = "champion"
"""The alias that a plain model name means, once somebody has set it."""
LARGEST_PAGE = 500
_LARGEST_VERSION = 2**31 - 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

models = Table(
    "models",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("next_version", Integer, nullable=False),
    Column("created_at", Double, nullable=False),
)
versions = Table(
    "versions",
    metadata,
    Column("model", String(64), ForeignKey(models.c.name), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("artefact", String(255), nullable=False),
    Column("job_id", String(36)),
    Column("size", BigInteger, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("summary", JSON, nullable=False),
    UniqueConstraint("job_id"),
    Index(None, "artefact"),
)
aliases = Table(
    "aliases",
    metadata,
    Column("model", String(64), primary_key=True),
    Column("alias", String(64), primary_key=True),
    Column("version", Integer, nullable=False),
    ForeignKeyConstraint(["model", "version"], [versions.c.model, versions.c.version]),
)
catalogue = Table(
    "catalogue",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("generation", BigInteger, nullable=False),
)
GENERATION_SQL = "SELECT generation FROM catalogue"
"""How often the catalogue was changed; no row: never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One published model. artefact: its key in the store; size: bytes; summary: what lists show of it;
    created_at: epoch.

    job_id is None for an imported one. `aliases` are those that point at it now, sorted.
    """

    model: str
    version: int
    artefact: str
    job_id: str | None
    size: int
    created_at: float
    summary: Mapping[str, Any]
    aliases: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A name with how many versions it has, its newest one, and its aliases with the version each points
    at.
    """

    name: str
    created_at: float
    versions: int
    newest: Version
    aliases: Mapping[str, int]


def check_name(name: str, what: str = "model") -> str:
    """The name, if models and aliases may be called so; InvalidRequestError."""
    if not _NAME.fullmatch(name):
        raise InvalidRequestError(
            f"{what}: expected 1 to 64 letters, digits, '.', '_' or '-' beginning with a letter or digit, "
            f"got {name[:80]!r}"
        )
    return name


def publish(
    connection: Connection,
    *,
    model: str,
    artefact: str,
    size: int,
    job_id: str | None,
    summary: Mapping[str, Any],
) -> Version:
    """A new version under the next number; the alias `latest` moves to it.

    A job publishes once: a second call for the same `job_id` gives the version of the first.
    """
    check_name(model)
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    row = insert(models).values(name=model, next_version=1, created_at=now())
    connection.execute(row.on_conflict_do_nothing())
    number = connection.execute(
        update(models)
        .where(models.c.name == model)
        .values(next_version=models.c.next_version + 1)
        .returning(models.c.next_version - 1)
    ).scalar_one()
    added = connection.execute(
        insert(versions)
        .values(
            model=model,
            version=number,
            artefact=artefact,
            job_id=job_id,
            size=size,
            created_at=now(),
            summary=dict(summary),
        )
        .on_conflict_do_nothing(index_elements=[versions.c.job_id])
        .returning(versions.c.version)
    ).one_or_none()
    if added is None:
        earlier = connection.execute(select(versions).where(versions.c.job_id == job_id)).one()
        return _version(connection, earlier)
    _point(connection, model, LATEST, number)
    _changed(connection)
    return get_version(connection, model, number)


def generation(connection: Connection) -> int:
    """How often the catalogue was changed. What is read after it in the same transaction is at least as new."""
    return connection.execute(select(catalogue.c.generation)).scalar() or 0


def resolve(connection: Connection, reference: str) -> Version:
    """What `name`, `name@3` or `name@alias` means now; a plain name is `champion` if set, else `latest`.

    NotFoundError names what is missing, InvalidRequestError what is no reference.
    """
    name, at, which = reference.partition("@")
    check_name(name)
    if not at:
        pointed = _aliases(connection, name)
        which = CHAMPION if CHAMPION in pointed else LATEST
    elif which.isascii() and which.isdigit():
        return get_version(connection, name, int(which))
    check_name(which, "alias")
    query = select(versions).join(
        aliases, (aliases.c.model == versions.c.model) & (aliases.c.version == versions.c.version)
    )
    row = connection.execute(query.where(aliases.c.model == name, aliases.c.alias == which)).one_or_none()
    if row is None:
        known = get_model(connection, name).aliases
        raise NotFoundError(f"model {name!r} has no alias {which!r}; it has {', '.join(sorted(known))}")
    return _version(connection, row)


def get_version(connection: Connection, model: str, version: int) -> Version:
    """NotFoundError if there is none."""
    row = None
    if 0 < version <= _LARGEST_VERSION and _NAME.fullmatch(model):
        query = select(versions).where(versions.c.model == model, versions.c.version == version)
        row = connection.execute(query).one_or_none()
    if row is None:
        newest = get_model(connection, model).newest.version
        raise NotFoundError(f"model {model!r} has no version {version}; the newest is {newest}")
    return _version(connection, row)


def get_model(connection: Connection, name: str) -> Model:
    """NotFoundError if there is none (or all its versions are deleted)."""
    known = _NAME.fullmatch(name) is not None
    found = _models(connection, select(models).where(models.c.name == name)) if known else []
    if not found:
        raise NotFoundError(f"no model {name!r}")
    return found[0]


def list_models(
    connection: Connection, *, limit: int = 50, cursor: str | None = None
) -> tuple[list[Model], str | None]:
    """By name, with the cursor of the next page (None at the end)."""
    _check_limit(limit)
    exists = select(versions.c.version).where(versions.c.model == models.c.name).exists()
    query = select(models).where(exists).order_by(models.c.name).limit(limit + 1)
    if cursor is not None:
        if not _NAME.fullmatch(cursor):
            raise InvalidRequestError(f"cursor: expected one from an earlier page, got {cursor!r}")
        query = query.where(models.c.name > cursor)
    found = _models(connection, query)
    return found[:limit], found[limit - 1].name if len(found) > limit else None


def list_versions(
    connection: Connection, model: str, *, limit: int = 50, cursor: str | None = None
) -> tuple[list[Version], str | None]:
    """Newest first, with the cursor of the next page (None at the end); NotFoundError without such a model."""
    _check_limit(limit)
    get_model(connection, model)
    query = select(versions).where(versions.c.model == model).order_by(versions.c.version.desc()).limit(limit + 1)
    if cursor is not None:
        if not (cursor.isascii() and cursor.isdigit() and int(cursor) <= _LARGEST_VERSION):
            raise InvalidRequestError(f"cursor: expected one from an earlier page, got {cursor!r}")
        query = query.where(versions.c.version < int(cursor))
    pointed = _aliases(connection, model)
    found = [_as_version(row, pointed) for row in connection.execute(query)]
    return found[:limit], str(found[limit - 1].version) if len(found) > limit else None


def put_alias(connection: Connection, *, model: str, alias: str, version: int) -> Version:
    """Point an alias at a version: promote or roll back. NotFoundError; InvalidRequestError for a name like
    `3`.
    """
    check_name(alias, "alias")
    if alias.isdigit():
        raise InvalidRequestError(f"alias: {alias!r} would read as a version number")
    _lock(connection, model)
    get_version(connection, model, version)
    _point(connection, model, alias, version)
    _changed(connection)
    return get_version(connection, model, version)


def delete_alias(connection: Connection, *, model: str, alias: str) -> None:
    """NotFoundError if there is none; ConflictError for `latest`, which every model has."""
    if alias == LATEST:
        raise ConflictError("the alias 'latest' cannot be deleted: every model has it")
    _lock(connection, model)
    get_model(connection, model)
    if alias not in _aliases(connection, model):
        raise NotFoundError(f"model {model!r} has no alias {alias!r}")
    connection.execute(delete(aliases).where(aliases.c.model == model, aliases.c.alias == alias))
    _changed(connection)


def delete_version(connection: Connection, *, model: str, version: int, force: bool = False) -> None:
    """Delete one version; `latest` falls back to the newest that is left. Its bytes are left to the sweep.

    ConflictError if another alias points at it, unless forced: then those aliases go too. NotFoundError.
    """
    _lock(connection, model)
    found = get_version(connection, model, version)
    held = [alias for alias in found.aliases if alias != LATEST]
    if held and not force:
        raise ConflictError(_held(f"version {version} of model {model!r}", held))
    connection.execute(delete(aliases).where(aliases.c.model == model, aliases.c.version == version))
    connection.execute(delete(versions).where(versions.c.model == model, versions.c.version == version))
    if LATEST in found.aliases:
        newest = select(func.max(versions.c.version)).where(versions.c.model == model)
        left = connection.execute(newest).scalar_one()
        if left is not None:
            _point(connection, model, LATEST, left)
    _changed(connection)


def delete_model(connection: Connection, *, model: str, force: bool = False) -> None:
    """Delete all versions of a model; ConflictError if it has aliases beside `latest`, unless forced.
    NotFoundError.
    """
    _lock(connection, model)
    held = sorted(set(get_model(connection, model).aliases) - {LATEST})
    if held and not force:
        raise ConflictError(_held(f"model {model!r}", held))
    connection.execute(delete(aliases).where(aliases.c.model == model))
    connection.execute(delete(versions).where(versions.c.model == model))
    _changed(connection)


def referenced_artefacts(connection: Connection) -> set[str]:
    """The keys of all artefacts that some version needs."""
    return set(connection.execute(select(versions.c.artefact)).scalars())


def _held(what: str, held: list[str]) -> str:
    return f"{what} cannot be deleted: {', '.join(held)} points at it; move the alias or force the deletion"


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= LARGEST_PAGE:
        raise InvalidRequestError(f"limit: expected 1 to {LARGEST_PAGE}, got {limit}")


def _lock(connection: Connection, model: str) -> None:
    """Nobody else changes this model until the transaction ends; NotFoundError if there is none."""
    if not _NAME.fullmatch(model):
        raise NotFoundError(f"no model {model!r}")
    connection.execute(select(models.c.name).where(models.c.name == model).with_for_update())


def _point(connection: Connection, model: str, alias: str, version: int) -> None:
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    statement = insert(aliases).values(model=model, alias=alias, version=version)
    keys = [aliases.c.model, aliases.c.alias]
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_={"version": version}))


def _changed(connection: Connection) -> None:
    """Raise the generation. Last of all, for others who change something wait here until the transaction ends."""
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    statement = insert(catalogue).values(id=1, generation=1)
    raised = {"generation": catalogue.c.generation + 1}
    connection.execute(statement.on_conflict_do_update(index_elements=[catalogue.c.id], set_=raised))


def _aliases(connection: Connection, model: str) -> dict[str, int]:
    rows = connection.execute(select(aliases.c.alias, aliases.c.version).where(aliases.c.model == model))
    return {row.alias: row.version for row in rows}


def _models(connection: Connection, query: Any) -> list[Model]:
    result = []
    for row in connection.execute(query).all():
        pointed = _aliases(connection, row.name)
        ours = versions.c.model == row.name
        number = connection.execute(select(func.count()).where(ours)).scalar_one()
        newest = connection.execute(
            select(versions).where(ours).order_by(versions.c.version.desc()).limit(1)
        ).one_or_none()
        if newest is not None:
            result.append(
                Model(
                    name=row.name,
                    created_at=row.created_at,
                    versions=number,
                    newest=_as_version(newest, pointed),
                    aliases=pointed,
                )
            )
    return result


def _version(connection: Connection, row: Any) -> Version:
    return _as_version(row, _aliases(connection, row.model))


def _as_version(row: Any, pointed: Mapping[str, int]) -> Version:
    return Version(
        model=row.model,
        version=row.version,
        artefact=row.artefact,
        job_id=row.job_id,
        size=row.size,
        created_at=row.created_at,
        summary=row.summary,
        aliases=tuple(sorted(alias for alias, version in pointed.items() if version == row.version)),
    )
