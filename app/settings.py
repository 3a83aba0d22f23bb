"""The settings, read once from the environment: each is `PURSUIT_` and the field's name in capitals.

The defaults are the embedded service: SQLite and files in one data directory, one worker, this machine only.
"""

import os
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import unquote, urlsplit

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

MIB = 1 << 20
CLIENT_VARIABLES = ("PURSUIT_URL", "PURSUIT_API_KEY", "PURSUIT_PATIENCE")
"""The variables that the client commands read."""
IGNORED_PREFIXES = ("PURSUIT_TEST_", "PURSUIT_BENCHMARK_", "PURSUIT_SERVICE_", "PURSUIT_PORT_")
"""Prefixes of variables that tests read, and that Kubernetes sets for a service of this name."""

Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]
Days = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Settings(BaseSettings):
    """All settings of API and worker. Sizes in bytes, times in seconds."""

    model_config = SettingsConfigDict(env_prefix="PURSUIT_", env_ignore_empty=True, frozen=True, extra="ignore")

    data_dir: Path = Field(
        default=Path("pursuit-data"), description="Where the embedded store and uploads in flight live."
    )
    database_url: str | None = Field(
        default=None, description="SQLAlchemy URL of SQLite or PostgreSQL; by default pursuit.db in the data directory."
    )
    artefact_url: str | None = Field(
        default=None,
        description="Where models and tables are kept: a path, a file:// URL or s3://bucket/prefix; by default blobs "
        "in the data directory. Credentials and endpoint of a bucket come from the usual AWS_* variables.",
    )
    artefact_cache_bytes: Positive = Field(
        default=10_240 * MIB, description="Most bytes of a bucket's files that are kept on this machine's disk."
    )
    host: str = Field(default="127.0.0.1", description="Address the API listens on.")
    port: int = Field(default=8000, ge=0, le=65535, description="Port the API listens on; 0 takes a free one.")
    insecure: bool = Field(
        default=False,
        description="Listen on an address that others can reach without any API key, and let everybody in until there "
        "is one; otherwise the API does not start there before `pursuit keys create`.",
    )
    trusted_proxies: str = Field(
        default="127.0.0.1,::1",
        description="Addresses and networks of proxies whose X-Forwarded-For is taken for the client's address, with "
        "commas between; `*`: all.",
    )
    cors_origins: str = Field(
        default="",
        description="Origins whose pages may ask this API from a browser, with commas between, as in "
        "https://example.com; `*`: all. By default none.",
    )
    workers: int = Field(default=1, ge=0, description="Worker processes that `pursuit serve` starts.")
    threads: Positive | None = Field(
        default=None, description="Threads of one training; by default the cores divided by the workers."
    )
    compute: str = Field(
        default="local",
        description="Where the sums over very many rows (262,144 or more) are computed, and the mean of many rows: "
        "`local`, on this machine's threads, or dask://host:8786 (dask+tls://..), a Dask scheduler's workers. The same "
        "numbers.",
    )
    compute_patience_seconds: Seconds = Field(
        default=60.0,
        description="How long a training waits for an unavailable cluster before its job goes back to the queue, to be "
        "tried again later.",
    )
    shard_dir: Path | None = Field(
        default=None,
        description="Folder that this machine and all of Dask's workers see under the same path, for shards of the "
        "rows; by default shards in the data directory.",
    )
    large_table_rows: Positive = Field(
        default=524_288,
        description="Rows above which a training holds a sample of the table in memory and sums over the others, which "
        "lie in shards (no groups, order, missing cells to impute, or several targets).",
    )
    dataset_locations: str = Field(
        default="",
        description="Folders whose Parquet files may be datasets where they are, and all folders below, with commas "
        "between: s3://bucket/folder, or absolute paths that API and workers see alike. By default none.",
    )
    max_upload_bytes: Positive = Field(default=1024 * MIB, description="Largest table that may be sent.")
    max_body_bytes: Positive = Field(default=64 * MIB, description="Largest body of any other request, and of JSON.")
    max_artefact_bytes: Positive = Field(
        default=512 * MIB,
        description="Largest artefact that may be imported, and the most that one of several targets unfolds to.",
    )
    max_bodies_bytes: Positive = Field(
        default=256 * MIB,
        description="Most memory for the bodies of all requests in progress, of each larger than one packet; what "
        "comes beyond is 503.",
    )
    max_body_seconds: Seconds = Field(
        default=120.0, description="Longest time that a body may take, other than an uploaded file."
    )
    max_connections: Positive | None = Field(
        default=None,
        description="Most connections at once; beyond it those are closed that have been silent for longest. By "
        "default what the limit of open files allows.",
    )
    max_queued_jobs: Positive = Field(default=10_000, description="Most jobs that wait; more are 503.")
    max_waiting_tables: Positive = Field(
        default=32, description="Most tables that wait to be read at once, in memory or on disk; more are 503."
    )
    max_wait_seconds: Seconds = Field(
        default=60.0, description="Longest time that a table waits to be read; then its request is 503."
    )
    max_rows: Positive = Field(default=5_000_000, description="Most rows of a training table.")
    max_columns: Positive = Field(default=1_000, description="Most columns of a training table.")
    max_table_bytes: Positive = Field(
        default=4096 * MIB, description="Largest table after decompression; a file that unpacks to more is refused."
    )
    max_cell_chars: Annotated[int, Field(ge=1, le=131_000)] = Field(
        default=100_000, description="Most characters of one cell."
    )
    max_json_depth: Positive = Field(default=32, description="Deepest nesting of JSON that holds a table.")
    max_upload_seconds: Seconds = Field(default=3_600.0, description="Longest time that an upload may take.")
    max_read_seconds: Seconds = Field(default=1_800.0, description="Longest time that reading a table may take.")
    max_read_memory_bytes: Positive | None = Field(
        default=None,
        description="Most memory (address space) of a process that reads a table; by default three quarters of this "
        "machine's.",
    )
    drain_seconds: Seconds = Field(
        default=30.0, description="How long an API that is told to stop goes on with the requests in progress."
    )
    worker_drain_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        default=0.0,
        description="How long `pursuit worker` goes on with its job when it is told to stop; what is not done by then "
        "goes back to the queue with its last checkpoint, as it does at a second signal.",
    )
    max_basis_size: Positive = Field(default=4_000, description="Largest basis size that may be requested.")
    cache_models: Positive = Field(default=64, description="Most models kept in memory by one API process.")
    cache_bytes: Positive = Field(default=1024 * MIB, description="Most memory for the models kept.")
    lease_seconds: Seconds = Field(
        default=20.0,
        description="Lease of a job: after so long without a heartbeat another worker claims it, so the job of a "
        "killed worker waits so long. A heartbeat is sent every third of it.",
    )
    memory_limit: Positive | None = Field(
        default=None,
        description="Bytes that one training of this worker may take; a job that is estimated to need more is left to "
        "a worker with a larger limit. By default there is no limit.",
    )
    worker_max_rows: Positive | None = Field(
        default=None, description="Most rows of a table that this worker trains on; larger ones are left to others."
    )
    larger_worker_seconds: Annotated[float, Field(ge=10, le=86_400)] = Field(
        default=120.0,
        description="How long a job that is too large for all workers waits for a larger one, such as an autoscaler "
        "starts, before it fails. The same for all workers.",
    )
    poll_seconds: Seconds = Field(default=0.5, description="How often an idle worker polls the queue.")
    keep_jobs_days: Days | None = Field(
        default=90.0,
        description="Days after which an ended job is removed, and with it its idempotency key, or that of a dataset; "
        "models stay.",
    )
    keep_datasets_days: Days | None = Field(
        default=None,
        description="Days after which a dataset is removed that no training used within them. By default datasets are "
        "kept until they are deleted.",
    )
    keep_monitoring_days: Days = Field(
        default=400.0, description="Days after which summaries of predictions and of their truth are removed."
    )
    keep_predictions_days: Days = Field(
        default=90.0, description="Days that a prediction which is kept for its truth waits for it."
    )
    max_kept_predictions_bytes: Positive = Field(
        default=256 * MIB,
        description="Most bytes of predictions that are kept for their truth, 25 for each row and target; the oldest "
        "go first.",
    )
    keep_audit_days: Days = Field(default=365.0, description="Days after which an entry of the audit log is removed.")
    keep_usage_days: Days = Field(default=30.0, description="Days that counts of use by key and minute are kept.")
    metrics_dir: Path | None = Field(
        default=None,
        description="Folder of the measures of processes whose sums /metrics shows; by default metrics in the data "
        "directory. Processes of one machine with data directories of their own may share it.",
    )
    worker_metrics_port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="Port of PURSUIT_HOST on which `pursuit worker` answers /metrics. By default on none: an API with "
        "the same metrics directory shows its measures.",
    )
    commit: str | None = Field(
        default=None, description="Commit that this was built from, which /version shows; the image sets it."
    )
    log_format: Literal["text", "json"] = Field(default="text", description="Log lines for people or for machines.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least level that is logged."
    )

    @field_validator("database_url")
    @classmethod
    def _known_database(cls, value: str | None) -> str | None:
        if value is not None:
            scheme, colon, _ = value.partition("://")
            if not colon or scheme.partition("+")[0] not in {"sqlite", "postgresql", "postgres"}:
                raise ValueError("expected a sqlite:/// or postgresql:// URL")
        return value

    @field_validator("artefact_url")
    @classmethod
    def _known_store(cls, value: str | None) -> str | None:
        if value is not None and "://" in value:
            url = urlsplit(value)
            if url.scheme not in {"file", "s3"}:
                raise ValueError("expected a path, a file:// URL or s3://bucket/prefix")
            if url.scheme == "file" and url.netloc not in {"", "localhost"}:
                raise ValueError(f"expected file:///path with three slashes; {url.netloc!r} would be a host")
            if url.scheme == "s3" and (not url.netloc or url.query or url.fragment or "@" in url.netloc):
                raise ValueError("expected s3://bucket or s3://bucket/prefix, and nothing else in it")
        return value

    @field_validator("compute")
    @classmethod
    def _known_compute(cls, value: str) -> str:
        if value == "local":
            return value
        place = urlsplit(value)
        if place.scheme not in {"dask", "dask+tls"} or not place.hostname or place.port is None or place.path:
            raise ValueError("expected local, dask://host:port or dask+tls://host:port")
        if find_spec("distributed") is None:
            raise ValueError("a Dask cluster needs Dask here too: pip install 'pursuit-gp[dask]'")
        return value

    @field_validator("dataset_locations")
    @classmethod
    def _known_locations(cls, value: str) -> str:
        for prefix in _words(value):
            if not (prefix.startswith("s3://") and urlsplit(prefix).netloc) and not Path(prefix).is_absolute():
                raise ValueError(f"expected s3://bucket/folder or absolute paths, got {prefix!r}")
            if prefix.startswith("s3://") and find_spec("obstore") is None:
                raise ValueError("a folder of a bucket needs the package obstore: pip install 'pursuit-gp[s3]'")
        return value

    @field_validator("cors_origins")
    @classmethod
    def _known_origins(cls, value: str) -> str:
        for origin in _words(value):
            url = urlsplit(origin)
            if origin != "*" and (
                url.scheme not in {"http", "https"} or not url.netloc or origin != f"{url.scheme}://{url.netloc}"
            ):
                raise ValueError(f"expected origins like https://example.com, without a path, got {origin!r}")
        return value

    @property
    def allowed_origins(self) -> list[str]:
        """The origins whose pages may ask."""
        return _words(self.cors_origins)

    @property
    def allowed_locations(self) -> tuple[str, ...]:
        """The folders whose files may be datasets."""
        return tuple(_words(self.dataset_locations))

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach the address that the API listens on."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:  # a name, which may be any machine's address
            return False

    @property
    def database(self) -> str:
        """The URL of the database."""
        if self.database_url is not None:
            return self.database_url
        return f"sqlite:///{self.data_dir.resolve() / 'pursuit.db'}"

    @property
    def artefacts(self) -> Path | None:
        """The directory of the artefact store; None where it is a bucket."""
        if self.artefact_url is None:
            return self.data_dir.resolve() / "blobs"
        if self.bucket is not None:
            return None
        if "://" in self.artefact_url:
            return Path(unquote(urlsplit(self.artefact_url).path))
        return Path(self.artefact_url).resolve()

    @property
    def bucket(self) -> tuple[str, str] | None:
        """The bucket of the artefact store and the prefix in it, which may be empty; None where it is a directory."""
        if self.artefact_url is None or not self.artefact_url.startswith("s3://"):
            return None
        url = urlsplit(self.artefact_url)
        return url.netloc, url.path.strip("/")

    @property
    def artefact_cache(self) -> Path:
        """The folder of the cache of a bucket's files."""
        return self.data_dir.resolve() / "cache"

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that API and worker must be able to write to."""
        return (self.uploads, self.artefacts or self.artefact_cache)

    @property
    def uploads(self) -> Path:
        """The folder of uploads in progress."""
        return self.data_dir.resolve() / "uploads"

    @property
    def metrics(self) -> Path:
        """The folder of measures."""
        return (self.metrics_dir or self.data_dir / "metrics").resolve()

    @property
    def read_memory(self) -> int:
        """Most bytes of a process that reads a table."""
        return self.max_read_memory_bytes or physical_memory() * 3 // 4

    @property
    def shards(self) -> Path:
        """The folder of the shards."""
        return (self.shard_dir or self.data_dir / "shards").resolve()

    @property
    def training_threads(self) -> int:
        """Threads of one training process: workers times threads do not exceed the cores."""
        return self.threads or max(1, available_cores() // max(1, self.workers))


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def unknown_variables(environment: Mapping[str, str]) -> dict[str, str | None]:
    """Return the variables that look like settings and are none, each with the setting that it may be meant for."""
    prefix = str(Settings.model_config["env_prefix"])
    known = {prefix + name.upper() for name in Settings.model_fields}
    unknown = sorted(name for name in environment if name.upper().startswith(prefix) and name.upper() not in known)
    return {
        name: next(iter(get_close_matches(name.upper(), known, n=1, cutoff=0.8)), None)
        for name in unknown
        if name.upper() not in CLIENT_VARIABLES and not name.upper().startswith(IGNORED_PREFIXES)
    }


def physical_memory() -> int:
    """Return the bytes of memory of this machine (a container's limit is not seen)."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def available_cores() -> int:
    """Count the cores this process may run on (a container's CPU set counts, its quota does not)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
