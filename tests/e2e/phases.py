"""Death in every phase of a job: it is brought there and held, somebody is killed, and all that was promised holds.

A child is stopped where its job says that it is, a transaction by a lock that it waits for: so death comes where its
name says, on a fast machine and on a slow one.
"""

import os
import secrets
import signal
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from enum import StrEnum
from functools import partial
from typing import Any

import httpx
from sqlalchemy import text

from app.errors import UnavailableError
from app.jobs import queries
from app.jobs.job import Job, JobState
from app.storage.blobs import MODELS
from tests.e2e.load import Tally
from tests.e2e.processes import job_of, predict, surface
from tests.e2e.stage import MODEL, Outcome, Stage
from tests.freezing import freeze
from tests.processes import wait_until

SPEC = (
    b'{"model": "surface", "target": "y", "basis_size": 150, "adapt": {"rounds": 4, "steps": 10}, "calibrate": "loo"}'
)
"""A job that is in each of these phases for longer than its worker is silent, and evaluates for less than a lease: who
waits for SQLite's lock when it publishes must not outlast that.
"""
TABLE = surface(2000).encode()
LOCKED_SECONDS = 0.5
"""Seconds that the test waits for a writer to wait for SQLite's lock, which cannot be seen; PostgreSQL shows it."""


class Victim(StrEnum):
    """Process that is killed."""

    CHILD = "child"
    WORKER = "worker"
    API = "api"
    """All of them."""
    DATABASE = "database"


Hold = Callable[[Stage, Tally], AbstractContextManager[Callable[[], str]]]
"""Holds a job in a phase for the time of a block; it gives what tells the job's id afterwards."""


def death(stage: Stage, tally: Tally, phase: str, victim: Victim) -> None:
    """One death; AssertionError if the job does not end as it should, or something else is no longer as it was.

    Only the first worker may run, and it must have no other job.
    """
    (worker,) = stage.names("worker")
    with stage.client() as client:
        before = predict(client, f"{MODEL}@1")
        with PHASES[phase][0](stage, tally) as known:
            _kill(stage, worker, victim)
        job = known()
        for name in [*stage.names("api"), worker]:
            stage.fleet.ready(name)
        tally.jobs[job] = str(_ended(client, job, tally)["state"])
        assert predict(client, f"{MODEL}@1") == before
    for name in stage.names("api"):
        assert list((stage.fleet.directory / name / "uploads").glob("*/*")) == [], "half an upload is left"
    found = _row(stage, job)
    assert found.state == (JobState.CANCELLED if phase == "cancelling" else JobState.SUCCEEDED), found
    if victim in {Victim.CHILD, Victim.WORKER} and Victim.CHILD in PHASES[phase][1] and phase != "cancelling":
        assert found.claims == 2, "it died with the job in hand, which was then done again"


def deaths(stage: Stage, name: str, wanted: Iterable[tuple[str, Victim]]) -> Outcome:
    """One death after the other, each of one victim in one phase."""
    tally = Tally(patience=90.0)
    _, *others = stage.names("worker")
    for other in others:
        assert stage.fleet.stop(other) == 0
    try:
        for phase, victim in wanted:
            death(stage, tally, phase, victim)
    finally:  # the scenarios after this one have all workers
        for other in others:
            stage.fleet.start(other)
            stage.fleet.ready(other)
    return stage.judged(name, tally)


def possible(stage: Stage, phase: str) -> list[tuple[str, Victim]]:
    """The deaths of all who have a part in this phase; a database in a file does not die."""
    return [(phase, who) for who in PHASES[phase][1] if who is not Victim.DATABASE or stage.server is not None]


def _kill(stage: Stage, worker: str, victim: Victim) -> None:
    match victim:
        case Victim.CHILD:
            (child,) = stage.fleet.children_of(worker)
            os.kill(child, signal.SIGKILL)
        case Victim.WORKER:
            stage.kill(worker)
        case Victim.API:
            for name in stage.names("api"):
                stage.kill(name)
        case Victim.DATABASE:
            stage.kill_database()


@contextmanager
def _uploading(stage: Stage, tally: Tally) -> Iterator[Callable[[], str]]:
    """Half of the request is on the first API's disk."""
    request = _Request()
    name = stage.names("api")[0]
    with socket.create_connection(("127.0.0.1", stage.fleet.ports[name]), timeout=60.0) as connection:
        data = request.raw()
        connection.sendall(data[: len(data) // 2])
        uploads = stage.fleet.directory / name / "uploads"
        wait_until(lambda: any(uploads.glob("*/*")))
        yield lambda: request.ask(stage, tally)
        with suppress(OSError):  # the API is dead, or lives and hears the rest
            connection.sendall(data[len(data) // 2 :])
            connection.recv(1 << 16)


@contextmanager
def _accepting(stage: Stage, tally: Tally) -> Iterator[Callable[[], str]]:
    """All has been read, and the job's row is about to be written."""
    request = _Request()
    with ThreadPoolExecutor(1) as pool, _locked(stage, "jobs") as somebody_waits:
        first: Future[str] = pool.submit(request.ask, stage, tally)
        somebody_waits()
        yield first.result


@contextmanager
def _queued(stage: Stage, tally: Tally) -> Iterator[Callable[[], str]]:
    with _asleep(stage):
        job = _Request().ask(stage, tally)
        yield lambda: job


@contextmanager
def _claiming(stage: Stage, tally: Tally) -> Iterator[Callable[[], str]]:
    """The worker is about to write that the job is its own."""
    with _asleep(stage) as wake:
        job = _Request().ask(stage, tally)
        with _locked(stage, "jobs") as somebody_waits:
            wake()
            somebody_waits()
            yield lambda: job


@contextmanager
def _starting(stage: Stage, tally: Tally) -> Iterator[Callable[[], str]]:
    """The child's process is there and has a second's imports before it; stopped, it could not see its parent die."""
    job = _Request().ask(stage, tally)
    _child(stage)
    assert _row(stage, job).progress is None
    yield lambda: job


@contextmanager
def _computing(stage: Stage, tally: Tally, *, said: Set[str]) -> Iterator[Callable[[], str]]:
    """The child is stopped when its job's progress says one of these."""
    job = _Request().ask(stage, tally)
    _until_said(stage, job, said)
    with _stopped(stage, _child(stage)):
        assert _row(stage, job).state is JobState.RUNNING
        yield lambda: job


@contextmanager
def _publishing(stage: Stage, tally: Tally) -> Iterator[Callable[[], str]]:
    """The artefact is in the store, and the version's row is about to be written."""
    job = _Request().ask(stage, tally)
    _until_said(stage, job, {"evaluating"})
    artefacts = {blob.key for blob in stage.blobs.keys(MODELS)}
    with _stopped(stage, _child(stage)) as go_on, _locked(stage, "versions") as somebody_waits:
        go_on()
        wait_until(lambda: {blob.key for blob in stage.blobs.keys(MODELS)} > artefacts)
        somebody_waits()
        assert _row(stage, job).state is JobState.RUNNING
        yield lambda: job


@contextmanager
def _cancelling(stage: Stage, tally: Tally) -> Iterator[Callable[[], str]]:
    """The cancellation is requested, and the worker has not seen it."""
    with _computing(stage, tally, said={"selecting", "adapting"}) as known, _asleep(stage):
        with stage.client() as client:
            tally.sent += 1
            answer = client.delete(f"/jobs/{known()}")
            assert (answer.status_code, answer.json().get("state")) == (200, "running"), answer.text
            tally.answered += 1
        yield known


@contextmanager
def _published(stage: Stage, tally: Tally) -> Iterator[Callable[[], str]]:
    """It has just ended."""
    job = _Request().ask(stage, tally)
    wait_until(lambda: _row(stage, job).state.ended, 120.0)
    yield lambda: job


_EVERYBODY = tuple(Victim)
_SERVICE = (Victim.WORKER, Victim.API, Victim.DATABASE)
PHASES: Mapping[str, tuple[Hold, tuple[Victim, ...]]] = {
    "uploading": (_uploading, (Victim.API, Victim.DATABASE)),
    "accepting": (_accepting, (Victim.API, Victim.DATABASE)),
    "queued": (_queued, _SERVICE),
    "claiming": (_claiming, _SERVICE),
    "starting": (_starting, _EVERYBODY),
    "reading": (partial(_computing, said={"reading", "starting"}), _EVERYBODY),
    "searching": (partial(_computing, said={"selecting", "adapting"}), _EVERYBODY),
    "evaluating": (partial(_computing, said={"evaluating"}), _EVERYBODY),
    "cancelling": (_cancelling, _EVERYBODY),
    "publishing": (_publishing, _SERVICE),
    "published": (_published, _SERVICE),
}
"""Phases in the order of a job: how it is held there, and the processes that take part."""


class _Request:
    """POST /train with a key of its own, so that it may be sent again."""

    def __init__(self) -> None:
        form = httpx.Request("POST", "http://api", files={"file": ("t.csv", TABLE)}, data={"spec": SPEC.decode()})
        self._body = form.read()
        self._headers = {"Content-Type": form.headers["Content-Type"], "Idempotency-Key": secrets.token_hex(8)}

    def ask(self, stage: Stage, tally: Tally) -> str:
        """Send it until it is accepted; return the job's id."""
        answer = _patiently(
            stage, tally, lambda client: client.post("/train", content=self._body, headers=self._headers)
        )
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def raw(self) -> bytes:
        """The same as it goes over the wire."""
        headers = {"Host": "api", "Content-Length": str(len(self._body))} | self._headers
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"POST /train HTTP/1.1\r\n{head}\r\n".encode() + self._body


def _patiently(stage: Stage, tally: Tally, ask: Callable[[httpx.Client], httpx.Response]) -> httpx.Response:
    """One request that is counted once and sent again where nobody could answer it."""
    tally.sent += 1
    end = time.monotonic() + tally.patience
    while True:
        with suppress(httpx.TransportError), stage.client() as client:
            answer = ask(client)
            if answer.status_code not in {502, 503, 504}:
                tally.answered += 1
                return answer
        assert time.monotonic() < end, "nobody answered"
        tally.retried += 1
        time.sleep(0.2)


def _ended(client: httpx.Client, job: str, tally: Tally) -> dict[str, Any]:
    """The job once it has ended."""

    def over() -> bool:
        tally.sent += 1
        found.update(job_of(client, job))
        tally.answered += 1
        return bool(found["state"] in {"succeeded", "failed", "cancelled"})

    found: dict[str, Any] = {}
    wait_until(over, 120.0)
    return found


def _row(stage: Stage, job: str) -> Job:
    with stage.database.read() as connection:
        return queries.get(connection, job)


def _until_said(stage: Stage, job: str, said: Set[str]) -> None:
    end = time.monotonic() + 120.0
    while ((found := _row(stage, job)).progress or {}).get("phase") not in said:
        assert not found.state.ended, f"{job} was never seen in {said}"
        assert time.monotonic() < end, f"{job} does not come to {said}"
        time.sleep(0.01)


def _child(stage: Stage) -> int:
    """The only one, once there is one."""
    (worker,) = stage.names("worker")
    end = time.monotonic() + 60.0
    while not (found := stage.fleet.children_of(worker)):
        assert time.monotonic() < end, stage.fleet.log(worker)
        time.sleep(0.01)
    return found[0]


@contextmanager
def _stopped(stage: Stage, process: int) -> Iterator[Callable[[], None]]:
    """SIGSTOP, outside of transactions, until the end of the block, or until told to go on."""

    def go_on() -> None:
        with suppress(ProcessLookupError):  # it was killed
            os.kill(process, signal.SIGCONT)

    freeze(process, stage.database)
    try:
        yield go_on
    finally:
        go_on()


def _asleep(stage: Stage) -> AbstractContextManager[Callable[[], None]]:
    """The only worker is stopped, not its child."""
    (worker,) = stage.names("worker")
    return _stopped(stage, stage.fleet.processes[worker].pid)


@contextmanager
def _locked(stage: Stage, table: str) -> Iterator[Callable[[], None]]:
    """Lock the table (SQLite: all tables); yield a function that waits until another transaction waits for the lock."""
    database = stage.database
    with suppress(UnavailableError), database.write() as connection:  # it may have been killed
        if not database.is_sqlite:
            connection.execute(text(f"LOCK TABLE {table} IN EXCLUSIVE MODE"))
        waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = CAST(:name AS regclass)")

        def wait_for_writer() -> None:
            if database.is_sqlite:
                time.sleep(LOCKED_SECONDS)
            else:
                wait_until(lambda: connection.execute(waiting, {"name": table}).scalar_one() > 0)

        yield wait_for_writer
