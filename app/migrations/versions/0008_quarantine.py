"""Time at which the artefact of a version was found damaged."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """A column, empty for the versions that are there, and an index to find those where it is not."""
    op.add_column("versions", sa.Column("quarantined_at", sa.Double()))
    op.create_index(op.f("ix_versions_quarantined_at"), "versions", ["quarantined_at"])


def downgrade() -> None:
    """Remove them."""
    op.drop_index(op.f("ix_versions_quarantined_at"), "versions")
    op.drop_column("versions", "quarantined_at")
