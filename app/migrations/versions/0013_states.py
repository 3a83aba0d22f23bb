"""The state of a version's training, which its updates need."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """A column, empty for the versions that are there."""
    op.add_column("versions", sa.Column("state_key", sa.String(255)))


def downgrade() -> None:
    """Remove it."""
    op.drop_column("versions", "state_key")
