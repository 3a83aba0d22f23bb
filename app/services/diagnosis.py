"""Diagnosis of an installation before anything is served: settings, database, store, BLAS, limits, disk and clock.

Nothing is made that is not there: what `pursuit serve` would make is told to be still to come.
"""

import os
import resource
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from sqlalchemy import make_url, select
from sqlalchemy.exc import SQLAlchemyError
from threadpoolctl import threadpool_info

from app.database.clock import now
from app.database.engine import Database
from app.errors import PursuitError, UnavailableError
from app.services.intake.table_store import is_made_again
from app.services.keys.keys import Keys
from app.services.stored_files import files_in_words, missing_files
from app.services.version import package_version
from app.settings import Settings, available_cores, physical_memory, unknown_variables
from app.storage import catalog
from app.storage.stores import open_store

MIB = 1 << 20
TOLD_VERSIONS = 20
"""Damaged versions, or lost files, that are named."""
LEAST_DISK, LOW_DISK = 100 * MIB, 2048 * MIB
LEAST_FILES, LOW_FILES = 256, 1024
LEAST_MEMORY = 1024 * MIB
MOST_SKEW = 2.0
"""Seconds that the clocks of this machine and of the database may differ by."""
RELEASED = 1_735_689_600.0
"""A time that this release is younger than: a clock before it is wrong."""


class State(StrEnum):
    """Outcome of a check."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Outcome of a check. hint: what to do about it."""

    name: str
    state: State
    detail: str
    hint: str | None = None


def diagnose(settings: Settings, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the checks and the settings, each with where it comes from, as JSON has them; `ok` is False where
    something keeps the service from its work."""
    checks = [
        *_settings_checks(settings, environment),
        *_database_checks(settings),
        *_store_checks(settings),
        *_blas_checks(settings),
        _files_check(),
        _disk_check(settings),
        _memory_check(),
    ]
    return {
        "ok": all(check.state is not State.ERROR for check in checks),
        "version": package_version(),
        "checks": [asdict(check) for check in checks],
        "settings": list(_sources(settings, environment)),
    }


def _sources(settings: Settings, environment: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield each setting with its value and its source; passwords are not shown."""
    given = {name.upper() for name, value in environment.items() if value}
    for name, described in Settings.model_fields.items():
        value, variable = getattr(settings, name), f"PURSUIT_{name.upper()}"
        if name not in settings.model_fields_set:
            source = "default"
        else:
            source = variable if variable in given else "command line"
        if name == "database_url" and value is not None:
            value = make_url(value).render_as_string(hide_password=True)
        shown = str(value) if isinstance(value, Path) else value
        yield {"name": variable, "value": shown, "source": source, "description": described.description}


def _settings_checks(settings: Settings, environment: Mapping[str, str]) -> Iterator[Check]:
    unknown = unknown_variables(environment)
    for name, meant in unknown.items():
        hint = f"did you mean {meant}?" if meant else "unset it"
        yield Check(name="settings", state=State.WARNING, detail=f"{name} is no setting", hint=hint)
    if not unknown:
        count = len(settings.model_fields_set)
        yield Check(name="settings", state=State.OK, detail=f"{count} set, the others are the defaults")


def _database_checks(settings: Settings) -> Iterator[Check]:
    url = make_url(settings.database)
    shown = url.render_as_string(hide_password=True)
    if url.get_backend_name() == "sqlite" and url.database and not Path(url.database).exists():
        state = State.OK if settings.database_url is None else State.WARNING
        yield Check(name="database", state=state, detail=f"{shown} is not there yet", hint="`pursuit serve` makes it")
        yield _clock_check(None)
        return
    try:
        with Database(settings.database) as database:
            migrated = database.is_usable()
            with database.read() as connection:
                theirs = float(connection.execute(select(now())).scalar_one())
            ours = time.time()
            if migrated:
                yield Check(name="database", state=State.OK, detail=f"{shown} answers, and is migrated")
                yield from _key_checks(settings, database)
                yield _quarantine_check(database)
                yield from _stored_files_check(settings, database)
            else:
                yield Check(
                    name="database",
                    state=State.ERROR,
                    detail=f"{shown} answers, but its schema is older than this version needs",
                    hint="run `pursuit migrate`",
                )
        yield _clock_check(theirs - ours)
    except (PursuitError, SQLAlchemyError, ImportError, ValueError) as error:
        said = error.message if isinstance(error, PursuitError) else str(getattr(error, "orig", None) or error)
        yield Check(
            name="database", state=State.ERROR, detail=f"{shown}: {' '.join(said.split())}", hint="PURSUIT_DATABASE_URL"
        )
        yield _clock_check(None)


def _key_checks(settings: Settings, database: Database) -> Iterator[Check]:
    if settings.is_loopback:
        yield Check(name="keys", state=State.OK, detail="the API listens for this machine only")
    elif Keys(database).any_live():
        yield Check(name="keys", state=State.OK, detail=f"{settings.host} is for others, and wants an API key")
    else:
        state = State.WARNING if settings.insecure else State.ERROR
        detail = f"others can reach {settings.host}, and there is no API key"
        yield Check(name="keys", state=state, detail=detail, hint="`pursuit keys create --scope predict,train,admin`")


def _quarantine_check(database: Database) -> Check:
    with database.read() as connection:
        found = catalog.quarantined(connection, limit=TOLD_VERSIONS + 1)
    if not found:
        return Check(name="models", state=State.OK, detail="no version is known to be damaged")
    names = ", ".join(version.reference for version in found[:TOLD_VERSIONS])
    more = " and more" if len(found) > TOLD_VERSIONS else ""
    detail = f"in quarantine, for their stored files are damaged or lost: {names}{more}"
    hint = "put their files back from a backup, or delete the versions; older ones are served"
    return Check(name="models", state=State.ERROR, detail=detail, hint=hint)


def _stored_files_check(settings: Settings, database: Database) -> Iterator[Check]:
    """Check that the store has what the database refers to, as after a restore; nothing where it does not answer."""
    try:
        missing = missing_files(database, open_store(settings))
    except (UnavailableError, ImportError, ValueError, OSError):
        return
    if not missing:
        yield Check(name="stored", state=State.OK, detail="the store has all files that the database refers to")
        return
    lasting = {key: owner for key, owner in missing.items() if not is_made_again(key)}
    told = lasting or missing
    named = "; ".join(f"{owner} ({key})" for key, owner in list(told.items())[:TOLD_VERSIONS])
    more = " and more" if len(told) > TOLD_VERSIONS else ""
    detail = f"the store lacks {files_in_words(len(told))} that the database refers to: {named}{more}"
    state = State.ERROR if lasting else State.WARNING
    hint = (
        "put them back from a backup of the store" if lasting else "nothing to do: whoever needs a fit makes it again"
    )
    yield Check(name="stored", state=state, detail=detail, hint=hint)


def _clock_check(skew: float | None) -> Check:
    if time.time() < RELEASED:
        shown = time.strftime("%Y-%m-%d", time.gmtime())
        return Check(name="clock", state=State.ERROR, detail=f"this machine's clock says {shown}", hint="set it")
    if skew is not None and abs(skew) > MOST_SKEW:
        detail = f"the database's clock is {abs(skew):.1f} s {'ahead of' if skew > 0 else 'behind'} this machine's"
        return Check(name="clock", state=State.WARNING, detail=detail, hint="leases do not mind; times in lists differ")
    agrees = "" if skew is None else ", and agrees with the database's"
    shown = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return Check(name="clock", state=State.OK, detail=f"{shown}{agrees}")


def _store_checks(settings: Settings) -> Iterator[Check]:
    folder = settings.artefacts
    place = str(folder) if folder is not None else settings.artefact_url
    if folder is not None and not folder.exists():
        above = _existing(folder)
        if os.access(above, os.W_OK | os.X_OK) and above.is_dir():
            detail = f"{place} is not there yet, and can be made"
            yield Check(name="store", state=State.OK, detail=detail, hint="`pursuit serve` makes it")
        else:
            yield Check(name="store", state=State.ERROR, detail=f"{place} cannot be made: {above} cannot be written")
        return
    try:
        open_store(settings).check()
    except (UnavailableError, ImportError, ValueError, OSError) as error:
        said = error.message if isinstance(error, PursuitError) else str(error)
        yield Check(name="store", state=State.ERROR, detail=f"{place}: {said}", hint="PURSUIT_ARTEFACT_URL")
    else:
        yield Check(name="store", state=State.OK, detail=f"{place} can be written")


def _blas_checks(settings: Settings) -> Iterator[Check]:
    import scipy.linalg  # noqa: F401, PLC0415  brings the BLAS that training uses, and takes a moment

    cores = available_cores()
    found = [one for one in threadpool_info() if one["user_api"] == "blas"]
    if not found:
        detail = "no BLAS that is known was found in numpy and scipy"
        yield Check(name="blas", state=State.WARNING, detail=detail, hint="install their wheels from PyPI")
    for one in found:
        kernel = one.get("architecture") or "of an unknown kernel"
        detail = f"{one['internal_api']} {one.get('version') or ''}, {kernel}, {one['num_threads']} threads".strip()
        generic = str(kernel).lower() in {"prescott", "generic", "core2", "armv8"}
        hint = "the kernel is one for old processors: OPENBLAS_CORETYPE chooses another" if generic else None
        yield Check(name="blas", state=State.WARNING if generic else State.OK, detail=detail, hint=hint)
    threads, workers = settings.training_threads, settings.workers
    detail = f"{workers} workers of {threads} threads each on {cores} cores"
    if workers * threads > cores:
        hint = "PURSUIT_WORKERS times PURSUIT_THREADS is more than the cores"
        yield Check(name="threads", state=State.WARNING, detail=detail, hint=hint)
    else:
        yield Check(name="threads", state=State.OK, detail=detail)


def _files_check() -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 1 << 20 if hard == resource.RLIM_INFINITY else hard
    state = State.ERROR if most < LEAST_FILES else State.WARNING if most < LOW_FILES else State.OK
    hint = None if state is State.OK else f"raise the limit (ulimit -n): {LOW_FILES} and more are good"
    return Check(name="files", state=state, detail=f"{soft:,} open files, at most {most:,}", hint=hint)


def _disk_check(settings: Settings) -> Check:
    place = _existing(settings.data_dir.resolve())
    free = shutil.disk_usage(place).free
    state = State.ERROR if free < LEAST_DISK else State.WARNING if free < LOW_DISK else State.OK
    hint = None if state is State.OK else "free some, or name another place by PURSUIT_DATA_DIR"
    return Check(name="disk", state=state, detail=f"{free // MIB:,} MiB free at {place}", hint=hint)


def _memory_check() -> Check:
    size = physical_memory()
    state = State.WARNING if size < LEAST_MEMORY else State.OK
    hint = None if state is State.OK else "set PURSUIT_MEMORY_LIMIT, and train on small tables"
    return Check(name="memory", state=state, detail=f"{size // MIB:,} MiB", hint=hint)


def _existing(path: Path) -> Path:
    """Return the nearest folder above that is there."""
    return next(above for above in (path, *path.parents) if above.exists())
