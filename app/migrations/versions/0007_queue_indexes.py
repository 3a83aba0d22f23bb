"""Indexes for queues of many jobs, and the blobs of a job as columns, which the release before leaves empty."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_INDEXES: dict[str, list[str | sa.TextClause]] = {
    "ix_jobs_state_id": ["state", "id"],
    "ix_jobs_model_state_id": ["model", "state", "id"],
    "ix_jobs_queue": ["state", sa.text("priority DESC"), "created_at", "id", "needs_memory", "needs_rows"],
    "ix_jobs_state_table_key": ["state", "table_key"],
    "ix_jobs_state_fit_key": ["state", "fit_key"],
}


def upgrade() -> None:
    """Columns, filled for the jobs that have not ended; indexes."""
    op.add_column("jobs", sa.Column("table_key", sa.String(255)))
    op.add_column("jobs", sa.Column("fit_key", sa.String(255)))
    connection = op.get_bind()
    jobs = sa.table("jobs", *map(sa.column, ("id", "state", "payload", "table_key", "fit_key")))
    unfinished = sa.select(jobs.c.id, sa.cast(jobs.c.payload, sa.Text)).where(jobs.c.state.in_(["queued", "running"]))
    for job, text in connection.execute(unfinished).all():
        payload = json.loads(text)
        keys = {"table_key": payload.get("table"), "fit_key": payload.get("fit")}
        connection.execute(sa.update(jobs).where(jobs.c.id == job).values(keys))
    for name, columns in _INDEXES.items():
        op.create_index(op.f(name), "jobs", columns)
    op.create_index(op.f("ix_datasets_table_key"), "datasets", ["blob"])


def downgrade() -> None:
    """Remove them."""
    op.drop_index(op.f("ix_datasets_table_key"), "datasets")
    for name in reversed(_INDEXES):
        op.drop_index(op.f(name), "jobs")
    op.drop_column("jobs", "fit_key")
    op.drop_column("jobs", "table_key")
