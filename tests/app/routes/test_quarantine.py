"""Stored artefacts that are damaged or lost: their aliases mean older versions, and everybody is told."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.services.diagnosis import diagnose
from app.services.predict import registry
from app.settings import Settings
from app.storage import catalog
from app.worker import end_quarantines
from tests.app.routes.service import QUICK, Service, numbers, running


def flip_a_bit(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-8])


def trained(directory: Path, versions: int) -> list[Path]:
    """The files of a model of so many versions, which no process has in memory."""
    with running(directory) as service:
        for seed in range(versions):
            assert service.train(numbers(40, seed=seed), model="m", **QUICK)["state"] == "succeeded"
        with service.database.read() as connection:
            keys = [catalog.get_version(connection, "m", number + 1).artefact for number in range(versions)]
    return [directory / "blobs" / key for key in keys]


def ask(service: Service, reference: str) -> httpx.Response:
    return service.client.post("/predict", json={"model": reference, "rows": [[0.1, 0.2]]})


def version_of(service: Service, reference: str) -> int:
    version: int = ask(service, reference).json()["version"]
    return version


def ready(service: Service) -> dict[str, Any]:
    found: dict[str, Any] = service.client.get("/health/ready").json()
    return found


@pytest.mark.parametrize("damage", [flip_a_bit, cut, Path.unlink])
def test_an_alias_falls_back_and_comes_back(
    tmp_path: Path,
    damage: Callable[[Path], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(registry, "DAMAGED_SECONDS", 0.0)
    files = trained(tmp_path, 3)
    whole = files[2].read_bytes()
    with running(tmp_path) as service:
        service.client.put("/models/m/aliases/champion", json={"version": 3})
        before = ready(service)
        damage(files[2])
        with caplog.at_level(logging.ERROR):
            assert [version_of(service, name) for name in ("m", "m@champion", "m@latest", "m@1")] == [2, 2, 2, 1]
        assert "m@3 is in quarantine" in caplog.text
        refused = ask(service, "m@3")
        assert refused.status_code == 503
        assert files[2].name in refused.json()["detail"]
        listed = {one["version"]: one["quarantined_at"] for one in service.client.get("/models/m").json()["versions"]}
        assert (listed[1], listed[2]) == (None, None)
        assert listed[3] is not None
        assert before == {"status": "ready", "quarantined": []}
    with running(tmp_path) as other:  # another process knows it without having met the file
        assert ready(other) == {"status": "ready", "quarantined": ["m@3"]}
        assert version_of(other, "m") == 2
        damage(files[1])
        assert version_of(other, "m") == 2, "it is in memory"
    with running(tmp_path) as service:
        assert version_of(service, "m") == 1
        files[2].write_bytes(whole)
        assert version_of(service, "m@3") == 3
        assert version_of(service, "m") == 3
        assert end_quarantines(service.database, service.blobs) == []
        assert ready(service)["quarantined"] == ["m@2"]


def test_without_an_older_version_there_is_none(tmp_path: Path) -> None:
    (file,) = trained(tmp_path, 1)
    whole = file.read_bytes()
    flip_a_bit(file)
    with running(tmp_path) as service:
        for _ in range(2):
            refused = ask(service, "m")
            assert refused.status_code == 503
            assert "damaged" in refused.json()["detail"]
            assert refused.json()["type"] == "/problems/damaged-file"
            assert "retry-after" not in refused.headers, "to come again is of no use"
        found = diagnose(Settings(data_dir=tmp_path), {})
        assert [(one["state"], "m@1" in one["detail"]) for one in found["checks"] if one["name"] == "models"] == [
            ("error", True)
        ]
        assert not found["ok"]
        assert end_quarantines(service.database, service.blobs) == []
        file.write_bytes(whole)
        assert end_quarantines(service.database, service.blobs) == ["m@1"]
        assert version_of(service, "m") == 1
        assert diagnose(Settings(data_dir=tmp_path), {})["ok"]


def test_the_same_bytes_imported_heal_it(tmp_path: Path) -> None:
    files = trained(tmp_path, 2)
    whole = files[1].read_bytes()
    flip_a_bit(files[1])
    with running(tmp_path) as service:
        assert version_of(service, "m") == 1
        answer = service.client.post(
            "/models/m/versions", content=whole, headers={"content-type": "application/octet-stream"}
        )
        assert answer.json()["version"] == 3
        assert version_of(service, "m") == 3
        assert version_of(service, "m@2") == 2


def test_in_another_store_nothing_is_damaged(tmp_path: Path) -> None:
    trained(tmp_path, 2)
    with running(tmp_path, artefact_url=f"{tmp_path}/other") as service:
        assert ask(service, "m").status_code == 503
        with service.database.read() as connection:
            assert catalog.quarantined(connection) == []
