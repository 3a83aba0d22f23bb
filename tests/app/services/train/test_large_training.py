"""Trainings of tables that are read by parts: the service's side, with the child's handler and a real store."""

from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.database.engine import Database
from app.jobs.child import Task
from app.jobs.job import JSON
from app.services.intake import large_table
from app.services.intake.datasets import Datasets
from app.services.intake.large_table import LargeTables
from app.services.train.training import Training
from app.services.train.training_job import training_handler
from app.storage import artefact, training_state
from app.storage.blobs import LocalBlobStore
from app.storage.locations import Locations
from app.tables import Limits, Schema
from core.predict.model import ModelPredictor
from core.train.progress import Checkpoint
from tests.app.routes.service import Recorder

ROWS = 2_400
SPEC: dict[str, Any] = {"model": "m", "basis_size": 25, "adapt": {"rounds": 1, "steps": 5}, "duplicates": "keep"}

QUICK: dict[str, Any] = {"effort": "quick", "calibrate": "loo", "noise": "constant"}
PLAIN: dict[str, Any] = {
    **QUICK,
    "adapt": False,
    "method": "rand",
    "mean_rows": "basis",
    "target_transform": "none",
}


@pytest.fixture
def training(database: Database, tmp_path: Path) -> Training:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    blobs = LocalBlobStore(tmp_path / "blobs")
    return Training(database=database, blobs=blobs, limits=Limits(), max_basis_size=1000, scratch=scratch)


def columns_of(rows: int, seed: int = 0) -> dict[str, list[Any]]:
    random = np.random.default_rng(seed)
    a, kind = random.uniform(-2.0, 2.0, rows), random.choice(["up", "down"], rows)
    y = np.where(kind == "up", 1.0, -1.0) * np.sin(2.0 * a) + 0.1 * random.standard_normal(rows)
    return {"a": a.tolist(), "kind": kind.tolist(), "y": y.tolist()}


def trained(
    training: Training, columns: dict[str, list[Any]], shards: Path | None, *, checkpoint: Any = None, **spec: Any
) -> dict[str, Any]:
    job = training.submit_columns(columns, spec=SPEC | spec).job
    task = Task(id=job.id, kind=job.kind, payload=job.payload, checkpoint=checkpoint, attempts=1, progress=None)
    large = None if shards is None else LargeTables(folder=shards, least=1_000)
    run = training_handler(training.blobs, threads=1, large_tables=large)
    return dict(run(task, Recorder()))


def test_a_large_table_gives_a_model_of_all_its_rows(training: Training, tmp_path: Path) -> None:
    columns = columns_of(ROWS)
    columns["a"][7] = 9.0  # an end of the range, wherever the row is
    found = trained(training, columns, tmp_path / "shards")
    report = found["report"]
    assert report["rows"] == ROWS
    assert report["rows_uploaded"] == ROWS
    assert any("is read by parts" in warning for warning in report["warnings"])
    ranges = {column["name"]: column for column in report["columns"]}
    assert ranges["a"]["highest"] == 9.0
    assert report["holdout"]["nmse"] < 0.1
    assert 0.9 < report["holdout"]["coverage"]["0.95"] < 0.99
    assert list((tmp_path / "shards").glob("*.npy"))
    model = artefact.load(training.blobs.read(found["artefact"]))
    assert max(model.basis_rows) > ROWS / 2  # row numbers of the upload
    fresh = columns_of(1_000, seed=1)
    schema, y = Schema.from_json(model.schema), np.array(fresh.pop("y"))
    predicted = ModelPredictor(model.model()).predict(schema.encode_columns(fresh))
    lower, upper = predicted.interval(0.95)
    assert np.mean(np.square(predicted.centre - y)) / np.var(y) < 0.1
    assert 0.9 < np.mean((lower <= y) & (y <= upper)) < 0.99


def test_a_disk_of_shards_that_cannot_be_written_is_told_while_it_is_waited_for(
    training: Training, tmp_path: Path
) -> None:
    job = training.submit_columns(columns_of(1_200), spec=SPEC | PLAIN).job
    task = Task(id=job.id, kind=job.kind, payload=job.payload, checkpoint=None, attempts=1, progress=None)
    taken = tmp_path / "taken"
    taken.touch()

    class Mender(Recorder):
        """Makes room as soon as it hears what is wrong."""

        def progress(self, news: JSON) -> None:
            super().progress(news)
            if news.get("waiting"):
                taken.unlink(missing_ok=True)

    large, reporter = LargeTables(folder=taken / "shards", least=1_000), Mender()
    training_handler(training.blobs, threads=1, large_tables=large)(task, reporter)
    reasons = [news.get("waiting") for news in reporter.progressed]
    (place,) = [place for place, reason in enumerate(reasons) if reason]
    assert reasons[place] == (
        f"the folder of the shards (PURSUIT_SHARD_DIR, here {taken / 'shards'}) cannot be written: Not a directory"
    )
    assert reporter.progressed[place]["phase"] == "reading"
    assert len(reasons) > place + 1


def test_a_small_table_and_one_without_a_folder_are_held_in_memory(training: Training, tmp_path: Path) -> None:
    small = trained(training, columns_of(900), tmp_path / "shards", model="small", **PLAIN)
    whole = trained(training, columns_of(1_100), None, model="whole", **PLAIN)
    for found in (small, whole):
        assert not any("by parts" in warning for warning in found["report"]["warnings"])
    assert not (tmp_path / "shards").exists()


def test_the_state_of_a_large_model_learns_more_rows(training: Training, tmp_path: Path) -> None:
    found = trained(training, columns_of(ROWS), tmp_path / "shards", **QUICK)
    (state,) = training_state.load(training.blobs.read(found["state"]))
    assert state.rows == state.trained == ROWS
    assert 0 < len(state.numbers) < 0.6 * ROWS  # of the sample: there is nothing for each row of the others
    assert state.beyond == ROWS - len(state.numbers)
    assert not state.has_rows


def test_copies_are_dropped_from_the_sample_alone(training: Training, tmp_path: Path) -> None:
    columns = {name: cells * 2 for name, cells in columns_of(ROWS // 2).items()}
    found = trained(training, columns, tmp_path / "shards", **QUICK | {"duplicates": "drop"})
    assert found["report"]["rows"] < ROWS
    assert any("exact cop" in warning for warning in found["report"]["warnings"])


def test_a_checkpoint_of_rows_that_are_not_held_is_left(
    training: Training, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a worker that held the whole table in memory."""
    columns = columns_of(ROWS)
    begun = asdict(Checkpoint(round=1, theta=(0.0,) * 5, indices=(3, ROWS - 1), gains=(1.0, 0.5), objectives=(9.0,)))
    found = trained(training, columns, tmp_path / "shards", checkpoint=begun, **QUICK)
    assert "the training begins again" in caplog.text
    again = trained(training, columns, tmp_path / "shards", model="again", **QUICK)
    assert found["report"]["holdout"] == again["report"]["holdout"]


@pytest.mark.slow
def test_a_folder_of_files_gives_the_model_of_one_file(
    training: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, though its files and row groups are cut otherwise than the parts that are read."""
    monkeypatch.setattr(large_table, "PART_ROWS", 700)
    place = (tmp_path / "place").resolve()
    (place / "folder").mkdir(parents=True)
    table = pa.table(columns_of(ROWS))
    for number, (first, last) in enumerate(pairwise((0, 1, 911, 1_500, ROWS))):
        pq.write_table(table.slice(first, last - first), place / "folder" / f"{number}.parquet", row_group_size=300)
    pq.write_table(table, place / "whole.parquet")
    datasets = Datasets(
        database=training.database,
        blobs=training.blobs,
        limits=Limits(),
        scratch=training.scratch,
        read_seconds=60.0,
        locations=Locations([str(place)]),
    )
    training = replace(training, locations=datasets.locations, large_rows=1_000)
    models = []
    for dataset in (
        datasets.add_location(str(place / "folder")),
        datasets.add_file(place / "whole.parquet", filename="whole.parquet"),
    ):
        job = training.submit_dataset(dataset.id, spec=SPEC | QUICK).job
        task = Task(id=job.id, kind=job.kind, payload=job.payload, checkpoint=None, attempts=1, progress=None)
        large = LargeTables(folder=tmp_path / "shards", least=1_000)
        found = dict(training_handler(training.blobs, threads=1, large_tables=large)(task, Recorder()))
        assert any("is read by parts" in warning for warning in found["report"]["warnings"])
        models.append(artefact.load(training.blobs.read(found["artefact"])))
    one, other = models
    assert one.basis_rows == other.basis_rows
    for name in ("basis", "alpha"):
        np.testing.assert_array_equal(getattr(one.posterior, name), getattr(other.posterior, name))
    fresh = columns_of(50, seed=1)
    fresh.pop("y")
    predicted = [ModelPredictor(m.model()).predict(Schema.from_json(m.schema).encode_columns(fresh)) for m in models]
    np.testing.assert_array_equal(predicted[0].centre, predicted[1].centre)
    np.testing.assert_array_equal(predicted[0].variance, predicted[1].variance)
