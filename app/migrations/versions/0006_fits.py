"""The schemas that were fitted to a dataset, so that the next training on it need not fit them again."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """A column of keys, empty for the datasets that are there."""
    op.add_column("datasets", sa.Column("fits", sa.JSON()))


def downgrade() -> None:
    """Remove it."""
    op.drop_column("datasets", "fits")
