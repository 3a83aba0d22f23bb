"""The three sides of a training job, each by itself."""

import errno
import itertools
import os
from pathlib import Path
from typing import Any

import pytest

from app.database.engine import Database
from app.errors import InvalidRequestError, UnavailableError, WrongStoreError
from app.jobs import queue
from app.jobs.child import Task
from app.jobs.job import Job
from app.services.intake.training_checks import PROCESS_BYTES
from app.services.jobs import JobView
from app.services.train.store_retries import StoreRetries
from app.services.train.training import Training, publish
from app.services.train.training_job import training_handler
from app.services.train.training_progress import ProgressReporter
from app.storage import artefact, catalog
from app.storage.blobs import LocalBlobStore
from app.tables import Limits
from app.worker import sweep_store
from core.train.progress import Checkpoint, Phase, Progress
from tests.app.routes.service import Recorder, numbers

ADAPTING: dict[str, Any] = {"basis_size": 15, "adapt": {"rounds": 3, "steps": 4}}


@pytest.fixture
def training(database: Database, tmp_path: Path) -> Training:
    blobs = LocalBlobStore(tmp_path / "blobs")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return Training(database=database, blobs=blobs, limits=Limits(), max_basis_size=1000, scratch=scratch)


def submit(training: Training, tmp_path: Path, spec: dict[str, Any], key: str | None = None) -> JobView:
    file = tmp_path / "upload"
    file.write_text(numbers(80))
    return training.submit_file(file, filename="n.csv", spec=spec, key=key)


def task_of(job: Job, *, checkpoint: Any = None, progress: Any = None) -> Task:
    return Task(id=job.id, kind=job.kind, payload=job.payload, checkpoint=checkpoint, attempts=1, progress=progress)


def test_submitting_leaves_nothing_behind(training: Training, tmp_path: Path) -> None:
    view = submit(training, tmp_path, ADAPTING)
    assert list(training.scratch.iterdir()) == []
    assert (view.job.kind, view.job.model, view.position) == ("train", "n", 0)
    assert [blob.key for blob in training.blobs.keys("tables")] == [view.job.payload["table"]]
    assert [blob.key for blob in training.blobs.keys("fits")] == [view.job.payload["fit"]]


def test_without_a_place_to_write_submitting_is_unavailable(training: Training, tmp_path: Path) -> None:
    training.scratch.rmdir()
    with pytest.raises(UnavailableError, match="the server's disk cannot be written: N"):
        submit(training, tmp_path, ADAPTING)


def test_a_full_disk_makes_submitting_unavailable(
    training: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("app.services.intake.ingest.write_text_blocks", refuse)
    with pytest.raises(UnavailableError, match="the disk of the server is full"):
        submit(training, tmp_path, ADAPTING)
    assert list(training.scratch.iterdir()) == []


WILD: dict[str, tuple[list[float], bool]] = {
    "overflow": ([1e308, -1e308] * 20, True),
    "the sum only": ([1e308, 0.0] * 20, True),
    "squares": ([1e200, -1e200] * 20, True),
    "underflow": ([1e-200, -1e-200] * 20, True),
    "large but usable": ([1e90, -1e90] * 20, False),
    "far away": ([1e15, 1e15 + 1] * 20, False),
}


@pytest.mark.parametrize(("cells", "wrong"), WILD.values(), ids=WILD)
@pytest.mark.parametrize("wild", ["x", "y"])
def test_a_spread_beyond_squares_is_refused_by_name(
    training: Training, cells: list[float], wrong: bool, wild: str
) -> None:
    columns: dict[str, list[Any]] = {"c": ["a", "b", "c", "d"] * 10, "x": list(range(40)), "y": list(range(40))}
    columns[wild] = cells
    if not wrong:
        assert training.submit_columns(columns, spec={}).job.model == "model"
        return
    with pytest.raises(InvalidRequestError, match=f"^column '{wild}': its spread is beyond") as caught:
        training.submit_columns(columns, spec={})
    assert [fault.column for fault in caught.value.faults] == [wild]
    assert not list(training.blobs.keys("tables"))


def test_without_standardization_only_what_overflows_is_refused(training: Training) -> None:
    columns: dict[str, list[Any]] = {"x": [1e308, -1e308] * 20, "y": list(range(40))}
    with pytest.raises(InvalidRequestError, match="column 'x'"):
        training.submit_columns(columns, spec={"standardize": False})


def test_a_run_tells_its_progress_and_publishes(training: Training, tmp_path: Path, database: Database) -> None:
    job = submit(training, tmp_path, ADAPTING).job
    heard = Recorder()
    outcome = training_handler(training.blobs, threads=1)(task_of(job), heard)
    fractions = [news["fraction"] for news in heard.progressed]
    assert fractions == sorted(fractions)
    assert fractions[0] == 0.0
    assert fractions[-1] == 0.98
    phases = [phase for phase, _ in itertools.groupby(news["phase"] for news in heard.progressed)]
    assert phases[0] == "reading"
    assert phases[-1] == "publishing"
    assert {"starting", "selecting", "adapting", "fitting", "evaluating"} <= set(phases)
    rounds = [checkpoint["round"] for checkpoint in heard.checkpoints]
    assert rounds == [0, 1, 2, 3]
    assert heard.milestones == [1], "once the table is read"
    with database.write() as connection:
        claimed = queue.claim(connection, worker="w", lease_seconds=9)
        assert claimed is not None
        result = publish(connection, claimed, outcome)
        assert publish(connection, claimed, outcome) == result
    assert result == {"model": "n", "version": 1, "report": outcome["report"]}
    with database.read() as connection:
        version = catalog.resolve(connection, "n")
    assert version.job_id == job.id
    assert version.size == outcome["size"] == len(training.blobs.read(version.artefact))


def test_a_run_that_goes_on_ends_with_the_same_model(training: Training, tmp_path: Path) -> None:
    job = submit(training, tmp_path, ADAPTING).job
    run = training_handler(training.blobs, threads=1)
    whole = Recorder()
    first = run(task_of(job), whole)
    for checkpoint in (whole.checkpoints[0], whole.checkpoints[-1]):
        heard = Recorder()
        progress = {"fraction": 0.77, "phase": "adapting"}
        again = run(task_of(job, checkpoint=checkpoint, progress=progress), heard)
        fractions = [news["fraction"] for news in heard.progressed]
        assert fractions == sorted(fractions)
        assert fractions[0] >= 0.77
        one, two = (artefact.load(training.blobs.read(found["artefact"])) for found in (first, again))
        assert one.posterior.scalars() == two.posterior.scalars()
        for name, array in one.posterior.arrays().items():
            assert array.tobytes() == two.posterior.arrays()[name].tobytes()
        assert one.basis_rows == two.basis_rows
        assert again["report"]["objectives"] == first["report"]["objectives"]


def told(fraction: float) -> Progress:
    return Progress(phase=Phase.ADAPTING, fraction=fraction, round=1, rounds=5, basis_size=10, objective=None)


def test_time_left_follows_the_pace_of_this_try() -> None:
    time = [0.0]
    heard = Recorder()
    listener = ProgressReporter(heard, 0.5, clock=lambda: time[0])
    listener.report_phase("reading", 0.0)
    for second in range(1, 101):
        time[0] = float(second)
        listener(told(second / 100))
    assert heard.progressed[0]["eta_s"] is None
    assert all(news["fraction"] >= 0.5 for news in heard.progressed)
    for second, news in enumerate(heard.progressed):
        if second >= 5:
            assert news["eta_s"] == pytest.approx(100 - second, abs=4.0), second


def test_time_left_of_a_run_that_goes_on() -> None:
    """The job starts at 60%, so what is done already says nothing of the pace."""
    time = [0.0]
    heard = Recorder()
    listener = ProgressReporter(heard, 0.6, clock=lambda: time[0])
    listener.report_phase("reading", 0.0)
    time[0] = 0.1
    listener(told(0.6))
    for second in range(1, 11):
        time[0] = 0.1 + second
        listener(told(0.6 + 0.01 * second))
    assert heard.progressed[-1]["eta_s"] == pytest.approx(32, abs=3)


def test_checkpoints_are_passed_on_as_json() -> None:
    heard = Recorder()
    checkpoint = Checkpoint(round=2, theta=(0.1,), indices=(3, 4), objectives=(1.5,), seconds={"adapting": 1.0})
    ProgressReporter(heard, 0.0)(checkpoint)
    assert Checkpoint.from_json(heard.checkpoints[0]) == checkpoint


def test_the_broom_spares_what_is_needed(training: Training, tmp_path: Path, database: Database) -> None:
    job = submit(training, tmp_path, ADAPTING).job
    orphan = training.blobs.put("models", ".safetensors", b"nobody's")
    leftover = training.blobs.put("tables", ".arrow", b"nobody's")
    outcome = training_handler(training.blobs, threads=1)(task_of(job), Recorder())
    with database.write() as connection:
        claimed = queue.claim(connection, worker="w", lease_seconds=9)
        assert claimed is not None
    assert set(sweep_store(database, training.blobs, older_than=3600.0)) == set()
    unpublished = {outcome["artefact"], outcome["state"]}
    assert set(sweep_store(database, training.blobs, older_than=0.0)) == {orphan, leftover, *unpublished}
    outcome = training_handler(training.blobs, threads=1)(task_of(job), Recorder())
    with database.write() as connection:
        queue.succeed(connection, claimed, publish(connection, claimed, outcome))
    assert sweep_store(database, training.blobs, older_than=0.0) == [job.payload["table"], job.payload["fit"]]
    assert training.blobs.read(outcome["artefact"])


def test_the_broom_does_not_sweep_before_anothers_door(training: Training, tmp_path: Path) -> None:
    """A worker with one database and the store of another: all that is in it looked like nobody's."""
    submit(training, tmp_path, ADAPTING)
    kept = training.blobs.put("models", ".safetensors", b"a model of the first database")
    with Database(f"sqlite:///{tmp_path}/another.db") as another:
        another.migrate()
        with pytest.raises(WrongStoreError):
            sweep_store(another, training.blobs, older_than=0.0)
    assert training.blobs.read(kept)


def test_a_store_that_is_away_is_waited_for() -> None:
    asked: list[int] = []

    def ask() -> str:
        asked.append(1)
        if len(asked) < 3:
            raise UnavailableError("away")
        return "here"

    told: list[str | None] = []
    assert StoreRetries(told.append)(ask) == "here"
    assert told == ["away", "away", None]
    told.clear()
    assert StoreRetries(told.append)(lambda: "there") == "there"
    assert told == []
    asked.clear()
    with pytest.raises(UnavailableError, match="away"):
        StoreRetries(told.append, seconds=0.1)(ask)
    assert len(asked) == 1


def test_a_job_knows_what_it_needs(training: Training, tmp_path: Path) -> None:
    small = submit(training, tmp_path, ADAPTING).job
    large = submit(training, tmp_path, ADAPTING | {"basis_size": 80, "pool_size": 80}).job
    assert small.needs_rows == large.needs_rows == 80
    assert small.needs_memory is not None
    assert large.needs_memory is not None
    assert PROCESS_BYTES < small.needs_memory < large.needs_memory
