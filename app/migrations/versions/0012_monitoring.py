"""Summaries of predictions by day, and of the truth that came back."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Two tables."""
    op.create_table(
        "summaries",
        sa.Column("model", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("day", sa.String(10), nullable=False),
        sa.Column("summary", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("model", "version", "day", name=op.f("pk_summaries")),
    )
    op.create_index(op.f("ix_summaries_day"), "summaries", ["day"])
    op.create_table(
        "feedback",
        sa.Column("model", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("day", sa.String(10), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("with_interval", sa.BigInteger(), nullable=False),
        sa.Column("covered", sa.BigInteger(), nullable=False),
        sa.Column("squared_error", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("model", "version", "day", name=op.f("pk_feedback")),
    )
    op.create_index(op.f("ix_feedback_day"), "feedback", ["day"])


def downgrade() -> None:
    """Remove them."""
    op.drop_table("feedback")
    op.drop_table("summaries")
