"""The identity of the store that belongs to a database."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """A table of one row."""
    op.create_table(
        "store_mark",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("token", sa.String(64), nullable=False),
        sa.Column("blob", sa.String(255)),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_store_mark")),
    )


def downgrade() -> None:
    """Remove the table."""
    op.drop_table("store_mark")
