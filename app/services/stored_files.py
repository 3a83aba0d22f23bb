"""The files of the store that rows of the database refer to, and which of them are not there."""

from sqlalchemy import Connection

from app.database.engine import Database
from app.jobs import queries
from app.storage.blobs import BlobStore
from app.storage.references import references


def referenced_files(connection: Connection) -> dict[str, str]:
    """Return the key of each file that a version, a dataset or a job needs, with the name of what needs it."""
    found = dict(queries.references(connection))
    return found | dict(references(connection))


def files_in_words(number: int, *, verb: bool = False) -> str:
    """Return "1 file", "2 files"; with the verb "1 file is", "2 files are"."""
    word, is_or_are = ("file", "is") if number == 1 else ("files", "are")
    return f"{number} {word} {is_or_are}" if verb else f"{number} {word}"


def missing_files(database: Database, blobs: BlobStore) -> dict[str, str]:
    """Return the files that are referred to and not in the store, with what needs them. They are looked for by name;
    that their bytes are whole is found when they are read. UnavailableError.

    Cost: the store is listed, a request for 1,000 files of a bucket.
    """
    with database.read() as connection:
        wanted = referenced_files(connection)
    stored = {blob.key for prefix in {key.partition("/")[0] for key in wanted} for blob in blobs.keys(prefix)}
    missing = {key: owner for key, owner in wanted.items() if key not in stored}
    if missing:  # by what was deleted while the store was listed
        with database.read() as connection:
            still = referenced_files(connection)
        missing = {key: owner for key, owner in missing.items() if key in still}
    return missing
