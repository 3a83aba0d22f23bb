"""The uploaded datasets: the key of each in the store, and its profile."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, or_, select, update
from sqlalchemy import delete as sql_delete

from app.database.clock import now
from app.database.tables import DATASET_NAME_LENGTH, datasets, jobs
from app.database.upsert import insert_or_ignore
from app.errors import InvalidRequestError, NotFoundError
from app.identifiers import is_dataset_id, new_dataset_id

MAX_PAGE_SIZE = 500
"""The largest page of `page`."""
MAX_FITS = 16
"""Fits that a dataset keeps, the latest."""
_c = datasets.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """One uploaded table. name: of the file; table: its key in the store; size: bytes there; created_at: epoch; fits:
    the keys of the schemas that were fitted to it, by a digest of their options.
    """

    id: str
    name: str
    table: str
    size: int
    rows: int
    profile: Mapping[str, Any]
    created_at: float
    fits: Mapping[str, str] = field(default_factory=dict)


def add(
    connection: Connection,
    *,
    name: str,
    table: str,
    size: int,
    rows: int,
    profile: Mapping[str, Any],
    key: str | None,
    owner: str | None = None,
) -> tuple[Dataset, bool]:
    """Add a dataset: (dataset, True), or (the one that has this idempotency key already, False). Safe under races.

    owner: id of the API key that uploaded it.
    """
    values = {
        "id": new_dataset_id(),
        "name": name[:DATASET_NAME_LENGTH],
        "table_key": table,
        "size": size,
        "rows": rows,
        "profile": dict(profile),
        "idempotency_key": key,
        "owner": owner,
        "created_at": now(),
    }
    row = insert_or_ignore(connection, datasets, values, key=[_c.idempotency_key])
    if row is not None:
        return _dataset(row), True
    return _dataset(connection.execute(select(datasets).where(_c.idempotency_key == key)).one()), False


def get(connection: Connection, dataset: str, *, hold: bool = False) -> Dataset:
    """Return a dataset; NotFoundError. hold: it cannot be deleted until the transaction ends."""
    row = None
    if is_dataset_id(dataset):
        query = select(datasets).where(_c.id == dataset)
        row = connection.execute(query.with_for_update(read=True) if hold else query).one_or_none()
    if row is None:
        raise NotFoundError(f"there is no dataset {dataset[:80]!r}")
    return _dataset(row)


def page(connection: Connection, *, limit: int, cursor: str | None) -> tuple[Sequence[Dataset], str | None]:
    """Return a page of datasets, newest first, and the cursor of the next page (None at the end)."""
    query = select(datasets).order_by(_c.created_at.desc(), _c.id.desc()).limit(min(limit, MAX_PAGE_SIZE) + 1)
    if cursor is not None:
        try:
            last = get(connection, cursor)
        except NotFoundError:
            message = f"cursor: there is no dataset {cursor[:80]!r} any more; begin with the first page"
            raise InvalidRequestError(message) from None
        older = (_c.created_at < last.created_at) | ((_c.created_at == last.created_at) & (_c.id < last.id))
        query = query.where(older)
    items = [_dataset(row) for row in connection.execute(query)]
    return items[:limit], items[limit - 1].id if len(items) > limit else None


def delete(connection: Connection, dataset: str) -> None:
    """Delete a dataset; NotFoundError. Its table stays in the store while a job needs it."""
    get(connection, dataset)
    if connection.execute(sql_delete(datasets).where(_c.id == dataset)).rowcount == 0:
        raise NotFoundError(f"there is no dataset {dataset[:80]!r}")


def forget_keys(connection: Connection, *, older_than: float) -> int:
    """Forget the idempotency keys of datasets that are so many seconds old; return how many."""
    old = (_c.created_at < now() - older_than, _c.idempotency_key.is_not(None))
    return connection.execute(update(datasets).where(*old).values(idempotency_key=None)).rowcount


def remove_unused(connection: Connection, *, older_than: float) -> int:
    """Remove the datasets so many seconds old whose tables no job younger than that was made for; return how many.

    Jobs that ended and are still listed count by their creation.
    """
    used = select(jobs.c.id).where(
        jobs.c.table_key == _c.table_key,
        or_(jobs.c.state.in_(["queued", "running"]), jobs.c.created_at >= now() - older_than),
    )
    return connection.execute(sql_delete(datasets).where(_c.created_at < now() - older_than, ~used.exists())).rowcount


def keep_fit(connection: Connection, dataset: str, digest: str, fit: str) -> None:
    """Keep the key of a fit with a dataset, if that is still there.

    Of two that write at once one may lose its fit, which is then made again.
    """
    kept = connection.execute(select(_c.fits).where(_c.id == dataset)).scalar() or {}
    fits = {name: key for name, key in kept.items() if name != digest} | {digest: fit}
    latest = dict(list(fits.items())[-MAX_FITS:])
    connection.execute(update(datasets).where(_c.id == dataset).values(fits=latest))


def referenced_fits(connection: Connection) -> set[str]:
    """Return the keys of all fits that a dataset keeps."""
    kept = connection.execute(select(_c.fits).where(_c.fits.is_not(None))).scalars()
    return {fit for fits in kept for fit in (fits or {}).values()}


def referenced_tables(connection: Connection) -> set[str]:
    """Return the keys of all tables that a dataset needs."""
    return set(connection.execute(select(_c.table_key).distinct()).scalars())


def _dataset(row: Any) -> Dataset:
    return Dataset(
        id=row.id,
        name=row.name,
        table=row.table_key,
        size=row.size,
        rows=row.rows,
        profile=row.profile,
        created_at=row.created_at,
        fits=row.fits or {},
    )
