"""The catalogue on each database: versions that never change meaning, aliases, races between publishers."""

import threading

import pytest
from sqlalchemy import Connection

from app.database.engine import Database
from app.errors import ConflictError, InvalidRequestError, NotFoundError
from app.storage import catalog


def publish(connection: Connection, model: str = "cars", job: str | None = None) -> int:
    return catalog.publish(
        connection, model=model, artefact=f"models/{job}", size=10, job_id=job, summary={"nmse": 0.1}
    ).version


@pytest.fixture
def three(database: Database) -> Database:
    """A database with cars@1, 2 and 3."""
    with database.write() as connection:
        assert [publish(connection) for _ in range(3)] == [1, 2, 3]
    return database


def numbers(database: Database, model: str = "cars") -> list[int]:
    with database.read() as connection:
        return [version.version for version in catalog.list_versions(connection, model)[0]]


def resolved(database: Database, reference: str) -> int:
    with database.read() as connection:
        return catalog.resolve(connection, reference).version


def test_a_publication(database: Database) -> None:
    with database.write() as connection:
        made = catalog.publish(
            connection, model="cars", artefact="models/ab", size=5_000_000_000, job_id="job_1", summary={"rows": 3}
        )
    assert (made.model, made.version, made.artefact, made.size) == ("cars", 1, "models/ab", 5_000_000_000)
    assert (made.job_id, made.summary, made.aliases) == ("job_1", {"rows": 3}, ("latest",))
    with database.read() as connection:
        assert catalog.get_version(connection, "cars", 1) == made
        model = catalog.get_model(connection, "cars")
    assert (model.name, model.versions, model.newest, model.aliases) == ("cars", 1, made, {"latest": 1})


def test_a_job_publishes_once(database: Database) -> None:
    with database.write() as connection:
        first = catalog.publish(connection, model="cars", artefact="a", size=1, job_id="job_1", summary={})
    with database.write() as connection:
        again = catalog.publish(connection, model="cars", artefact="b", size=2, job_id="job_1", summary={})
    assert again == first
    assert numbers(database) == [1]


def test_references(three: Database) -> None:
    assert resolved(three, "cars") == resolved(three, "cars@latest") == resolved(three, "cars@3") == 3
    assert resolved(three, "cars@1") == resolved(three, "cars@001") == 1
    with three.write() as connection:
        assert catalog.put_alias(connection, model="cars", alias="champion", version=1).aliases == ("champion",)
    assert resolved(three, "cars") == resolved(three, "cars@champion") == 1
    with three.write() as connection:
        assert publish(connection) == 4
    assert (resolved(three, "cars"), resolved(three, "cars@latest")) == (1, 4)
    with three.write() as connection:
        catalog.delete_alias(connection, model="cars", alias="champion")
    assert resolved(three, "cars") == 4


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("boats", "no model 'boats'"),
        ("boats@1", "no model 'boats'"),
        ("boats@x", "no model 'boats'"),
        ("cars@4", "no version 4; the newest is 3"),
        ("cars@0", "no version 0"),
        ("cars@99999999999999999999999", "no version 9999"),
        (f"cars@{'9' * 5000}", "no version 9999"),  # more digits than `int` takes
        ("cars@best", "no alias 'best'; it has latest"),
    ],
)
def test_references_to_nothing(three: Database, reference: str, message: str) -> None:
    with pytest.raises(NotFoundError, match=message):
        resolved(three, reference)


@pytest.mark.parametrize("name", ["", "a b", "-x", ".x", "ä", "x" * 65, "\0", "a\n", "\ud800", "a/b", "٣"])
def test_names_that_are_none(three: Database, name: str) -> None:
    for reference in (name, f"{name}@1", f"cars@{name}"):
        with pytest.raises(InvalidRequestError, match="expected 1 to 64"):
            resolved(three, reference)
    with three.write() as connection:
        with pytest.raises(InvalidRequestError):
            publish(connection, name)
        with pytest.raises(InvalidRequestError):
            catalog.put_alias(connection, model="cars", alias=name, version=1)
        for missing in (
            lambda: catalog.get_model(connection, name),
            lambda: catalog.get_version(connection, name, 1),
            lambda: catalog.list_versions(connection, name),
            lambda: catalog.put_alias(connection, model=name, alias="a", version=1),
            lambda: catalog.delete_version(connection, model=name, version=1),
            lambda: catalog.delete_model(connection, model=name),
            lambda: catalog.delete_alias(connection, model=name, alias="a"),
            lambda: catalog.delete_alias(connection, model="cars", alias=name),
        ):
            with pytest.raises(NotFoundError):
                missing()


def test_an_alias_cannot_look_like_a_version(three: Database) -> None:
    with three.write() as connection:
        with pytest.raises(InvalidRequestError, match="read as a version number"):
            catalog.put_alias(connection, model="cars", alias="12", version=1)
        with pytest.raises(InvalidRequestError, match="'latest' always means the newest version"):
            catalog.put_alias(connection, model="cars", alias="latest", version=1)
        with pytest.raises(NotFoundError, match="no version 9"):
            catalog.put_alias(connection, model="cars", alias="a", version=9)
        with pytest.raises(ConflictError, match="every model has it"):
            catalog.delete_alias(connection, model="cars", alias="latest")


def test_deleting_the_newest_version(three: Database) -> None:
    with three.write() as connection:
        catalog.delete_version(connection, model="cars", version=3)
    assert numbers(three) == [2, 1]
    assert resolved(three, "cars") == 2
    with pytest.raises(NotFoundError, match="the newest is 2"):
        resolved(three, "cars@3")
    with three.write() as connection:
        assert publish(connection) == 4, "3 is never given again"


def test_deleting_what_an_alias_points_at(three: Database) -> None:
    with three.write() as connection:
        for alias in ("canary", "champion"):
            catalog.put_alias(connection, model="cars", alias=alias, version=2)
        with pytest.raises(ConflictError, match="canary, champion points at it"):
            catalog.delete_version(connection, model="cars", version=2)
        with pytest.raises(ConflictError, match="model 'cars' cannot be deleted"):
            catalog.delete_model(connection, model="cars")
        catalog.delete_version(connection, model="cars", version=2, force=True)
        assert catalog.get_model(connection, "cars").aliases == {"latest": 3}
        catalog.delete_model(connection, model="cars")
    with pytest.raises(NotFoundError, match="no model 'cars'"):
        resolved(three, "cars")


def test_an_alias_of_a_version_in_quarantine_means_the_newest_good_one_before_it(database: Database) -> None:
    with database.write() as connection:
        for job in "abc":
            publish(connection, job=job)
        catalog.put_alias(connection, model="cars", alias="first", version=1)
        before = catalog.generation(connection)
        for artefact in ("models/c", "models/c", "models/a"):
            catalog.quarantine(connection, artefact)
        assert catalog.generation(connection) == before + 2, "the second time changes nothing"
        assert {version.reference for version in catalog.quarantined(connection)} == {"cars@1", "cars@3"}
        assert len(catalog.quarantined(connection, limit=1)) == 1
    assert [resolved(database, reference) for reference in ("cars", "cars@latest", "cars@3")] == [2, 2, 3]
    assert resolved(database, "cars@first") == 1, "there is none before it"
    with database.write() as connection:
        catalog.end_quarantine(connection, "models/c")
        catalog.publish(connection, model="cars", artefact="models/a", size=1, job_id=None, summary={})
        assert catalog.quarantined(connection) == [], "its bytes were written again"
    assert resolved(database, "cars@3") == 3


def test_numbers_are_never_given_again_even_after_the_model(three: Database) -> None:
    with three.write() as connection:
        for version in (1, 2, 3):
            catalog.delete_version(connection, model="cars", version=version)
        assert catalog.list_models(connection) == ([], None)
        with pytest.raises(NotFoundError):
            catalog.delete_model(connection, model="cars")
        assert publish(connection) == 4
        catalog.put_alias(connection, model="cars", alias="champion", version=4)
        catalog.delete_model(connection, model="cars", force=True)
        assert publish(connection) == 5
    assert numbers(three) == [5]
    assert resolved(three, "cars@latest") == 5


def test_lists_in_pages(database: Database) -> None:
    names = ["a", "B", "c", "d.1", "e_2"]
    with database.write() as connection:
        for name in names:
            for _ in range(3):
                publish(connection, name)
        seen: list[str] = []
        cursor = None
        for _ in range(3):
            page, cursor = catalog.list_models(connection, limit=2, cursor=cursor)
            seen += [model.name for model in page]
            assert all(model.versions == 3 and model.newest.version == 3 for model in page)
        assert cursor is None
        assert sorted(seen) == sorted(names)
        assert len(seen) == 5
        first, cursor = catalog.list_versions(connection, "a", limit=2)
        second, end = catalog.list_versions(connection, "a", limit=2, cursor=cursor)
        assert [version.version for version in first + second] == [3, 2, 1]
        assert end is None
        for limit in (0, 501):
            with pytest.raises(InvalidRequestError, match="limit"):
                catalog.list_models(connection, limit=limit)
        for cursor in ("x", "\0", "9" * 30):
            with pytest.raises(InvalidRequestError, match="cursor"):
                catalog.list_versions(connection, "a", cursor=cursor)
        with pytest.raises(InvalidRequestError, match="cursor"):
            catalog.list_models(connection, cursor="\0")


def test_artefacts_that_are_needed(database: Database) -> None:
    with database.write() as connection:
        for job in ("x", "y"):
            publish(connection, job=job)
        assert catalog.referenced_artefacts(connection) == {"models/x", "models/y"}
        catalog.delete_version(connection, model="cars", version=1)
        assert catalog.referenced_artefacts(connection) == {"models/y"}


def test_publishers_at_the_same_time_get_different_numbers(database: Database) -> None:
    made: list[int] = []
    barrier = threading.Barrier(6)

    def work(number: int) -> None:
        barrier.wait()
        for repeat in range(3):
            with database.write() as connection:
                made.append(publish(connection, job=f"{number}-{repeat}"))

    run([threading.Thread(target=work, args=(number,)) for number in range(6)])
    assert sorted(made) == list(range(1, 19))
    assert resolved(database, "cars") == 18


def test_promotions_and_deletions_at_the_same_time(three: Database) -> None:
    """Either the alias is put and the deletion refused, or the version is gone and the alias refused."""
    for _ in range(10):
        with three.write() as connection:
            version = publish(connection)
        refused: list[Exception] = []
        barrier = threading.Barrier(2)

        def promote(
            version: int = version, refused: list[Exception] = refused, barrier: threading.Barrier = barrier
        ) -> None:
            barrier.wait()
            try:
                with three.write() as connection:
                    catalog.put_alias(connection, model="cars", alias="champion", version=version)
            except NotFoundError as error:
                refused.append(error)

        def drop(
            version: int = version, refused: list[Exception] = refused, barrier: threading.Barrier = barrier
        ) -> None:
            barrier.wait()
            try:
                with three.write() as connection:
                    catalog.delete_version(connection, model="cars", version=version)
            except ConflictError as error:
                refused.append(error)

        run([threading.Thread(target=promote), threading.Thread(target=drop)])
        assert len(refused) == 1
        assert (version in numbers(three)) == isinstance(refused[0], ConflictError)


def run(threads: list[threading.Thread]) -> None:
    """Start all, wait for all."""
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
