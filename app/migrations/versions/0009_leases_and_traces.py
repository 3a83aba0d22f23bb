"""Length of a job's lease, how far it has got without a checkpoint, and the trace that it belongs to."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; an older release leaves them at their defaults."""
    op.add_column("jobs", sa.Column("lease_seconds", sa.Double()))
    op.add_column("jobs", sa.Column("milestone", sa.Integer(), server_default="0", nullable=False))
    op.add_column("jobs", sa.Column("trace_context", sa.String(64)))


def downgrade() -> None:
    """Remove them."""
    for name in ("trace_context", "milestone", "lease_seconds"):
        op.drop_column("jobs", name)
