"""The catalogue's generation, by which an API process knows that what it remembers still holds."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """A table of one row, which the first change makes."""
    op.create_table(
        "catalogue",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_catalogue")),
    )


def downgrade() -> None:
    """Remove the table."""
    op.drop_table("catalogue")
