"""A table is parsed once and fitted once: the child uses the schema that was fitted when the table was taken in."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from app.database.engine import Database
from app.errors import InvalidRequestError
from app.jobs import queue
from app.jobs.child import Task
from app.jobs.job import Job
from app.services.intake.datasets import Datasets
from app.services.train.training import KIND, Training
from app.services.train.training_job import training_handler
from app.storage import artefact, datasets
from app.storage.blobs import LocalBlobStore
from app.tables import Limits, fit_table, open_file
from app.worker import sweep_store
from tests.app.routes.service import Recorder

SPEC: dict[str, Any] = {
    "model": "m",
    "basis_size": 5,
    "missing": "impute",
    "adapt": False,
    "method": "rand",
    "calibrate": False,
}
CSV = "when,kind,size,y\n" + "".join(
    f"2020-01-{1 + row % 28:02d},{'abc'[row % 3]},{'' if row % 7 == 0 else row % 5},{row % 11}\n" for row in range(30)
)


@contextmanager
def counted(*functions: Callable[..., Any]) -> Iterator[Counter[str]]:
    """Count the calls of functions in this thread, wherever they are called from."""
    names = {function.__code__: function.__name__ for function in functions}
    calls: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code in names:
            calls[names[frame.f_code]] += 1

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(before)


@pytest.fixture
def training(database: Database, tmp_path: Path) -> Training:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    blobs = LocalBlobStore(tmp_path / "blobs")
    return Training(database=database, blobs=blobs, limits=Limits(), max_basis_size=1000, scratch=scratch)


def upload(tmp_path: Path) -> Path:
    path = tmp_path / "upload"
    path.write_text(CSV)
    return path


def submit(training: Training, tmp_path: Path, key: str | None = None, **more: Any) -> Job:
    return training.submit_file(upload(tmp_path), filename="n.csv", spec=SPEC | more, key=key).job


def run(training: Training, job: Job, **changed: Any) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The arrays of the model that the job makes, and its report without what differs from run to run."""
    payload = {name: value for name, value in (dict(job.payload) | changed).items() if value is not None}
    task = Task(id=job.id, kind=job.kind, payload=payload, checkpoint=None, attempts=1, progress=None)
    outcome = training_handler(training.blobs, threads=1)(task, Recorder())
    made = artefact.load(training.blobs.read(outcome["artefact"]))
    report = {name: value for name, value in outcome["report"].items() if name not in ("seconds", "peak_memory_bytes")}
    return {name: array.tobytes() for name, array in made.posterior.arrays().items()}, report


def test_an_upload_is_parsed_once_and_fitted_once(training: Training, tmp_path: Path) -> None:
    with counted(open_file, fit_table) as calls:
        job = submit(training, tmp_path)
        run(training, job)
        run(training, job)  # a second attempt
    assert calls == {"open_file": 1, "fit_table": 1}


def test_a_table_of_json_is_fitted_once(training: Training) -> None:
    columns = {"x": list(range(40)), "y": [row % 7 for row in range(40)]}
    with counted(open_file, fit_table) as calls:
        run(training, training.submit_columns(columns, spec=SPEC).job)
    assert calls == {"fit_table": 1}


def test_a_large_upload_is_fitted_in_the_process_that_reads_it(
    training: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = run(training, submit(training, tmp_path))
    monkeypatch.setattr("app.services.intake.ingest.SMALL_BYTES", 10)
    with counted(open_file, fit_table) as calls:
        assert run(training, submit(training, tmp_path)) == here
    assert calls == {}


def test_a_job_of_an_earlier_release_trains_the_same_model(training: Training, tmp_path: Path) -> None:
    job = submit(training, tmp_path)
    kept = run(training, job)
    with counted(fit_table) as calls:
        assert run(training, job, fit=None) == kept
    assert calls == {"fit_table": 1}


def test_other_options_of_the_table_are_fitted_again(training: Training, tmp_path: Path) -> None:
    job = submit(training, tmp_path)
    for changed in ({"missing": "drop"}, {"columns": {"kind": "ignore"}}, {"dates": "cyclic"}):
        other = submit(training, tmp_path, **changed)
        with counted(fit_table) as calls:
            assert run(training, job, spec=other.payload["spec"]) == run(training, other)
        assert calls == {"fit_table": 1}


@pytest.mark.parametrize("damage", [None, b"", b"{}", b'{"format": "pursuit-table-fit/1"}'])
def test_a_fit_that_is_gone_or_damaged_is_made_again(training: Training, tmp_path: Path, damage: bytes | None) -> None:
    job = submit(training, tmp_path)
    kept = run(training, job)
    path = training.blobs.path(job.payload["fit"])
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    assert run(training, job) == kept


def test_the_same_request_is_the_same_job_whoever_fitted(
    training: Training, tmp_path: Path, database: Database
) -> None:
    job = submit(training, tmp_path, "key")
    assert submit(training, tmp_path, "key").id == job.id
    earlier = {name: value for name, value in job.payload.items() if name != "fit"}
    with database.write() as connection:
        old, _ = queue.submit(connection, kind=KIND, model="m", payload=earlier, priority=0, idempotency_key="old")
    assert submit(training, tmp_path, "old").id == old.id


@pytest.fixture
def uploaded(training: Training, tmp_path: Path) -> str:
    """The id of a dataset."""
    intake = Datasets(
        database=training.database, blobs=training.blobs, limits=Limits(), scratch=training.scratch, read_seconds=60.0
    )
    return intake.add_file(upload(tmp_path), filename="n.csv").id


def test_a_dataset_is_fitted_once_for_all_trainings(training: Training, uploaded: str) -> None:
    with counted(open_file, fit_table) as calls:
        first = training.submit_dataset(uploaded, spec=SPEC).job
        second = training.submit_dataset(uploaded, spec=SPEC | {"basis_size": 7}).job
        one, other = run(training, first), run(training, second)
    assert calls == {"fit_table": 1}
    assert first.payload["fit"] == second.payload["fit"]
    assert one[1]["columns"] == other[1]["columns"]


def test_other_options_of_a_dataset_are_other_fits(training: Training, uploaded: str) -> None:
    specs = [SPEC, SPEC | {"missing": "drop"}, SPEC | {"columns": {"kind": "ignore"}}]
    with counted(fit_table) as calls:
        made = {training.submit_dataset(uploaded, spec=spec).job.payload["fit"] for spec in (*specs, *specs)}
    assert len(made) == calls["fit_table"] == 3


def test_a_kept_fit_is_still_checked_against_the_specification(training: Training, uploaded: str) -> None:
    training.submit_dataset(uploaded, spec=SPEC)
    with counted(fit_table) as calls, pytest.raises(InvalidRequestError, match=r"row 0.*target_transform log"):
        training.submit_dataset(uploaded, spec=SPEC | {"target_transform": "log"})
    assert calls == {}


def test_a_dataset_whose_fit_is_gone_is_fitted_again(training: Training, uploaded: str) -> None:
    job = training.submit_dataset(uploaded, spec=SPEC).job
    training.blobs.path(job.payload["fit"]).unlink()
    again = training.submit_dataset(uploaded, spec=SPEC).job
    assert training.blobs.path(again.payload["fit"]).is_file()
    training.blobs.path(again.payload["fit"]).write_bytes(b"{}")
    assert training.blobs.path(training.submit_dataset(uploaded, spec=SPEC).job.payload["fit"]).stat().st_size > 2


def test_the_fits_of_a_dataset_go_with_it(training: Training, uploaded: str, database: Database) -> None:
    job = training.submit_dataset(uploaded, spec=SPEC).job
    with database.write() as connection:
        queue.request_cancel(connection, job.id)
    assert sweep_store(database, training.blobs, older_than=0.0) == []
    with database.write() as connection:
        datasets.delete(connection, uploaded)
    assert sweep_store(database, training.blobs, older_than=0.0) == [job.payload["table"], job.payload["fit"]]


def test_the_report_counts_what_parsing_and_fitting_cost(training: Training, tmp_path: Path) -> None:
    job = submit(training, tmp_path)
    path = training.blobs.path(job.payload["fit"])
    path.write_text(path.read_text().replace('"seconds": {', '"seconds": {"earlier": 1000.0, '))
    task = Task(id=job.id, kind=job.kind, payload=job.payload, checkpoint=None, attempts=1, progress=None)
    assert training_handler(training.blobs, threads=1)(task, Recorder())["report"]["seconds"]["reading"] > 1000.0
