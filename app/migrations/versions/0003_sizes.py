"""The estimated size of a job, and the limits of the workers."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Workers; the need of a job."""
    op.create_table(
        "workers",
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("most_memory", sa.BigInteger()),
        sa.Column("most_rows", sa.BigInteger()),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_workers")),
    )
    op.add_column("jobs", sa.Column("needs_memory", sa.BigInteger()))
    op.add_column("jobs", sa.Column("needs_rows", sa.BigInteger()))


def downgrade() -> None:
    """Remove them."""
    op.drop_column("jobs", "needs_rows")
    op.drop_column("jobs", "needs_memory")
    op.drop_table("workers")
