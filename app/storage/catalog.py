"""The catalogue of models: immutable versions, and aliases that point at them.

A version's number is given once: not again after the version, nor after the whole model, is deleted, so `name@3` never
changes meaning. For that the row in `models` stays when all versions are gone; a model exists while it has a version. A
version whose artefact was found damaged is in quarantine: its aliases mean the newest good version before it until the
file is whole again. Everything that changes a model locks its row first, and raises the catalogue's generation last.
Functions take an open connection, so that a version is published in the transaction that ends its job; those that
change something need `Database.write()`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, func, select, update

from app.database.clock import now
from app.database.tables import aliases, catalogue, models, versions
from app.database.upsert import insert_or_ignore, insert_or_update
from app.errors import ConflictError, InvalidRequestError, NotFoundError
from app.identifiers import LARGEST_VERSION, check_alias, check_name, is_name, parse_version

LATEST = "latest"
"""The alias that every publication moves."""
CHAMPION = "champion"
"""The alias that a plain model name means, once it is set."""
MAX_PAGE_SIZE = 500
"""The largest page of a list."""
GENERATION_SQL = "SELECT generation FROM catalogue"
"""The number of changes of the catalogue; no row: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One published model. artefact: its key in the store; size: bytes; summary: its entry in lists; created_at: epoch.

    job_id is None for an imported one. `aliases` are those that point at it now, sorted. quarantined_at: when the
    artefact was found damaged, epoch; None where it is whole. state: key of the state of its training, None where there
    is none.
    """

    model: str
    version: int
    artefact: str
    job_id: str | None
    size: int
    created_at: float
    summary: Mapping[str, Any]
    aliases: tuple[str, ...]
    quarantined_at: float | None = None
    state: str | None = None

    @property
    def reference(self) -> str:
        """`name@version`."""
        return f"{self.model}@{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A name with the number of its versions, the newest one, and its aliases with the version each points at."""

    name: str
    created_at: float
    versions: int
    newest: Version
    aliases: Mapping[str, int]


def publish(
    connection: Connection,
    *,
    model: str,
    artefact: str,
    size: int,
    job_id: str | None,
    summary: Mapping[str, Any],
    owner: str | None = None,
    state: str | None = None,
) -> Version:
    """Publish a new version under the next number, and point the alias `latest` at it. owner: id of an API key;
    state: key of the state of its training.

    A job publishes once: a second call for the same `job_id` returns the version of the first. The artefact was just
    written, so that older versions of the same bytes leave the quarantine.
    """
    check_name(model)
    _set_quarantine(connection, artefact, damaged=False)
    name = {"name": model, "next_version": 1, "created_at": now()}
    insert_or_ignore(connection, models, name, key=[models.c.name])
    number = connection.execute(
        update(models)
        .where(models.c.name == model)
        .values(next_version=models.c.next_version + 1)
        .returning(models.c.next_version - 1)
    ).scalar_one()
    values = {
        "model": model,
        "version": number,
        "artefact": artefact,
        "job_id": job_id,
        "size": size,
        "created_at": now(),
        "summary": dict(summary),
        "owner": owner,
        "state_key": state,
    }
    if insert_or_ignore(connection, versions, values, key=[versions.c.job_id]) is None:
        earlier = connection.execute(select(versions).where(versions.c.job_id == job_id)).one()
        return _version(connection, earlier)
    _set_alias(connection, model, LATEST, number)
    _raise_generation(connection)
    return get_version(connection, model, number)


def generation(connection: Connection) -> int:
    """Return the number of changes of the catalogue. What is read after it in the transaction is at least as new."""
    return connection.execute(select(catalogue.c.generation)).scalar() or 0


def resolve(connection: Connection, reference: str) -> Version:
    """Return the version that `name`, `name@3` or `name@alias` means now; a plain name is `champion`, else `latest`.
    An alias of a version in quarantine means the newest before it that is not, if there is one.

    NotFoundError names what is missing, InvalidRequestError what is no reference.
    """
    name, separator, alias = reference.partition("@")
    check_name(name)
    if not separator:
        alias = CHAMPION if CHAMPION in _aliases(connection, name) else LATEST
    elif alias.isascii() and alias.isdigit():
        return get_version(connection, name, alias)
    check_name(alias, "alias")
    query = select(versions).join(
        aliases, (aliases.c.model == versions.c.model) & (aliases.c.version == versions.c.version)
    )
    row = connection.execute(query.where(aliases.c.model == name, aliases.c.alias == alias)).one_or_none()
    if row is None:
        known = get_model(connection, name).aliases
        raise NotFoundError(f"model {name!r} has no alias {alias!r}; it has {', '.join(sorted(known))}")
    if row.quarantined_at is not None:
        good = select(versions).where(
            versions.c.model == name, versions.c.version < row.version, versions.c.quarantined_at.is_(None)
        )
        row = connection.execute(good.order_by(versions.c.version.desc()).limit(1)).one_or_none() or row
    return _version(connection, row)


def served(connection: Connection) -> list[Version]:
    """Return the versions that aliases mean, by name; those in whose place an older one stands are left out."""
    rows = connection.execute(
        select(versions, aliases.c.alias)
        .join(aliases, (aliases.c.model == versions.c.model) & (aliases.c.version == versions.c.version))
        .order_by(versions.c.model, versions.c.version)
    ).all()
    found = {(row.model, row.version): _as_version(row, {}) for row in rows if row.quarantined_at is None}
    for row in rows:
        if row.quarantined_at is not None:
            version = resolve(connection, f"{row.model}@{row.alias}")
            if version.quarantined_at is None:
                found[version.model, version.version] = version
    return list(found.values())


def quarantine(connection: Connection, artefact: str) -> None:
    """Mark the versions of a damaged artefact."""
    if _set_quarantine(connection, artefact, damaged=True):
        _raise_generation(connection)


def end_quarantine(connection: Connection, artefact: str) -> None:
    """Take back the mark of an artefact whose file is whole again."""
    if _set_quarantine(connection, artefact, damaged=False):
        _raise_generation(connection)


def quarantined(connection: Connection, *, limit: int = MAX_PAGE_SIZE) -> list[Version]:
    """Return the versions in quarantine, those first that came into it first."""
    query = select(versions).where(versions.c.quarantined_at.is_not(None))
    ordered = query.order_by(versions.c.quarantined_at, versions.c.model, versions.c.version)
    return [_version(connection, row) for row in connection.execute(ordered.limit(limit)).all()]


def get_version(connection: Connection, model: str, version: int | str) -> Version:
    """Return a version by its number, or the digits of one; NotFoundError if there is none."""
    row = None
    number = version if isinstance(version, int) else parse_version(version)
    if number is not None and 0 < number <= LARGEST_VERSION and is_name(model):
        query = select(versions).where(versions.c.model == model, versions.c.version == number)
        row = connection.execute(query).one_or_none()
    if row is None:
        newest = get_model(connection, model).newest.version
        raise NotFoundError(f"model {model!r} has no version {str(version)[:80]}; the newest is {newest}")
    return _version(connection, row)


def get_model(connection: Connection, name: str) -> Model:
    """Return a model; NotFoundError if there is none (or all its versions are deleted)."""
    matches = _models(connection, select(models).where(models.c.name == name)) if is_name(name) else []
    if not matches:
        raise NotFoundError(f"no model {name!r}")
    return matches[0]


def list_models(
    connection: Connection, *, limit: int = 50, cursor: str | None = None, only: Collection[str] | None = None
) -> tuple[list[Model], str | None]:
    """Return a page of models by name, and the cursor of the next page (None at the end). only: no others."""
    _check_limit(limit)
    exists = select(versions.c.version).where(versions.c.model == models.c.name).exists()
    query = select(models).where(exists).order_by(models.c.name).limit(limit + 1)
    if only is not None:
        query = query.where(models.c.name.in_(only))
    if cursor is not None:
        if not is_name(cursor):
            raise InvalidRequestError(f"cursor: expected one from an earlier page, got {cursor[:80]!r}")
        query = query.where(models.c.name > cursor)
    items = _models(connection, query)
    return items[:limit], items[limit - 1].name if len(items) > limit else None


def list_versions(
    connection: Connection, model: str, *, limit: int = 50, cursor: str | None = None
) -> tuple[list[Version], str | None]:
    """Return a page of versions, newest first, and the cursor of the next page (None at the end); NotFoundError."""
    _check_limit(limit)
    get_model(connection, model)
    query = select(versions).where(versions.c.model == model).order_by(versions.c.version.desc()).limit(limit + 1)
    if cursor is not None:
        last = parse_version(cursor)
        if last is None:
            raise InvalidRequestError(f"cursor: expected one from an earlier page, got {cursor[:80]!r}")
        query = query.where(versions.c.version < last)
    pointers = _aliases(connection, model)
    items = [_as_version(row, pointers) for row in connection.execute(query)]
    return items[:limit], str(items[limit - 1].version) if len(items) > limit else None


def lock(connection: Connection, model: str) -> None:
    """Lock the model until the transaction ends: no version is published and no alias moved meanwhile. NotFoundError
    for what is no name."""
    if not is_name(model):
        raise NotFoundError(f"no model {model!r}")
    connection.execute(select(models.c.name).where(models.c.name == model).with_for_update())


def put_alias(connection: Connection, *, model: str, alias: str, version: int) -> Version:
    """Point an alias at a version: promote or roll back. NotFoundError; InvalidRequestError for a name like `3`, and
    for `latest`."""
    check_alias(alias)
    if alias == LATEST:
        raise InvalidRequestError("alias: 'latest' always means the newest version; 'champion' is what a name means")
    lock(connection, model)
    get_version(connection, model, version)
    _set_alias(connection, model, alias, version)
    _raise_generation(connection)
    return get_version(connection, model, version)


def delete_alias(connection: Connection, *, model: str, alias: str) -> None:
    """Delete an alias; NotFoundError if there is none, ConflictError for `latest`, which every model has."""
    if alias == LATEST:
        raise ConflictError("the alias 'latest' cannot be deleted: every model has it")
    lock(connection, model)
    get_model(connection, model)
    if alias not in _aliases(connection, model):
        raise NotFoundError(f"model {model!r} has no alias {alias!r}")
    connection.execute(delete(aliases).where(aliases.c.model == model, aliases.c.alias == alias))
    _raise_generation(connection)


def delete_version(connection: Connection, *, model: str, version: int, force: bool = False) -> None:
    """Delete one version; `latest` falls back to the newest that is left. Its file is left to the sweep.

    ConflictError if another alias points at it, unless forced: then those aliases go too. NotFoundError.
    """
    lock(connection, model)
    stored = get_version(connection, model, version)
    protecting = [alias for alias in stored.aliases if alias != LATEST]
    if protecting and not force:
        raise _alias_conflict(f"version {version} of model {model!r}", protecting)
    connection.execute(delete(aliases).where(aliases.c.model == model, aliases.c.version == version))
    connection.execute(delete(versions).where(versions.c.model == model, versions.c.version == version))
    if LATEST in stored.aliases:
        newest = select(func.max(versions.c.version)).where(versions.c.model == model)
        left = connection.execute(newest).scalar_one()
        if left is not None:
            _set_alias(connection, model, LATEST, left)
    _raise_generation(connection)


def delete_model(connection: Connection, *, model: str, force: bool = False) -> None:
    """Delete all versions of a model; ConflictError if it has aliases beside `latest`, unless forced. NotFoundError."""
    lock(connection, model)
    protecting = sorted(set(get_model(connection, model).aliases) - {LATEST})
    if protecting and not force:
        raise _alias_conflict(f"model {model!r}", protecting)
    connection.execute(delete(aliases).where(aliases.c.model == model))
    connection.execute(delete(versions).where(versions.c.model == model))
    _raise_generation(connection)


def referenced_artefacts(connection: Connection) -> set[str]:
    """Return the keys of all artefacts that some version needs."""
    return set(connection.execute(select(versions.c.artefact)).scalars())


def referenced_states(connection: Connection) -> set[str]:
    """Return the keys of the states that some version needs."""
    return set(connection.execute(select(versions.c.state_key).where(versions.c.state_key.is_not(None))).scalars())


def _alias_conflict(name: str, protecting: list[str]) -> ConflictError:
    return ConflictError(
        f"{name} cannot be deleted: {', '.join(protecting)} points at it; move the alias or force the deletion"
    )


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= MAX_PAGE_SIZE:
        raise InvalidRequestError(f"limit: expected 1 to {MAX_PAGE_SIZE}, got {limit}")


def _set_alias(connection: Connection, model: str, alias: str, version: int) -> None:
    key = [aliases.c.model, aliases.c.alias]
    values = {"model": model, "alias": alias, "version": version}
    insert_or_update(connection, aliases, values, key=key, update={"version": version})


def _set_quarantine(connection: Connection, artefact: str, *, damaged: bool) -> bool:
    """Set or take back the mark; True where it was not so before."""
    marked = versions.c.quarantined_at
    others = marked.is_(None) if damaged else marked.is_not(None)
    changed = update(versions).where(versions.c.artefact == artefact, others)
    changed = changed.values(quarantined_at=now() if damaged else None)
    return connection.execute(changed).rowcount > 0


def _aliases(connection: Connection, model: str) -> dict[str, int]:
    rows = connection.execute(select(aliases.c.alias, aliases.c.version).where(aliases.c.model == model))
    return {row.alias: row.version for row in rows}


def _models(connection: Connection, query: Any) -> list[Model]:
    """Return the models of the query's rows that have a version: three queries for any number of them."""
    rows = connection.execute(query).all()
    names = [row.name for row in rows]
    counted = select(versions.c.model, func.count().label("number"), func.max(versions.c.version).label("newest"))
    counted = counted.where(versions.c.model.in_(names)).group_by(versions.c.model)
    each = counted.subquery()
    joined = select(versions, each.c.number).join(
        each, (each.c.model == versions.c.model) & (each.c.newest == versions.c.version)
    )
    newest = {row.model: row for row in connection.execute(joined)}
    pointers: dict[str, dict[str, int]] = {name: {} for name in names}
    for row in connection.execute(select(aliases).where(aliases.c.model.in_(names))):
        pointers[row.model][row.alias] = row.version
    return [
        Model(
            name=row.name,
            created_at=row.created_at,
            versions=newest[row.name].number,
            newest=_as_version(newest[row.name], pointers[row.name]),
            aliases=pointers[row.name],
        )
        for row in rows
        if row.name in newest
    ]


def _version(connection: Connection, row: Any) -> Version:
    return _as_version(row, _aliases(connection, row.model))


def _as_version(row: Any, pointers: Mapping[str, int]) -> Version:
    return Version(
        model=row.model,
        version=row.version,
        artefact=row.artefact,
        job_id=row.job_id,
        size=row.size,
        created_at=row.created_at,
        summary=row.summary,
        aliases=tuple(sorted(alias for alias, version in pointers.items() if version == row.version)),
        quarantined_at=row.quarantined_at,
        state=row.state_key,
    )


def _raise_generation(connection: Connection) -> None:
    """Raise the generation. Last of all, as other writers wait here until the transaction ends."""
    changes = {"generation": catalogue.c.generation + 1}
    insert_or_update(connection, catalogue, {"id": 1, "generation": 1}, key=[catalogue.c.id], update=changes)
