"""The rules of names and keys, and that they agree with the columns and with the specification."""

import re
from collections.abc import Callable

import pytest

from app.database.tables import metadata
from app.errors import InvalidRequestError
from app.identifiers import (
    ID_LENGTH,
    KEY_LENGTH,
    LARGEST_VERSION,
    NAME_LENGTH,
    NAME_PATTERN,
    check_alias,
    check_idempotency_key,
    check_name,
    is_dataset_id,
    is_job_id,
    is_name,
    new_dataset_id,
    new_job_id,
    parse_version,
)


@pytest.mark.parametrize("name", ["a", "7", "Cars.v2_x-y", "a" * NAME_LENGTH])
def test_names(name: str) -> None:
    assert check_name(name) == name
    assert re.fullmatch(NAME_PATTERN, name)


@pytest.mark.parametrize("name", ["", "-a", ".a", "a b", "a@b", "a/b", "\u00e9", "a\n", "a" * (NAME_LENGTH + 1), "\0"])
def test_texts_that_are_no_names(name: str) -> None:
    assert not is_name(name)
    with pytest.raises(InvalidRequestError, match=r"alias: expected 1 to 64 letters"):
        check_alias(name)


def test_an_alias_is_not_a_number() -> None:
    assert check_alias("v3") == "v3"
    with pytest.raises(InvalidRequestError, match="would read as a version number"):
        check_alias("3")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("3", 3),
        ("007", 7),
        ("0", 0),
        ("0" * 9000 + "5", 5),
        (str(LARGEST_VERSION), LARGEST_VERSION),
        (str(LARGEST_VERSION + 1), None),
        ("9" * 9000, None),
        ("", None),
        ("-1", None),
        ("1.0", None),
        ("\u0663", None),
    ],
)
def test_versions(text: str, version: int | None) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(("make", "known"), [(new_job_id, is_job_id), (new_dataset_id, is_dataset_id)])
def test_ids_are_of_their_form_and_differ(make: Callable[[], str], known: Callable[[str], bool]) -> None:
    made = [make() for _ in range(100)]
    assert len(set(made)) == 100
    assert all(known(text) and len(text) <= ID_LENGTH for text in made)
    for text in ("", made[0][:-1], made[0] + "0", made[0].upper(), made[0] + "\n", "\0"):
        assert not known(text)


def test_ids_of_jobs_sort_by_age() -> None:
    made = [new_job_id() for _ in range(20)]
    assert [text[:18] for text in made] == sorted(text[:18] for text in made)


@pytest.mark.parametrize("key", ["", "k" * (KEY_LENGTH + 1), "a\nb", "\0"])
def test_keys_that_cannot_be_kept(key: str) -> None:
    assert check_idempotency_key(None) is None
    assert check_idempotency_key("k" * KEY_LENGTH) == "k" * KEY_LENGTH
    with pytest.raises(InvalidRequestError, match=r"Idempotency-Key: expected 1 to 255 printable characters"):
        check_idempotency_key(key)


def test_columns_hold_the_longest_of_each() -> None:
    lengths = {
        (table.name, column.name): column.type.length
        for table in metadata.sorted_tables
        for column in table.columns
        if hasattr(column.type, "length")
    }
    for table, column in [("models", "name"), ("versions", "model"), ("aliases", "alias"), ("jobs", "model")]:
        assert lengths[table, column] == NAME_LENGTH
    for table in ("jobs", "datasets"):
        assert (lengths[table, "id"], lengths[table, "idempotency_key"]) == (ID_LENGTH, KEY_LENGTH)
