"""The uploaded datasets."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Datasets."""
    op.create_table(
        "datasets",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("blob", sa.String(255), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("profile", sa.JSON(), nullable=False),
        sa.Column("idempotency_key", sa.String(255)),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_datasets")),
        sa.UniqueConstraint("idempotency_key", name=op.f("uq_datasets_idempotency_key")),
    )
    op.create_index(op.f("ix_datasets_created_at_id"), "datasets", ["created_at", "id"])


def downgrade() -> None:
    """Remove the table."""
    op.drop_table("datasets")
