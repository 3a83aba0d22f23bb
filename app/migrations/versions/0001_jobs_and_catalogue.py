"""The queue of jobs and the catalogue of models."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Jobs, models, versions, aliases."""
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("model", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("progress", sa.JSON()),
        sa.Column("checkpoint", sa.JSON()),
        sa.Column("result", sa.JSON()),
        sa.Column("error", sa.JSON()),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("claims", sa.Integer(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("worker", sa.String(255)),
        sa.Column("lease_until", sa.Double()),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("last_death", sa.Text()),
        sa.Column("idempotency_key", sa.String(255)),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("started_at", sa.Double()),
        sa.Column("finished_at", sa.Double()),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.CheckConstraint("(state = 'running') = (lease_until IS NOT NULL)", name=op.f("ck_jobs_leased")),
        sa.CheckConstraint(
            "state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')", name=op.f("ck_jobs_state")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sa.UniqueConstraint("idempotency_key", name=op.f("uq_jobs_idempotency_key")),
    )
    op.create_index(op.f("ix_jobs_model_id"), "jobs", ["model", "id"])
    op.create_index(op.f("ix_jobs_state_priority_created_at_id"), "jobs", ["state", "priority", "created_at", "id"])
    op.create_table(
        "models",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("next_version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_models")),
    )
    op.create_table(
        "versions",
        sa.Column("model", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("artefact", sa.String(255), nullable=False),
        sa.Column("job_id", sa.String(36)),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("summary", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["model"], ["models.name"], name=op.f("fk_versions_model_models")),
        sa.PrimaryKeyConstraint("model", "version", name=op.f("pk_versions")),
        sa.UniqueConstraint("job_id", name=op.f("uq_versions_job_id")),
    )
    op.create_index(op.f("ix_versions_artefact"), "versions", ["artefact"])
    op.create_table(
        "aliases",
        sa.Column("model", sa.String(64), nullable=False),
        sa.Column("alias", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["model", "version"],
            ["versions.model", "versions.version"],
            name=op.f("fk_aliases_model_version_versions"),
        ),
        sa.PrimaryKeyConstraint("model", "alias", name=op.f("pk_aliases")),
    )


def downgrade() -> None:
    """An empty database."""
    for table in ("aliases", "versions", "models", "jobs"):
        op.drop_table(table)
