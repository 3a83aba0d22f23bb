"""Alive is not ready."""

import shutil
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from app import main
from app.migrations.upgrade import newest
from app.storage import artefact, catalog
from app.storage.artefact_document import FORMAT_VERSION
from tests.app.routes.service import QUICK, Service, numbers, running
from tests.processes import wait_until


def test_alive_and_ready(empty: Service) -> None:
    assert empty.client.get("/health/live").json() == {"status": "live"}
    assert empty.client.get("/health/ready").json() == {"status": "ready", "quarantined": []}


def test_the_first_page_leads_to_the_documentation(empty: Service) -> None:
    assert '<a href="docs">' in empty.client.get("/").text
    assert empty.client.get("/docs").status_code == 200


def test_what_runs_here(tmp_path: Path) -> None:
    with running(tmp_path, commit="0123abc") as service:
        answer = service.client.get("/version").json()
    assert answer == {
        "version": version("pursuit-gp"),
        "api_revision": 1,
        "artefact_format": FORMAT_VERSION,
        "schema_revision": newest(),
        "commit": "0123abc",
    }


def test_not_ready_while_a_model_that_is_served_predicts_other_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its file is whole, but this process does not reproduce the probe row that was stored with it."""
    monkeypatch.setattr("app.services.served_models.RETRY_SECONDS", 0.0)
    with running(tmp_path) as service:
        assert service.train(numbers(), model="m", **QUICK)["state"] == "succeeded"
        assert service.client.get("/health/ready").status_code == 200
        with service.database.read() as connection:
            good = catalog.resolve(connection, "m")
        stored = artefact.load(service.blobs.read(good.artefact))
        assert stored.probe is not None
        other = replace(stored.probe, mean=stored.probe.mean + 1e-3 * (stored.probe.std or 1.0))
        key = service.blobs.put("models", ".safetensors", artefact.save(replace(stored, probe=other)))
        with service.database.write() as connection:
            catalog.publish(connection, model="m", artefact=key, size=1, job_id=None, summary=good.summary)
        wait_until(lambda: service.client.get("/health/ready").status_code == 503)
        assert "m@2" in service.client.get("/health/ready").json()["detail"]
        assert "probe row" in service.client.get("/health/ready").json()["detail"]
        assert service.client.delete("/models/m/versions/2").status_code == 204
        wait_until(lambda: service.client.get("/health/ready").status_code == 200)
    assert "m@2 does not load" in caplog.text


def test_not_ready_before_all_models_that_are_served_were_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path) as service:
        assert service.train(numbers(), model="m", **QUICK)["state"] == "succeeded"
    monkeypatch.setattr("app.services.served_models.LOOK_SECONDS", 0.0)
    with running(tmp_path) as service:
        answer = service.client.get("/health/ready")
        assert (answer.status_code, "still being checked" in answer.text) == (503, True)
        monkeypatch.setattr("app.services.served_models.LOOK_SECONDS", 2.0)
        wait_until(lambda: service.client.get("/health/ready").status_code == 200)


def test_not_ready_without_a_store(empty: Service) -> None:
    folder = empty.settings.artefacts
    assert folder is not None
    shutil.rmtree(folder, ignore_errors=True)
    folder.write_text("a file where the folder should be")
    answer = empty.client.get("/health/ready")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["content-type"] == "application/problem+json"
    assert empty.client.get("/health/live").status_code == 200


def test_not_ready_without_a_schema(empty: Service) -> None:
    with empty.database.write() as connection:
        connection.exec_driver_sql("DELETE FROM alembic_version")
    answer = empty.client.get("/health/ready")
    assert answer.status_code == 503
    assert "pursuit migrate" in answer.json()["detail"]


def test_ready_while_a_newer_version_takes_over(empty: Service) -> None:
    """In an upgrade the schema goes first: the processes of the version before it must not all leave at once."""
    with empty.database.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    assert empty.client.get("/health/ready").status_code == 200
    assert empty.post_file(numbers(), QUICK).status_code == 202


def test_a_database_that_comes_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service starts without it, says that it is not ready, and is once the database is there."""
    monkeypatch.setattr(main, "_RETRY_SECONDS", 0.1)
    place = tmp_path / "pursuit.db"
    place.mkdir()
    with running(tmp_path) as early:
        assert early.client.get("/health/live").status_code == 200
        answer = early.client.get("/health/ready")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert early.post_file(numbers(), QUICK).status_code == 503
        place.rmdir()
        wait_until(lambda: early.client.get("/health/ready").status_code == 200)
        assert early.train(numbers(), **QUICK)["state"] == "succeeded"


def test_a_store_that_is_not_the_databases(tmp_path: Path) -> None:
    """A share that is no longer mounted: an empty folder lies where it was."""
    with running(tmp_path) as service:
        for model in ("loaded", "waiting"):
            service.train(numbers(), model=model, **QUICK)
        before = service.ask("loaded", [[0.1, 0.2]])
        folder = service.settings.artefacts
        assert folder is not None
        folder.rename(tmp_path / "share")
        wait_until(lambda: service.client.get("/health/ready").status_code == 503)
        assert "does not belong to the database" in service.client.get("/health/ready").json()["detail"]
        assert service.ask("loaded", [[0.1, 0.2]]) == before
        answers = [
            service.client.post("/predict", json={"model": "waiting", "rows": [[0.1, 0.2]]}),
            service.post_file(numbers(), QUICK),
            service.client.post("/datasets", files={"file": ("t.csv", numbers())}),
        ]
        for answer in answers:
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1"), answer.text
        shutil.rmtree(folder)
        (tmp_path / "share").rename(folder)
        wait_until(lambda: service.client.get("/health/ready").status_code == 200)
        assert service.ask("waiting", [[0.1, 0.2]])["version"] == 1
