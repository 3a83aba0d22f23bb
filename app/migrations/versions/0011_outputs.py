"""The file that a job of predictions left."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """A column, empty for the jobs that are there, and an index to find which files are referred to."""
    op.add_column("jobs", sa.Column("output_key", sa.String(255)))
    op.create_index(op.f("ix_jobs_output_key"), "jobs", ["output_key"])


def downgrade() -> None:
    """Remove them."""
    op.drop_index(op.f("ix_jobs_output_key"), "jobs")
    op.drop_column("jobs", "output_key")
