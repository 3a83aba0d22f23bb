"""A copy of an SQLite database and of all files of the store that it refers to, taken while the service runs, and the
way back.

    FOLDER/backup.json          what the copy is, written last: a folder without it is no backup
    FOLDER/pursuit-<time>.db    the database as it was at one moment
    FOLDER/blobs/..             the files it refers to, under their keys

The database first: no file of the store ever changes, and one that is referred to is not removed. What was deleted
before its file was copied is not in the database any more, so another copy of that is taken. A second backup into the
same folder copies what is new, and the folder is the earlier backup until that is whole.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from app.database.engine import Database, copy_sqlite
from app.errors import ConflictError, DamagedFileError, Fault, InvalidRequestError, NotFoundError, UnavailableError
from app.services.intake.table_store import is_made_again
from app.services.stored_files import files_in_words, referenced_files
from app.services.version import package_version
from app.storage.blobs import BlobStore, LocalBlobStore, digest_of
from app.storage.references import IDENTITY
from app.storage.store_identity import IDENTITY_PREFIX, identity_bytes

FORMAT = "pursuit-backup/1"
MANIFEST = "backup.json"
BLOBS = "blobs"
TRIES = 5
"""Copies of the database that are taken, where files are deleted while they are copied."""
TOLD_FILES = 5
"""Files that an error names."""
_COPY = re.compile(r"pursuit-[0-9T]+Z\.db")


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """Description of a backup. database: name of its file; created_at: UTC; files, size_bytes: of the store's files;
    missing: files that the database refers to and the store did not have, or not whole, with what needs them."""

    format: str
    version: str | None
    created_at: str
    database: str
    database_sha256: str
    database_bytes: int
    files: int
    size_bytes: int
    missing: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return what `backup.json` has."""
        return asdict(self)

    @property
    def lost(self) -> dict[str, str]:
        """Those of the missing files that nothing makes again."""
        return {key: owner for key, owner in self.missing.items() if not is_made_again(key)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contents:
    """The contents of a backup.

    wanted: the files that its database refers to, with what needs them; sizes: bytes of those that are whole; damaged:
    those that it should have and has not, or not whole; identity: the bytes of the store's, where they are damaged, as
    the database has them.
    """

    backup: Backup
    wanted: Mapping[str, str]
    sizes: Mapping[str, int]
    damaged: Mapping[str, str]
    identity: Mapping[str, bytes]

    def without(self, damaged: Mapping[str, str]) -> Backup:
        """Return the description of the backup where these files are left out."""
        return replace(
            self.backup,
            files=len(self.sizes) + len(self.identity),
            size_bytes=sum(self.sizes.values()) + sum(map(len, self.identity.values())),
            missing={**self.backup.missing, **damaged},
        )


def back_up(database: Database, blobs: BlobStore, folder: Path) -> Backup:
    """Copy an SQLite database and the files that it refers to into a folder, which is new, empty or has an earlier
    backup.

    ConflictError for any other folder, UnavailableError where something cannot be read or written; what was begun is
    then gone on with by the next backup into the folder.
    """
    if not database.is_usable():
        raise UnavailableError(
            "the database's schema is older than this release: run `pursuit migrate`, or back up by it"
        )
    with _locked(folder):
        _check_folder(folder)
        now = datetime.now(UTC)
        copy = folder / f"pursuit-{now:%Y%m%dT%H%M%S%f}Z.db"
        target = LocalBlobStore(folder / BLOBS)
        wanted, missing = _copy_all(database, blobs, copy, target)
        stored = {key: target.path(key).stat().st_size for key in wanted if key not in missing}
        backup = Backup(
            format=FORMAT,
            version=package_version(),
            created_at=now.isoformat(timespec="seconds"),
            database=copy.name,
            database_sha256=_sha256(copy),
            database_bytes=copy.stat().st_size,
            files=len(stored),
            size_bytes=sum(stored.values()),
            missing=missing,
        )
        _write_manifest(folder, backup)
        _remove_others(folder, backup, target, stored)
    return backup


def restore(folder: Path, blobs: BlobStore, path: Path, *, leave_out_damaged: bool = False) -> Backup:
    """Copy a backup into the store and to the path of the SQLite database, when all of it is known to be whole; the
    database last, so that one which is there has its files. What was broken off may be begun again. Return the
    description of what is restored. A damaged file that the store has whole is not missed.

    ConflictError where there is a database already, or the store is another database's; UnavailableError where
    something cannot be written; and as `check_backup`.
    """
    if found := [end for end in ("", "-wal", "-journal") if Path(f"{path}{end}").exists()]:
        raise ConflictError(f"there is a database already, {path}{found[0]}: stop the service and move all of it away")
    contents = _read_all(folder)
    with _disk():
        _refuse_other_store(blobs, contents.wanted)
        damaged = {key: owner for key, owner in contents.damaged.items() if not _is_whole(blobs, key)}
    if not leave_out_damaged:
        _refuse_damaged(folder, damaged)
    source, aside = LocalBlobStore(folder / BLOBS), path.with_name(f"{path.name}.restored")
    for key in contents.sizes:
        with _restoring(blobs.address(key)):
            if not _copy_file(source, blobs, key, checked=True):
                raise InvalidRequestError(f"{key} ({contents.wanted[key]}) was changed while it was restored")
    for key, data in contents.identity.items():
        with _restoring(blobs.address(key)):
            blobs.put(IDENTITY_PREFIX, "", data)
    for key in damaged:
        with _restoring(blobs.address(key)):
            blobs.delete(key)  # one in the store that is damaged too would hide that it is missing
    with _restoring(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / contents.backup.database, aside)
        _sync(aside)
        aside.rename(path)
        _sync(path.parent)
    return contents.without(damaged)


def check_backup(folder: Path, *, leave_out_damaged: bool = False) -> tuple[Backup, dict[str, str]]:
    """Read all of a backup; return the description of what a restore of it has, and the files that its database refers
    to, with what needs them. Fits that are lost or damaged are left out, with `leave_out_damaged` all such files.

    NotFoundError where the folder has no backup; InvalidRequestError for one that is damaged, naming the files and what
    needs them, or that is of a newer release.
    """
    contents = _read_all(folder)
    if not leave_out_damaged:
        _refuse_damaged(folder, contents.damaged)
    return contents.without(contents.damaged), dict(contents.wanted)


def _read_all(folder: Path) -> _Contents:
    """Read all of a backup, each file against its sum; the errors are those of `check_backup`."""
    backup = read_backup(folder)
    copy, source = folder / backup.database, LocalBlobStore(folder / BLOBS)
    with _disk():
        if not copy.is_file() or _sha256(copy) != backup.database_sha256:
            raise InvalidRequestError(f"{copy} is not the database that {MANIFEST} tells of: the backup is damaged")
        with TemporaryDirectory() as aside:  # it is brought to the newest schema
            shutil.copyfile(copy, Path(aside, "pursuit.db"))
            with Database(f"sqlite:///{aside}/pursuit.db") as opened:
                opened.migrate()
                with opened.read() as connection:
                    wanted, marked = referenced_files(connection), identity_bytes(connection)
        saved = [key for key in wanted if key not in backup.missing]
        sizes = {key: source.path(key).stat().st_size for key in saved if _is_whole(source, key)}
    wrong = [key for key in saved if key not in sizes]
    identity = {key: marked for key in wrong if wanted[key] == IDENTITY}
    damaged = {key: wanted[key] for key in wrong if key not in identity}
    return _Contents(backup=backup, wanted=wanted, sizes=sizes, damaged=damaged, identity=identity)


def _refuse_damaged(folder: Path, damaged: Mapping[str, str]) -> None:
    """Raise InvalidRequestError where files are damaged that nothing makes again, each a fault with its key."""
    lost = {key: owner for key, owner in damaged.items() if not is_made_again(key)}
    if not lost:
        return
    named = ", ".join(f"{key} ({owner})" for key, owner in list(lost.items())[:TOLD_FILES])
    more = " and more" if len(lost) > TOLD_FILES else ""
    raise InvalidRequestError(
        f"{files_in_words(len(lost), verb=True)} lost or damaged in the backup: {named}{more}; put whole copies into "
        f"{folder / BLOBS}, or restore the rest by `pursuit restore --leave-out-damaged`",
        [Fault(value=key, message=f"lost or damaged in the backup; needed by {owner}") for key, owner in lost.items()],
    )


def read_backup(folder: Path) -> Backup:
    """Return the description of a backup. NotFoundError; InvalidRequestError for one of a newer release."""
    place = folder / MANIFEST
    try:
        document = json.loads(place.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(f"{folder} has no {MANIFEST}: it is no backup, or one that was not finished") from None
    except (OSError, ValueError) as error:
        raise InvalidRequestError(f"{place} cannot be read: {error}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidRequestError(f"{place} is not of the format {FORMAT}: a newer release may read it")
    try:
        backup = Backup(**document)
    except TypeError:
        raise InvalidRequestError(f"{place} is damaged: it lacks what {FORMAT} has") from None
    if not _COPY.fullmatch(str(backup.database)):
        raise InvalidRequestError(f"{place} is damaged: {backup.database!r} is no database of a backup")
    return backup


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder, which is made, so that one backup at a time goes into it."""
    if folder.exists() and not folder.is_dir():
        raise ConflictError(f"{folder} is no folder")
    with _disk():
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConflictError(f"another backup into {folder} is running") from None
        with _disk():
            yield
    finally:
        os.close(descriptor)


def _check_folder(folder: Path) -> None:
    """Raise ConflictError unless the folder has a backup, one that was broken off, or nothing."""
    if (folder / MANIFEST).exists():
        read_backup(folder)
    elif other := [
        path.name for path in folder.iterdir() if path.name != BLOBS and not path.name.startswith("pursuit-")
    ]:
        raise ConflictError(f"{folder} has other files ({min(other)}) and no backup: name a new folder")


def _copy_all(
    database: Database, blobs: BlobStore, copy: Path, target: LocalBlobStore
) -> tuple[dict[str, str], dict[str, str]]:
    """Copy the database and its files; return the files that the copy refers to and those of them that are missing."""
    for tried in range(TRIES):
        copy.unlink(missing_ok=True)
        with database.read() as connection:
            wanted = referenced_files(connection)
            copy_sqlite(connection, copy)
        missing = {key: owner for key, owner in wanted.items() if not _copy_file(blobs, target, key)}
        if not missing or tried == TRIES - 1:
            break
        with database.read() as connection:
            if missing.keys() <= referenced_files(connection).keys():
                break
    _sync(copy)
    return wanted, missing


def _copy_file(source: BlobStore, target: BlobStore, key: str, *, checked: bool = False) -> bool:
    """Copy a file unless it is there; False if it is lost or its bytes are not those of its key. checked: one that is
    there is read, and replaced where it is damaged."""
    try:
        if not checked:
            target.path(key)
            return True
        if _is_whole(target, key):
            return True
    except NotFoundError:
        pass
    prefix, _, name = key.partition("/")
    try:
        return target.put(prefix, name.removeprefix(digest_of(key)), source.path(key)) == key
    except (NotFoundError, FileNotFoundError, DamagedFileError):
        return False


def _is_whole(blobs: BlobStore, key: str) -> bool:
    """True if the store has the file, with the bytes of its key."""
    try:
        return _sha256(blobs.path(key)) == digest_of(key)
    except (NotFoundError, FileNotFoundError, DamagedFileError):
        return False


def _refuse_other_store(blobs: BlobStore, wanted: Mapping[str, str]) -> None:
    ours = {key for key, owner in wanted.items() if owner == IDENTITY}
    if others := {blob.key for blob in blobs.keys(IDENTITY_PREFIX)} - ours:
        raise ConflictError(
            f"the store belongs to another database, whose identity {min(others)} is in it: restore into an empty one "
            "(PURSUIT_ARTEFACT_URL)"
        )


def _write_manifest(folder: Path, backup: Backup) -> None:
    aside = folder / f"pursuit-{MANIFEST}.new"
    aside.write_text(json.dumps(backup.to_json(), indent=2) + "\n", encoding="utf-8")
    _sync(aside)
    aside.replace(folder / MANIFEST)
    _sync(folder)


def _remove_others(folder: Path, backup: Backup, target: LocalBlobStore, kept: Mapping[str, int]) -> None:
    """Remove what earlier backups into the folder had and this one has not."""
    for path in list(folder.glob("pursuit-*")):
        if path.name != backup.database:
            path.unlink()
    target.clean(older_than=0.0)
    for place in [path for path in (folder / BLOBS).glob("*") if path.is_dir()]:
        for blob in list(target.keys(place.name)):
            if blob.key not in kept:
                target.delete(blob.key)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _restoring(place: str) -> Iterator[None]:
    """Raise UnavailableError, naming the place, for what cannot be written there."""
    try:
        yield
    except (OSError, UnavailableError) as error:
        cause = error.message if isinstance(error, UnavailableError) else error.strerror or str(error)
        raise UnavailableError(
            f"{place}: {cause}; files that were restored before it stay, and the next restore goes on from there"
        ) from error


@contextmanager
def _disk() -> Iterator[None]:
    """Raise UnavailableError for an error of a disk."""
    try:
        yield
    except OSError as error:
        raise UnavailableError(f"{error.filename or 'the disk'}: {error.strerror or error}") from error
