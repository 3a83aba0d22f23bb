"""Settings: the environment, its defaults and what is derived."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from app.settings import Settings, available_cores


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"PURSUIT_{name.upper()}", raising=False)


def test_the_defaults_are_the_embedded_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings()
    assert settings.database == f"sqlite:///{tmp_path}/pursuit-data/pursuit.db"
    assert settings.artefacts == tmp_path / "pursuit-data" / "blobs"
    assert settings.uploads == tmp_path / "pursuit-data" / "uploads"
    assert list(tmp_path.iterdir()) == []


def test_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PURSUIT_DATABASE_URL", "postgresql://u@h/d")
    monkeypatch.setenv("PURSUIT_ARTEFACT_URL", "file:///srv/my%20models")
    monkeypatch.setenv("PURSUIT_MAX_UPLOAD_BYTES", "1000")
    monkeypatch.setenv("PURSUIT_PORT", "")
    settings = Settings()
    assert settings.database == "postgresql://u@h/d"
    assert settings.artefacts == Path("/srv/my models")
    assert settings.max_upload_bytes == 1000
    assert settings.port == 8000


def test_a_bucket_instead_of_a_folder(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, artefact_url="s3://bucket/some/prefix/")
    assert settings.bucket == ("bucket", "some/prefix")
    assert settings.artefacts is None
    assert settings.folders == (tmp_path / "uploads", tmp_path / "cache")
    assert Settings(artefact_url="s3://bucket").bucket == ("bucket", "")
    assert Settings(data_dir=tmp_path).bucket is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "70000"),
        ("WORKERS", "-1"),
        ("LEASE_SECONDS", "0"),
        ("LOG_FORMAT", "xml"),
        ("ARTEFACT_URL", "gs://bucket"),
        ("ARTEFACT_URL", "s3://"),
        ("ARTEFACT_URL", "s3://key:secret@bucket/prefix"),
        ("MAX_BODY_BYTES", "many"),
    ],
)
def test_nonsense_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"PURSUIT_{name}", value)
    with pytest.raises(ValidationError, match=name.lower()):
        Settings()


def test_workers_and_threads_share_the_cores() -> None:
    assert Settings(workers=1).training_threads == available_cores()
    assert Settings(workers=1000).training_threads == 1
    assert Settings(workers=0).training_threads == available_cores()
    assert Settings(threads=7).training_threads == 7
