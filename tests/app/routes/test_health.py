"""Alive is not ready."""

import shutil

from tests.app.routes.service import Service


def test_alive_and_ready(empty: Service) -> None:
    assert empty.client.get("/health/live").json() == {"status": "live"}
    assert empty.client.get("/health/ready").json() == {"status": "ready"}


def test_not_ready_without_a_store(empty: Service) -> None:
    shutil.rmtree(empty.settings.artefacts, ignore_errors=True)
    empty.settings.artefacts.write_text("a file where the folder should be")
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
