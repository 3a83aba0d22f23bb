"""Settings: the environment, its defaults and what is derived."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from app.settings import Settings, available_cores, unknown_variables
from core.numeric.shards import SHARDED_ROWS


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
        ("COMPUTE", "spark://host:7077"),
        ("COMPUTE", "dask://host"),
        ("COMPUTE", "dask://host:8786/path"),
        ("ARTEFACT_URL", "file://share/models"),
        ("CORS_ORIGINS", "https://example.com/path"),
        ("CORS_ORIGINS", "example.com"),
        ("KEEP_AUDIT_DAYS", "0"),
    ],
)
def test_nonsense_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"PURSUIT_{name}", value)
    with pytest.raises(ValidationError, match=name.lower()):
        Settings()


def test_where_sums_are_made_and_their_shards_lie(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert Settings().compute == "local"
    assert f"{SHARDED_ROWS:,}" in str(Settings.model_fields["compute"].description)
    assert Settings(data_dir=tmp_path).shards == tmp_path / "shards"
    monkeypatch.setenv("PURSUIT_COMPUTE", "dask+tls://scheduler:8786")
    monkeypatch.setenv("PURSUIT_SHARD_DIR", "/mnt/shards")
    assert Settings().compute == "dask+tls://scheduler:8786"
    assert Settings().shards == Path("/mnt/shards")


def test_a_cluster_needs_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.settings.find_spec", lambda _: None)
    with pytest.raises(ValidationError, match=r"pip install 'pursuit-gp\[dask\]'"):
        Settings(compute="dask://host:8786")


def test_workers_and_threads_share_the_cores() -> None:
    assert Settings(workers=1).training_threads == available_cores()
    assert Settings(workers=1000).training_threads == 1
    assert Settings(workers=0).training_threads == available_cores()
    assert Settings(threads=7).training_threads == 7


def test_what_looks_like_a_setting_and_is_none() -> None:
    found = unknown_variables(
        {
            "PURSUIT_WROKERS": "4",
            "PURSUIT_FOO": "1",
            "PURSUIT_LEASE_SECONDS": "9",
            "pursuit_threads": "2",
            "PURSUIT_URL": "http://x",
            "PURSUIT_API_KEY": "pk_",
            "PURSUIT_TEST_POSTGRES_URL": "x",
            "PURSUIT_SERVICE_HOST": "10.0.0.1",
            "PATH": "/bin",
        }
    )
    assert found == {"PURSUIT_FOO": None, "PURSUIT_WROKERS": "PURSUIT_WORKERS"}


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("localhost.example.com", False),
    ],
)
def test_whether_others_can_reach_it(host: str, loopback: bool) -> None:
    assert Settings(host=host).is_loopback == loopback
