"""Every SQL table of the service, and the metadata that Alembic compares with what is there.

A change here needs a revision in `app.migrations`, which adds and never renames: processes of the release before go on
using the same database while an upgrade goes from one to the next. So a column may keep the name of an earlier day
(`key` gives the one that the code uses). Times are UTC seconds since 1970 by the database's clock.
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from app.identifiers import API_KEY_ID_LENGTH, ID_LENGTH, KEY_LENGTH, NAME_LENGTH, PREDICTION_ID_LENGTH

WORKER_NAME_LENGTH = 255
DATASET_NAME_LENGTH = 255
TRACE_CONTEXT_LENGTH = 64
API_KEY_NAME_LENGTH = 64
ADDRESS_LENGTH = 64
REQUEST_ID_LENGTH = 128
_BLOB_KEY_LENGTH = 255

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)
"""All tables below; the names of constraints are part of the migrations."""

jobs = Table(
    "jobs",
    metadata,
    Column("id", String(ID_LENGTH), primary_key=True),
    Column("kind", String(64), nullable=False),
    Column("model", String(NAME_LENGTH), nullable=False),
    Column("state", String(16), nullable=False),
    Column("priority", Integer, nullable=False),
    Column("payload", JSON(none_as_null=True), nullable=False),
    Column("needs_memory", BigInteger),
    Column("needs_rows", BigInteger),
    Column("progress", JSON(none_as_null=True)),
    Column("checkpoint", JSON(none_as_null=True)),
    Column("result", JSON(none_as_null=True)),
    Column("error", JSON(none_as_null=True)),
    Column("attempts", Integer, nullable=False, default=0),
    Column("claims", Integer, nullable=False, default=0),
    Column("fence", Integer, nullable=False, default=0),
    Column("worker", String(WORKER_NAME_LENGTH)),
    Column("lease_until", Double),
    Column("cancel_requested", Boolean, nullable=False, default=False),
    Column("last_death", Text, key="requeue_reason"),
    Column("idempotency_key", String(KEY_LENGTH)),
    Column("revision", Integer, nullable=False, default=1),
    Column("created_at", Double, nullable=False),
    Column("started_at", Double),
    Column("finished_at", Double),
    Column("updated_at", Double, nullable=False),
    UniqueConstraint("idempotency_key"),
    CheckConstraint("state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')", name="state"),
    CheckConstraint("(state = 'running') = (lease_until IS NOT NULL)", name="leased"),
    Column("table_key", String(_BLOB_KEY_LENGTH)),
    Column("fit_key", String(_BLOB_KEY_LENGTH)),
    Column("lease_seconds", Double),
    Column("milestone", Integer, nullable=False, default=0, server_default="0"),
    Column("trace_context", String(TRACE_CONTEXT_LENGTH)),
    Column("output_key", String(_BLOB_KEY_LENGTH)),
    Column("owner", String(API_KEY_ID_LENGTH)),
    Column("table_bytes", BigInteger),
    Index(None, "owner", "state"),
    Index(None, "state", "priority", "created_at", "id"),
    Index(None, "model", "id"),
    Index(None, "state", "id"),
    Index(None, "model", "state", "id"),
    Index(None, "state", "table_key"),
    Index(None, "state", "fit_key"),
    Index(None, "output_key"),
)
Index(
    "ix_jobs_queue",
    jobs.c.state,
    jobs.c.priority.desc(),
    jobs.c.created_at,
    jobs.c.id,
    jobs.c.needs_memory,
    jobs.c.needs_rows,
)
"""The queue: one row per job, see `app.jobs.queue`. The last index has the order of claims, and all that a claim looks
at in jobs that it leaves.
"""

workers = Table(
    "workers",
    metadata,
    Column("name", String(WORKER_NAME_LENGTH), primary_key=True),
    Column("most_memory", BigInteger, key="max_memory"),
    Column("most_rows", BigInteger, key="max_rows"),
    Column("seen_at", Double, nullable=False),
)
"""One row per worker process, see `app.jobs.workers`."""

models = Table(
    "models",
    metadata,
    Column("name", String(NAME_LENGTH), primary_key=True),
    Column("next_version", Integer, nullable=False),
    Column("created_at", Double, nullable=False),
)
"""Names of models; a row stays when all versions are gone, see `app.storage.catalog`."""

versions = Table(
    "versions",
    metadata,
    Column("model", String(NAME_LENGTH), ForeignKey(models.c.name), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("artefact", String(_BLOB_KEY_LENGTH), nullable=False),
    Column("job_id", String(ID_LENGTH)),
    Column("size", BigInteger, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("summary", JSON, nullable=False),
    Column("quarantined_at", Double),
    Column("owner", String(API_KEY_ID_LENGTH)),
    Column("state_key", String(_BLOB_KEY_LENGTH)),
    UniqueConstraint("job_id"),
    Index(None, "artefact"),
    Index(None, "quarantined_at"),
    Index(None, "owner"),
)
"""Published versions; `artefact` and `state_key` are keys of the blob store, which hold their SHA-256; `owner`: the
id of an API key."""

aliases = Table(
    "aliases",
    metadata,
    Column("model", String(NAME_LENGTH), primary_key=True),
    Column("alias", String(NAME_LENGTH), primary_key=True),
    Column("version", Integer, nullable=False),
    ForeignKeyConstraint(["model", "version"], [versions.c.model, versions.c.version]),
)
"""Names that point at a version."""

summaries = Table(
    "summaries",
    metadata,
    Column("model", String(NAME_LENGTH), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("day", String(10), primary_key=True),
    Column("summary", JSON, nullable=False),
    Index(None, "day"),
)
"""Summaries of predictions, see `app.storage.monitoring`; days are in UTC, as 2026-01-31."""

feedback = Table(
    "feedback",
    metadata,
    Column("model", String(NAME_LENGTH), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("day", String(10), primary_key=True),
    Column("rows", BigInteger, nullable=False),
    Column("with_interval", BigInteger, nullable=False),
    Column("covered", BigInteger, nullable=False),
    Column("squared_error", Double, nullable=False),
    Index(None, "day"),
)
"""Predictions whose truth came back, see `app.storage.monitoring`."""

target_feedback = Table(
    "target_feedback",
    metadata,
    Column("model", String(NAME_LENGTH), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("day", String(10), primary_key=True),
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("rows", BigInteger, nullable=False),
    Column("with_interval", BigInteger, nullable=False),
    Column("covered", BigInteger, nullable=False),
    Column("squared_error", Double, nullable=False),
    Index(None, "day"),
)
"""The same of models of several targets, by the place of the target from 0."""

kept_predictions = Table(
    "kept_predictions",
    metadata,
    Column("id", String(PREDICTION_ID_LENGTH), primary_key=True),
    Column("model", String(NAME_LENGTH), nullable=False),
    Column("version", Integer, nullable=False),
    Column("rows", Integer, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("numbers", LargeBinary),
)
"""Predictions that wait for their truth, see `app.storage.kept_predictions`; `numbers` is NULL when all came."""

catalogue = Table(
    "catalogue",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("generation", BigInteger, nullable=False),
)
"""One row: how often the catalogue was changed, see `app.storage.catalog`; none before the first change."""

datasets = Table(
    "datasets",
    metadata,
    Column("id", String(ID_LENGTH), primary_key=True),
    Column("name", String(DATASET_NAME_LENGTH), nullable=False),
    Column("blob", String(_BLOB_KEY_LENGTH), nullable=False, key="table_key"),
    Column("size", BigInteger, nullable=False),
    Column("rows", Integer, nullable=False),
    Column("profile", JSON, nullable=False),
    Column("idempotency_key", String(KEY_LENGTH)),
    Column("created_at", Double, nullable=False),
    Column("fits", JSON),
    Column("owner", String(API_KEY_ID_LENGTH)),
    UniqueConstraint("idempotency_key"),
    Index(None, "owner"),
    Index(None, "created_at", "id"),
    Index("ix_datasets_table_key", "table_key"),
)
"""Uploaded datasets, see `app.storage.datasets`; `table_key` and the values of `fits` are keys of the blob store."""

store_identity = Table(
    "store_mark",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("token", String(64), nullable=False),
    Column("blob", String(_BLOB_KEY_LENGTH), key="blob_key"),  # NULL until the blob is in the store
)
"""The one row by which a database knows its blob store, see `app.storage.store_identity`."""

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", String(API_KEY_ID_LENGTH), primary_key=True),
    Column("name", String(API_KEY_NAME_LENGTH), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("scopes", JSON, nullable=False),
    Column("models", JSON(none_as_null=True)),
    Column("requests_per_minute", BigInteger),
    Column("rows_per_minute", BigInteger),
    Column("queued_jobs", BigInteger),
    Column("stored_bytes", BigInteger),
    Column("created_at", Double, nullable=False),
    Column("created_by", String(API_KEY_ID_LENGTH)),
    Column("expires_at", Double),
    Column("revoked_at", Double),
    Column("revision", Integer, nullable=False),
)
"""API keys, see `app.storage.api_keys`; a row stays when its key is revoked or has expired."""

key_budgets = Table(
    "key_budgets",
    metadata,
    Column("key_id", String(API_KEY_ID_LENGTH), ForeignKey(api_keys.c.id), primary_key=True),
    Column("unit", String(16), primary_key=True),
    Column("minute", BigInteger, nullable=False),
    Column("used", BigInteger, nullable=False),
)
"""Share of a key's limits a minute that was given out to the API processes, see `app.storage.key_usage`."""

key_usage = Table(
    "key_usage",
    metadata,
    Column("minute", BigInteger, primary_key=True, autoincrement=False),
    Column("key_id", String(API_KEY_ID_LENGTH), primary_key=True),
    Column("model", String(NAME_LENGTH), primary_key=True),
    Column("action", String(16), primary_key=True),
    Column("requests", BigInteger, nullable=False),
    Column("rows", BigInteger, nullable=False),
)
"""Predictions and reads of models by key and minute (since 1970), see `app.storage.key_usage`."""

audit = Table(
    "audit",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("at", Double, nullable=False),
    Column("action", String(32), nullable=False),
    Column("subject", String(255), nullable=False),
    Column("detail", JSON(none_as_null=True)),
    Column("key_id", String(API_KEY_ID_LENGTH)),
    Column("address", String(ADDRESS_LENGTH), nullable=False),
    Column("request_id", String(REQUEST_ID_LENGTH), nullable=False),
    Index(None, "at"),
    Index(None, "key_id", "id"),
)
"""Changes: who made what, when and from where, see `app.storage.audit`; `key_id` is NULL where no key was needed."""
