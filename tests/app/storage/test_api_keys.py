"""Rows of API keys, shares of their limits, counts and the audit log, on both databases."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.database.engine import Database
from app.errors import InvalidRequestError, NotFoundError
from app.identifiers import new_api_key_id
from app.storage import api_keys, audit, catalog, datasets, key_usage
from app.storage.api_keys import ApiKey, KeyLimits
from app.storage.audit import AuditAction

LIMITS = KeyLimits(requests_per_minute=60, stored_bytes=1 << 40)


def add(database: Database, *, name: str = "", seconds: float | None = None) -> ApiKey:
    with database.write() as connection:
        return api_keys.add(
            connection,
            key_id=new_api_key_id(),
            name=name,
            digest="0" * 64,
            scopes=["predict", "train"],
            models=["cars"],
            limits=LIMITS,
            seconds=seconds,
            created_by=None,
        )


def test_a_key_comes_back_as_it_was(database: Database) -> None:
    key = add(database, name="of the dashboard")
    assert (sorted(key.scopes), sorted(key.models or ()), key.limits) == (["predict", "train"], ["cars"], LIMITS)
    with database.read() as connection:
        assert api_keys.get(connection, key.id) == key
        for missing in ("0" * 16, "x", "\0"):
            with pytest.raises(NotFoundError):
                api_keys.get(connection, missing)
    for name in ("x" * 65, "a\0b", "a\nb"):
        with pytest.raises(InvalidRequestError, match="name"):
            add(database, name=name)


def test_only_live_keys_are_live(database: Database) -> None:
    with database.read() as connection:
        assert not api_keys.live(connection).any_ever
    kept, revoked, expired = add(database), add(database), add(database, seconds=0.01)
    time.sleep(0.05)
    with database.write() as connection:
        before, _ = api_keys.generation(connection)
        first = api_keys.revoke(connection, revoked.id)
        assert first.revoked_at is not None
        after, clock = api_keys.generation(connection)
        assert api_keys.revoke(connection, revoked.id) == first, "once is for good"
        assert after == before + 1
        assert abs(clock - time.time()) < 60.0
        assert set(api_keys.live(connection).keys) == {kept.id}
        for key in (kept, expired):
            api_keys.revoke(connection, key.id)
        assert api_keys.live(connection).keys == {}
        assert api_keys.live(connection).any_ever


def test_pages_of_keys(database: Database) -> None:
    made = [add(database).id for _ in range(5)]
    with database.read() as connection:
        first, cursor = api_keys.page(connection, limit=3, cursor=None)
        second, end = api_keys.page(connection, limit=3, cursor=cursor)
        assert {key.id for key in first} | {key.id for key in second} == set(made)
        assert (len(first), len(second), end) == (3, 2, None)
        with pytest.raises(InvalidRequestError, match="cursor"):
            api_keys.page(connection, limit=3, cursor="x")


def test_never_more_than_the_limit_is_given_out(database: Database) -> None:
    """Many transactions at once, each for a share."""
    key = add(database)
    left = 60.0 - time.time() % 60.0
    if left < 5.0:
        time.sleep(left + 0.1)

    def take(_: int) -> int:
        with database.write() as connection:
            return key_usage.grant(connection, key_id=key.id, unit="requests", wanted=7, limit=60).amount

    with ThreadPoolExecutor(6) as pool:
        given = list(pool.map(take, range(12)))
    assert sum(given) == 60
    assert sorted(given) == [0, 0, 0, 4] + [7] * 8
    with database.write() as connection:
        grant = key_usage.grant(connection, key_id=key.id, unit="rows", wanted=7, limit=60)
        assert (grant.amount, 0.0 < grant.seconds <= 60.0) == (7, True), "another unit has a limit of its own"
        connection.exec_driver_sql("UPDATE key_budgets SET minute = minute - 1")
        assert key_usage.grant(connection, key_id=key.id, unit="requests", wanted=7, limit=60).amount == 7


def test_counts_add_up(database: Database) -> None:
    for _ in range(2):
        with database.write() as connection:
            key_usage.add_usage(connection, {(5, "k", "cars", "predict"): (2, 10), (6, "k", "cars", "read"): (1, 0)})
    with database.read() as connection:
        found, _ = key_usage.page(connection, limit=10, cursor=None)
        assert [(one.minute, one.requests, one.rows) for one in found] == [(6, 2, 0), (5, 4, 20)]
        first, cursor = key_usage.page(connection, limit=1, cursor=None)
        second, end = key_usage.page(connection, limit=1, cursor=cursor)
        assert ([*first, *second], end) == (found, None)
        with pytest.raises(InvalidRequestError, match="key"):
            key_usage.page(connection, limit=1, cursor=None, key_id="\0")
        for wrong in ("", "5", "x:k:cars:read", "5:k:\0:read", f"{'9' * 30}:k:cars:read"):
            with pytest.raises(InvalidRequestError, match="cursor"):
                key_usage.page(connection, limit=1, cursor=wrong)


def test_the_audit_log(database: Database) -> None:
    key = add(database)
    with database.write() as connection:
        for number in range(5):
            audit.record(
                connection,
                action=AuditAction.TRAIN if number % 2 else AuditAction.CANCEL,
                subject=f"{number}" * 300,
                detail={"number": number} if number else None,
                key_id=key.id if number else None,
                address="2001:db8::1%" + "e" * 100,
                request_id="r" * 200,
            )
        found, _ = audit.page(connection, limit=10, cursor=None)
        assert [entry.detail for entry in found] == [{"number": n} for n in (4, 3, 2, 1)] + [None]
        assert (len(found[0].subject), len(found[0].address), len(found[0].request_id)) == (255, 64, 128)
        first, cursor = audit.page(connection, limit=2, cursor=None, key_id=key.id)
        second, end = audit.page(connection, limit=2, cursor=cursor, key_id=key.id)
        assert ([*first, *second], end) == (found[:-1], None)
        assert len(audit.page(connection, limit=9, cursor=None, action=AuditAction.TRAIN)[0]) == 2
        for wrong in ("x", "9" * 19, "-1"):
            with pytest.raises(InvalidRequestError, match="cursor"):
                audit.page(connection, limit=2, cursor=wrong)
        assert audit.remove_old(connection, older_than=60.0) == 0
        connection.exec_driver_sql("UPDATE audit SET at = at - 100.0")
        assert audit.remove_old(connection, older_than=60.0) == 5


def test_bytes_of_a_key_are_those_of_its_datasets_and_models(database: Database) -> None:
    key, other = add(database), add(database)
    with database.write() as connection:
        for owner in (key.id, other.id, None):
            datasets.add(connection, name="t", table="tables/t", size=1000, rows=1, profile={}, key=None, owner=owner)
            catalog.publish(connection, model="cars", artefact="m", size=100, job_id=None, summary={}, owner=owner)
        assert api_keys.stored_bytes(connection, key.id) == 1100
