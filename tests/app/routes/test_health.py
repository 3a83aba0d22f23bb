"""Alive is not ready."""

import shutil
from pathlib import Path

import pytest

from app import main
from tests.app.routes.service import QUICK, Service, numbers, running
from tests.processes import wait_until


def test_alive_and_ready(empty: Service) -> None:
    assert empty.client.get("/health/live").json() == {"status": "live"}
    assert empty.client.get("/health/ready").json() == {"status": "ready", "quarantined": []}


def test_the_first_page_leads_to_the_documentation(empty: Service) -> None:
    answer = empty.client.get("/", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, "docs")
    assert empty.client.get("/docs").status_code == 200


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
