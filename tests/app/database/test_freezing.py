"""tests/freezing.py: where a process may be stopped."""

from sqlalchemy import text

from app.database.engine import Database
from tests.freezing import is_locked


def test_an_open_write_is_seen_and_a_read_is_not(database: Database) -> None:
    assert not is_locked(database)
    with database.read() as connection:
        connection.execute(text("SELECT count(*) FROM jobs"))
        assert not is_locked(database)
    with database.write() as connection:
        connection.execute(text("DELETE FROM jobs"))
        assert is_locked(database)
    assert not is_locked(database)
