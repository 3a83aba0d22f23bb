"""Predictions that wait for their truth."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """One table."""
    op.create_table(
        "kept_predictions",
        sa.Column("id", sa.String(37), nullable=False),
        sa.Column("model", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("numbers", sa.LargeBinary()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_kept_predictions")),
    )


def downgrade() -> None:
    """Remove it."""
    op.drop_table("kept_predictions")
