"""Truths that came back, of models of several targets."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """One table."""
    op.create_table(
        "target_feedback",
        sa.Column("model", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("day", sa.String(10), nullable=False),
        sa.Column("place", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("with_interval", sa.BigInteger(), nullable=False),
        sa.Column("covered", sa.BigInteger(), nullable=False),
        sa.Column("squared_error", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("model", "version", "day", "place", name=op.f("pk_target_feedback")),
    )
    op.create_index(op.f("ix_target_feedback_day"), "target_feedback", ["day"])


def downgrade() -> None:
    """Remove it."""
    op.drop_table("target_feedback")
